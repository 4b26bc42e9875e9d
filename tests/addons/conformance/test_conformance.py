"""Every method stands every world, or the scenario is refused with the reason."""

import re

import pandas as pd
import pytest

from fedsim.addons.conformance import check_algorithm
from fedsim.algorithms import ALGORITHMS
from fedsim.core.blocks.registry import kinds_of
from tests.methods import AVERAGES, METHODS, PEERS, scenario, the_class
from tests.tiers import some

WORSE = {
    # A model stands for all that its sender knows, and most of it is not there, without memory.
    "nids": ["rand-k"],
    # Multipliers add up to 0 only while both ends of an edge have the same models, and a node jumps
    # to a minimum of what it has.
    "coke": ["late replies, kept", "rand-k"],
    # Lost mass is never given back, and gradients are taken at a model divided by it.
    "sgp": ["messages lost for good"],
}
"""The worlds in which a method goes away from the optimum, as its theory lets it."""


def test_every_method_is_tried() -> None:
    assert {*METHODS, *PEERS} == {kind for model in ALGORITHMS for kind in kinds_of(model)}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")
@pytest.mark.parametrize("kind", some([*METHODS, *PEERS], "chb", "fedsgm", "scaffold"))
def test_a_method_stands_every_world_or_is_refused_with_the_reason(kind: str) -> None:
    table = check_algorithm(scenario(kind)).set_index("world")
    assert set(table["outcome"]) <= {"done", "refused"}, table[["outcome", "reason"]].to_string()
    assert table["outcome"]["no trouble"] == "done"
    done = table[table["outcome"] == "done"]
    assert (done["rounds"] > 0).all()
    spared = [] if the_class(kind).asks_all else ["sampled clients"]  # it samples by itself
    trouble = done["trouble"].drop(index=spared).dropna()
    assert (trouble > 0).all(), "a world that was meant to be hard was not"
    if kind not in AVERAGES:  # they average drawn vectors, whatever the objective
        better = done["last"] <= done["first"].max()
        assert sorted(better[~better].index) == WORSE.get(kind, []), done.to_string()
    refused = table[table["outcome"] == "refused"]
    for reason in refused["reason"]:
        assert re.match(r"(participation|wire|silence|algorithm|fleet)\.\S+: (got|a) ", reason)
    check_what_is_always_possible(kind, table)


def check_what_is_always_possible(kind: str, table: pd.DataFrame) -> None:
    """Some troubles no method is spared by a refusal, unless it needs all clients."""
    for world in ("packets sent again", "a client that dies"):
        assert table["outcome"][world] == "done", (kind, world, table["reason"][world])
