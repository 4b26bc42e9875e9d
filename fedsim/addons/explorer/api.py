"""The function `explore(folder) -> Path`."""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from fedsim.addons.explorer.histories import CompactHistory, compact
from fedsim.addons.explorer.page import ExploredRun, ExploredStudy, render
from fedsim.addons.explorer.sliders import sliders_of
from fedsim.addons.repricing.history import Original, read_history
from fedsim.addons.robustness.api import finished_runs, gather_runs
from fedsim.addons.robustness.pricing import Costs, FinishedRun, hindrance
from fedsim.core.atomic import write_whole
from fedsim.core.blocks.spec import Spec
from fedsim.core.errors import DataError
from fedsim.physics.devices import Device
from fedsim.physics.radios import Radio
from fedsim.results.analysis.compare.answer import answers
from fedsim.results.analysis.compare.caveats import read_doubts
from fedsim.results.analysis.compare.cost_tables import Target
from fedsim.results.analysis.compare.runs import EndedRuns
from fedsim.results.record.outputs import Call, check_page, output
from fedsim.scenario import Scenario
from fedsim.wire import HEADER_BITS

LARGEST = 3_000_000
"""The largest page, bytes: it can still be sent by mail, and opens at once."""

PAGE = "explorer.html"

_VERDICTS = 2  # on the page: energy and time


def explore(
    folder: str | Path,
    out: str | Path | None = None,
    *,
    target: str | None = None,
    blocks: Sequence[type[Spec]] = (),
    largest: int = LARGEST,
) -> Path:
    """Write a page that re-prices a study in a browser, with a slider per constant.

    The page needs no server and no network. It computes the costs of every run by the recursion
    that `robust` uses, and shows the overrides with which `reprice` gives the same figures.

    Args:
        folder: written by `run`.
        out: the file to write; `explorer.html` in the folder if None.
        target: such as "gap=1e-5"; as for `compare` if None.
        blocks: user-defined classes that the scenarios name.
        largest: size limit of the page, bytes; it holds fewer seeds if all of them exceed it.

    Returns:
        The path of the page: `out`, or a name with a number where another call's file is there.

    Raises:
        DataError: there are no runs, no variant can be re-priced by the page, there is no constant
            to change, a single seed exceeds the size limit, or `out` does not end in .html.
        OutputError: the file cannot be written.

    Example:
        >>> fedsim.explore(result.folder, out / "explorer.html").name
        'explorer.html'
    """
    file = Path(folder) / PAGE if out is None else Path(out)
    check_page(file)
    page = _fitting(_study_of(folder, target, blocks), largest)
    call = Call.of("explore", [Path(folder)], target=target, largest=largest)
    with output(call, file) as draft:
        write_whole(draft.path, page)
    return draft.place


def _study_of(
    folder: str | Path, target: str | None, blocks: Sequence[type[Spec]]
) -> ExploredStudy:
    """Return the runs of a study that can be re-priced, and its sliders."""
    gathered, goal = gather_runs(folder, target)
    every = [(run, run.original(tuple(blocks))) for run in finished_runs(gathered, goal)]
    hindered = _hindrances(every)
    explorable = [(run, original) for run, original in every if run.variant not in hindered]
    _check(explorable, list(_reasons(hindered, gathered.labels)), goal, folder)
    fleets = _Fleets()
    costs = _known_costs(gathered, goal)
    runs = [_explorable(run, original, fleets, costs) for run, original in explorable]
    sliders = sliders_of(fleets.scenarios)
    if not sliders:
        raise DataError("folder", f"{folder}: its clients are ideal, without constants to change")
    labels = gathered.labels
    notes = [*_reasons(hindered, labels), *([_again(folder)] if hindered else [])]
    return ExploredStudy(
        Path(folder),
        goal,
        {name: labels[name] for name in labels if name in {run.variant for run in runs}},
        tuple(fleets.scenarios),
        sliders,
        tuple(runs),
        (*notes, *gathered.counting, *gathered.left_out),
        whole=not hindered,
        verdicts=tuple(islice(_verdicts(gathered, goal), _VERDICTS)),
    )


def _verdicts(gathered: EndedRuns, target: Target) -> Iterator[str]:
    """Yield the verdicts of `compare` on the study, the costs of the page first."""
    costs, worlds = target.costs(gathered), read_doubts(gathered, str(target))
    known = None, gathered.rounds, worlds, gathered.baseline or None
    return answers(costs, target, gathered.labels, *known)


def _hindrances(every: Iterable[tuple[FinishedRun, Original]]) -> dict[str, str]:
    """Return the variants that the page cannot re-price, with the reason."""
    reasons = dict[str, str]()
    for run, original in every:
        why = hindrance(original) or _unknown_to_page(original.scenario)
        if why and run.variant not in reasons:
            reasons[run.variant] = why
    return reasons


