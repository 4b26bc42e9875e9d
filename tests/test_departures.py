"""Clients that leave a run for good: a note, a column, and the first line of the report."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.results.analysis import battery_deaths, battery_lives
from tests.runs import small

SMALL_BATTERY = {"capacity": "0.02 Wh", "charge": "20.2 %"}
OWNERS, OTHERS = 6, 2
STUDY: dict[str, Any] = small(
    problem={**small()["problem"], "split": {"kind": "contiguous"}},
    algorithm={"kind": "gd", "step_size": "0.1/L"},
    fleet=[
        {"count": OWNERS, "device": "pi-4", "radio": "wifi", "battery": SMALL_BATTERY},
        {"count": OTHERS, "device": "pi-4", "radio": "wifi"},
    ],
    stop={"rounds": 200},
)


@pytest.mark.slow
def test_clients_below_their_threshold_for_ever_are_counted(tmp_path: Path) -> None:
    result = fedsim.run(STUDY, out=tmp_path / "out")
    left = result.clients["left_s"].to_numpy()
    assert np.isfinite(left[:OWNERS]).all()
    assert np.isnan(left[OWNERS:]).all()
    events = result.events
    for client, t in zip(result.clients["client"], left, strict=True):
        sent = events[(events["node"] == client) & (events["event"] == "send")]
        work = events[(events["node"] == client) & (events["event"] == "compute")]
        if np.isfinite(t):  # a client ends the round that it is in, and takes part in no other
            assert (sent["t"] > t).sum() <= 1
            assert (work["t"] > t).sum() <= 1
            assert len(sent) < 200
        else:
            assert len(sent) == 200
    assert result.summary["status"].item() in {"done", "rose"}
    (note,) = [each for each in result.notes if each.key == "fleet"]
    ends = result.rounds["t"].to_numpy()
    order = np.argsort(left[:OWNERS], kind="stable")[:3]
    named = [
        f"client-{one} in round {(ends <= left[one]).sum()} at {left[one]:.3g} s (charge too low)"
        for one in order
    ]
    assert note.text == (
        f"6 of 8 clients left for good: {', '.join(named)}, then 3 more; charge too low is below"
        " battery.threshold, though not empty"
    )
    page = result.report(tmp_path / "report.html").read_text(encoding="utf-8")
    body = re.sub(r"\s*<[^>]*>\s*", "\n", page[page.index("<main") :])
    lines = [line for line in body.splitlines() if line.strip()]
    assert "6 of 8 clients left for good (charge too low)." in lines
    first = page[page.index('class="beware"') :].partition(">")[2]  # of the notes
    assert first.startswith("6 of 8 clients left for good")


def test_a_battery_that_runs_empty_after_its_threshold_is_one_end() -> None:
    """A client leaves at the threshold; that its idle power empties the battery is no news."""
    tiny = {"capacity": "0.5 mWh", "threshold": "20 %", "cutoff": "15 %"}
    fleet = [
        {"count": 2, "device": "pi-4", "radio": "wifi", "battery": tiny},
        {"count": 3, "device": "pi-4", "radio": "wifi"},
    ]
    result = fedsim.run({**STUDY, "fleet": fleet, "stop": {"rounds": 400}})
    deaths = battery_deaths(result.events).set_index("client")
    left = result.clients.set_index("client")["left_s"].dropna()
    assert deaths.index.tolist() == left.index.tolist() == ["client-0", "client-1"]
    assert (deaths["t"] > left).all()
    ends = result.rounds["t"].to_numpy()
    rounds = [int((ends <= t).sum()) for t in deaths["t"]]
    assert deaths["round"].tolist() == rounds
    assert min(rounds) > 1
    (count,) = (column for column in result.summary if str(column).startswith("left."))
    assert (count, result.summary[count].item()) == ("left.charge too low", 2)
    (note,) = [each for each in result.notes if each.key == "fleet"]
    for client, t in left.items():
        number = (ends <= t).sum()
        assert f"{client} in round {number} at {t:.3g} s (charge too low)" in note.text
    assert "battery empty" not in note.text


def test_a_run_that_ends_because_all_left_says_who_when_and_why(tmp_path: Path) -> None:
    for kind in ("gd", "fedavg"):
        method = {"kind": kind, "step_size": "0.1/L"}
        result = fedsim.run({**STUDY, "algorithm": method, "fleet": STUDY["fleet"][:1]})
        left = result.clients["left_s"].to_numpy()
        assert result.summary["status"].item() == "no-clients"
        (note,) = [each for each in result.notes if each.key == "clients"]
        count = len(left)
        assert f"{count} of {count} clients left for good: client-" in note.text
        assert f" at {np.nanmin(left):.3g} s (charge too low)" in note.text
        assert (
            sum(result.summary["left"].item().values()) == count if "left" in result.summary else 1
        )


def test_a_battery_that_is_charged_brings_its_client_back() -> None:
    charging = {**SMALL_BATTERY, "charging": {"kind": "constant", "power": "5 W"}}
    fleet = [{**STUDY["fleet"][0], "battery": charging}, STUDY["fleet"][1]]
    result = fedsim.run({**STUDY, "fleet": fleet})
    assert result.clients["left_s"].isna().all()
    assert "fleet" not in [note.key for note in result.notes]


@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")
def test_an_idle_battery_leaves_when_the_closed_form_says() -> None:
    """A client that is never asked reaches its threshold by idle power alone."""
    battery = {"capacity": "0.02 Wh", "charge": "20.1 %", "discharge_efficiency": "100 %"}
    fleet = [
        {"count": 1, "device": "pi-4", "radio": "wifi"},
        {"count": 40, "device": "pi-4", "radio": "wifi", "battery": battery},
    ]
    one = {"kind": "uniform", "count": 1}
    result = fedsim.run({**STUDY, "fleet": fleet, "participation": one, "stop": {"rounds": 20}})
    idle = result.clients[(result.clients["bits_down"] == 0) & (result.clients["group"] == 1)]
    watts = idle["idle_joules"] / result.summary["t"].item()
    assert len(idle) > 20
    spare = 0.001 * 0.02 * 3600  # J above the threshold of 20 %
    assert idle["left_s"].to_numpy() == pytest.approx(spare / watts.to_numpy(), rel=1e-6)


@pytest.mark.parametrize("alike", [True, False], ids=["all at once", "one by one"])
def test_a_run_that_empty_batteries_end_counts_the_same_everywhere(*, alike: bool) -> None:
    """The last of them left at the very end of the run, and is counted: it has ended the run."""
    speeds = ["100 %", "100 %"] if alike else ["100 %", "70 %"]
    fleet = [
        {
            "count": 3,
            "device": {"kind": "pi-4", "speed": speed},
            "radio": "wifi",
            "battery": {"capacity": "0.5 mWh", "threshold": "5 %"},
        }
        for speed in speeds
    ]
    stop = {"rounds": 400, "batteries": 4}
    result = fedsim.run({**STUDY, "fleet": fleet, "stop": stop}, check=False)
    assert result.summary["reason"].item() == "batteries: 4 are empty"
    lives = battery_lives(result)
    assert lives["empty"].sum() == 4
    assert result.summary["left.battery empty"].item() == 4
    (note,) = [each for each in result.notes if each.key == "fleet"]
    assert note.text.startswith("4 of 6 clients left for good: ")
