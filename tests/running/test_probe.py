"""What `fedsim check` says the first rounds cost is what the first rounds of the run do cost."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import fedsim
from fedsim.cli.job_table import job_table, overview
from fedsim.running.probe import Opening, opening
from fedsim.scenario import load
from fedsim.scenario.building import Builder, Job
from tests.methods import FAMILIES, METHODS, scenario, the_class
from tests.runs import small
from tests.tiers import every

RADIOS = ("lte", "wifi", "lora-sf7", "ethernet")
COSTS = [
    *("bits_up", "bits_down", "compute_s", "send_s", "receive_s"),
    *("compute_joules", "send_joules", "receive_joules", "promotion_joules"),
]
EXACT = ["cohort", "transmissions", "beacons", "bits_up", "bits_down"]


def job(written: dict[str, Any]) -> Job:
    plan = load(written)
    return Builder(plan).build(plan.variants[0], plan.variants[0].seeds[0])


def assert_foretold(written: dict[str, Any]) -> Opening:
    """Hold what is foretold against the round table of a run that goes on for longer."""
    seen = opening(job(written))
    rounds = fedsim.run({**written, "stop": {"rounds": 4}}).rounds
    assert len(seen.rounds) == 2
    first, starts = rounds[rounds["round"] > 0].to_dict("records"), rounds["t"].tolist()
    for cost, row, start in zip(seen.rounds, first, starts, strict=False):
        assert {key: getattr(cost.traffic, key) for key in EXACT} == {k: row[k] for k in EXACT}
        assert start + cost.seconds == pytest.approx(row["t"], rel=1e-9, abs=0)
        # A round that takes no time takes no energy, but for the rounding of sums of about 1 J.
        assert cost.traffic.joules == pytest.approx(row["joules"], rel=1e-9, abs=1e-15)
        assert cost.clients["joules"].sum() == pytest.approx(row["joules"], rel=1e-9, abs=1e-15)
    return seen


ON_RADIOS = [(kind, RADIOS[at % len(RADIOS)]) for at, kind in enumerate(METHODS)]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")
@every(("kind", "radio"), ON_RADIOS, few=[each for each in ON_RADIOS if each[0] in FAMILIES])
def test_the_first_rounds_of_every_method_are_foretold(kind: str, radio: str) -> None:
    fleet = [{"count": 4, "device": "phone-mid", "radio": radio}]
    seen = assert_foretold({**scenario(kind), "fleet": fleet})
    if not the_class(kind).asynchronous:  # where nothing is under way when a round ends
        for cost in seen.rounds:
            assert cost.clients["bits_up"].sum() == cost.traffic.bits_up
            assert cost.clients["bits_down"].sum() == cost.traffic.bits_down


LOSSY = {"kind": "wifi", "loss": {"kind": "independent", "rate": "20 %"}}
WORLDS: dict[str, dict[str, Any]] = {
    "shared": {"network": {"server": {"uplink": "100 kbit/s", "latency": "1 ms"}}},
    "tree": {"network": {"topology": "tree", "gateways": 2, "gateway": {"rate": "300 kbit/s"}}},
    "sampled": {"participation": {"kind": "uniform", "count": 2, "over": 1.5}},
    "deadline": {"participation": {"kind": "full", "deadline": "40 ms"}},
    "asynchronous": {
        "algorithm": {"kind": "dcgd", "step_size": "0.1/L"},
        "participation": {"kind": "asynchronous", "buffer": 2},
    },
    "compressed": {"wire": {"up": {"compressor": {"kind": "rand-k", "fraction": 0.3}}}},
    "by chance": {
        "algorithm": {"kind": "gd", "step_size": "1/L"},
        "fleet": [
            {
                "count": 5,
                "device": {"kind": "pi-4", "slowdown": {"kind": "lognormal", "sigma": 1.0}},
                "radio": LOSSY,
                "battery": {"charge": "30 %"},
                "availability": {"kind": "markov", "on": "1 s", "off": "1 s"},
            }
        ],
    },
}


@pytest.mark.filterwarnings("ignore:.*convergence theory of:fedsim.TheoryWarning")
@every("world", WORLDS)
def test_the_first_rounds_in_every_world_are_foretold(world: str) -> None:
    assert_foretold(small(**WORLDS[world]))


def test_what_each_client_spends_is_what_the_run_says_of_it() -> None:
    """But for tails, which a run that ends cuts off."""
    written = small(algorithm={"kind": "gd", "step_size": "1/L"})
    seen = opening(job(written))
    spent = [
        fedsim.run({**written, "stop": {"rounds": rounds}}).clients.set_index("client")[COSTS]
        for rounds in (1, 2)
    ]
    for cost, expected in zip(seen.rounds, [spent[0], spent[1] - spent[0]], strict=True):
        pd.testing.assert_frame_equal(
            cost.clients[COSTS], expected, check_dtype=False, rtol=1e-9, atol=1e-15
        )


def test_looking_leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither on disk nor in the job: the run that follows is the run without it."""
    monkeypatch.chdir(tmp_path)
    written = small(**WORLDS["by chance"])
    first, again = job(written), job(written)
    assert opening(first).rounds[1].seconds == opening(first).rounds[1].seconds
    assert list(tmp_path.iterdir()) == []
    assert opening(again).rounds[0].traffic == opening(first).rounds[0].traffic


def test_a_run_that_ends_before_says_why() -> None:
    seen = opening(job(small(stop={"rounds": 50, "time": "1 ms"})))
    assert seen.rounds == ()
    assert seen.ended == "time: 0.001 s"
    (once,) = opening(job(small(stop={"rounds": 1}))).rounds
    assert once.traffic.cohort == 5


