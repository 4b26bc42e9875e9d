"""robust(folder) -> Robustness."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fedsim.analysis.compare.caveats import run_hashes
from fedsim.analysis.compare.cost_tables import Target, with_bits
from fedsim.analysis.compare.runs import EndedRuns, gather
from fedsim.blocks.spec import Spec
from fedsim.blocks.wording import nearest
from fedsim.errors import DataError
from fedsim.record.summary import is_whole
from fedsim.repricing.history import Original
from fedsim.robustness.break_even import flips
from fedsim.robustness.confidence import interval
from fedsim.robustness.constants import UncertainConstant
from fedsim.robustness.design import Design, Worlds
from fedsim.robustness.pricing import Costs, FinishedRun, PriceStore, Pricing, hindrance, overridden
from fedsim.robustness.result import Robustness
from fedsim.robustness.saltelli import FEWEST
from fedsim.robustness.uncertain_inputs import Doubts, constants_of
from fedsim.robustness.verdicts import CostTable
from fedsim.running.cluster import check_choice
from fedsim.scenario import load

WORLDS = 2048
"""So many worlds are drawn at the least, where nothing else is asked: the 90 % interval of a
probability is then 2 % to either side at the most, as far as worlds go, and indices are known."""


def robust(
    folder: str | Path,
    *,
    target: str | None = None,
    against: str | None = None,
    worlds: int = WORLDS,
    seed: int = 1,
    doubts: Doubts | None = None,
    runs: int = 0,
    out: str | Path | None = None,
    blocks: Sequence[type[Spec]] = (),
    jobs: int = 1,
    executor: Executor | None = None,
    cluster: str | None = None,
    base: str | Path | None = None,
) -> Robustness:
    """Show which conclusions of a study survive the uncertainty of its constants.

    Constants of the fleets' presets are drawn, and each run is priced in each world untrained.

    Args:
        folder: what `run` has written.
        target: such as "gap=1e-5"; as `compare` chooses it if None.
        against: the variant that the others are compared with; the first one if None.
        worlds: so many are drawn at the least.
        seed: of the drawing, from 1.
        doubts: intervals in place of the presets', "lte.tail_time" -> "1 s..15 s".
        runs: in so many worlds runs that cannot be priced are played or made again; 0 to refuse.
        out: where prices are kept, and read another time; nowhere if None.
        blocks: user-defined classes that the scenarios name.
        jobs: how many runs are priced at once, in processes of their own.
        executor: where they are priced instead; it is left open.
        cluster: Dask's instead: "tcp://host:8786", whose workers see `folder`, or "local:4".
        base: where relative paths of the scenarios start; the current folder if None.

    Raises:
        DataError: nothing to compare, nothing in doubt, a run without a price, a wrong option.
        OutputError: `out` cannot be written.
    """
    check_choice(jobs, executor, cluster)
    _check(worlds=worlds, seed=seed, runs=runs)
    gathered, wanted = _gather(folder, target)
    found, other = _runs(gathered, wanted), _reference(gathered.labels, against)
    originals = [run.original(tuple(blocks)) for run in found]
    hindered = _find_hindrances(found, originals, runs)
    constants = _constants(originals, doubts or {}, priced=not hindered)
    design = Design.of(constants, worlds, seed, runs=runs if hindered else 0)
    store = PriceStore(None if out is None else Path(out))
    price = Pricing(store, tuple(blocks), jobs, executor, cluster, Path(base or "").resolve())
    priced = (price.play if hindered else price.price)(found, design.worlds)
    table = _table(found, list(gathered.labels), priced)
    again = partial(_again, price, found, table.variants)
    turns = flips(table, design, table.variants.index(other), again)
    store.tidy()
    remarks = [*_remarks(hindered, design, table), *_without_grams(found, originals, table)]
    notes, made = (*remarks, *store.remarks, *gathered.left_out), run_hashes(gathered.folders)
    return Robustness(wanted, gathered.labels, other, table, design, turns, notes, made)


def _gather(folder: str | Path, target: str | None) -> tuple[EndedRuns, Target]:
    """Return the runs of a study, and what they are to reach."""
    gathered = gather([Path(folder)])
    if target is None:
        return gathered, Target.usual(gathered.summary)
    return gathered, Target.read(target)


def _again(
    price: Pricing,
    runs: Sequence[FinishedRun],
    variants: Sequence[str],
    more: Worlds,
    names: Collection[str],
) -> CostTable:
    """Price the runs of some variants in further worlds."""
    some = [run for run in runs if run.variant in names]
    return _table(some, list(variants), price.price(some, more))


def _check(**numbers: int) -> None:
    """Check that every number is at least 1, and the runs at least 0.

    Raises:
        DataError: one is not.
    """
    for key, value in numbers.items():
        least = int(key != "runs")
        if value < least:
            raise DataError(key, f"--{key}: got {value}; give {least} or more")


def _runs(gathered: EndedRuns, target: Target) -> list[FinishedRun]:
    """Return the runs, each with the round in which it reached the target."""
    costs = with_bits(target.costs(gathered)).to_dict("records")
    looks = {(row["variant"], row["seed"]): row for row in costs}
    runs = []
    for folder, row in zip(gathered.folders, gathered.summary.to_dict("records"), strict=True):
        if is_whole(row["status"]):
            cost = looks[row["variant"], row["seed"]]
            look = int(cost["round"]) if cost["reached"] else None
            own = str(row["variant"]), int(row["seed"]), look
            runs.append(FinishedRun(folder, *own, float(cost["bits"]), target))
    if not runs:
        raise DataError("folder", "no run of this study has ended well: fedsim run tells why")
    if not any(run.look for run in runs):
        reached = f"reached {target}" if target.measure else "been completed by its stop rules"
        text = f"no run has {reached}; give a target that some have, such as --target gap=1"
        raise DataError("target", text)
    return runs


def _reference(labels: Mapping[str, str], name: str | None) -> str:
    if len(labels) < 2:
        text = f"the study has one variant, {next(iter(labels.values()))}"
        raise DataError("folder", f"{text}; a verdict is about two or more")
    for variant, label in labels.items():
        if name in {None, variant, label}:
            return variant
    there = f"there are {', '.join(labels.values())}"
    text = f"--against: there is no variant {name!r}{nearest(name or '', labels)}; {there}"
    raise DataError("against", text)


def _find_hindrances(
    runs: Sequence[FinishedRun], originals: Sequence[Original], allowed: int
) -> dict[str, str]:
    """Return the variants that cannot be priced by the recursion, and why.

    Raises:
        DataError: there are some, and no runs are allowed in their place.
    """
    every = zip(runs, map(hindrance, originals), strict=True)
    found = {run.variant: why for run, why in every if why}
    if found and not allowed:
        raise DataError("runs", _refusal(found))
    return found


def _refusal(hindered: Mapping[str, str]) -> str:
    reasons = [f"{name}: {why}" for name, why in hindered.items()]
    told = "\n".join(["a round of these does not follow from numbers alone:", *reasons])
    return (
        f"{told}\nplay the logs, or make the runs, in a few worlds instead: --runs 30 takes 30 runs"
        " of each"
    )


def _constants(
    originals: Sequence[Original], doubts: Doubts, *, priced: bool
) -> tuple[UncertainConstant, ...]:
    scenarios = [each.scenario for each in originals]
    constants = constants_of(scenarios, doubts, priced=priced)
    if not constants:
        raise DataError("doubt", _nothing_in_doubt(originals))
    return constants


def _nothing_in_doubt(originals: Sequence[Original]) -> str:
    groups = [group for each in originals for group in each.scenario.fleet]
    ideal = all(group.device.kind == group.radio.kind == "ideal" for group in groups)
    why = "its clients are ideal" if ideal else "its fleets give every figure themselves"
    wanted = 'an interval of your own makes one uncertain: --doubt "custom.up=1 Mbit/s..4 Mbit/s"'
    return f"this study stands on no constant in doubt: {why}; {wanted}"


def _table(runs: Sequence[FinishedRun], variants: list[str], costs: Sequence[Costs]) -> CostTable:
    seeds = sorted({run.seed for run in runs})
    shape = len(variants), len(seeds)
    table = {name: np.full((*shape, costs[0].t.size), np.nan) for name in Costs._fields}
    bits = np.full(shape, np.nan)
    for run, own in zip(runs, costs, strict=True):
        place = variants.index(run.variant), seeds.index(run.seed)
        bits[place] = run.bits
        for name, values in own._asdict().items():
            table[name][place] = values
    if np.isnan(table["grams"]).all():
        del table["grams"]
    return CostTable(variants, seeds, table, bits)


def _remarks(hindered: Mapping[str, str], design: Design, table: CostTable) -> list[str]:
    """Return what a reader has to know."""
    remarks = [f"{name} was played again in each world: {why}" for name, why in hindered.items()]
    if hindered:
        remarks.append(f"{design.words} cannot say which constant decides")
    elif design.saltelli is None:
        least = f"give {8 * FEWEST:,} worlds or more for Sobol' indices"
        few = f"{design.words} are too few to say how much each constant decides"
        remarks.append(f"{few}: {least}")
    if len(table.seeds) == 1:
        remarks.append("one seed: intervals are of the worlds alone, as if every seed were like it")
    remarks.append(_half_width(design))
    for name, values in zip(table.variants, table.costs["t"], strict=True):
        gone = np.isnan(values[~np.isnan(values).all(axis=1)]).any(axis=0)
        if gone.any():
            share = 100 * gone[: design.drawn].mean()
            remarks.append(
                f"{name}: in {share:.3g} % of the worlds a battery runs low or the run ends"
                " elsewhere: those are left out"
            )
    return remarks


def _without_grams(
    runs: Sequence[FinishedRun], originals: Sequence[Original], table: CostTable
) -> Iterator[str]:
    """Say whose grams of CO2 are left out, though its scenario states a carbon intensity."""
    stated = [
        run.variant
        for run, each in zip(runs, originals, strict=True)
        if any(group.carbon is not None for group in each.scenario.fleet)
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


def _half_width(design: Design) -> str:
    """Say how near to a probability so many worlds come."""
    low, high = interval(0.5, design.drawn)
    text = f"{design.words}: as far as these go, a 90 % interval of a probability reaches"
    return f"{text} {100 * (high - low) / 2:.2g} % to either side at the most"


# Drawing: worlds of a scenario's doubt, for whatever else is to be asked in them.


def draw_worlds(
    source: str | Path | Mapping[str, Any],
    count: int,
    *,
    overrides: Sequence[str] = (),
    seed: int = 1,
    doubts: Doubts | None = None,
    blocks: Sequence[type[Spec]] = (),
) -> list[list[str]]:
    """Return worlds of a scenario's doubt, each as overrides that `run` and `reprice` take.

    `robust` compares the costs of variants. Any other question, such as which client dies first, is
    answered by running a scenario in worlds: a claim that holds in k of n of them is certain to
    that degree.

    Args:
        source: the scenario, as `run` takes it.
        count: of independent worlds, from 1.
        overrides: of the scenario.
        seed: of the drawing.
        doubts: intervals in place of the presets', "lte.tail_time" -> "1 s..15 s".
        blocks: user-defined classes that the scenario names.

    Raises:
        ScenarioError: the scenario is wrong.
        DataError: there is no constant in doubt, or an interval that cannot be.
    """
    if count < 1:
        raise DataError("count", f"got {count} worlds; give 1 or more")
    plan = load(source, overrides=overrides, blocks=blocks)
    scenario = plan.variants[0].scenario
    constants = constants_of([scenario], doubts or {}, priced=False)
    if not constants:
        raise DataError("doubt", "the fleet of this scenario stands on no constant in doubt")
    design = Design.of(constants, count, seed, runs=count)
    return [overridden(scenario, design.one(number)) for number in range(count)]
