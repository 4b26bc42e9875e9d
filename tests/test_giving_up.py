"""Rounds that could wait for ever: given up by default, or refused with what helps."""

import re
from io import StringIO
from itertools import pairwise
from math import ceil, inf
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import fedsim
from fedsim.cli.job_table import job_table
from fedsim.running.probe import opening
from fedsim.scenario import load
from fedsim.scenario.building import Builder, Job
from fedsim.scenario.building.round_completion import Slowest, slowest
from tests.methods import METHODS
from tests.methods import scenario as method
from tests.tiers import every

PROBLEM: dict[str, Any] = {
    "loss": {"kind": "squared", "l2": 0.1},
    "data": {"kind": "sparse-linear", "clients": 4, "rows": 8, "features": 6, "ones": 3},
    "split": {"kind": "groups"},
    "optimum": "unknown",
}
LOSSY = {"kind": "wifi", "tries": 1, "loss": {"kind": "independent", "rate": "20 %"}}
CELL = {"topology": "star", "broadcast": "cell"}
GD = {"kind": "gd", "step_size": "0.5/L"}
FEDBUFF = {"kind": "fedbuff", "step_size": "0.1/L"}


def scenario(**blocks: Any) -> dict[str, Any]:
    return {
        "name": "lossy",
        "problem": PROBLEM,
        "algorithm": GD,
        "fleet": [{"count": 4, "radio": LOSSY}],
        "stop": {"rounds": 40},
        **blocks,
    }


def outcome(folder: Path, **blocks: Any) -> tuple[str, int, int]:
    """Run; return how it ended, after how many rounds, and how many of them were given up."""
    result = fedsim.run(scenario(**blocks), out=folder)
    (status,) = result.summary["status"]
    given_up = result.events[result.events["event"] == "abandoned"]
    table = result.rounds.set_index("round")["objective"]
    for number in given_up["round"]:
        if number > 1:
            assert table[number] == table[number - 1]
    return status, len(result.rounds) - 1, len(given_up)


@pytest.mark.filterwarnings("ignore:.*assumes that all clients take part:fedsim.TheoryWarning")
@pytest.mark.parametrize(
    ("participation", "network"),
    [
        ({"kind": "full", "quorum": "75 %"}, {}),
        ({"kind": "full", "quorum": "75 %", "deadline": "1 s"}, {}),
        ({"kind": "uniform", "count": 2, "over": 1.5}, {}),
        ({"kind": "weighted", "count": 3, "quorum": "60 %"}, {}),
        ({"kind": "full", "quorum": "75 %"}, CELL),
    ],
)
def test_a_quorum_of_clients_that_may_be_lost_is_given_up_and_the_run_is_done(
    participation: dict[str, Any], network: dict[str, Any], tmp_path: Path
) -> None:
    status, rounds, given_up = outcome(tmp_path, participation=participation, network=network)
    assert (status, rounds) == ("done", 40)
    assert given_up > 0


@pytest.mark.filterwarnings("ignore:.*may be away:fedsim.TheoryWarning")
def test_a_round_of_which_every_client_is_away_moves_no_momentum(tmp_path: Path) -> None:
    hb = {"kind": "hb", "step_size": "0.5/L"}
    data = {**PROBLEM["data"], "clients": 1}
    world = scenario(algorithm=hb, problem={**PROBLEM, "data": data}, stop={"rounds": 12})
    group = {"count": 1}
    steady = fedsim.run(world | {"fleet": [group]}, out=tmp_path / "steady").rounds
    away = {"availability": {"kind": "bernoulli", "share": "50 %"}}
    seldom = fedsim.run(world | {"fleet": [group | away]}, out=tmp_path / "seldom").rounds
    there = seldom[seldom["cohort"] == 1]
    assert 2 < len(there) < 12
    assert there["objective"].tolist() == steady["objective"].tolist()[1 : len(there) + 1]


def refused(**blocks: Any) -> str:
    with pytest.raises(fedsim.ScenarioError) as caught:
        Builder(load(scenario(**blocks))).check()
    (fault,) = caught.value.faults
    return fault.message


