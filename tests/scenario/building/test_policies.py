"""Participation, silence and stop rules, as the world takes them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.protocol.participation import Participation, Sample
from fedsim.sim.network.layers.broadcast import BroadcastLayer
from fedsim.sim.network.layers.fluid import FluidLayer
from fedsim.sim.network.layers.lv08 import Lv08Layer
from tests.policies import participation_of
from tests.scenario.building.plans import SMALL, found, group, job


def policy(folder: Path, kind: str, **options: Any) -> Participation:
    return job(folder, participation={"kind": kind} | options).setup.participation


def test_everybody_by_default(tmp_path: Path) -> None:
    assert job(tmp_path).setup.participation == participation_of()
    made = policy(tmp_path, "full", deadline="3 min", quorum="60 %", late="keep")
    assert made == participation_of(deadline=180, quorum=0.6)


@pytest.mark.parametrize(
    ("clients", "share", "count"),
    [(4, 50, 2), (4, 100, 4), (4, 1, 1), (5, 50, 3), (5, 49, 2), (7, 30, 2), (6, 25, 2)],
)
def test_a_share_is_the_nearest_number_of_clients(
    tmp_path: Path, clients: int, share: int, count: int
) -> None:
    block = {"kind": "uniform", "share": f"{share} %"}
    built = job(tmp_path, fleet=group(count=clients), participation=block)
    made = built.setup.participation
    assert (made.wanted, made.asked) == (count, count)
    assert built.setup.samples is not None
    order = made.order(built.setup.samples, 0, np.random.default_rng(1))
    assert list(order) == np.random.default_rng(1).permutation(clients).tolist()


def test_a_weighted_sample_weighs_samples(tmp_path: Path) -> None:
    # All clients are asked, so that the shares are those of clients with as many rows.
    split = {"kind": "iid", "remainder": "drop"}
    asked = {"kind": "weighted", "count": 3, "over": 1.3}
    built = job(tmp_path, problem={**SMALL["problem"], "split": split}, participation=asked)
    made = built.setup.participation
    rows = np.array([float(loss.rows) for loss in built.problem.losses])
    assert built.setup.samples is not None
    assert built.setup.samples.tolist() == rows.tolist()
    assert (made.wanted, made.asked) == (3, 4)
    assert isinstance(made, Sample)
    assert made.expected_shares(rows) == pytest.approx(rows / rows.sum())
    for draw in range(20):
        order = list(made.order(built.setup.samples, draw, np.random.default_rng(draw)))
        assert sorted(order) == list(range(rows.size))


def test_an_asynchronous_server(tmp_path: Path) -> None:
    assert policy(tmp_path, "asynchronous") == participation_of(buffer=1)
    made = policy(tmp_path, "asynchronous", buffer=2, concurrency=3, least_charge="30 %")
    assert made == participation_of(buffer=2, concurrency=3, least_charge=0.3)


@pytest.mark.parametrize("key", ["count", "concurrency", "buffer"])
def test_more_clients_than_the_split_makes(tmp_path: Path, key: str) -> None:
    kind = "uniform" if key == "count" else "asynchronous"
    problem = {
        "loss": {"kind": "squared"},
        "data": {"kind": "sklearn", "name": "diabetes"},
        "split": {"kind": "contiguous", "clients": 3},
    }
    faults = found(tmp_path, fleet=[], problem=problem, participation={"kind": kind, key: 4})
    assert list(faults) == [f"participation.{key}"]
    assert "the fleet has 3 clients" in faults[f"participation.{key}"]


def test_silence_and_its_late_replies(tmp_path: Path) -> None:
    assert job(tmp_path).setup.silence.beacon
    silence = job(tmp_path, silence={"kind": "deadline", "after": "9 s"}).setup.silence
    assert (silence.beacon, silence.closes_after, silence.keep_late) == (False, 9, True)


def test_stop_rules(tmp_path: Path) -> None:
    rules = job(tmp_path).setup.stop
    assert (rules.rounds, rules.gap, rules.time, rules.batteries) == (1000, None, None, None)
    stop = {"rounds": 5, "gap": 1e-3, "time": "1 h", "bits": "1 kB", "energy": "1 kJ"}
    fleet = group(battery={})
    rules = job(tmp_path, fleet=fleet, stop=stop | {"batteries": 2}).setup.stop
    assert (rules.rounds, rules.gap, rules.time) == (5, 1e-3, 3600)
    assert (rules.bits, rules.energy, rules.batteries) == (8000, 1000, 2)


def test_how_links_are_shared(tmp_path: Path) -> None:
    assert type(job(tmp_path).setup.network) is FluidLayer
    network = job(tmp_path, network={"model": "lv08", "broadcast": "cell"}).setup.network
    assert (type(network), type(network.below)) == (BroadcastLayer, Lv08Layer)
