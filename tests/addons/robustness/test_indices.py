"""Sobol' indices of functions whose indices are known in closed form, by the path of a study."""

from collections.abc import Callable
from math import exp, pi
from pathlib import Path

import numpy as np
import pytest

from fedsim.addons.robustness.api import _remarks
from fedsim.addons.robustness.constants import ConstantKey, UncertainConstant
from fedsim.addons.robustness.design import Design
from fedsim.addons.robustness.pricing import PriceStore
from fedsim.addons.robustness.saltelli import FEWEST, Saltelli
from fedsim.addons.robustness.verdicts import CostTable, deciding
from fedsim.core.ports import Array
from tests.tiers import every

WEIGHTS = np.array([1.0, 2.0, 3.0, 0.5, 0.0, 0.0])
SIZES = np.array([0.0, 1.0, 4.5, 9.0, 99.0])
LEAST = 8 * FEWEST
"""Worlds from which there are indices."""


def linear(shares: Array) -> Array:
    return np.asarray(shares @ WEIGHTS)


def ishigami(shares: Array) -> Array:
    """Ishigami and Homma 1990, with a = 7 and b = 0.1."""
    one, two, three = (pi * (2 * shares - 1)).T
    return np.asarray(np.sin(one) + 7 * np.sin(two) ** 2 + 0.1 * three**4 * np.sin(one))


def g_function(shares: Array) -> Array:
    """Sobol' 1990; Saltelli and Sobol' 1995."""
    return np.asarray(np.prod((np.abs(4 * shares - 2) + SIZES) / (1 + SIZES), axis=1))


def of_linear() -> tuple[Array, Array]:
    own = WEIGHTS**2 / (WEIGHTS**2).sum()
    return own, own


def of_ishigami() -> tuple[Array, Array]:
    first = np.array([0.5 * (1 + pi**4 / 50) ** 2, 49 / 8, 0.0])
    both = pi**8 / 100 * (1 / 18 - 1 / 50)  # of the first and the third
    whole = first.sum() + both
    return first / whole, (first + np.array([both, 0.0, both])) / whole


def of_g() -> tuple[Array, Array]:
    own = 1 / (3 * (1 + SIZES) ** 2)
    whole = np.prod(1 + own) - 1
    others = np.array([np.prod(np.delete(1 + own, number)) for number in range(len(own))])
    return own / whole, own * others / whole


FUNCTIONS: dict[str, tuple[Callable[[Array], Array], tuple[Array, Array]]] = {
    "linear": (linear, of_linear()),
    "Ishigami": (ishigami, of_ishigami()),
    "g-function": (g_function, of_g()),
}


def constants(count: int) -> tuple[UncertainConstant, ...]:
    keys = [ConstantKey(("radio", "toy", f"c{number}")) for number in range(count)]
    return tuple(
        UncertainConstant(key, exp(0.5), 1.0, exp(1.0), "s", "lit", "a toy") for key in keys
    )


def study(function: Callable[[Array], Array], design: Design) -> CostTable:
    """Return two variants under two seeds, whose typical log ratio is a function of the shares."""
    logs = function(np.log(design.values).T)
    costs = np.ones((2, 2, design.count))
    costs[0] = np.exp(np.array([logs + 0.3, logs - 0.3]))
    return CostTable(["a", "b"], [1, 2], {"t": costs}, np.ones((2, 2)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_indices_are_those_of_the_closed_form_and_their_intervals_hold_them(name: str) -> None:
    function, expected = FUNCTIONS[name]
    within, draws = 0, 8
    for seed in range(1, draws + 1):
        design = Design.of(constants(len(expected[0])), LEAST, seed)
        known = deciding(study(function, design), design, 1)
        for head, truth in zip(("first", "total"), expected, strict=True):
            off = np.abs(known[head].to_numpy() - truth)
            within += int((off <= known[f"{head}_error"] + 1e-3).sum())
    assert within >= 0.9 * draws * 2 * len(expected[0])


def test_four_times_the_worlds_are_nearer() -> None:
    for function, expected in FUNCTIONS.values():
        design = Design.of(constants(len(expected[0])), 4 * LEAST, 1)
        known = deciding(study(function, design), design, 1)
        for head, truth in zip(("first", "total"), expected, strict=True):
            np.testing.assert_allclose(known[head], truth, atol=0.03)
            assert known[f"{head}_error"].max() < 0.1


def test_a_design_that_is_not_saltellis_has_no_indices_whatever_divides_its_worlds() -> None:
    for count in (1, 2, 5):
        for runs in range(1, 30):
            design = Design.of(constants(count), 1, 1, runs=runs)
            table = study(lambda shares: shares.sum(axis=1), design)
            assert design.indices(np.zeros(design.count)) is None
            assert deciding(table, design, 1).empty


@every("worlds", [1, 30, 1000, LEAST // 2])
def test_too_few_worlds_have_ends_but_no_indices(worlds: int) -> None:
    design = Design.of(constants(3), worlds, 1)
    known = deciding(study(lambda shares: shares.sum(axis=1), design), design, 1)
    assert known[["first", "first_error", "total", "total_error"]].isna().all(axis=None)
    np.testing.assert_allclose(np.log(known["at_high"] / known["at_low"]), 1.0)


def test_worlds_of_the_design_are_where_the_indices_expect_them() -> None:
    """Swap one constant of A for B's, and nothing else: the rule of the mixed points."""
    part = Saltelli(("a", "b", "c"), LEAST // 2, 3)
    drawn, mixed = part.shares
    one, other = drawn[: part.points], drawn[part.points :]
    assert mixed.shape == (part.base * 3, 3)
    for number in range(3):
        own = mixed[number::3]
        expected = one[: part.base].copy()
        expected[:, number] = other[: part.base, number]
        np.testing.assert_array_equal(own, expected)


def test_what_does_not_vary_has_indices_of_zero_and_what_is_unknown_none() -> None:
    design = Design.of(constants(2), LEAST, 1)
    nothing = design.indices(np.zeros(design.count))
    assert nothing is not None
    assert not np.any(nothing["total"])
    values = np.zeros(design.count)
    values[0] = np.nan
    unknown = design.indices(values)
    assert unknown is not None
    assert np.isnan(unknown["first"]).all()


def test_worlds_that_cannot_be_priced_are_noted_with_their_share_of_the_sampled_ones() -> None:
    design = Design.of(constants(2), 4, 1)
    table = study(lambda shares: shares[:, 0], design)
    table.costs["t"][1, :, :1] = np.nan
    table.costs["t"][1, 1, 1:2] = np.nan  # under one seed is enough
    (note,) = (each for each in _remarks({}, design, table) if "left out" in each)
    assert design.drawn == 4
    assert note.startswith("b: in 50 % of the worlds a battery runs low")


@pytest.mark.parametrize(("count", "start"), [(1, "1 file was"), (3, "3 files were")])
def test_damaged_prices_are_counted_in_a_note(count: int, start: str, tmp_path: Path) -> None:
    store = PriceStore(tmp_path)
    assert store.remarks == []
    store.damaged.update(f"{number}.prices" for number in range(count))
    folder = tmp_path / "prices"
    assert store.remarks == [f"{start} damaged in {folder}: their runs were re-priced"]