FULL: dict[str, Any] = {"participation": {"kind": "full"}}
PATIENT: dict[str, Any] = {"fleet": [{"count": 4, "radio": LOSSY | {"tries": "unlimited"}}]}
HEARD: dict[str, Any] = {"network": CELL, **PATIENT}
ASYNCHRONOUS: dict[str, Any] = {"participation": {"kind": "asynchronous"}, "algorithm": FEDBUFF}


@pytest.mark.parametrize(
    ("wrong", "words", "remedy"),
    [
        (FULL, "participation.deadline", {"participation": {"kind": "full", "deadline": "1 s"}}),
        (FULL, "participation.give_up", {"participation": {"kind": "full", "give_up": "1 s"}}),
        (FULL, "a quorum that can do", {"participation": {"kind": "full", "quorum": "75 %"}}),
        (
            FULL,
            "tries: unlimited",
            PATIENT,
        ),
        (HEARD, "use unicast", {"network": {"broadcast": "unicast"}}),
        (HEARD, "participation.give_up", {"participation": {"kind": "full", "give_up": "1 s"}}),
        (
            ASYNCHRONOUS,
            "participation.give_up: 10 min",
            {"participation": {"kind": "asynchronous", "give_up": "10 min"}},
        ),
        (
            ASYNCHRONOUS,
            "tries: unlimited",
            PATIENT,
        ),
    ],
)
def test_what_a_refusal_recommends_helps(
    wrong: dict[str, Any], words: str, remedy: dict[str, Any], tmp_path: Path
) -> None:
    assert words in refused(**wrong)
    assert outcome(tmp_path, **wrong | remedy)[:2] == ("done", 40)