def test_rounds_that_fill_a_log_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedsim.running.probe._ROWS", 20)
    monkeypatch.setattr("fedsim.running.probe._ROWS_EACH", 0)
    seen = opening(job(small()))
    assert seen.rounds == ()
    assert "not over after 20 rows of the log" in seen.ended


@pytest.mark.slow
def test_the_battery_lasts_as_many_rounds_as_it_says() -> None:
    fleet: list[dict[str, Any]] = [
        {"count": 5, "device": "pi-4", "radio": "wifi", "battery": {"capacity": "0.02 Wh"}}
    ]
    gd = {"kind": "gd", "step_size": "1/L"}
    seen = opening(job(small(fleet=fleet, algorithm=gd)))
    # From full to the threshold of 20 %, below which a client takes no part any more.
    result = fedsim.run(small(algorithm=gd, fleet=fleet, stop={"rounds": 10**5}))
    (left,) = result.summary["rounds"]
    assert left == pytest.approx(seen.lasts.min(), rel=0.02)


def test_mains_have_no_share_and_last_for_ever() -> None:
    seen = opening(job(small()))
    assert np.isnan(seen.shares).all()
    assert np.isinf(seen.lasts).all()


def shown(written: dict[str, Any]) -> str:
    made = job(written)
    console = Console(width=100)
    with console.capture() as captured:
        began = opening(made)
        console.print(overview([made], {made.variant.name: began}, []))
        console.print(job_table(made, began))
    return captured.get()


def test_what_is_shown_names_rounds_totals_and_what_is_extrapolated() -> None:
    fleet = [{"count": 5, "device": "pi-4", "radio": "wifi", "battery": {"capacity": "0.02 Wh"}}]
    text = shown(small(fleet=fleet))
    for words in ("round 1", "round 2", "round 2, all clients:", "5 clients", "the first client"):
        assert words in text
    assert max(map(len, text.splitlines())) <= 100
    assert "ends there" not in text


def test_a_server_that_waits_for_nobody_makes_updates() -> None:
    text = shown(small(**WORLDS["asynchronous"]))
    assert "update 2, all clients:" in text
    assert "round 2" not in text
    assert "in transit" in text


def test_a_broadcast_counts_once_among_all_clients_and_it_is_said() -> None:
    world = {"network": {"broadcast": "cell"}}
    costs = opening(job(small(**world))).rounds[0]
    received = costs.clients["bits_down"]
    assert received.sum() > costs.traffic.bits_down == received.unique().sum()  # a copy a group
    assert "a broadcast counts once here" in " ".join(shown(small(**world)).split())


def test_among_peers_the_bits_of_all_clients_are_those_sent() -> None:
    peers = {
        "algorithm": {"kind": "d-psgd", "step_size": 0.3},
        "network": {"peers": {"kind": "ring"}},
    }
    text = shown(small(**peers))
    assert "sent, 5 clients" in " ".join(text.split())
    assert "0 bit down" not in text


def test_parameters_are_shown_with_six_digits() -> None:
    text = shown(small(algorithm={"kind": "gd", "step_size": 0.1000000000001}))
    assert any(line.endswith("step_size = 0.1") for line in map(str.rstrip, text.splitlines()))


SERVERS: dict[str, tuple[dict[str, Any], str]] = {
    "fedadam": ({}, "step of adam takes 120 flop and moves 0.56 kB per round"),
    "fedopt": ({"server_optimizer": "sgd"}, "step of sgd takes 20 flop and moves 0.24 kB"),
    "streaming-diloco": (
        {"fragments": 2, "local_steps": 1},
        "step of sgd takes 30 flop and moves 0.2 kB per round, including its state of 5 values",
    ),
}


@pytest.mark.parametrize("kind", SERVERS)
def test_what_the_server_s_optimizer_takes_is_said_though_it_is_not_charged(kind: str) -> None:
    """Ten values, of 8 bytes: the model and the state are read and written, the update is read."""
    keys, said = SERVERS[kind]
    text = " ".join(shown(small(algorithm={"kind": kind, "step_size": 0.01, **keys})).split())
    assert said in text
    assert "it is not charged, since a server computes in no time" in text
    assert "the server's step" not in " ".join(shown(small()).split())


@pytest.mark.parametrize(
    ("weights", "line"),
    [
        (None, "F(w) = sum_m f_m(w) (problem.weights: sum)"),
        ("rows", "F(w) = sum_m (n_m/n) f_m(w), weights {low} to {high} (problem.weights: rows)"),
        ("equal", "F(w) = sum_m (1/M) f_m(w), weights 0.2 (problem.weights: equal)"),
    ],
)
def test_the_objective_is_shown_as_a_formula_with_its_weights(
    weights: str | None, line: str
) -> None:
    split = {"kind": "lognormal", "sigma": 1.0}
    written = small(problem={**small()["problem"], "weights": weights, "split": split})
    sizes = [samples.rows for samples in job(written).problem.samples]
    low, high = (f"{size / sum(sizes):.3g}" for size in (min(sizes), max(sizes)))
    assert low != high
    text = " ".join(shown(written).split())
    assert f"objective {line.format(low=low, high=high)} optimum" in text
    assert "counting" not in text


def test_counting_is_shown_where_it_is_not_the_usual_one() -> None:
    assert "(counting: iterates)" in shown(small(counting="iterates"))
