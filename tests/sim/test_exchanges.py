"""Exchanges of peers by the kernel: the log of the events, and what sends a run back to them."""

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal
from unittest.mock import patch

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim.algorithms import PeerAlgorithm
from fedsim.algorithms.local_steps import Model
from fedsim.core.ports import Node
from fedsim.physics.overlay import overlay_of
from fedsim.protocol.stopping import Stop
from fedsim.results.record.parts import read_table
from fedsim.sim.arrays.fits import VARIABLE, why_slower
from fedsim.sim.exchanges.nodes import NodeScripts
from fedsim.sim.world import World
from tests.campaigns.worlds.playing import _different
from tests.tiers import every

from .exchange_worlds import both, world
from .test_arrays import both as runs

pytestmark = pytest.mark.filterwarnings(
    "ignore::fedsim.core.errors.TheoryWarning", "ignore::fedsim.core.errors.RunWarning"
)

FLEET = [
    {"count": 3, "device": "pi-4", "radio": "wifi"},
    {"count": 4, "device": "cortex-m7", "radio": "lte"},
    {"count": 3, "device": "pi-4", "radio": {"kind": "lte", "framing": "40 B", "packet": "60 B"}},
]
_SPEED = {"kind": "custom", "active": "1 W", "idle": "0.5 W"}
SLOW = [
    {"count": 6, "device": _SPEED | {"speed": "2 kflop/s"}, "radio": "wifi"},
    {"count": 4, "device": _SPEED | {"speed": "1.7 kflop/s"}, "radio": "lte"},
]
METHODS: dict[str, dict[str, Any]] = {
    "d-psgd": {"kind": "d-psgd", "step_size": 0.01},
    "dfedavg": {"kind": "dfedavg", "step_size": 0.01, "local_steps": 3},
    "gossip": {"kind": "gossip"},
}
OTHERS: dict[str, dict[str, Any]] = {
    "minibatches": {"kind": "d-psgd", "step_size": 0.01, "batch": 2},
    "extra": {"kind": "extra", "step_size": 0.01},
    "diging": {"kind": "diging", "step_size": 0.01},
    "choco-sgd": {"kind": "choco-sgd", "step_size": 0.01, "gamma": 0.5},
}


@pytest.fixture(autouse=True)
def _by_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "arrays")


def scenario(**parts: Any) -> dict[str, Any]:
    return {
        "problem": {
            "loss": {"kind": "logistic", "l2": 0.1, "labels": "plus-minus"},
            "data": {"kind": "smoothness", "clients": 10, "rows": 6, "features": 4, "growth": 1.01},
            "split": {"kind": "groups"},
        },
        "algorithm": METHODS["d-psgd"],
        "fleet": FLEET,
        "network": {"peers": {"kind": "tree"}},
        "models": {"every": 1, "clients": True},
        "stop": {"rounds": 6},
        **parts,
    }


def made_again() -> Any:
    """Watch whether a run is made again by events."""
    start = World._start_again
    return patch.object(World, "_start_again", autospec=True, side_effect=start)


@every("number", range(30))
def test_the_kernel_writes_what_events_write(number: int) -> None:
    one, other = both(number)
    assert one == other


