"""fedsim.check finds what the first rounds of a run cost, and shows it."""

from math import isnan
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import fedsim
from fedsim.cli.job_table import overview
from fedsim.core.text import quantity
from fedsim.results.record.scenarios import Note
from tests.runs import SMALL, small


def test_what_it_foresees_is_what_the_run_has() -> None:
    scenario = small(variants={"gd": {"algorithm": {"kind": "gd", "step_size": "1/L"}}})
    found, result = fedsim.check(scenario), fedsim.run(scenario)
    second = result.rounds[result.rounds["round"] == 2].set_index("variant")
    preflight_notes = found.variants.set_index("variant")
    for cost in ("bits_up", "bits_down"):
        assert preflight_notes[cost].tolist() == second[cost].tolist()
    assert preflight_notes["joules"].tolist() == pytest.approx(second["joules"].tolist())
    assert preflight_notes["optimum"].tolist() == pytest.approx(
        result.summary["reference.value"].tolist()
    )
    assert found.costs.groupby("variant")["clients"].sum().tolist() == [10, 10]  # in two rounds


def test_it_shows_how_much_would_run_and_what_is_to_be_noted() -> None:
    found = fedsim.check(small(seeds=3, algorithm={"kind": "gd", "step_size": 100.0}))
    assert "1 variant x 3 seeds = 3 runs" in repr(found)
    assert "algorithm.step_size" in repr(found)
    assert "<li>base: algorithm.step_size: " in found._repr_html_()


def test_it_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fedsim.check(small())
    assert not list(tmp_path.iterdir())


def test_a_wrong_scenario_is_refused() -> None:
    with pytest.raises(fedsim.ScenarioError, match="radoi"):
        fedsim.check(small(fleet=[{"count": 2, "radoi": "lte"}]))


def test_of_a_run_that_ends_within_its_first_round_costs_are_unknown() -> None:
    fleet = [{"count": 2, "device": "pi-4", "radio": "lte"}]
    found = fedsim.check(small(fleet=fleet, stop={"rounds": 3, "time": "1 us"}))
    (row,) = found.variants.to_dict("records")
    assert (row["round"], row["asked"], row["clients"]) == (0, 0, 2)
    assert all(isnan(row[cost]) for cost in ("round_s", "bits_down", "bits_up", "joules"))


def test_it_states_the_error_of_each_model_of_a_network_once() -> None:
    fleet = [{"count": 2, "device": "pi-4", "radio": "lte"}]
    variants: dict[str, object] = {
        model: {"network": {"model": model}} for model in ("lv08", "tcp")
    }
    variants["other"] = {"wire": {"values": "float32"}}
    found = fedsim.check(small(fleet=fleet, variants=variants))
    assert [(note.about, note.key) for note in found.accuracy] == [
        ("base, other", "network.model"),
        ("lv08", "network.model"),
        ("tcp", "network.model"),
        ("base, lv08, tcp, other", "energy"),
    ]
    models = [note.text.partition(".")[0] for note in found.accuracy[:3]]
    assert models == ["fluid", "lv08", "tcp"]
    assert all(str(note) in repr(found) for note in found.accuracy)
    known = {"radio.up": "2 Mbit/s..4 Mbit/s"}
    calibrated = fedsim.check(small(fleet=[{**fleet[0], "intervals": known}]))
    assert "Round times of a calibrated fleet: median error" in calibrated.accuracy[0].text
    problem = {**SMALL["problem"], "split": {"kind": "contiguous", "clients": 2}}
    assert not fedsim.check(small(fleet=[], problem=problem)).accuracy  # messages take no time


@pytest.mark.parametrize(
    ("sparsity", "title", "certified"), [(2, "optimum", True), (8, "best value found", False)]
)
def test_only_a_certified_value_is_called_an_optimum(
    sparsity: int, title: str, certified: bool, tmp_path: Path
) -> None:
    """In the check, the log and the summary; and only below one can no objective come."""
    own = {
        "problem": {
            "loss": "squared",
            "data": {"kind": "smoothness", "clients": 3, "features": 40, "constants": 1},
            "split": "groups",
        },
        "algorithm": {"kind": "fed-ht", "sparsity": sparsity, "step_size": "1/L_max"},
        "stop": {"rounds": 2, "objective": 1e-9},
    }
    checked = fedsim.check(own)
    (job,) = checked.jobs
    assert job.reference is not None
    assert job.reference.title == title
    never = [note for note in checked.notes if note.key == "stop.objective"]
    assert bool(never) is certified
    result = fedsim.run(own, out=tmp_path / "run")
    assert result.events["detail"].iloc[0].startswith(f"reference {title} ")
    assert result.summary["reference.certified"].tolist() == [certified]


FAST = {"count": 3, "device": "phone-mid", "radio": "wifi"}
SLOW = {"count": 2, "device": "phone-mid", "radio": "nb-iot"}


