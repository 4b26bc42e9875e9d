"""Do the intervals of `fedsim robust` hold the truth at their rate, on studies of real runs?

    python analysis/interval_coverage.py [--seeds N] [--worlds N] [--draws N] [--out DIR]
    python analysis/interval_coverage.py --ratios [--draws N]

Each study is run under many seeds, and priced in many worlds. The shares of seeds x worlds in which
one variant is cheaper, and of worlds in which it typically is, are the truth: they are counted and
not estimated. Then small studies are drawn from that pool, a few of its seeds and of its worlds,
and each says what it knows: the share of their intervals that hold the truth is to be 90 % or more.
Prints a table in Markdown. With --out the runs and their prices are kept.

The interval that worlds alone would give, as if the seeds at hand were all there are, stands beside
it: it is what the intervals were before they knew two levels.

With --ratios nothing is run: logarithms of ratios of costs are drawn from laws whose median is 0,
and the intervals of `fedsim compare` are counted that hold it, beside those of Student, of the sign
test and of the bootstrap; and the verdicts that are wrong, with all seeds and with some that did
not reach the target.
"""

import argparse
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from scipy import stats

import fedsim
from fedsim.addons.repricing.history import Original
from fedsim.addons.robustness.confidence import interval, of_a_run, of_the_typical
from fedsim.addons.robustness.design import Design
from fedsim.addons.robustness.pricing import FinishedRun, price
from fedsim.addons.robustness.uncertain_inputs import constants_of
from fedsim.core.ports import Array
from fedsim.results.analysis import cost_to_target
from fedsim.results.analysis.compare.cost_tables import Target
from fedsim.results.analysis.compare.pairwise import compare_seeds, fewest_seeds, log_ratios
from fedsim.results.record.read import run_folders

SEEDS, WORLDS = 5, 256
"""Of a small study."""

COSTS = {"t": "time", "joules": "energy"}


@dataclass(frozen=True)
class Study:
    """A scenario whose seeds differ, and which of its variants are compared.

    Attributes:
        title: what the table calls it.
        scenario: a name of the catalogue, or a file below scenarios.
        overrides: of the scenario.
        pairs: a variant, and the one that it is compared with.
    """

    title: str
    scenario: str
    overrides: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]


def _chb(censor: float, step: str) -> dict[str, Any]:
    return {"kind": "chb", "step_size": step, "momentum": 0.4, "censor": censor}


def _variants(**changed: dict[str, Any]) -> str:
    """Return the override that gives a study these variants."""
    return f"variants={json.dumps(changed)}"


_QSGD = {"compressor": {"kind": "qsgd", "levels": 128}}

STUDIES = (
    Study(
        "censoring, rows dealt at random: seeds decide",
        "censoring.yaml",
        (
            "problem.split={kind: dirichlet, alpha: 2}",
            "stop.gap=1e-2",
            _variants(chb={}, hb={"algorithm": "hb"}, harsh={"algorithm": _chb(1.0, "1/L")}),
        ),
        (("harsh", "hb"), ("harsh", "chb")),
    ),
    Study(
        "honest bits on LTE: constants decide",
        "studies/honest-bits.yaml",
        (
            _variants(
                qsgd={
                    "algorithm": {"step_size": "2.5/L"},
                    "wire": {"up": {**_QSGD, "error_feedback": "ef21"}},
                },
                chb={"algorithm": _chb(0.1, "2.5/L")},
                both={"algorithm": _chb(0.1, "2.5/L"), "wire": {"up": _QSGD}},
            ),
        ),
        (("both", "chb"), ("qsgd", "chb"), ("qsgd", "base")),
    ),
)

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Row:
    """What intervals of one kind do for one comparison.

    Attributes:
        study, pair, cost, kind: of what.
        truth: the probability, counted over the whole pool.
        held: the share of intervals that hold it.
        width: of an interval, their mean.
        alone: the share of intervals of worlds alone that hold it.
    """

    study: str
    pair: tuple[str, str]
    cost: str
    kind: str
    truth: float
    held: float
    width: float
    alone: float


Pool = dict[tuple[str, str], Array]
"""Variant and cost -> what it takes under each seed in each world, shape (S, W)."""


