"""The functions of `study.js`, called one by one, against their definitions."""

import base64
import json
import shutil
import subprocess
import zlib
from importlib import resources
from math import inf, nan
from typing import Any

import numpy as np
import pytest

from fedsim.addons.explorer.page import SCRIPTS

_DRIVER = """
const { readFileSync } = require("fs");
const { scripts, calls } = JSON.parse(readFileSync(0, "utf8"));
const known = { Infinity, "-Infinity": -Infinity, NaN };
const read = (each) => Array.isArray(each) ? each.map(read)
  : each !== null && typeof each === "object"
  ? Object.fromEntries(Object.entries(each).map(([key, value]) => [key, read(value)]))
  : each in known && typeof each === "string" ? known[each] : each;
const body = `"use strict"; ${scripts}
  return Promise.all(calls.map(async ([name, ...given]) => {
    const found = await eval(name)(...given);
    return found === undefined ? given : found;
  }));`;
new Function("calls", body)(read(calls)).then((found) =>
  process.stdout.write(JSON.stringify(found, (_, each) =>
    typeof each === "number" && !Number.isFinite(each) ? String(each) : each)));
"""


def written(value: Any) -> Any:
    """Return a value as the driver reads it: numbers that JSON lacks are texts."""
    if isinstance(value, dict):
        return {key: written(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [written(each) for each in value]
    return {inf: "Infinity", -inf: "-Infinity"}.get(value, value) if value == value else "NaN"  # noqa: PLR0124


def called(*calls: tuple[Any, ...]) -> list[Any]:
    """Return what functions of the page return; what they change of their first argument."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node here; the slow tests run the page in a browser")
    folder = resources.files("fedsim.addons.explorer") / "templates"
    scripts = "\n".join((folder / name).read_text("utf-8") for name in SCRIPTS[:-1])
    given = json.dumps({"scripts": scripts, "calls": written(calls)})
    made = subprocess.run(
        [node, "-e", _DRIVER], input=given, capture_output=True, text=True, check=True
    )
    found: list[Any] = json.loads(made.stdout)
    return found


def pairs(*costs: float) -> list[list[float]]:
    """Return the costs of seeds from 1."""
    return [[seed, cost] for seed, cost in enumerate(costs, 1)]


def test_a_middle_is_the_mean_or_the_median_where_some_are_infinite() -> None:
    rows = [[1.0, 2.0, 9.0], [4.0], [inf, 1.0, 3.0], [inf, 1.0, 2.0, 5.0], [1.0, inf, inf]]
    found = called(*[("middle", row) for row in rows])
    assert found == [4.0, 4.0, 3.0, 3.5, "Infinity"]


def test_the_typical_cost_is_a_geometric_mean() -> None:
    rng = np.random.default_rng(0)
    costs = rng.lognormal(0.0, 1.0, 5)
    found = called(("typical", pairs(*costs)), ("typical", pairs(2.0, nan)))
    assert found[0] == pytest.approx(np.exp(np.log(costs).mean()))
    assert found[1] == "NaN"


def test_a_ratio_is_of_the_seeds_that_both_have_and_one_where_neither_arrives() -> None:
    found = called(
        ("ratio", pairs(2.0, 8.0, 100.0), pairs(1.0, 2.0)),
        ("ratio", pairs(inf, inf), pairs(inf, inf)),
        ("ratio", pairs(inf, 3.0, 2.0), pairs(inf, 1.0, 1.0)),
        ("ratio", pairs(0.0), pairs(0.0)),
    )
    assert found == pytest.approx([np.sqrt(8.0), 1.0, 6 ** (1 / 3), 1.0])


def test_agreement_counts_the_seeds_in_which_one_costs_less() -> None:
    found = called(("agreement", pairs(1.0, 2.0, 3.0, 9.0), pairs(2.0, 2.0, 1.0)))
    assert found == [[1, 3]]


def test_the_least_is_the_first_of_equals_and_the_next_is_another_one() -> None:
    rows = [
        ([5.0, 3.0, 3.0], 1),
        ([nan, 3.0], 1),
        ([inf, 4.0], 1),
        ([nan, inf], -1),
    ]
    assert called(*[("leastOf", row) for row, _ in rows]) == [least for _, least in rows]
    found = called(
        ("nextToLeast", [pairs(3.0), pairs(3.0), pairs(4.0)]),
        ("nextToLeast", [pairs(inf), pairs(2.0)]),
    )
    assert found == [{"least": 0, "next": 1}, {"least": 1, "next": -1}]


def test_infinite_constants_are_those_that_are_written_so() -> None:
    given = {"a": "Infinity", "b": "1", "c": 2.0, "d": None}
    text = {**given, "a": "Infinity "}  # which the driver leaves as it is
    found = called(("restoreInfinite", text), ("restoreInfinite", given))
    assert found == [[text], [{**given, "a": "Infinity"}]]


def test_constants_move_in_the_groups_that_have_them_and_stay_where_a_slider_rests() -> None:
    radio, device = {"kind": "lte", "up": 5.0}, {"speed": 7.0}
    group = {"radio": radio, "device": device}
    study = {
        "sliders": [
            {"block": "radio", "field": "up", "value": 5.0, "places": [[0, 1]]},
            {"block": "network", "field": "uplink", "value": 3.0, "places": [[]]},
        ],
        "fleets": [{"groups": [group, group], "server": {"uplink": 4.0}}],
    }
    # Groups may have other values than a slider's, which it replaces only once it is moved.
    rest, moved = called(("movedFleet", study, 0, [5.0, 3.0]), ("movedFleet", study, 0, [6.0, 9.0]))
    assert rest["server"] == {"uplink": 4.0}
    assert moved["server"] == {"uplink": 9.0}
    assert [each["radio"]["up"] for each in rest["groups"]] == [5.0, 5.0]
    assert [each["radio"]["up"] for each in moved["groups"]] == [6.0, 6.0]


def test_a_study_that_is_opened_has_infinite_constants_as_numbers_and_runs_as_arrays() -> None:
    group = {"radio": {"up": "Infinity"}, "device": {"speed": "Infinity"}, "reserve": None}
    fleets = [{"groups": [group, group], "server": {"uplink": "Infinity"}}] * 2
    study = {"fleets": fleets, "runs": [{"history": {"first": ["Uint16Array", 2, 2]}}, {}]}
    block = base64.b64encode(zlib.compress(bytes([9, 9, 1, 0, 2, 1]))).decode()
    look = """(...given) => openStudy(...given).then(({ fleets, runs }) => [
      fleets.map(({ groups, server }) => [server.uplink, ...groups.flatMap(
        ({ radio, device, reserve }) => [radio.up, device.speed, reserve])]
        .map((each) => each === null ? "null" : typeof each)),
      runs.map(({ arrays }) => arrays ? [...arrays.first] : "none")])"""
    (found,) = called((look, json.dumps(study), block))
    assert found == [[["number", *["number", "number", "null"] * 2]] * 2, [[1, 258], "none"]]


RADIO = {
    **dict.fromkeys(("listen", "listening", "sleep", "idle", "send", "receive", "base"), 0.0),
    **dict.fromkeys(("tail_power", "tail_time", "promotion_power", "promotion_time"), 0.0),
    **dict.fromkeys(("energy_up", "energy_down", "latency", "framing"), 0.0),
    "up": 4.0,
    "down": 8.0,
    "packet": 1500.0,
}
DEVICE = {"speed": 2.0, "active": 5.0, "idle": 1.0}
GROUP = {"count": 1, "radio": RADIO, "device": DEVICE, "intensity": None, "reserve": None}
HISTORY = {  # of one client: a message of 16 bits, 6 operations, a message of 8 bits
    "group": [0],
    "counts": [1],
    "first": [0, 1],
    "task_class": [0],
    "task_kind": [0],
    "kinds": [16.0, 8.0, 6.0, 0.0],
    "sequence": [0],
}


def small(*fleets: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a study of a run for each fleet, given by its groups, and one without a history."""
    server = {"uplink": inf, "downlink": inf, "latency": 0.0}
    places = [[len(groups) - 1] for groups in fleets]
    return {
        "fleets": [{"groups": groups, "server": server} for groups in fleets],
        "sliders": [{"block": "device", "field": "active", "value": 5.0, "places": places}],
        "variants": [{"fleet": 0}, *[{"fleet": number} for number in range(len(fleets))]],
        "runs": [
            {"variant": 0, "seed": 1, "arrays": None},
            *[{"variant": n, "seed": 1, "arrays": HISTORY} for n in range(1, len(fleets) + 1)],
        ],
        "costs": ["t", "joules"],
    }


def test_a_run_costs_its_messages_and_its_work_and_infinity_where_it_never_arrives() -> None:
    seconds, work = 16 / 8 + 6 / 2 + 8 / 4, 6 / 2
    for active in (5.0, 7.0):
        (found,) = called(("evaluate", small([GROUP]), [active]))
        never, own = [[1, "Infinity"]], active * work + DEVICE["idle"] * (seconds - work)
        assert found["costs"] == [[never, [[1, seconds]]], [never, [[1, own]]]]
        assert found["invalid"] == ""


def test_what_a_battery_does_not_have_is_no_cost() -> None:
    joules = 19.0  # as above
    for capacity, fits in ((joules / 0.25 + 0.001, True), (joules / 0.25, False)):
        reserve = {"capacity": capacity, "share": 0.5, "efficiency": 0.5}
        (found,) = called(("evaluate", small([{**GROUP, "reserve": reserve}]), [5.0]))
        assert found["costs"][1][1] == [[1, joules if fits else "NaN"]]
        assert found["costs"][1][0] == [[1, "Infinity"]]
        assert found["invalid"] == ""


def test_one_device_that_cannot_be_makes_the_costs_of_all_fleets_unknown() -> None:
    faster = {**GROUP, "device": {**DEVICE, "idle": 0.0, "speed": 3.0}}
    study = small([GROUP], [faster, GROUP])
    study["sliders"][0]["places"][0] = []  # of the second group of the second fleet alone
    for active, known in ((1.0, True), (0.9, False)):
        (found,) = called(("evaluate", study, [active]))
        assert found["invalid"] == ("" if known else "active power is below idle power")
        assert found["costs"][0][0] == [[1, "Infinity"]]
        seconds = [7, 6] if known else ["NaN", "NaN"]
        assert found["costs"][0][1:] == [[[1, each]] for each in seconds]


def test_ticks_of_a_map_are_a_few_round_numbers_within_the_range() -> None:
    rng = np.random.default_rng(3)
    lows, factors = 10.0 ** rng.uniform(-6, 6, 200), 10.0 ** rng.uniform(0.1, 5, 200)
    ranges = [
        {"low": low * (number % 7 > 0), "high": low * factor, "unit": "bit/s"}
        for number, (low, factor) in enumerate(zip(lows, factors, strict=True))
    ]
    for given, ticks in zip(ranges, called(*[("ticksOf", each) for each in ranges]), strict=True):
        assert 1 <= len(ticks) <= 4
        assert given["low"] * (1 - 1e-9) <= min(ticks)
        assert max(ticks) <= given["high"] * (1 + 1e-9)
        assert ticks == sorted(set(ticks))
        for tick in ticks:
            assert tick == pytest.approx(float(f"{tick:.1e}"), rel=1e-9, abs=1e-30)
