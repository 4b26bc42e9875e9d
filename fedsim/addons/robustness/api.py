"""The functions `robust(folder) -> Robustness` and `draw_worlds(scenario, count)`."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedsim.addons.repricing.history import Original
from fedsim.addons.robustness.break_even import flips
from fedsim.addons.robustness.confidence import interval
from fedsim.addons.robustness.design import Design, Worlds
from fedsim.addons.robustness.pricing import (
    Costs,
    FinishedRun,
    PriceStore,
    hindrance,
    overridden,
)
from fedsim.addons.robustness.result import Robustness
from fedsim.addons.robustness.saltelli import FEWEST
from fedsim.addons.robustness.tasks import Pricing
from fedsim.addons.robustness.uncertain_inputs import Intervals, constants_of
from fedsim.addons.robustness.verdicts import CostTable
from fedsim.core.blocks.spec import Spec
from fedsim.core.blocks.wording import nearest
from fedsim.core.errors import DataError
from fedsim.core.text import format_number
from fedsim.results.analysis.compare.caveats import run_hashes
from fedsim.results.analysis.compare.cost_tables import Target
from fedsim.results.analysis.compare.pairwise import PRACTICAL
from fedsim.results.analysis.compare.runs import EndedRuns, gather
from fedsim.results.analysis.costs import with_bits
from fedsim.results.record.summary import is_whole
from fedsim.running.cluster import check_choice
from fedsim.scenario import load

WORLDS = 2048
"""Default least number of sampled worlds: the 90 % interval of a probability then extends at most
2 % to either side, as far as worlds are concerned, and Sobol' indices can be estimated."""


def robust(
    folder: str | Path,
    *,
    target: str | None = None,
    against: str | None = None,
    worlds: int = WORLDS,
    seed: int = 1,
    intervals: Intervals | None = None,
    runs: int = 0,
    out: str | Path | None = None,
    blocks: Sequence[type[Spec]] = (),
    jobs: int = 1,
    executor: Executor | None = None,
    cluster: str | None = None,
    base: str | Path | None = None,
    practical: float = PRACTICAL,
) -> Robustness:
    """Find which conclusions of a study survive the uncertainty of its constants.

    Args:
        folder: written by `run`.
        target: such as "gap=1e-5"; chosen as by `compare` if None.
        against: the variant that the others are compared with; if None, the baseline of the
            scenario. Without one, it is the first in tables, and in the answer the next cheapest.
        worlds: least number of samples of the constants; in each, runs are re-priced, not trained.
        seed: the seed of the sampling, from 1.
        intervals: intervals in place of the presets', "lte.tail_time" -> "1 s..15 s".
        runs: number of worlds in which runs that cannot be re-priced are made; 0 to refuse them.
        out: the folder in which prices are stored for reuse; None for no folder.
        blocks: user-defined classes that the scenarios name.
        jobs: number of runs that are priced at a time, in worker processes.
        executor: prices them instead; it is left open.
        cluster: a Dask cluster instead: "local:4", or "tcp://host:8786" that sees `folder`.
        base: folder of relative paths in the scenarios; the current one if None.
        practical: costs whose ratio is nearer to 1 than this are the same.

    Raises:
        DataError: nothing to compare, no uncertain constant, no price, or an invalid option.
        OutputError: `out` cannot be written.
    """
    check_choice(jobs, executor, cluster)
    _check(worlds=worlds, seed=seed, runs=runs)
    gathered, wanted = gather_runs(folder, target)
    baseline = gathered.baseline or None if against is None else against
    runs_found, other = finished_runs(gathered, wanted), _reference(gathered.labels, baseline)
    originals = [run.original(tuple(blocks)) for run in runs_found]
    hindered = _find_hindrances(runs_found, originals, runs)
    design = _design(originals, intervals or {}, worlds, seed, runs if hindered else 0)
    store, home = PriceStore(out), Path(base or "").resolve()
    price = Pricing(store, tuple(blocks), jobs, executor, cluster, home)
    # If one variant cannot be priced by the recursion, all are played: a ratio needs both variants
    # in the same worlds, and by the same rules.
    priced = (price.play if hindered else price.price)(runs_found, design.worlds)
    table = _table(runs_found, list(gathered.labels), priced)
    reversals = _reversals(price, runs_found, table, design, other)
    # After the search for reversals, whose prices are stored as well, and would be removed as
    # unused.
    store.tidy()
    remarks = [*_remarks(hindered, design, table), *_without_grams(runs_found, originals, table)]
    doubt = [*filter(None, [gathered.doubt_of_sizes])]
    warnings = *store.remarks, *gathered.counting, *gathered.left_out, *doubt
    notes, hashes = (*remarks, *warnings), run_hashes(gathered.folders)
    costs = wanted.costs(gathered), gathered.rounds, practical, baseline is not None
    return Robustness(
        wanted, gathered.labels, other, table, design, reversals, notes, hashes, *costs
    )