def pool(study: Study, seeds: int, worlds: int, out: Path) -> Pool:
    """Run a study under many seeds, and price its runs in worlds that are common to all.

    Args:
        study: see `Study`.
        seeds: how many, S.
        worlds: how many, W.
        out: where runs go; those that are there are kept.
    """
    overrides = [*study.overrides, f"seeds={seeds}"]
    result = fedsim.run(ROOT / "scenarios" / study.scenario, out=out, overrides=overrides)
    target = Target.usual(result)
    costs = cost_to_target(result.rounds, target.value)
    keys = zip(costs["variant"], costs["seed"], strict=True)
    reached = dict(zip(keys, costs["round"].to_numpy(float), strict=True))
    folders = run_folders(result.folder)
    constants = constants_of([Original.of(folder, ()).scenario for folder in folders], {})
    design = Design.of(constants, worlds, seed=1, runs=worlds)
    drawn, found = design.world(slice(0, worlds)), dict[tuple[str, str], list[Array]]()
    for folder in track(folders, console=Console(stderr=True)):
        variant, seed = folder.parent.name, int(folder.name.removeprefix("seed-"))
        look = reached[variant, seed]
        known = None if np.isnan(look) else int(look)
        run = FinishedRun(folder, variant, seed, known, bits=0.0, target=target)
        for cost, values in price(run, drawn, worlds)._asdict().items():
            found.setdefault((variant, cost), []).append(values)
    return {key: np.array(values) for key, values in found.items()}


def rows(study: Study, known: Pool, draws: int, rng: np.random.Generator) -> Iterator[Row]:
    """Yield what the intervals of small studies are worth, for each comparison and kind.

    Args:
        study: whose pool it is.
        known: the pool.
        draws: how many small studies are drawn.
        rng: draws them.
    """
    for one, other in study.pairs:
        for cost in COSTS:
            logs = log_ratios(known[one, cost], known[other, cost])
            for kind, covered in (
                ("P(run cheaper)", run_coverage),
                ("P(mean cheaper)", typical_coverage),
            ):
                yield Row(study.title, (one, other), cost, kind, *covered(logs, draws, rng))


def run_coverage(logs: Array, draws: int, rng: np.random.Generator) -> tuple[float, ...]:
    """Draw small studies for the probability that one run is cheaper."""
    truth = float((logs < 0).mean())
    return _covered(truth, [_two_ways(each, one_run=True) for each in _drawn(logs, draws, rng)])


def typical_coverage(logs: Array, draws: int, rng: np.random.Generator) -> tuple[float, ...]:
    """Draw small studies for the probability that the typical run is cheaper in a world."""
    truth = float((logs.mean(axis=0) < 0).mean())
    return _covered(truth, [_two_ways(each, one_run=False) for each in _drawn(logs, draws, rng)])


def _two_ways(logs: Array, *, one_run: bool) -> tuple[float, ...]:
    """Return the interval of both levels, and that of the worlds alone."""
    typical = logs.mean(axis=0)
    found = of_a_run(logs) if one_run else of_the_typical(logs, typical)
    share = float((logs < 0).mean()) if one_run else float((typical < 0).mean())
    return *found[1:], *interval(share, logs.shape[1])


def _drawn(logs: Array, draws: int, rng: np.random.Generator) -> Iterator[Array]:
    """Yield small studies: seeds and worlds of a pool, each drawn independently of the others."""
    seeds, worlds = logs.shape
    for _ in range(draws):
        chosen = rng.integers(seeds, size=SEEDS), rng.integers(worlds, size=WORLDS)
        yield logs[np.ix_(*chosen)]


def _covered(truth: float, ends: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
    """Return the truth, how many intervals hold it, their width, and how many of worlds alone."""
    low, high, low_alone, high_alone = np.array(ends).T
    held = float(((low <= truth) & (truth <= high)).mean())
    alone = float(((low_alone <= truth) & (truth <= high_alone)).mean())
    return truth, held, float((high - low).mean()), alone


def page(found: Sequence[Row]) -> str:
    """Return the rows as a table in Markdown: a line a comparison and cost, both kinds in it."""
    kinds = tuple(dict.fromkeys(row.kind for row in found))
    heads = ["study", "comparison", "cost"]
    for kind in kinds:
        heads += [kind, "holds in", "worlds alone"]
    lines = list[list[str]]()
    for first in range(0, len(found), len(kinds)):
        row, *_ = own = found[first : first + len(kinds)]
        cells = [row.study, f"{row.pair[0]} below {row.pair[1]}", COSTS[row.cost]]
        for each in own:
            cells += [f"{each.truth:.3f}", f"{each.held:.1%}", f"{each.alone:.1%}"]
        lines.append(cells)
    return _markdown(heads, lines)


# Ratios of costs, over seeds alone.

Draw = Callable[[np.random.Generator, tuple[int, int]], Array]

LAWS: dict[str, Draw] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "lognormal 1.5": lambda rng, shape: np.exp(1.5 * rng.standard_normal(shape)) - 1,
    "5 % outliers": lambda rng, shape: (
        rng.standard_normal(shape) * np.where(rng.random(shape) < 0.05, 10.0, 1.0)
    ),
    "two kinds": lambda rng, shape: (
        rng.choice([-1.0, 1.0], shape) + 0.1 * rng.standard_normal(shape)
    ),
}
"""Of the logarithm of a ratio, each with the median 0. Of two kinds of seeds, each is as frequent
as the other: as many seeds as there are may be of one kind, and then nothing shows the other."""