@pytest.mark.parametrize("peers", ["ring", "tree", "complete"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("stop", [{"rounds": 6}, {"rounds": 99, "bits": "60 kbit"}])
def test_nodes_that_are_alike_go_on_together(
    method: str, peers: str, stop: dict[str, Any], tmp_path: Path
) -> None:
    block = scenario(algorithm=METHODS[method], network={"peers": {"kind": peers}}, stop=stop)
    with (
        patch.object(World, "_start_again", side_effect=AssertionError("made again")),
        patch.object(NodeScripts, "__init__", side_effect=AssertionError("node by node")),
    ):
        assert not _different(*runs(tmp_path, block))


@pytest.mark.parametrize("method", OTHERS)
def test_other_methods_go_on_node_by_node(method: str, tmp_path: Path) -> None:
    with (
        patch.object(World, "_start_again", side_effect=AssertionError("made again")),
        patch.object(NodeScripts, "begin", autospec=True, side_effect=NodeScripts.begin) as begin,
    ):
        assert not _different(*runs(tmp_path, scenario(algorithm=OTHERS[method])))
    assert begin.called


def test_nodes_that_are_many_rounds_apart_have_the_run_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedsim.sim.exchanges.rows._NUMBERS", 0)
    slow = {"kind": "custom", "speed": "2 kflop/s", "active": "1 W", "idle": "1 W"}
    last = {"count": 1, "device": slow, "radio": "wifi"}
    fleet = [{"count": 9, "device": "pi-4", "radio": "wifi"}, last]
    with patch.object(
        World, "_start_again", autospec=True, side_effect=World._start_again
    ) as again:
        block = scenario(fleet=fleet, network={"peers": {"kind": "ring"}})
        assert not _different(*runs(tmp_path, block))
    assert again.called


@pytest.mark.parametrize("failure", [KeyboardInterrupt, ValueError])
def test_a_run_that_is_cut_off_keeps_the_work_in_progress(
    failure: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def watch(progress: Any) -> None:
        if progress.round == 3:
            raise failure("in the middle of it")

    logs = []
    for how in ("events", "arrays"):
        monkeypatch.setenv(VARIABLE, how)
        with pytest.raises(failure, match="in the middle of it"):
            fedsim.run(scenario(fleet=SLOW), out=tmp_path / how, watch=watch)
        (parts,) = (tmp_path / how).rglob("events.parts")
        logs.append(read_table(parts.parent, "events").to_pandas())
    pd.testing.assert_frame_equal(*logs)
    assert logs[0]["event"].tolist()[-3:] == ["compute"] * 3  # of nodes that were ahead


class Looking(PeerAlgorithm):
    """Reads the time."""

    kind: Literal["looking"] = "looking"
    source: ClassVar[str] = "tests"
    messages: ClassVar = (Model,)
    in_arrays: ClassVar[bool] = True

    async def live(self, node: Node) -> None:
        while True:
            await node.exchange(Model(node.pack(node.initial)))
            node.commit(np.full_like(node.initial, node.now))


def test_a_node_that_reads_the_time_has_the_run_made_again(tmp_path: Path) -> None:
    block = scenario(algorithm={"kind": "looking"})
    with patch.object(
        World, "_start_again", autospec=True, side_effect=World._start_again
    ) as again:
        assert not _different(*runs(tmp_path, block, [Looking]))
    assert again.called


@every(
    ("parts", "why"),
    [
        ({"network": {"peers": {"kind": "one-peer"}}}, "changes"),
        ({"network": {"peers": {"kind": "exponential", "directed": True}}}, "one way"),
        (
            {
                "network": {"peers": {"kind": "ring"}, "medium": {}},
                "fleet": [{**FLEET[0], "count": 10}],
            },
            "medium",
        ),
        ({"network": {"peers": {"kind": "ring"}, "server": {"uplink": "1 Mbit/s"}}}, "between"),
        ({"participation": {"kind": "full", "deadline": "1 h"}}, "before all"),
        ({"stop": {"time": "1 h"}}, "within a round"),
        ({"fleet": [{**FLEET[0], "count": 10, "battery": {}}]}, "batteries"),
        ({"fleet": [{"count": 10, "device": "pi-4", "radio": "5g-low-drx"}]}, "stages"),
        ({"fleet": [{"count": 10}]}, "no time"),
    ],
)
def test_it_is_said_why_exchanges_are_played_as_events(parts: dict[str, Any], why: str) -> None:
    (note,) = fedsim.check(scenario(**parts)).events
    assert "not in a kernel" in note.text
    assert why in note.text


def test_runs_of_few_messages_load_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE)
    assert "few messages" in why_slower(world(1))
    stop = Stop.model_validate({"rounds": 60})
    ring = [overlay_of(nx.cycle_graph(count)) for count in (100, 200)]
    few, many = (replace(world(1), overlay=each, stop=stop) for each in ring)
    assert why_slower(few)
    assert not why_slower(many)
