"""The function `reprice(folder, overrides, out) -> Result`."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from shutil import rmtree

import pandas as pd
from rich.table import Table

from fedsim.addons.repricing.conditions import refusals
from fedsim.addons.repricing.history import Original, read_history
from fedsim.addons.repricing.rebuilding import Repricing, check_replay, rebuild
from fedsim.algorithms import ALGORITHMS
from fedsim.core.atomic import write_whole
from fedsim.core.blocks.spec import Spec
from fedsim.core.blocks.wording import printable, reject_renamed
from fedsim.core.errors import DataError, Fault, FedsimError, RepricingError, ScenarioError
from fedsim.core.files import read_file
from fedsim.core.signals import defer_signals
from fedsim.core.table_columns import TOTAL_JOULES
from fedsim.core.tables import listing
from fedsim.results.analysis import labels_of, quantity
from fedsim.results.analysis.compare.cost_tables import Target, spent_on
from fedsim.results.analysis.compare.runs import runs_of, select_runs
from fedsim.results.record.earlier import bring_back, is_copy, remove_copy, set_aside
from fedsim.results.record.folder import STUDY, RunFolder, read_json
from fedsim.results.record.lock import hold
from fedsim.results.record.manifest import PRICED_FROM
from fedsim.results.record.read import hold_no_runs, missing
from fedsim.results.record.scenarios import RUNS, Note, Tell, ignore_note
from fedsim.results.record.schema import GRAMS
from fedsim.results.record.studies import Study, study_in
from fedsim.results.record.variants import BASE
from fedsim.results.result import Result
from fedsim.running.folder import check_place
from fedsim.running.run import Watch, ending, execute, ignore_progress
from fedsim.scenario import Variant
from fedsim.scenario.merging import OPTION


@reject_renamed
def reprice(
    folder: str | Path,
    overrides: Sequence[str],
    out: str | Path,
    *,
    base: str | Path | None = None,
    blocks: Sequence[type[Spec]] = (),
    watch: Watch = ignore_progress,
    tell: Tell = ignore_note,
) -> Result:
    """Re-price finished runs under another fleet or network.

    All files equal those of a fresh run of the changed scenario, to the bit, except for a note in
    the manifest. Models are copied; if a run now ends earlier, its last model may be missing.

    Args:
        folder: of one run, of a variant, or of a study.
        overrides: "key=value" texts that change each run's fleet, network, stop rules or name.
        out: the folder for the re-priced runs.
        base: of relative paths in the scenario, those of traces; the current folder if None.
        blocks: user-defined classes that the scenario names.
        watch: called with every round.
        tell: called with notes: runs that are left out, and overrides without effect.

    Raises:
        RepricingError: a run might have taken other decisions; every reason is named. The other
            runs are re-priced.
        ScenarioError: the changed scenario is invalid.
        DataError: no run has ended, its log lacks information, or `out` holds other runs.
        OccupiedError, OutputError: another process writes into `out`, or a file cannot be written.

    Example:
        >>> len(fedsim.reprice(result.folder, ["fleet.0.radio=wifi"], out / "wifi").summary)
        4
    """
    result, refused = reprice_each(
        folder, overrides, out, base=base, blocks=blocks, watch=watch, tell=tell
    )
    if refused is not None:
        raise refused
    return result


def reprice_each(
    folder: str | Path,
    overrides: Sequence[str],
    out: str | Path,
    *,
    base: str | Path | None = None,
    blocks: Sequence[type[Spec]] = (),
    watch: Watch = ignore_progress,
    tell: Tell = ignore_note,
) -> tuple[Result, RepricingError | None]:
    """Re-price those finished runs that can be; for the arguments see `reprice`.

    Returns:
        The re-priced runs, and an error that names the others with the reasons.

    Raises:
        RepricingError, ScenarioError, DataError: no run can be re-priced.
        OccupiedError, OutputError: another process writes into `out`, or a file cannot be written.
    """
    if not Path(folder).is_dir():
        raise missing("folder", Path(folder))
    (folders, left_out), out = select_runs(Path(folder)), Path(out)
    if not folders:
        raise DataError("folder", hold_no_runs(Path(folder)))
    start = Path.cwd() if base is None else Path(base).resolve()
    refused, pairs = _Refused(), list[_Pair]()
    for path in folders:
        with refused.collect(path):
            original = Original.of(path, tuple(blocks))
            variant = _with_overrides(original, overrides, start)
            _check(original, variant, out)
            pairs.append((original, variant))
    if not pairs:
        raise refused.of_all()
    earlier = study_in(out)
    study = _study(pairs, earlier)
    check_place(study, out)
    for note in (notes := _notes(left_out, pairs, overrides)):
        tell(note)
    with hold(out):
        for original, _ in pairs:
            RunFolder.check(out, original.name, original.scenario.seed)
        remarks, done = list[Note](), list[tuple[_Pair, Path]]()
        with _announce(study, out, done):
            for original, variant in pairs:
                with refused.collect(original.folder):
                    replay = _told(_replay_of(original, variant, start), remarks, tell)
                    done.append(((original, variant), _price(replay, out, watch)))
            if not done:
                raise refused.of_all()
        if len(done) < len(pairs):
            _study([pair for pair, _ in done], earlier).write(out)
    result = Result(out, tuple(path for _, path in done), (*notes, *remarks))
    return result, refused.of_some(len(folders))


_Pair = tuple[Original, Variant]
"""A run, and its changed scenario."""


class _Refused:
    """The runs that cannot be re-priced, with the reasons."""

    def __init__(self) -> None:
        self._reasons: dict[Path, DataError | ScenarioError] = {}

    @contextmanager
    def collect(self, run: Path) -> Iterator[None]:
        """Keep the reason why the block cannot re-price a run."""
        try:
            yield
        except (DataError, ScenarioError) as error:
            self._reasons[run] = error

    def of_all(self) -> DataError | ScenarioError:
        """Return the error if no run can be re-priced: every reason once."""
        first, *others = self._reasons.values()
        faults = [
            fault
            for error in (first, *others)
            if isinstance(error, RepricingError)
            for fault in error.faults
        ]
        return RepricingError(list(dict.fromkeys(faults))) if faults else first

    def of_some(self, count: int) -> RepricingError | None:
        """Return an error that names the refused runs of `count`; None if there are none."""
        if not self._reasons:
            return None
        seeds: dict[tuple[str, Fault], list[str]] = {}
        for run, error in self._reasons.items():
            own = error.faults if isinstance(error, ScenarioError) else [Fault("", "", str(error))]
            for fault in own:
                # The run's own file is known from its name; an option is not.
                place = "" if fault.where.startswith(str(run)) else fault.where
                key = run.parent.name, replace(fault, where=place)
                seeds.setdefault(key, []).append(run.name.removeprefix("seed-"))
        faults = list[Fault]()
        for (variant, fault), numbers in seeds.items():
            name = f"{variant}, seed{'s' * (len(numbers) > 1)} {', '.join(numbers)}"
            faults.append(replace(fault, where=": ".join(filter(None, (name, fault.where)))))
        refused = RepricingError(faults)
        priced = count - len(self._reasons)
        refused.title = f"{priced} of {count} runs are re-priced; the others need a new run:"
        return refused


def _told(run: Repricing, remarks: list[Note], tell: Tell) -> Repricing:
    """Return a replay, after reporting the choices of its file readers without repetition."""
    for text, key in run.remarks.items():
        note = Note(run.variant.name, key, text)
        if note not in remarks:
            remarks.append(note)
            tell(note)
    return run


def _notes(
    left_out: Mapping[Path, str], pairs: Sequence[_Pair], overrides: Sequence[str]
) -> tuple[Note, ...]:
    """Return notes on runs that are left out, and on overrides without effect."""
    notes = (Note(path.parent.name, RUNS, text) for text, path in _once(left_out).items())
    return *notes, *_unchanged_notes(pairs, overrides)


def _check(original: Original, variant: Variant, out: Path) -> None:
    """Check the conditions of re-pricing that are known before the replay.

    Raises:
        RepricingError: some do not hold; every reason is named once.
    """
    if faults := list(dict.fromkeys(_refusals(original, variant, out))):
        raise RepricingError(faults)


def _unchanged_notes(pairs: Sequence[_Pair], overrides: Sequence[str]) -> tuple[Note, ...]:
    """Return a note if the overrides change no run."""
    if not overrides or any(each.scenario != now.scenario for each, now in pairs):
        return ()
    options = " ".join(f"{OPTION} {printable(each)}" for each in overrides)
    return (
        Note("reprice", RUNS, f"{options} changes nothing: the runs were made with these values"),
    )


@contextmanager
def _announce(study: Study, out: Path, done: Sequence[object]) -> Iterator[None]:
    """Record the study before the replay; undo that if the block ends with nothing done."""
    file = out / STUDY
    # A study that was recorded earlier is restored if not a single run succeeds.
    before = read_file(file) if file.exists() else None
    study.write(out)
    try:
        yield
    except FedsimError:
        if not done:
            file.unlink() if before is None else write_whole(file, before)
        raise


def _once(left_out: Mapping[Path, str]) -> dict[str, Path]:
    """Return one run per reason for being left out."""
    return {text: path for path, text in reversed(list(left_out.items()))}


def _study(pairs: Sequence[_Pair], there: Study | None) -> Study:
    """Return the study of the re-priced runs, together with an earlier one in the same folder."""
    first = pairs[0][0]
    origin = first.folder.resolve().parents[1]
    name, recorded = first.scenario.name or origin.name, study_in(origin)
    seeds: dict[str, list[int]] = {}
    for original, _ in pairs:
        seeds.setdefault(original.name, []).append(original.scenario.seed)
    variants = {each.name: each.fingerprint for _, each in pairs}
    baseline = recorded.baseline if recorded else ""
    study = Study(name, "", variants, priced=True, seeds=seeds, baseline=baseline)
    if there is None or not study.is_edited(there):
        return study
    changed_ones = study.changed_variants(there)
    for variant, recorded_seeds in there.seeds.items():
        fresh = seeds.get(variant, [])
        if variant not in changed_ones:
            seeds[variant] = sorted({*recorded_seeds, *fresh})
    return replace(study, variants={**there.variants, **variants}, seeds=seeds)


def _replay_of(original: Original, variant: Variant, folder: Path) -> Repricing:
    """Return the replay of a run; that of a user-defined method is checked first."""
    history = read_history(original.folder, len(original.samples), original.tree)
    run = rebuild(original, variant, history, folder)
    scenario = variant.scenario
    methods = [scenario.algorithm, *(tier.outer for tier in scenario.tiers)]
    if any(type(method) not in ALGORITHMS for method in methods):
        check_replay(original, _with_overrides(original, ()), history, folder)
    return run


def _with_overrides(
    original: Original, overrides: Sequence[str], base: Path | None = None
) -> Variant:
    """Return the scenario of a run with the overrides, under the name of its variant."""
    plan = original.plan(overrides, base)
    if len(plan.variants) > 1:
        text = "a run is re-priced under one scenario at a time; leave variants and sweep out"
        raise RepricingError([Fault("", "variants", text)])
    return replace(plan.variants[0], name=original.name, own=original.name == BASE)


def _refusals(original: Original, variant: Variant, out: Path) -> Iterator[Fault]:
    """Yield the reasons, known before the replay, why a run cannot be re-priced."""
    target = RunFolder.place(out, variant.name, variant.scenario.seed)
    if target.resolve() == original.folder.resolve():
        yield Fault("", "out", f"{target} is the run itself; give another folder")
    looks = original.summary["looks"]
    yield from refusals(original.scenario, variant, len(original.samples), looks)


def _price(run: Repricing, out: Path, watch: Watch) -> Path:
    """Replay a run; the files of a refused one are removed, and an earlier one is put back.

    Raises:
        RepricingError: the run would have taken other decisions.
    """
    manifest = run.original.manifest
    origin = {PRICED_FROM: {"events": manifest["events"], "code": manifest["code"]}}
    place = RunFolder.place(out, run.variant.name, run.seed)
    # An earlier result of the same place is put aside, not overwritten: a replay that is refused
    # must leave it as it was.
    earlier = set_aside(out, place)
    try:
        path = execute(run, out, watch, origin)
        summary = read_json(path / "summary.json")
        if summary["status"] != run.original.summary["status"]:
            raise run.error("fleet", str(summary["reason"]))
    except RepricingError:
        with defer_signals(), suppress(OSError):  # other runs of the variant may be there
            rmtree(place, ignore_errors=True)
            place.parent.rmdir()
        if earlier is not None:
            bring_back(out, earlier, place)
        raise
    if earlier is not None and is_copy(earlier, place):
        remove_copy(earlier)
    watch(ending(run, out))
    return path


# The table of original and re-priced costs.

_HEADS = {
    "t": ("time", "original time"),
    "joules": ("energy", "original energy"),
    GRAMS: ("CO2", "original CO2"),
    TOTAL_JOULES: ("total energy", "original total energy"),
}
_UNKNOWN = "-"


def price_table(place: Path, now: Sequence[Path], *, by_seed: bool = False) -> Table:
    """Return the re-priced and the original costs of runs, with CO2 if known.

    A variant with several seeds has their median, and below it their range.

    They are costs to the original's target, as `fedsim run` shows them; of runs that missed it,
    those of the whole run.

    Args:
        place: the folder of the original runs.
        now: the folders of the re-priced ones.
        by_seed: whether each seed has its own row.
    """
    names = {(path.parent.name, path.name) for path in now}  # some may have been refused
    own = (path.resolve() for path in runs_of(place))
    before = Result(place, tuple(path for path in own if (path.parent.name, path.name) in names))
    after = Result(place, tuple(now))
    target = Target.usual(before)
    labels = labels_of(after.summary)
    priced, original = (spent_on(runs, target) for runs in (after, before))
    costs = [("t", "s"), ("joules", "J")]
    for cost, unit in ((GRAMS, "g"), (TOTAL_JOULES, "J")):
        if any(cost in each and each[cost].notna().any() for each in (priced, original)):
            costs.append((cost, unit))
    keys = ["variant", "seed"] if by_seed else ["variant"]
    rows = []
    for _, costs_now in priced.groupby(keys, sort=False, observed=True):
        both = costs_now, original.loc[costs_now.index]
        cells = [_median(each.get(cost), unit) for cost, unit in costs for each in both]
        seeds = str(costs_now["seed"].iloc[0] if by_seed else len(costs_now))
        name = labels[str(costs_now["variant"].iloc[0])]
        rows.append((name, seeds, _median(costs_now["round"]), *cells))
    shown = [head for cost, _ in costs for head in _HEADS[cost]]
    heads = ("variant", "seed" if by_seed else "seeds", "rounds", *shown)
    groups = 1, 1, *[len(_HEADS[cost]) for cost, _ in costs]  # now and before stay side by side
    several = not by_seed and any(row[1] != "1" for row in rows)
    ranges = "; median of seeds, and below it their range" if several else ""
    return listing(f"Re-priced: {target.words}{ranges}", heads, rows, groups=groups)


def _median(values: "pd.Series[float] | None", unit: str = "") -> str:
    """Return the median of a cost over seeds, and below it the range if they differ."""
    if values is None or values.isna().all():
        return _UNKNOWN
    least, middle, most = (
        quantity(float(each), unit) for each in (values.min(), values.median(), values.max())
    )
    if least == most:
        return middle
    low, high = least.partition(" "), most.partition(" ")
    return f"{middle}\n{low[0] if low[2] == high[2] else least} to {most}"  # a shared unit once
