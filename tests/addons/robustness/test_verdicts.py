"""A world in which all is known in closed form: the log of a ratio is linear in the constants."""

from collections.abc import Collection
from math import exp, log

import numpy as np
import pytest

from fedsim.addons.robustness.break_even import flips
from fedsim.addons.robustness.confidence import interval
from fedsim.addons.robustness.constants import ConstantKey, UncertainConstant
from fedsim.addons.robustness.design import Design, Worlds
from fedsim.addons.robustness.verdicts import CostTable, deciding, fronts, verdicts

WEIGHTS = np.array([1.0, 2.0, 3.0])
"""Of the three constants, each from 1 to e: the log ratio is WEIGHTS @ shares - LEVEL."""
LEVEL = 2.0


def constants(count: int = 3) -> tuple[UncertainConstant, ...]:
    keys = [ConstantKey(("radio", "toy", f"c{number}")) for number in range(count)]
    return tuple(
        UncertainConstant(key, exp(0.5), 1.0, exp(1.0), "s", "lit", "a toy") for key in keys
    )


def toy(design: Design | Worlds, noise: tuple[float, ...] = (0.0,)) -> CostTable:
    """Return what two variants cost: B one second, A exp(w . u - level + noise of the seed)."""
    shares = np.log(design.values)
    ratio = WEIGHTS[: len(shares)] @ shares - LEVEL
    costs = np.ones((2, len(noise), design.count))
    for seed, value in enumerate(noise):
        costs[0, seed] = np.exp(ratio + value)
    bits = np.ones((2, len(noise)))
    return CostTable(["a", "b"], range(len(noise)), {"t": costs, "joules": costs}, bits)


def again(worlds: Worlds, names: Collection[str]) -> CostTable:
    """Price in further worlds, as `flips` asks for it."""
    assert set(names) == {"a", "b"}
    return toy(worlds)


def truth() -> float:
    """P(1 u + 2 v + 3 w < 2), by the volume that a plane cuts off a cube, in closed form."""
    a, b, c = WEIGHTS
    parts = [LEVEL, LEVEL - a, LEVEL - b, LEVEL - c, LEVEL - a - b, LEVEL - a - c, LEVEL - b - c]
    signs = [1, -1, -1, -1, 1, 1, 1]
    cubes = sum(sign * max(part, 0.0) ** 3 for sign, part in zip(signs, parts, strict=True))
    return float(cubes / (6 * a * b * c))


def test_probability_indices_and_flips_are_those_of_the_closed_form() -> None:
    design = Design.of(constants(), 8_192, seed=3)
    table = toy(design)
    row = verdicts(table, slice(0, design.drawn), design.drawn).iloc[0]
    assert row["probability"] == pytest.approx(truth(), abs=0.005)
    assert row["probability_low"] <= truth() <= row["probability_high"]
    assert row["ratio"] == pytest.approx(exp(WEIGHTS.sum() / 2 - LEVEL))
    known = deciding(table, design, 1)
    expected = WEIGHTS**2 / (WEIGHTS**2).sum()  # of a linear model, Var(w u) = w^2 / 12
    own = known[known["cost"] == "t"]
    np.testing.assert_allclose(own["first"], expected, atol=0.02)
    np.testing.assert_allclose(own["total"], expected, atol=0.02)
    np.testing.assert_allclose(
        np.log(own["at_high"].to_numpy() / own["at_low"].to_numpy()), WEIGHTS, rtol=1e-12
    )
    turns = flips(table, design, 1, again)
    still = turns[turns["value"].isna() & (turns["cost"] == "t")]
    turns = turns[turns["value"].notna() & (turns["cost"] == "t")]
    # With the others in the middle, at a half, w_i u_i = level - (sum - w_i) / 2 turns it round.
    inner = [(LEVEL - (WEIGHTS.sum() - own) / 2) / own for own in WEIGHTS]
    expected_turns = {f"toy.c{i}": exp(u) for i, u in enumerate(inner) if 0 < u < 1}
    assert dict(zip(turns["constant"], turns["value"], strict=True)) == pytest.approx(
        expected_turns
    )
    assert set(turns["wins"]) == {"below"}
    assert set(turns["unit"]) == {"s"}
    # Those that cannot turn it say so, with the ratio at the ends of their interval.
    assert list(still["constant"]) == ["toy.c0", "toy.c1"]
    row = still.iloc[0]
    assert row["wins"] == "none"
    assert (row["low"], row["high"]) == (1.0, pytest.approx(exp(1.0)))
    assert row["ratio_low"] == pytest.approx(exp(WEIGHTS[1:].sum() / 2 - LEVEL))