def _unknown_to_page(scenario: Scenario) -> str:
    """Return the first block of a fleet that the page does not support; empty if there is none."""
    for number, group in enumerate(scenario.fleet):
        for name, law in (("device", Device), ("radio", Radio)):
            block = getattr(group, name)
            if type(block) is not law:
                return f"fleet.{number}.{name}: {block.kind} is not supported by the page"
        if group.battery is not None and group.battery.self_discharge:
            return f"fleet.{number}.battery.self_discharge: not supported by the page"
    return ""


def _reasons(hindered: Mapping[str, str], labels: Mapping[str, str]) -> Iterator[str]:
    """Yield for each reason which variants are left out for it."""
    names = dict[str, list[str]]()
    for name, why in hindered.items():
        names.setdefault(_TRAINED.sub("", why), []).append(labels[name])
    for why, own in names.items():
        who = ", ".join(own) if len(own) < len(labels) else "all variants"
        are = "is" if len(own) == 1 < len(labels) else "are"
        yield f"{who} {are} left out: {why}"


_TRAINED = re.compile(r"; [a-z ]+ needs training again: fedsim run$")


def _again(folder: str | Path) -> str:
    """Return how to find what other constants would change where runs cannot be re-priced."""
    command = f"fedsim robust {shlex.quote(str(folder))} --runs 30"
    return f"To train again under other constants: {command}"


def _check(
    kept: Sequence[tuple[FinishedRun, Original]],
    reasons: Sequence[str],
    target: Target,
    folder: str | Path,
) -> None:
    """Check that something is left to explore.

    Raises:
        DataError: no variant can be re-priced by the page, or none of these reached the target.
    """
    if not kept:
        text = f"no variant can be re-priced in a browser: {'; '.join(reasons)}. {_again(folder)}"
        raise DataError("folder", text)
    if all(run.look is None for run, _ in kept):
        text = "; ".join([f"no variant that can be re-priced has reached {target}", *reasons])
        raise DataError("target", text)


class _Fleets:
    """The different fleets of a study, each by the first scenario that has it."""

    def __init__(self) -> None:
        self.scenarios = list[Scenario]()
        self._seen = dict[str, int]()

    def number(self, scenario: Scenario) -> int:
        """Return the number of a scenario's fleet and network."""
        key = scenario.model_dump_json(include={"fleet", "network"})
        place = self._seen.setdefault(key, len(self._seen))
        if place == len(self.scenarios):
            self.scenarios.append(scenario)
        return place


def _explorable(
    run: FinishedRun,
    original: Original,
    fleets: _Fleets,
    known: Mapping[tuple[str, int], Costs],
) -> ExploredRun:
    scenario = original.scenario
    history: CompactHistory | None = None
    if run.look is not None:
        groups = [n for n, group in enumerate(scenario.fleet) for _ in range(group.count)]
        groups = groups or [0] * len(original.samples)
        tape = read_history(original.folder, len(original.samples))
        history = compact(tape, run.look, groups, HEADER_BITS)
    costs = known[run.variant, run.seed]
    return ExploredRun(run.variant, run.seed, fleets.number(scenario), history, costs)


def _known_costs(gathered: EndedRuns, target: Target) -> dict[tuple[str, int], Costs]:
    """Return the costs of each run to the target, as its log has them; NaN if not tracked."""
    rows: list[dict[Any, Any]] = target.costs(gathered).to_dict("records")
    return {
        (str(row["variant"]), int(row["seed"])): Costs(
            *(row.get(name, float("nan")) for name in Costs._fields)
        )
        for row in rows
    }


def _fitting(study: ExploredStudy, largest: int) -> bytes:
    """Return the page with the largest number of seeds within the size limit.

    Raises:
        DataError: a single seed exceeds it.
    """
    seeds = sorted({run.seed for run in study.runs})
    count = len(seeds)
    while True:
        page = render(_first_seeds(study, seeds, count)).encode()
        if len(page) < largest:
            return page
        if count == 1:
            text = (
                f"the page would have {len(page) / 1e6:.1f} MB with one seed, and may have"
                f" {largest / 1e6:g} MB; give a target that is reached in fewer rounds, such as"
                " --target gap=1, or a study of fewer clients"
            )
            raise DataError("folder", text)
        count = max(1, min(count - 1, count * largest // len(page)))


def _first_seeds(study: ExploredStudy, seeds: Sequence[int], count: int) -> ExploredStudy:
    """Return a study of its first seeds alone, with a note on the others."""
    if count == len(seeds):
        return study
    some = set(seeds[:count])
    text = f"{count} of {len(seeds)} seeds: with all of them the page would exceed its size limit"
    runs = tuple(run for run in study.runs if run.seed in some)
    return replace(study, runs=runs, notes=(*study.notes, text))