@pytest.mark.parametrize(
    ("participation", "key", "words", "remedy"),
    [
        (
            {"kind": "full", "deadline": "2 s", "give_up": "5 s"},
            "participation.give_up",
            "add a quorum",
            {"quorum": "50 %"},
        ),
        (
            {"kind": "full", "deadline": "2 s", "quorum": "50 %", "give_up": "2 s"},
            "participation.give_up",
            "give more",
            {"give_up": "3 s"},
        ),
    ],
)
def test_times_that_leave_one_another_nothing_to_do_are_refused(
    participation: dict[str, Any], key: str, words: str, remedy: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(fedsim.ScenarioError) as caught:
        load(scenario(participation=participation))
    (fault,) = caught.value.faults
    assert fault.key == key
    assert words in fault.message
    assert outcome(tmp_path, participation=participation | remedy)[0] == "done"


def test_a_time_to_give_up_beside_silence_that_is_waited_for_is_refused() -> None:
    message = refused(
        participation={"kind": "full", "give_up": "9 s"},
        silence={"kind": "deadline", "after": "2 s"},
    )
    assert "silence.after closes every round" in message


def test_a_time_to_give_up_before_any_gradient_is_done_is_refused() -> None:
    fleet = [{"count": 4, "radio": LOSSY, "device": {"kind": "ideal", "speed": "1 flop/s"}}]
    assert "take" in refused(fleet=fleet, participation={"kind": "full", "give_up": "1 s"})


def test_check_names_the_time_that_nobody_has_written() -> None:
    def said(**participation: str) -> str:
        plan = load(scenario(participation={"kind": "full", **participation}))
        (job,) = Builder(plan).check()
        console = Console(width=200, file=StringIO())
        console.print(job_table(job, opening(job)))
        return str(console.file.getvalue())  # type: ignore[attr-defined]

    words = "a round with too few replies is abandoned after"
    default = said(quorum="75 %")
    assert f"{words} 10 min (participation.give_up, by default: 10" in default
    assert "and at least 10 min)" in " ".join(default.split())
    assert f"{words} 7 s" in said(quorum="75 %", give_up="7 s")
    assert words not in said(deadline="5 s")


SENSORS: dict[str, Any] = {
    "problem": PROBLEM | {"data": PROBLEM["data"] | {"features": 1000, "ones": 30}},
    "participation": {"kind": "full", "quorum": "75 %"},
    "fleet": [{"count": 4, "device": "cortex-m4", "radio": "lora-sf10"}],
    "stop": {"rounds": 6},
}
"""A model of 4 kB takes 79 frames, and each of them over a minute with the silence after it."""


def sensors(**radio: Any) -> dict[str, Any]:
    group = {**SENSORS["fleet"][0], "radio": {"kind": "lora-sf10", **radio}}
    return scenario(**SENSORS | {"fleet": [group]})


def rounds_of(folder: Path, blocks: dict[str, Any]) -> tuple[list[float], int]:
    """Run; return how long each round took, and how many of them were given up."""
    result = fedsim.run(blocks, out=folder)
    times = [*result.rounds["t"]]
    given_up = int((result.events["event"] == "abandoned").sum())
    return [after - before for before, after in pairwise(times)], given_up


def test_slow_sensors_have_the_time_that_they_need(tmp_path: Path) -> None:
    lossy = {"tries": 3, "loss": {"kind": "independent", "rate": "2 %"}}
    spans, given_up = rounds_of(tmp_path / "lossy", sensors(**lossy))
    assert min(spans) > 600
    assert given_up == 0
    sure, _ = rounds_of(tmp_path / "sure", sensors())
    assert spans == pytest.approx(sure, rel=0.25)


def test_slow_sensors_are_given_up_where_all_is_lost(tmp_path: Path) -> None:
    lossy = {"tries": 1, "loss": {"kind": "independent", "rate": "5 %"}}  # of 79 frames, one is
    spans, given_up = rounds_of(tmp_path, sensors(**lossy))
    assert given_up == len(spans) == 6


def test_an_asynchronous_server_of_slow_sensors_is_told_of_such_a_time() -> None:
    lossy = {"tries": 1, "loss": {"kind": "independent", "rate": "5 %"}}
    (minutes,) = re.findall(
        r"such as participation.give_up: (\S+) min",
        refused(**sensors(**lossy) | ASYNCHRONOUS),
    )
    assert float(minutes) > 1000


@pytest.mark.parametrize("clients", [4, 40])
def test_what_is_waited_for_is_more_than_any_round_takes(clients: int, tmp_path: Path) -> None:
    """A server's link that all share is slower than any radio."""
    data = PROBLEM["data"] | {"clients": clients, "features": 400}
    group = {"count": clients, "radio": LOSSY | {"loss": {"kind": "independent", "rate": "1 %"}}}
    blocks = scenario(
        problem=PROBLEM | {"data": data},
        network={"topology": "star", "server": {"uplink": "600 bit/s"}},
        participation={"kind": "full", "quorum": "50 %"},
        fleet=[group],
        stop={"rounds": 3},
    )
    (job,) = Builder(load(blocks)).check()
    spans, given_up = rounds_of(tmp_path, blocks)
    assert given_up == 0
    assert job.participation.round_timeout > 2 * max(spans)


def test_a_client_at_its_best_takes_what_a_run_shows(tmp_path: Path) -> None:
    device = {"kind": "ideal", "speed": "1 kFLOP/s"}
    radio = {"kind": "ideal", "up": "1 kbit/s", "down": "2 kbit/s", "latency": "3 s"}
    lossy = {"loss": {"kind": "independent", "rate": "0.0000001 %"}, "tries": 1}
    blocks = scenario(
        fleet=[{"count": 4, "device": device, "radio": {**radio, **lossy}}],
        participation={"kind": "full", "quorum": "75 %"},
        stop={"rounds": 3},
    )
    (job,) = Builder(load(blocks)).check()
    spans, _ = rounds_of(tmp_path, blocks)
    assert slowest(job).seconds == pytest.approx(max(spans), rel=0.05)
    assert job.participation.round_timeout == 600


def built(kind: str, **parameters: Any) -> Job:
    """Build a method over clients that compute for seconds, under a quorum and losses."""
    source = method(kind)
    source["algorithm"] = {**source["algorithm"], **parameters}
    slow = {"device": {"kind": "ideal", "speed": "500 FLOP/s"}, "radio": LOSSY}
    source["fleet"] = [{"count": 5, **slow}]
    if source.get("participation", {}).get("kind") != "asynchronous":
        source["participation"] = {"kind": "full", "quorum": "60 %"}
    else:
        source["participation"]["give_up"] = "7 d"
    (job,) = Builder(load(source)).check()
    return job


@every("kind", METHODS)
def test_every_method_has_a_time_that_a_round_of_it_takes(kind: str) -> None:
    job = built(kind)
    least = min(
        job.deployment.groups[0].least_compute(loss.gradient_operations, loss.rows)
        for loss in job.problem.losses
    )
    assert 0 < slowest(job).seconds < inf
    share = 0.1 if job.parameters.get("batch") else 1  # of the samples, in a batch of them
    assert slowest(job).seconds > share * least
    if not job.participation.asynchronous:
        assert job.participation.round_timeout == slowest(job).round_timeout


@every(
    ("kind", "less", "more"),
    [
        ("fedavg", {"batch": None}, {"batch": None, "local_steps": 6}),
        ("fedavg", {"batch": 20}, {"batch": 40}),
        ("fednova", {"local_steps": 1, "epochs": 2}, {"local_steps": 1, "epochs": 4}),
        ("fedgradmp", {"local_steps": 2}, {"local_steps": 4}),
    ],
)
def test_who_computes_twice_as_much_is_waited_for_about_as_much_longer(
    kind: str, less: dict[str, Any], more: dict[str, Any]
) -> None:
    once, twice = (slowest(built(kind, **each)).seconds for each in (less, more))
    assert twice == pytest.approx(2 * once, rel=0.05)


@every("lost", [0.0, 0.2])
@every("asked", [None, 2])
@every("local_steps", [1, 4])
def test_the_slowest_client_takes_the_sum_of_what_its_round_is_made_of(
    lost: float, asked: int | None, local_steps: int
) -> None:
    """In closed form: work, both ways by the radio, a wait before either, and the shared link."""
    radio = {
        "kind": "lte", "up": "1 kbit/s", "down": "2 kbit/s", "latency": "0.3 s",
        "promotion_time": "0.7 s", "framing": "40 B", "packet": "1500 B",
        "loss": {"kind": "independent", "rate": f"{100 * lost:g} %"} if lost else {"kind": "none"},
    }  # fmt: skip
    slow, fast = ({"kind": "ideal", "speed": f"{speed} flop/s"} for speed in (100, 200))
    fleet = [
        {"count": 1, "device": fast, "radio": radio},
        {"count": 3, "device": slow, "radio": radio},
    ]
    blocks = scenario(
        algorithm={"kind": "fedavg", "step_size": "0.1/L", "local_steps": local_steps},
        fleet=fleet,
        network={
            "topology": "star",
            "server": {"uplink": "500 bit/s", "downlink": "800 bit/s", "latency": "0.4 s"},
        },
        participation={"kind": "uniform", "count": asked} if asked else {"kind": "full"},
    )
    (job,) = Builder(load(blocks)).check()
    bits = 152 + 8 * (
        2 + 4 + 4 * PROBLEM["data"]["features"]
    )  # a header, and a vector with its shape
    work = local_steps * max(loss.gradient_operations for loss in job.problem.losses[1:]) / 100
    own = (bits + 8 * 40) * (1 / 1000 + 1 / 2000)
    shared = 2 * 0.4 + (asked or 4) * bits * (1 / 500 + 1 / 800)
    found = slowest(job)
    assert found.seconds == pytest.approx(
        work + (own + shared) / (1 - lost) + 2 * (0.3 + 0.7), rel=1e-12
    )
    assert found.name == job.deployment.groups[1].name


@given(st.floats(0, 1e6))
def test_patience_is_ten_of_the_slowest_rounds_in_whole_minutes_and_ten_minutes_at_least(
    seconds: float,
) -> None:
    round_timeout = Slowest("any", seconds).round_timeout
    assert round_timeout == max(600, 60 * ceil(10 * seconds / 60))
    assert Slowest("any", inf).round_timeout == 600
