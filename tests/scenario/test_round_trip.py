"""Dumping and loading again; and loading whatever there may be."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core.errors import ScenarioError
from fedsim.physics.carbon import COUNTRIES
from fedsim.physics.devices import DEVICES
from fedsim.physics.radios import CELLULAR, LORA, NB_IOT, RADIOS
from fedsim.scenario import Scenario, dump, load
from fedsim.scenario.located import Origin
from fedsim.scenario.yaml import read_text
from tests.scenario.examples import LINES, least, made, written
from tests.tiers import examples

sizes = st.floats(min_value=1e-9, max_value=1e15)
quantities = sizes.map("{!r} ".format)


def shares(least: float = 0.01, most: float = 99.0) -> st.SearchStrategy[str]:
    return st.floats(min_value=least, max_value=most).map("{!r} %".format)


def presets(table: Mapping[str, Any], units: dict[str, str]) -> st.SearchStrategy[Any]:
    """Draw names of presets, and blocks that differ from one."""
    fields = {key: quantities.map(f"{{}}{unit}".format) for key, unit in units.items()}
    names = st.sampled_from(sorted(table))
    return names | st.fixed_dictionaries({"kind": names}, optional=fields)


LINEAR = {name: preset for name, preset in DEVICES.items() if "speed" in preset.values}
POWER = "mW/(Mbit/s)"

plain = presets(LINEAR, {"speed": "kflop/s", "battery": "Wh"})
powers = st.tuples(sizes, sizes).map(
    lambda pair: {"idle": f"{min(pair)!r} mW", "active": f"{max(pair)!r} W"}
)
devices = plain | st.tuples(plain, powers).map(
    lambda drawn: ({"kind": drawn[0]} if isinstance(drawn[0], str) else drawn[0]) | drawn[1]
)
constant = presets(
    RADIOS,
    {"up": "Mbit/s", "down": "kB/s", "latency": "ms", "energy_up": POWER, "base": "W",
     "send": "mW", "tail_power": "mW", "tail_time": "s", "promotion_time": "ms"},
)  # fmt: skip
lora = presets(LORA, {"bandwidth": "kHz", "latency": "min", "send": "uW"})
narrowband = presets(
    NB_IOT, {"latency": "ms", "send": "uW", "connected": "s", "resume_power": "mW", "listen": "ms"}
)
cellular = presets(
    CELLULAR, {"latency": "ms", "monitor": "W", "connected": "s", "base": "mW", "paging": "mW"}
)
shannon = st.fixed_dictionaries(
    {"kind": st.just("shannon"), "bandwidth": quantities.map("{}MHz".format),
     "power": quantities.map("{}mW".format), "server_power": quantities.map("{}W".format),
     "distance": quantities.map("{}km".format)},
    optional={"shadowing": st.floats(1e-9, 100).map("{!r} dB".format), "attenuation": shares(),
              "noise": st.floats(1e-9, 300).map("-{!r} dBm/Hz".format),
              "most": quantities.map("{} bit/s/Hz".format)},
)  # fmt: skip
batteries = st.fixed_dictionaries(
    {"capacity": quantities.map("{} Wh".format)},
    optional={
        "charge": shares(6),
        "charge_efficiency": shares(),
        "self_discharge": quantities.map("{} %/month".format),
        "threshold": shares(20, 30),
        "restart": shares(40),
        "charging": st.fixed_dictionaries(
            {"kind": st.just("daily"), "power": quantities.map("{} W".format)},
            optional={"start": st.floats(7, 24).map("{!r} h".format)},
        ),
    },
)
availability = st.fixed_dictionaries(
    {"kind": st.just("bernoulli"), "share": shares()}
) | st.fixed_dictionaries(
    {"kind": st.just("markov"), "on": quantities.map("{} h".format),
     "off": quantities.map("{} s".format)},
    optional={"amplitude": shares(), "phase": quantities.map("{} min".format)},
)  # fmt: skip


intensities = st.fixed_dictionaries(
    {"kind": st.just("constant"), "intensity": st.floats(1e-9, 1e6).map("{!r} g/kWh".format)}
)


def groups() -> st.SearchStrategy[dict[str, Any]]:
    options = {
        "device": devices,
        "radio": constant | lora | narrowband | cellular | shannon,
        "battery": st.none() | batteries,
        "availability": availability,
        "carbon": st.none() | st.sampled_from(list(COUNTRIES)) | intensities,
    }
    return st.fixed_dictionaries({"count": st.integers(1, 10**6)}, optional=options)


SIZED, PLAIN = ["top-k", "rand-k"], ["identity", "natural", "scaled-sign", "low-rank", "e3m0"]
compressors = (
    st.fixed_dictionaries({"kind": st.sampled_from(SIZED), "fraction": st.floats(1e-9, 1)})
    | st.fixed_dictionaries({"kind": st.sampled_from(SIZED), "count": st.integers(1, 10**9)})
    | st.fixed_dictionaries({"kind": st.sampled_from(PLAIN)})
    | st.fixed_dictionaries(
        {"kind": st.just("qsgd"), "levels": st.integers(1, 10**6) | st.just("sqrt")}
    )
)


def links(*feedback: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {}, optional={"compressor": compressors, "error_feedback": st.sampled_from(feedback)}
    )


servers = st.fixed_dictionaries(
    {},
    optional={"uplink": quantities.map("{} kbit/s".format),
              "latency": quantities.map("{} ms".format),
              "discipline": st.sampled_from(["fair", "fifo", "slotted"])},
)  # fmt: skip
networks = (
    st.fixed_dictionaries(
        {}, optional={"server": servers, "model": st.sampled_from(["fluid", "lv08"])}
    )
    | st.fixed_dictionaries(
        {"model": st.just("tcp")},
        optional={
            "tcp": st.fixed_dictionaries(
                {},
                optional={
                    "variant": st.sampled_from(["cubic", "newreno"]),
                    "stack": st.sampled_from(["linux", "ns-3"]),
                    "queue": st.integers(1, 9999),
                    "min_rto": quantities.map("{} ms".format),
                    "connections": st.sampled_from(["new", "kept"]),
                },
            )
        },
    )
    | st.fixed_dictionaries(
        {
            "cell": st.fixed_dictionaries(
                {}, optional={"clients": st.integers(1, 99), "load": shares()}
            )
        }
    )
    | st.fixed_dictionaries(
        {
            "lora": st.fixed_dictionaries(
                {},
                optional={
                    "channels": st.integers(1, 96),
                    "capture": st.none() | st.integers(0, 20).map("{} dB".format),
                    "delay": quantities.map("{} ms".format),
                },
            )
        }
    )
    | st.fixed_dictionaries(
        {"topology": st.just("tree"), "gateways": st.integers(1, 99)},
        optional={
            "server": servers,
            "wifi": st.fixed_dictionaries(
                {},
                optional={
                    "standard": st.sampled_from(["n", "ac", "ax"]),
                    "streams": st.integers(1, 8),
                    "transport": st.sampled_from(["tcp", "udp"]),
                    "aggregate": st.integers(1, 99_999).map("{} B".format),
                    "cells": st.integers(1, 9),
                },
            ),
        },
    )
)
participations = st.fixed_dictionaries(
    {"kind": st.sampled_from(["uniform", "weighted"]), "share": shares()},
    optional={"over": st.floats(1, 9), "least_charge": shares()},
)

positive = st.floats(min_value=0, exclude_min=True, allow_infinity=False)

scenarios = st.fixed_dictionaries(
    {
        "algorithm": st.fixed_dictionaries(
            {"kind": st.just("chb"), "step_size": positive | st.sampled_from(["1/L", " 0.5 / L"])},
            optional={"censor": positive},
        )
    },
    optional={
        "name": st.text(st.characters(exclude_categories=["Cs"])),
        "seed": st.integers(0, 2**63 - 100),  # and up to 100 seeds from there
        "wire": st.fixed_dictionaries(
            {"values": st.sampled_from(["float64", "float32"])},
            optional={"up": links("none"), "down": links("none")},
        ),
        "silence": st.fixed_dictionaries(
            {"kind": st.just("deadline"), "after": quantities.map("{}min".format)}
        ),
        "fleet": st.lists(groups(), max_size=3),
        "network": networks,
        "participation": participations,
        "stop": st.fixed_dictionaries(
            {},
            optional={
                "rounds": st.integers(1, 10**9),
                "gap": st.none() | positive,
                "time": st.none() | quantities.map("{}h".format),
                "bits": quantities.map("{}MiB".format),
                "energy": quantities.map("{}Wh".format),
            },
        ),
        "seeds": st.integers(1, 100),
    },
)


@examples(60)
@given(scenarios, st.integers(0, 2**63 - 1))
def test_what_is_dumped_loads_as_an_equal_scenario(blocks: dict[str, Any], seed: int) -> None:
    scenario = made(**blocks)
    again = load(_file(dump(scenario))).variants
    own = scenario.model_copy(update={"seed": seed, "seeds": 1})
    assert again[0].text(seed) == dump(own)
    assert [each.scenario for each in again] == [scenario]
    assert dump(again[0].scenario) == dump(scenario)
    assert load(scenario).variants[0].scenario == scenario


def _file(text: str) -> Any:
    """Return the plain data of a text, read as `load` reads a file."""
    tree, repeated = read_text(text, lambda line: Origin("dumped", line))
    assert repeated == []
    return tree.plain()


def test_a_dump_has_every_default_and_no_variants(tmp_path: Path) -> None:
    base = load(written(tmp_path)).variants[0].scenario
    text = dump(base)
    for line in (
        "remainder: spread",
        "momentum: 0.4",
        "bits: null",
        "energy_up: 283.17 nJ/bit",
        "tail_power: 119 mW",
        "framing: 66 B",
        "battery: 15 Wh",
        "topology: star",
        "late: keep",
    ):
        assert line in text
    assert "variants" not in text
    with_variants = base.model_copy(update={"variants": {"a": {"seed": 3}}})
    assert dump(with_variants) == text
    assert [line for line in text.splitlines() if not line.startswith((" ", "-"))][:3] == [
        "name: good",
        "seed: 7",
        "problem:",
    ]


def test_a_dump_is_a_file_that_loads(tmp_path: Path) -> None:
    base = load(written(tmp_path)).variants[0].scenario
    path = tmp_path / "again.yaml"
    path.write_text(dump(base), encoding="utf-8")
    assert load(path).variants[0].scenario == base


edits = st.lists(
    st.tuples(
        st.integers(0, sum(map(len, LINES)) + len(LINES)),
        st.integers(0, 8),
        st.text("abekns0159 \n:{}[],-.&*!#'\"%<\t", max_size=6),
    ),
    min_size=1,
    max_size=3,
)


@examples(150)
@given(edits)
def test_any_file_is_a_plan_or_faults(
    tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[int, int, str]]
) -> None:
    text = "\n".join(LINES)
    for start, length, piece in edits:
        text = text[:start] + piece + text[start + length :]
    path = tmp_path_factory.getbasetemp() / "edited.yaml"
    path.write_text(text, encoding="utf-8")
    try:
        names = [variant.name for variant in load(path).variants]
    except ScenarioError as error:
        names = ["base" for fault in error.faults if fault.where.startswith(str(path))]
    assert names[0] == "base"


@examples(100)
@given(
    st.dictionaries(
        st.sampled_from([*Scenario.model_fields, "other"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["kind", "count", "radio", "up", "topology", "a"]), inner
                )
            ),
            max_leaves=6,
        ),
    )
)
def test_any_mapping_is_a_plan_or_faults(blocks: dict[str, Any]) -> None:
    try:
        names = [variant.name for variant in load(least() | blocks).variants]
    except ScenarioError as error:
        names = ["base" for fault in error.faults if fault.message]
    assert names[0] == "base"