@pytest.mark.parametrize(
    ("deadline", "met"), [("20 ms", 0), ("1 s", 3), ("1 min", 5), ("silence", 3)]
)
def test_it_says_how_many_clients_can_meet_a_deadline(deadline: str, met: int) -> None:
    silent = {"kind": "deadline", "after": "1 s"}
    limit = {"participation": {"kind": "full", "deadline": deadline}}
    found = fedsim.check(
        small(fleet=[FAST, SLOW], **({"silence": silent} if deadline == "silence" else limit))
    )
    said = [note.text for note in found.notes if f"{met} of 5 clients can meet" in note.text]
    assert len(said) == (met < 5)
    free = fedsim.run(small(fleet=[FAST, SLOW], stop={"rounds": 1}))
    log = free.events
    arrived = log[(log["node"] == "server") & (log["event"] == "receive")].groupby(
        "peer", observed=True
    )["t"]
    (times,) = found.replies.values()
    # A radio of the second round may be awake, so a reply is no later than in the first one.
    np.testing.assert_allclose(times.first, arrived.first().sort_index(), rtol=0, atol=1e-12)
    assert (times.shortest <= times.first).all()
    assert (times.first[:3] < 1).all()
    assert (times.shortest[3:] > 1).all()
    assert " (fastest client), " in "\n".join(found.lines)


def test_the_slowest_reply_is_how_long_a_round_takes() -> None:
    found = fedsim.check(small(fleet=[FAST, SLOW]))
    (times,), rounds = found.replies.values(), found.openings["base"].rounds
    assert times.shortest.max() == pytest.approx(min(each.seconds for each in rounds))
    assert times.first.max() == pytest.approx(rounds[0].seconds)


def test_variants_are_compared_in_the_same_round() -> None:
    """A second round starts with radios in their tails, and costs less than a first one."""
    fleet = [{"count": 2, "device": "phone-mid", "radio": "lte"}]
    single: dict[str, object] = {"once": {"stop": {"rounds": 1}}}
    both = fedsim.check(small(fleet=fleet, stop={"rounds": 3}))
    (alone,) = both.variants.to_dict("records")
    found = fedsim.check(small(fleet=fleet, stop={"rounds": 3}, variants=single))
    first, second = found.openings["base"].rounds
    rows = found.variants.set_index("variant")
    assert alone["round"] == 2
    assert alone["joules"] == second.traffic.joules < first.traffic.joules
    assert rows["round"].tolist() == [1, 1]
    assert rows["joules"].tolist() == [first.traffic.joules] * 2
    assert rows["round_s"].tolist() == [first.seconds] * 2
    seconds = quantity(first.seconds - second.seconds, "s")
    joules = quantity(first.traffic.joules - second.traffic.joules, "J")
    extra = f"it takes {seconds} and {joules} more than the second."
    assert both.first_round == f"The first round starts with idle radios: {extra}"
    assert found.first_round.startswith("The table shows the first round: once ends with it. ")
    assert found.first_round.endswith(extra)
    assert found.lines[0] == found.first_round


def test_a_first_round_that_costs_no_more_is_not_mentioned() -> None:
    problem = {**SMALL["problem"], "split": {"kind": "contiguous", "clients": 2}}
    assert fedsim.check(small(fleet=[], problem=problem)).first_round == ""


def _beside(span: str) -> tuple[float, list[Note]]:
    """Check a world of LTE with a deadline; return its warm reply and its notes on replies."""
    limit = {"participation": {"kind": "full", "deadline": span}}
    fleet = [{"count": 3, "device": "phone-mid", "radio": "lte"}]
    found = fedsim.check(small(fleet=fleet, **limit))
    (times,) = found.replies.values()
    assert (times.first - times.shortest > 0.1).all()  # the promotion of an LTE radio
    return float(times.shortest.max()), [n for n in found.notes if "participation" in n.key]


def test_a_deadline_that_only_warm_replies_meet_is_noted() -> None:
    warm, _ = _beside("1 min")
    _, (note,) = _beside(f"{warm * 1.01} s")
    assert "which 3 of 3 clients can meet, but only 0 in their first reply" in note.text
    assert "a client's first reply, from an idle radio, takes " in note.text
    assert _beside("1 min")[1] == []


@pytest.mark.parametrize("factor", [1 - 1e-4, 1 - 1e-7, 1 + 1e-5])
def test_a_deadline_and_an_unlike_reply_are_printed_unlike(factor: float) -> None:
    warm, _ = _beside("1 min")
    _, (note,) = _beside(f"{warm * factor!r} s")
    span, _, rest = note.text.removeprefix("got ").partition(", which")
    took = rest.partition("a reply takes ")[2].partition(";")[0]
    assert span[:3] == took[:3]
    assert span != took


def test_groups_of_one_preset_that_differ_are_listed() -> None:
    preset = {"device": "phone-mid", "radio": "wifi"}
    slow = {"device": {"kind": "phone-mid", "speed": "1 Gflop/s"}, "radio": "wifi"}
    fleet = [{"count": 2, **preset}, {"count": 2, **slow}, {"count": 1, **preset}]
    found = fedsim.check(small(fleet=fleet))
    console = Console(width=200)
    with console.capture() as captured:
        console.print(overview(found.jobs, found.openings, ()))
    drawn = " ".join(captured.get().split())
    assert (
        "fleet 5 x phone-mid over wifi group 1, 2 of the phone-mid over wifi: device.speed" in drawn
    )
    assert "device.speed 1 Gflop/s instead of 10 Gflop/s (group 0) model" in drawn