def gather_runs(folder: str | Path, target: str | None) -> tuple[EndedRuns, Target]:
    """Return the runs of a study and their target.

    Args:
        folder: a folder written by `run`.
        target: such as "gap=1e-5"; chosen as by `compare` if None.

    Raises:
        DataError: there are no runs that have ended, or the target is invalid.
    """
    gathered = gather([Path(folder)])
    if target is None:
        return gathered, Target.usual(gathered)
    return gathered, Target.read(target)


def _reversals(
    price: Pricing, runs: Sequence[FinishedRun], table: CostTable, design: Design, other: str
) -> pd.DataFrame:
    """Return where verdicts reverse: see `fedsim.addons.robustness.break_even.flips`."""
    again = partial(_again, price, runs, table.variants)
    return flips(table, design, table.variants.index(other), again)


def _again(
    price: Pricing,
    runs: Sequence[FinishedRun],
    variants: Sequence[str],
    more: Worlds,
    names: Collection[str],
) -> CostTable:
    """Price the runs of some variants in further worlds."""
    # The other variants have NaN in the table, as the pair has no use for them.
    selected = [run for run in runs if run.variant in names]
    return _table(selected, list(variants), price.price(selected, more))


def _check(**numbers: int) -> None:
    """Check that every number is at least 1, and `runs` at least 0.

    Raises:
        DataError: a number is too small.
    """
    for key, value in numbers.items():
        least = int(key != "runs")
        if value < least:
            raise DataError(key, f"--{key}: got {value}; expected {least} or more")


def finished_runs(gathered: EndedRuns, target: Target) -> list[FinishedRun]:
    """Return the complete runs, with the rounds in which they reached the target.

    Raises:
        DataError: no run is complete, or none has reached the target.
    """
    costs = with_bits(target.costs(gathered)).to_dict("records")
    looks = {(row["variant"], row["seed"]): row for row in costs}
    runs = []
    for folder, row in zip(gathered.folders, gathered.summary.to_dict("records"), strict=True):
        if is_whole(row["status"]):
            cost = looks[row["variant"], row["seed"]]
            # None for a run that ended without the target: its costs are infinite in all worlds.
            look = int(cost["round"]) if cost["reached"] else None
            identity = str(row["variant"]), int(row["seed"]), look
            runs.append(FinishedRun(folder, *identity, float(cost["bits"]), target))
    if not runs:
        raise DataError("folder", "no run of this study is complete: fedsim run shows the reasons")
    if all(run.look is None for run in runs):
        reached = f"reached {target}" if target.measure else "been completed by its stop rules"
        text = (
            f"no run has {reached}; give a target that some run has reached, such as --target gap=1"
        )
        raise DataError("target", text)
    return runs


def _reference(labels: Mapping[str, str], name: str | None) -> str:
    if len(labels) < 2:
        text = f"the study has one variant, {next(iter(labels.values()))}"
        raise DataError("folder", f"{text}; expected two or more")
    for variant, label in labels.items():
        if name in {None, variant, label}:
            return variant
    accepted = f"expected one of {', '.join(labels.values())}"
    text = f"--against: got the variant {name!r}{nearest(name or '', labels)}; {accepted}"
    raise DataError("against", text)


def _find_hindrances(
    runs: Sequence[FinishedRun], originals: Sequence[Original], allowed: int
) -> dict[str, str]:
    """Return the variants that cannot be priced by the recursion, with reasons.

    Raises:
        DataError: there are such variants, but replays and new runs are not allowed.
    """
    every = zip(runs, map(hindrance, originals), strict=True)
    runs_found = {run.variant: why for run, why in every if why}
    if runs_found and not allowed:
        raise DataError("runs", _refusal(runs_found))
    return runs_found


def _refusal(hindered: Mapping[str, str]) -> str:
    reasons = [f"{name}: {why}" for name, why in hindered.items()]
    lines = "\n".join(["these rounds cannot be re-priced analytically:", *reasons])
    return (
        f"{lines}\nreplay or repeat the runs in a few worlds instead: --runs 30 takes 30 runs of"
        " each"
    )


def _design(
    originals: Sequence[Original], intervals: Intervals, worlds: int, seed: int, runs: int
) -> Design:
    """Sample the worlds: as many as runs that are repeated in each, if there are any."""
    scenarios = [original.scenario for original in originals]
    constants = constants_of(scenarios, intervals, priced=not runs)
    if not constants:
        raise DataError("interval", _no_uncertainty(originals))
    return Design.of(constants, worlds, seed, runs=runs)


def _no_uncertainty(originals: Sequence[Original]) -> str:
    groups = [group for original in originals for group in original.scenario.fleet]
    ideal = all(group.device.kind == group.radio.kind == "ideal" for group in groups)
    why = "its clients are ideal" if ideal else "its scenarios set every figure"
    wanted = 'an interval makes a figure uncertain: --interval "custom.up=1 Mbit/s..4 Mbit/s"'
    return f"this study has no uncertain constant: {why}; {wanted}"


