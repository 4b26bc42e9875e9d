"""What may be priced again: told of scenarios alone, without a run."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from fedsim.addons.repricing.conditions import PRICED, _goes_on, refusals
from fedsim.scenario import Scenario, Variant, load
from tests.tiers import every

from .prices import FLEET, small

CLIENTS = 5

OTHERS: dict[str, Any] = {
    "seed": 2,
    "seeds": 2,
    "problem": {**small()["problem"], "split": {"kind": "dirichlet", "alpha": 1.0}},
    "algorithm": {"kind": "gd", "step_size": 0.1},
    "participation": {"kind": "uniform", "count": 5},
    "silence": {"kind": "deadline", "after": "60 s"},
    "wire": {"values": "float64"},
    "measures": [{"kind": "sparsity"}],
    "observe": {"every": 2},
    "counting": "iterates",
    "models": {"every": 7},
    "precision": "float32",
    "evaluator": "compiled",
    "aggregation": {"kind": "median"},
    "secrecy": {"kind": "secagg"},
    "privacy": {"clip": 1.0, "noise": 1.0},
}
"""Something else for each block that training sees."""


def variant(**changes: Any) -> Variant:
    (made,) = load({**small(), **changes}).variants
    return made


def keys(then: Scenario, now: Variant, looks: Sequence[str] = ()) -> list[str]:
    return [fault.key for fault in refusals(then, now, CLIENTS, looks)]


def same(looks: Sequence[str] = (), **changes: Any) -> list[str]:
    """Return the keys that are refused although nothing has changed."""
    one = variant(**changes)
    return keys(one.scenario, one, looks)


PLAIN = variant()


def test_the_list_has_every_block_of_a_scenario_that_training_sees() -> None:
    assert {*OTHERS} == {*Scenario.model_fields} - {
        *PRICED,
        "variants",
        "baseline",
        "sweep",
        "tiers",
    }


def test_gateways_are_refused_where_only_one_of_the_two_has_them() -> None:
    averaging = {"algorithm": {"kind": "fedavg", "step_size": 0.1}}
    flat, tiers = variant(**averaging), variant(**averaging, tiers=[{"count": 2}])
    for then, now in ((flat, tiers), (tiers, flat)):
        assert keys(then.scenario, now) == ["tiers"]
    assert keys(tiers.scenario, tiers) == []


@every("name", OTHERS)
def test_whatever_is_no_matter_of_price_is_refused_whichever_of_the_two_says_it(name: str) -> None:
    other = variant(**{name: OTHERS[name]})
    for then, now in ((PLAIN, other), (other, PLAIN)):
        refused = keys(then.scenario, now)
        assert refused
        assert {key.partition(".")[0] for key in refused} <= {name, "participation", "silence"}


def test_malicious_clients_are_no_matter_of_price() -> None:
    true, false = {"count": 3}, {"count": 2, "attack": {"kind": "sign-flip"}}
    plain, attacked = variant(fleet=[{"count": 5}]), variant(fleet=[true, false])
    for then, now in ((plain, attacked), (attacked, plain)):
        assert keys(then.scenario, now) == ["fleet.attack"]
    radio = {"radio": "lte"}
    other = variant(fleet=[{"count": 1}, {"count": 2, **radio}, {**false, **radio}])
    assert keys(attacked.scenario, other) == []


def test_what_is_a_matter_of_price_may_change() -> None:
    other = variant(
        name="other",
        fleet=[{"count": CLIENTS, "device": "pi-4", "radio": "lte"}],
        network={"topology": "star", "server": {"uplink": "1 Mbit/s"}},
        infrastructure="mobile",
        stop={"rounds": 2},
    )
    assert keys(PLAIN.scenario, other) == []
    assert set(PRICED) == {"name", "fleet", "network", "infrastructure", "stop"}


def test_a_difference_is_named_where_it_is_deepest_and_a_block_of_another_kind_by_its_kind() -> (
    None
):
    deep = variant(problem={**small()["problem"], "loss": {**small()["problem"]["loss"], "l2": 7}})
    assert keys(PLAIN.scenario, deep) == ["problem.loss.l2"]
    assert keys(deep.scenario, PLAIN) == ["problem.loss.l2"]
    kind = variant(algorithm={"kind": "gd", "step_size": 0.1})
    assert keys(PLAIN.scenario, kind) == ["algorithm.kind"]


@every(
    ("wanted", "changes"),
    [
        ([], {}),
        ([], {"participation": {"kind": "uniform", "count": 3}}),
        ([], {"participation": {"kind": "uniform", "count": 5}}),
        (["silence.kind"], {"silence": {"kind": "deadline", "after": "60 s"}}),
        (["participation.deadline"], {"participation": {"kind": "full", "deadline": "60 s"}}),
        (["participation.quorum"], {"participation": {"kind": "full", "quorum": "50 %"}}),
        (["participation.over"], {"participation": {"kind": "uniform", "count": 3, "over": 1.5}}),
        (
            ["participation.least_charge"],
            {"participation": {"kind": "full", "least_charge": "30 %"}},
        ),
    ],
)
def test_every_rule_by_which_time_decides_is_refused_by_its_own_key_alone(
    wanted: list[str], changes: dict[str, Any]
) -> None:
    assert same(**changes) == wanted


@every("then", [True, False])
@every("now", [True, False])
def test_who_is_away_counts_as_it_is_now_and_a_battery_as_it_is_in_either(
    then: bool, now: bool
) -> None:
    """Who was away is in the log; a charge that was looked at is not what it would be now."""
    away = {"availability": {"kind": "markov", "on": "1 h", "off": "1 min"}}
    store = {"battery": {"capacity": "1 Wh"}}
    for part, looks, wanted in (
        (away, (), ["fleet.1.availability.kind"] if now else []),
        (store, ("battery",), ["algorithm.kind"] if now or then else []),
        (store, (), []),
    ):
        with_it = [FLEET[0], FLEET[1] | part]
        was, is_now = (variant(fleet=with_it if each else FLEET) for each in (then, now))
        assert keys(was.scenario, is_now, looks) == wanted


def test_a_method_that_has_looked_at_the_clock_is_refused_whatever_the_fleet() -> None:
    assert same(looks=("now",)) == ["algorithm.kind"]
    assert same(looks=("now", "battery")) == ["algorithm.kind"]  # nobody has a battery


@pytest.mark.parametrize(("count", "refused"), [(1, ["fleet"]), (2, []), (3, ["fleet"])])
def test_the_fleet_has_as_many_clients_as_the_log(count: int, refused: list[str]) -> None:
    fleet = [FLEET[0], FLEET[1] | {"count": count}]
    assert keys(PLAIN.scenario, variant(fleet=fleet)) == refused


@every(
    ("asked", "goal", "without"),
    [(None, 5, False), (None, 4, True), (3, 3, False), (3, 2, True), (9, 5, False), (9, 4, True)],
)
def test_a_rule_without_a_key_closes_early_where_it_needs_fewer_than_it_asks(
    asked: int | None, goal: int, without: bool
) -> None:
    rule: Any = SimpleNamespace(asked=asked, goal=lambda _: goal)
    assert _goes_on(rule, CLIENTS) == without