COUNTS = (2, 3, 4, 5, 6, 8, 10, 15, 20, 30)
_RESAMPLES, _FEW_DRAWS = 500, 1000  # of the bootstrap, which takes long


def ratio_rows(draws: int, rng: np.random.Generator) -> Iterator[list[str]]:
    """Yield for each law and number of seeds how many intervals hold the median, and the errors.

    Args:
        draws: how many sets of seeds are drawn.
        rng: draws them.
    """
    for law, draw in LAWS.items():
        for count in COUNTS:
            logs = draw(rng, (draws, count))
            found = compare_seeds(logs)
            every = (found.cheaper == count) | (found.costlier == count)
            shares = [
                _holds(logs.mean(axis=1) - _student(logs), logs.mean(axis=1) + _student(logs)),
                _holds(*_bootstrap(logs[:_FEW_DRAWS], rng)),
                _holds(*_between_ranks(logs)),
                _holds(found.low - 1, found.high - 1),
                float(every.mean()),
                float((found.p_value <= 0.05).mean()),
            ]
            yield [law, str(count), *("-" if np.isnan(own) else f"{own:.1%}" for own in shares)]


def unreached_rows(draws: int, rng: np.random.Generator) -> Iterator[list[str]]:
    """Yield the errors where each run of two equal methods misses the target with some chance."""
    for missed in (0.1, 1 / 3, 0.6):
        for count in COUNTS:
            costs = rng.random((2, draws, count))
            costs[rng.random(costs.shape) < missed] = np.inf
            found = compare_seeds(log_ratios(*costs))
            some = found.exact & (found.seeds > 1)
            agree = np.maximum(found.cheaper, found.costlier) == found.seeds
            shares = float(agree[some].mean()), float((found.p_value[some] <= 0.05).mean())
            yield [f"{missed:.0%}", str(count), *(f"{own:.1%}" for own in shares)]


def _holds(low: Array, high: Array) -> float:
    """Return the share of intervals that hold 0; NaN if there are none."""
    return np.nan if np.isnan(low).any() else float(((low <= 0) & (high >= 0)).mean())


def _student(logs: Array) -> Array:
    count = logs.shape[1]
    return np.asarray(stats.t.ppf(0.975, count - 1) * stats.sem(logs, axis=1))


def _bootstrap(logs: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return the percentile intervals of the median over resampled seeds."""
    chosen = rng.integers(logs.shape[1], size=(_RESAMPLES, logs.shape[1]))
    low, high = np.quantile(np.median(logs[:, chosen], axis=2), (0.025, 0.975), axis=1)
    return low, high


def _between_ranks(logs: Array) -> tuple[Array, Array]:
    """Return the intervals of the sign test; NaN with too few seeds."""
    count, ordered = logs.shape[1], np.sort(logs, axis=1)
    if count < fewest_seeds(0.95):
        return np.full(len(logs), np.nan), np.full(len(logs), np.nan)
    rank = int(stats.binom.ppf(0.025, count, 0.5))
    rank -= stats.binom.cdf(rank, count, 0.5) > 0.025
    return ordered[:, rank], ordered[:, count - 1 - rank]


def ratio_page(draws: int) -> str:
    """Return both tables in Markdown."""
    rng = np.random.default_rng(1)
    heads = ["law", "seeds", "Student", "bootstrap", "sign", "fedsim", "all agree", "wrong"]
    first = _markdown(heads, ratio_rows(draws, rng))
    missed = _markdown(["not reached", "seeds", *heads[-2:]], unreached_rows(draws, rng))
    return f"{first}\n\n{missed}"


def _markdown(heads: Sequence[str], found: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    return "\n".join([*lines, *(f"| {' | '.join(own)} |" for own in found)])


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and price the pools, draw from them, and print what the intervals hold."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=40, help="of a pool")
    parser.add_argument("--worlds", type=int, default=2048, help="of a pool, at the least")
    parser.add_argument("--draws", type=int, default=1000, help="small studies of each comparison")
    parser.add_argument("--out", type=Path, help="keep runs and prices here")
    parser.add_argument("--ratios", action="store_true", help="of ratios over seeds; no run")
    asked = parser.parse_args(arguments)
    if asked.ratios:
        print(ratio_page(20 * asked.draws))
        return
    rng, found = np.random.default_rng(1), list[Row]()
    with tempfile.TemporaryDirectory() as aside:
        for number, study in enumerate(STUDIES):
            place = (asked.out or Path(aside)) / str(number)
            known = pool(study, asked.seeds, asked.worlds, place)
            found += rows(study, known, asked.draws, rng)
    print(
        f"{asked.draws:,} studies of {SEEDS} seeds and {WORLDS} worlds a row, drawn from"
        f" {asked.seeds} seeds and {asked.worlds:,} worlds\n\n{page(found)}"
    )


if __name__ == "__main__":
    main()
