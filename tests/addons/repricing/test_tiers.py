"""Logs of tiers priced again: equal to a run in the other world, or refused by the tier's key."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import fedsim
from fedsim.addons.repricing.conditions import TRAINED
from fedsim.addons.repricing.history import Original, read_history
from fedsim.core.ports import SERVER
from fedsim.physics.hierarchy import hierarchy
from fedsim.scenario.specs import Group, Tier
from tests.tiers import examples

from .prices import FLEET, small, unlike
from .test_refusals import refusal

CLIENTS = 5
TOP = {"up": {"compressor": {"kind": "top-k", "count": 2}, "error_feedback": "ef"}}
QUANTIZED = {"up": {"compressor": {"kind": "qsgd", "levels": 4}, "if_longer": "compressed"}}
FED_BACK = {"down": {"compressor": {"kind": "top-k", "count": 1}, "error_feedback": "ef21"}}


def tiers(*changes: dict[str, Any], **blocks: Any) -> dict[str, Any]:
    """Return a scenario of FedAvg below some tiers."""
    return small("fedavg", blocks.pop("rounds", 3), tiers=list(changes), **blocks)


TWO = tiers({"count": 3, "rounds": 2, "wire": TOP}, {"count": 2, "outer": "diloco"})
OTHER_WORLD = (
    "fleet.0.radio=wifi",
    "fleet.1.device=pi-zero-2w",
    "tiers.0.radio=nb-iot",
    "tiers.0.link={uplink: 1 Mbit/s, latency: 3 ms}",
    "tiers.1.radio=lte",
    "tiers.1.device=pi-4",
    "tiers.1.battery={}",
    "tiers.1.carbon=DE",
    "network.server={uplink: 2 Mbit/s, latency: 5 ms}",
)

# -- equal to the bit ------------------------------------------------------------------

WORLDS: dict[str, tuple[str, ...]] = {
    "another one": OTHER_WORLD,
    "a radio that is paged": ("tiers.0.radio=nb-iot-edrx", "fleet.0.radio=nb-iot-psm"),
    "packets sent again": ("tiers.1.radio={kind: lte, loss: {kind: independent, rate: 10 %}}",),
    "fewer rounds": ("stop.rounds=2",),
    "an end within a round": ("tiers.0.radio=umts", "stop.time=4 s"),
    "an end by energy": ("tiers.0.radio=umts", "stop.energy=12 J"),
}


@pytest.mark.parametrize("name", WORLDS)
def test_whatever_the_world(name: str, tmp_path: Path) -> None:
    assert unlike(TWO, WORLDS[name], tmp_path) == []


METHODS = ("fedprox", "fednova", "fedexprox", "diloco")


@pytest.mark.parametrize("kind", METHODS)
def test_whatever_gateways_run(kind: str, tmp_path: Path) -> None:
    source = small(
        kind, 3, tiers=[{"count": 2, "rounds": 3, "outer": "fedavgm", "wire": QUANTIZED | FED_BACK}]
    )
    assert unlike(source, OTHER_WORLD[:4], tmp_path) == []


COHORTS = {
    "some of each": {"kind": "uniform", "share": "50 %"},
    "by samples": {"kind": "weighted", "count": 1},
    "by weights": {"kind": "importance", "count": 2, "by": "samples"},
    "the oldest": {"kind": "age", "count": 1},
}


@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")  # of a sample
@pytest.mark.parametrize("name", COHORTS)
def test_whoever_is_drawn_below_and_above(name: str, tmp_path: Path) -> None:
    drawn = COHORTS[name]
    tier = {"count": 2, "rounds": 3, "participation": drawn}
    assert unlike(tiers(tier, rounds=4, participation=drawn), OTHER_WORLD[:4], tmp_path) == []


@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")  # of a sample
def test_draws_by_weights_are_those_of_the_run_in_a_star_too(tmp_path: Path) -> None:
    """They go by the clients' shares of the samples, which a replay has from the log's table."""
    source = small("fedavg", 6, participation=COHORTS["by weights"])
    split = {"kind": "lognormal", "clients": 5}
    source["problem"] = source["problem"] | {"split": split}
    assert unlike(source, OTHER_WORLD[:2], tmp_path) == []


parts = st.fixed_dictionaries(
    {
        "device": st.sampled_from(["ideal", "cortex-m7", "pi-5"]),
        "radio": st.sampled_from(["ideal", "lte", "wifi", "zigbee", "nb-iot", "umts"]),
        "battery": st.sampled_from([None, {"capacity": "5 Wh"}]),
    }
)
links = st.fixed_dictionaries(
    {"uplink": st.sampled_from(["unlimited", "1 Mbit/s", "50 kbit/s"]), "latency": st.just("1 ms")}
)
gateways = st.fixed_dictionaries(
    {
        "rounds": st.integers(1, 3),
        "outer": st.sampled_from(["fedavg", "fedavgm", "diloco"]),
        "wire": st.sampled_from([{}, TOP, QUANTIZED]),
        "participation": st.sampled_from([{"kind": "full"}, {"kind": "uniform", "share": "50 %"}]),
    }
)


@st.composite
def scenarios(draw: st.DrawFn) -> tuple[dict[str, Any], list[str]]:
    """Draw tiers with their world, and another world."""
    counts = sorted(draw(st.lists(st.integers(1, CLIENTS), min_size=1, max_size=3)), reverse=True)
    methods = [draw(gateways) | {"count": count} for count in counts]
    first, second = (
        (
            [draw(parts) | {"count": group["count"]} for group in FLEET],
            [draw(parts) | {"link": draw(links)} for _ in counts],
        )
        for _ in range(2)
    )
    source = tiers(
        *(one | other for one, other in zip(methods, first[1], strict=True)),
        fleet=first[0],
        participation=draw(
            st.sampled_from([{"kind": "full"}, {"kind": "uniform", "share": "60 %"}])
        ),
        evaluator=draw(st.sampled_from([None, "compiled"])),
        wire=draw(st.sampled_from([{}, TOP])),
    )
    pairs = enumerate(zip(methods, second[1], strict=True))
    now = [f"tiers.{number}={json.dumps(one | other)}" for number, (one, other) in pairs]
    return source, [*now, f"fleet={json.dumps(second[0])}", "name=changed"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")  # of a sample
@examples(15, few=6, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(scenarios())
def test_whatever_the_tiers(drawn: tuple[dict[str, Any], list[str]]) -> None:
    with TemporaryDirectory() as folder:
        assert unlike(*drawn, Path(folder)) == []


# -- the history -----------------------------------------------------------------------


def test_each_gateway_has_its_own_exchanges_and_visits(tmp_path: Path) -> None:
    (run,) = fedsim.run(TWO, out=tmp_path).runs
    original = Original.of(run, ())
    tree, history = original.tree, read_history(run, CLIENTS, original.tree)
    assert tree == hierarchy(CLIENTS, [3, 2])
    exchanges, tasks, rounds = history.exchanges, history.tasks, 3
    assert history.served == rounds
    assert history.commits == [1, 2, 3]
    each = {gateway: [len(visit) for visit in visits] for gateway, visits in history.visits.items()}
    low, high = (
        dict.fromkeys(tree.levels[1], [2] * rounds),
        dict.fromkeys(tree.levels[2], [1] * rounds),
    )
    assert each == low | high
    served = {SERVER: range(rounds)}
    served |= {
        gateway: range(visits[0].start, visits[-1].stop)
        for gateway, visits in history.visits.items()
    }
    assert sorted(exchange for each in served.values() for exchange in each) == list(
        range(len(exchanges.shared))
    )
    for server, own in served.items():
        for exchange in own:
            span = slice(exchanges.first[exchange], exchanges.first[exchange + 1])
            assert tasks.client[span] == list(tree.below[server])
    work = np.subtract(tasks.end, tasks.begin)
    assert (work[np.array(tasks.client) >= CLIENTS] == 0).all()  # gateways compute nothing
    assert (work[np.array(tasks.client) < CLIENTS] > 0).all()


# -- refused ---------------------------------------------------------------------------

WIFI = "tiers.0.radio=wifi"
TRAINING = {
    "tiers.0.rounds=3": "tiers.0.rounds",
    "tiers.0.count=4": "tiers.0.count",
    "tiers.1.outer=fedavg": "tiers.1.outer.kind",
    "tiers.1.wire.values=float64": "tiers.1.wire.values",
    "tiers.0.participation={kind: uniform, count: 1}": "tiers.0.participation.kind",
    "tiers=[{count: 3, rounds: 2}]": "tiers",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    fedsim.run(TWO, out=folder)
    return folder


@pytest.mark.parametrize("override", TRAINING)
def test_what_training_sees_of_tiers_cannot_change(
    override: str, made: Path, tmp_path: Path
) -> None:
    with pytest.raises(fedsim.RepricingError) as error:
        fedsim.reprice(made, [override, "fleet.0.radio=wifi"], tmp_path)
    assert TRAINING[override] in [fault.key for fault in error.value.faults]
    assert "needs training again: fedsim run" in error.value.faults[0].message


def test_a_tier_has_what_is_trained_and_what_gateways_are_made_of() -> None:
    assert set(Tier.model_fields) - set(Group.model_fields) - set(TRAINED) == {"link"}


TIMES: dict[str, dict[str, Any]] = {
    "deadline": {"participation": {"kind": "full", "deadline": "60 s"}},
    "quorum": {"participation": {"kind": "full", "quorum": "50 %"}},
    "over": {"participation": {"kind": "uniform", "count": 1, "over": 2.0}},
    "least_charge": {"participation": {"kind": "full", "least_charge": "30 %"}},
}


@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")  # of a sample
@pytest.mark.parametrize("key", TIMES)
def test_no_server_may_close_a_round_before_its_end(key: str, tmp_path: Path) -> None:
    above = tiers({"count": 2}, {"count": 2, **TIMES[key]}, rounds=2)
    ((seen, _),) = refusal(tmp_path / "above", above, [WIFI])
    assert seen == f"tiers.1.participation.{key}"
    below = tiers({"count": 2}, rounds=2, **TIMES[key])
    ((seen, _),) = refusal(tmp_path / "below", below, [WIFI])
    assert seen == f"participation.{key}"


def test_a_policy_that_learns_from_reports_is_refused_below_gateways(tmp_path: Path) -> None:
    source = tiers({"count": 2}, rounds=2, participation={"kind": "oort", "count": 1})
    seen = refusal(tmp_path, source, [WIFI])
    assert [key for key, _ in seen] == ["participation.kind"]


def test_no_gateway_may_be_away(tmp_path: Path) -> None:
    away = "tiers.1.availability={kind: markov, on: 1 h, off: 1 min}"
    seen = refusal(tmp_path, TWO, [away, WIFI])
    assert [key for key, _ in seen] == ["tiers.1.availability.kind"]


def test_a_gateway_s_battery_that_is_empty_stops_the_repricing(tmp_path: Path) -> None:
    """One gateway has answered when the other's battery is empty, whose clients are slow."""
    fleet = [{"count": 2}, {"count": 3, "radio": "nb-iot"}]
    own = ["tiers.0.device=pi-4", "tiers.0.battery={capacity: 0.2 mWh}"]
    ((key, text),) = refusal(tmp_path, tiers({"count": 2}, fleet=fleet), own)
    assert key == "tiers.0.battery"
    assert "in round 1 gateway-6 does not reply, but did in the original" in text