def _table(runs: Sequence[FinishedRun], variants: list[str], costs: Sequence[Costs]) -> CostTable:
    seeds = sorted({run.seed for run in runs})
    shape = len(variants), len(seeds)
    # NaN stays where a variant has no run with a seed.
    table = {name: np.full((*shape, costs[0].t.size), np.nan) for name in Costs._fields}
    bits = np.full(shape, np.nan)
    for run, costs_of_run in zip(runs, costs, strict=True):
        place = variants.index(run.variant), seeds.index(run.seed)
        bits[place] = run.bits
        for name, values in costs_of_run._asdict().items():
            table[name][place] = values
    # Without a carbon intensity anywhere, grams are no cost of the study, rather than an unknown
    # one.
    if np.isnan(table["grams"]).all():
        del table["grams"]
    return CostTable(variants, seeds, table, bits)


def _remarks(hindered: Mapping[str, str], design: Design, table: CostTable) -> list[str]:
    """Return notes on the precision of the results."""
    remarks = [f"{name} was replayed in each world: {why}" for name, why in hindered.items()]
    if hindered:
        remarks.append(f"{design.words}: too few to find the deciding constant")
    elif design.saltelli is None:
        least = f"Sobol' indices need {8 * FEWEST:,} worlds or more"
        few = f"{design.words} are too few to find how much each constant decides"
        remarks.append(f"{few}: {least}")
    if len(table.seeds) == 1:
        remarks.append("one seed: intervals cover the worlds only, not the randomness of training")
    remarks.append(_sampling_error(design))
    for name, values in zip(table.variants, table.costs["t"], strict=True):
        # A seed that is NaN in all worlds has no run; only single missing worlds are reported.
        gone = np.isnan(values[~np.isnan(values).all(axis=1)]).any(axis=0)
        if gone.any():
            share = format_number(100 * gone[: design.drawn].mean(), ".3g")
            remarks.append(
                f"{name}: in {share} % of the worlds a battery runs low or the run ends in"
                " another round: those are left out"
            )
    return remarks


def _without_grams(
    runs: Sequence[FinishedRun], originals: Sequence[Original], table: CostTable
) -> Iterator[str]:
    """Yield a note on variants with a carbon intensity whose grams cannot be computed."""
    stated = [
        run.variant
        for run, original in zip(runs, originals, strict=True)
        if any(group.carbon is not None for group in original.scenario.fleet)
    ]
    known = table.costs.get("grams")
    names = [
        name
        for name in dict.fromkeys(stated)
        if known is None or np.isnan(known[table.variants.index(name)]).all()
    ]
    if names:
        why = "the carbon intensity of some clients changes with the hour"
        yield f"grams of CO2 are left out of {', '.join(names)}: {why}"


def _sampling_error(design: Design) -> str:
    """Return a note on the sampling error of the worlds."""
    low, high = interval(0.5, design.drawn)
    error = format_number(100 * (high - low) / 2, ".2g")
    return f"{design.words}: the 90 % interval of a probability is at most \u00b1{error} %"


# Sampled worlds of a scenario, for any other question.


def draw_worlds(
    source: str | Path | Mapping[str, Any],
    count: int,
    *,
    overrides: Sequence[str] = (),
    seed: int = 1,
    intervals: Intervals | None = None,
    blocks: Sequence[type[Spec]] = (),
) -> list[list[str]]:
    """Sample worlds from the uncertain constants of a scenario, as overrides for `run`.

    `robust` compares the costs of variants. Any other question, such as which client dies first, is
    answered by running the scenario in several worlds and counting those in which a claim holds.

    Args:
        source: the scenario, as for `run`.
        count: number of independent worlds, from 1.
        overrides: the overrides of the scenario.
        seed: the seed of the sampling.
        intervals: intervals in place of the presets', "lte.tail_time" -> "1 s..15 s".
        blocks: user-defined classes that the scenario names.

    Raises:
        ScenarioError: the scenario is invalid.
        DataError: it has no uncertain constant, or an interval is invalid.

    Example:
        >>> worlds = draw_worlds("censoring", 4)
        >>> len(worlds), worlds[0][0].partition("=")[0]
        (4, 'fleet.0.device.speed')
    """
    if count < 1:
        raise DataError("count", f"got {count} worlds; expected 1 or more")
    plan = load(source, overrides=overrides, blocks=blocks)
    scenario = plan.variants[0].scenario
    constants = constants_of([scenario], intervals or {}, priced=False)
    if not constants:
        raise DataError("interval", "the fleet of this scenario has no uncertain constant")
    design = Design.of(constants, count, seed, runs=count)
    return [overridden(scenario, design.one(number)) for number in range(count)]