@pytest.mark.slow
def test_intervals_cover_the_probability_as_often_as_they_say() -> None:
    covered, count = 0, 100
    for seed in range(1, count + 1):
        design = Design.of(constants(), 300, seed)
        row = verdicts(toy(design), slice(0, design.drawn), design.drawn).iloc[0]
        covered += row["probability_low"] <= truth() <= row["probability_high"]
    assert covered / count >= 0.9


def test_a_turn_is_found_by_pricing_where_it_is_and_not_between_sampled_worlds() -> None:
    """A ratio that jumps, and one that is far from straight: both turn where they do."""

    def priced(worlds: Design | Worlds) -> CostTable:
        share = np.log(worlds.values[0])
        costs = np.ones((2, 1, worlds.values.shape[1]))
        jump = np.where(share < 0.3141592653, 0.5, 4.0)
        bent = np.exp(share**9 - 0.5**9)
        return CostTable(
            ["a", "b"],
            [1],
            {
                "t": costs * np.array([jump, np.ones_like(jump)])[:, None],
                "joules": costs * np.array([bent, np.ones_like(jump)])[:, None],
            },
            np.ones((2, 1)),
        )

    design = Design.of(constants(1), 4, seed=1)
    found = flips(priced(design), design, 1, lambda worlds, _: priced(worlds))
    values = np.log(found["value"].to_numpy(float))
    assert list(found["cost"]) == ["t", "joules"]
    assert values[0] == pytest.approx(0.3141592653, abs=2e-6)
    assert values[1] == pytest.approx(0.5, abs=1e-9)
    assert list(found["wins"]) == ["below", "below"]


@pytest.mark.parametrize(
    "hole", [(0.13, 0.15), (0.14, 0.1875), (0.155, 0.18), (0.1, 0.16), (0.1666, 0.1667), (0.2, 0.5)]
)
def test_worlds_without_a_price_are_no_turn_and_hide_none(hole: tuple[float, float]) -> None:
    """A battery that runs low leaves a world without a price, here on a part of the third line.

    With the other constants as written the log ratio is linear, and turns at a share of 1/6: the
    value lies between worlds that have a price, and is interpolated.
    """

    def priced(worlds: Design | Worlds) -> CostTable:
        table, shares = toy(worlds), np.log(worlds.values)
        alone = (shares[:2] == 0.5).all(axis=0)
        table.costs["t"][:, :, alone & (hole[0] < shares[2]) & (shares[2] < hole[1])] = np.nan
        return table

    design = Design.of(constants(), 64, seed=3)
    found = flips(priced(design), design, 1, lambda worlds, _: priced(worlds))
    (row,) = found[(found["cost"] == "t") & (found["constant"] == "toy.c2")].to_dict("records")
    assert row["wins"] == "below"
    assert np.log(row["value"]) == pytest.approx(1 / 6, abs=1e-6)


@pytest.mark.slow
def test_independent_worlds_cover_it_as_well() -> None:
    covered, count = 0, 100
    for seed in range(1, count + 1):
        design = Design(constants(), 30, seed, lines=False)
        assert design.drawn == 30
        row = verdicts(toy(design), slice(0, design.drawn), design.drawn).iloc[0]
        covered += row["probability_low"] <= truth() <= row["probability_high"]
    assert covered / count >= 0.9


