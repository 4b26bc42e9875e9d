"""Parts of tiers by themselves: whom a server can reach, its streams, and what it waits for."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.core.ports import SERVER
from fedsim.physics.hierarchy import hierarchy
from fedsim.sim.config import WorldConfig
from fedsim.sim.tiers import DESERTED, Reach, RoundsOracle, Tiers, sum_below
from fedsim.wire.packers import Packing
from tests.algorithms.local_loops import local
from tests.sim.test_gateways import BITS, scenario

STREAMS = ("cohort", "server")
"""The purposes that a server draws for."""


def reach(*deserted: int, complete: bool = True) -> Reach:
    """Return what a server reaches of nodes that are all off, without some gateways."""
    presence: Any = SimpleNamespace(
        charge=None,
        change=None,
        sample_available=None,
        always_complete=complete,
        obstacle=lambda node: f"node {node} is off",
        why_gone=lambda nodes: f"{list(nodes)} are off",
    )
    made = Reach(presence)
    for gateway in deserted:
        made.desert(gateway)
    return made


def test_a_gateway_below_which_nobody_is_left_says_so_and_others_say_what_they_lack() -> None:
    assert reach(5).obstacle(5) == DESERTED
    assert reach(5).obstacle(6) == "node 6 is off"


def test_why_all_are_gone_speaks_of_those_that_are_not_deserted_if_there_are_any() -> None:
    assert reach(5, 6).why_gone([5, 6, 7, 8]) == "[7, 8] are off"
    assert reach(5, 6).why_gone([5, 6, 7]) == "[7] are off"
    assert reach().why_gone([5]) == "[5] are off"
    why = "no gateway can take part any more: no client below it (2)"
    assert reach(5, 6, 7).why_gone([5, 6]) == why


def test_every_node_is_eligible_while_all_are_on_and_no_gateway_is_deserted() -> None:
    assert reach().always_complete
    assert not reach(complete=False).always_complete
    assert not reach(5).always_complete


@pytest.mark.parametrize("tiers", [(1,), (2,), (3, 2)])
def test_places_count_servers_from_the_clients_up_and_the_top_is_the_last(
    tiers: tuple[int, ...],
) -> None:
    tree = hierarchy(7, tiers)
    world: Any = SimpleNamespace(_tree=tree)
    places = [Tiers._place(world, server) for server in (*range(7, len(tree.above)), SERVER)]
    assert places == [*range(sum(tiers) + 1)]


def test_every_server_draws_from_streams_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn, build = set[tuple[Any, ...]](), WorldConfig.__init__

    def begin(setup: WorldConfig, **parts: Any) -> None:
        streams = parts["rng"]

        def noted(*key: Any) -> np.random.Generator:
            drawn.add(key)
            made: np.random.Generator = streams(*key)
            return made

        build(setup, **{**parts, "rng": noted})

    monkeypatch.setattr(WorldConfig, "__init__", begin)
    fedsim.run(scenario(local(tmp_path), {"count": 3}, {"count": 2}, stop={"rounds": 1}))
    for purpose in STREAMS:
        places = {key[1] for key in drawn if key[0] == purpose}
        assert places == {*range(6)}


def test_every_node_packs_by_its_own_number_upwards_and_downwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a compressor that draws, each sender has a stream of its own."""
    senders = dict[int, set[int]]()

    def noted(make: Any, sender: int) -> Packing:
        senders.setdefault(id(make), set()).add(sender)
        return Packing(make, sender)

    monkeypatch.setattr("fedsim.sim.tiers.Packing", noted)
    fedsim.run(scenario(local(tmp_path), {"count": 3}, {"count": 2}, stop={"rounds": 1}))
    low, high = [5, 6, 7], [8, 9]
    every = sorted(sorted(each) for each in senders.values())
    assert every == sorted([[0, 1, 2, 3, 4], low, low, high, high, [SERVER]])


def test_what_all_servers_wait_for_is_told_in_their_order_from_the_top() -> None:
    waits = ["the top waits", "", "gateway-6 waits", "gateway-7 waits"]
    servers = [SimpleNamespace(stuck=text) for text in waits]
    below = SimpleNamespace(in_order=lambda: iter(servers[1:]))
    world: Any = SimpleNamespace(server=servers[0], servers=below)
    stuck: Any = Tiers.stuck
    assert stuck.fget(world) == "the top waits; gateway-6 waits; gateway-7 waits"
    servers[0].stuck = ""
    assert stuck.fget(world) == "gateway-6 waits; gateway-7 waits"


def test_an_amount_of_a_gateway_is_the_sum_of_those_below_it() -> None:
    tree = hierarchy(5, [4, 2])
    sums = sum_below(tree, np.array([1.0, 2.0, 4.0, 8.0, 16.0]))
    for node, total in enumerate(sums[5:], 5):
        assert total == sums[tree.below[node].start : tree.below[node].stop].sum()
    assert sums[[*tree.levels[1]]].sum() == sums[[*tree.levels[2]]].sum() == 31.0


def test_a_gateway_has_no_loss_but_its_rounds() -> None:
    oracle = RoundsOracle(3)
    assert (oracle.rows, oracle.weight, oracle.random) == (3, 1.0, False)
    with pytest.raises(
        fedsim.RunError, match="the method needs `gradient` of a client's loss, which a gateway"
    ):
        oracle.gradient  # noqa: B018 - it raises


def test_where_all_clients_are_gone_the_run_ends_with_that_reason(tmp_path: Path) -> None:
    small = {"kind": "ideal", "up": "1 kbit/s", "down": "1 kbit/s", "energy_up": "1 mJ/bit"}
    dying = {"radio": small, "battery": {"capacity": f"{4.5 * BITS} mJ"}}
    made = scenario(local(tmp_path), {"count": 2}, fleet=[{"count": 5, **dying}])
    result = fedsim.run(made, out=tmp_path / "run")
    assert "no gateway can take part any more: no client below it (2)" in str(
        result.summary["reason"].item()
    )