def test_the_interval_is_that_of_clopper_and_pearson() -> None:
    # No success in n trials: the upper end solves (1 - p)^n = 5 %.
    assert interval(0.0, 50) == pytest.approx((0.0, 1 - 0.05 ** (1 / 50)))
    assert interval(1.0, 50) == pytest.approx((0.05 ** (1 / 50), 1.0))


def test_noise_of_training_is_told_from_doubt_of_the_world() -> None:
    design = Design.of(constants(), 2_000, seed=1)
    noise = (-0.8, -0.1, 0.0, 0.9)
    row = verdicts(toy(design, noise), slice(0, design.drawn), design.drawn).iloc[0]
    training, doubt = np.var(noise, ddof=1), (WEIGHTS**2).sum() / 12
    assert row["noise"] == pytest.approx(training / (training + doubt), abs=0.01)
    assert row["seeds"] == 4
    alone = verdicts(toy(design), slice(0, design.drawn), design.drawn).iloc[0]
    assert np.isnan(alone["noise"])


def test_two_sides_of_a_pair_share_the_worlds() -> None:
    design = Design.of(constants(), 500, seed=2)
    rows = verdicts(toy(design), slice(0, design.drawn), design.drawn)
    both = rows[rows["cost"] == "joules"]["probability"].sum()
    assert both == pytest.approx(1.0)
    front = fronts(toy(design), slice(0, design.drawn)).set_index("variant")
    # Bits are the same: in every world the one that is faster is the front.
    assert front["optimal"].sum() == pytest.approx(1.0)
    assert front.loc["a", "t"] == pytest.approx(rows.iloc[0]["probability"])


def test_who_never_gets_there_is_in_no_verdict_and_on_no_front() -> None:
    design = Design.of(constants(), 500, seed=2)
    table = toy(design)
    table.costs["t"][0] = table.costs["joules"][0] = np.nan
    row = verdicts(table, slice(0, design.drawn), design.drawn).iloc[0]
    assert np.isnan(row["probability"])
    front = fronts(table, slice(0, design.drawn)).set_index("variant")["optimal"]
    assert front.to_dict() == {"a": 0.0, "b": 1.0}
    assert flips(table, design, 1, again).empty


@pytest.mark.parametrize("count", [1, 2, 5])
def test_worlds_are_a_function_of_their_seed_and_lie_within_the_intervals(count: int) -> None:
    one, other = (Design.of(constants(count), 1000, seed=4).values for _ in range(2))
    assert one.tobytes() == other.tobytes()
    assert not np.array_equal(one, Design.of(constants(count), 1000, seed=5).values)
    assert one.min() >= 1.0
    assert one.max() <= exp(1.0) * (1 + 1e-15)
    assert Design.of(constants(count), 1000, seed=4).drawn >= 1000
    drawn = np.log(one[:, : Design.of(constants(count), 1000, seed=4).drawn])
    # Log-uniform: the mean of the logarithm is the middle, and its variance a twelfth.
    np.testing.assert_allclose(drawn.mean(axis=1), 0.5, atol=0.02)
    np.testing.assert_allclose(drawn.var(axis=1), 1 / 12, rtol=0.1)


def test_what_may_be_zero_is_uniform() -> None:
    constant = UncertainConstant(
        ConstantKey(("radio", "toy", "c")), 1.0, 0.0, 4.0, "s", "est", "a toy"
    )
    assert constant.at(np.array([0.0, 0.25, 1.0])).tolist() == [0.0, 1.0, 4.0]
    positive = constants()[0]
    assert positive.at(np.array([0.5]))[0] == pytest.approx(exp(0.5))
    assert positive.share(exp(0.25)) == pytest.approx(0.25)
    assert constant.share(3.0) == pytest.approx(0.75)
    assert log(positive.high) == pytest.approx(1.0)
