"""Experiment trackers of a campaign: every run that ends is stored once, and none can fail by it.

A tracker reads a run from its own files when the progress callback reports the end. Rounds that
workers do not report one by one are therefore stored, too, and so are finished runs that are kept.
A list in the tracker's folder has the seals of the stored runs.
"""

import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

from fedsim.core.atomic import check_links
from fedsim.core.blocks.catalogue import BlockCatalogue
from fedsim.core.blocks.on_demand import Named
from fedsim.core.blocks.plugins import blocks_of
from fedsim.core.blocks.registry import Registry
from fedsim.core.blocks.spec import Spec
from fedsim.core.blocks.wording import first_line, show, unknown
from fedsim.core.errors import DataError
from fedsim.results.record.folder import RunFolder
from fedsim.results.record.manifest import SEAL, read_manifest
from fedsim.results.record.scenarios import Note, Tell
from fedsim.results.tracking import KEY, TrackedRun, Tracker
from fedsim.running.run import RunProgress, Watch
from fedsim.scenario import Plan
from fedsim.scenario.registries import REGISTRIES

TRACKERS: Registry[Tracker] = Registry(
    "tracker",
    Named(
        "fedsim.addons.tracking",
        {"mlflow": "MLflow", "wandb": "WandB", "tensorboard": "TensorBoard"},
    ),
    Tracker,
)
"""The trackers that `track` can name."""

STORED = ".stored"
"""The list of a tracker's runs, in its folder: the seal of each, one per line."""

Track = str | Tracker | Sequence[str | Tracker]
"""The trackers of a call: names, or blocks; none if empty."""


def split_blocks(plugins: Iterable[Path]) -> tuple[list[type[Spec]], list[type[Spec]]]:
    """Return the blocks of a scenario that are in plugins, and the trackers in them.

    Raises:
        BlockError: a file cannot be used, or contains neither.
    """
    found = blocks_of(plugins, (*REGISTRIES, TRACKERS))
    trackers = [model for model in found if TRACKERS.admits(model)]
    return [model for model in found if model not in trackers], trackers


def choose_trackers(track: Track, blocks: Iterable[type[Spec]] = ()) -> tuple[Tracker, ...]:
    """Return trackers, each once.

    Args:
        track: names, or blocks.
        blocks: user-defined trackers that a name may choose.

    Raises:
        DataError: a name is unknown, or a library is not installed.
        BlockError: a user-defined tracker is invalid.
    """
    asked = [track] if isinstance(track, str | Tracker) else [*track]
    known = BlockCatalogue((TRACKERS,), blocks)
    found = {tracker.kind: tracker for tracker in (_find(each, known) for each in asked)}
    for tracker in found.values():
        tracker.check()
    return tuple(found.values())


def check_trackers(trackers: Sequence[Tracker], plan: Plan, out: Path | None) -> None:
    """Check that trackers have a folder of their own beside those of the variants.

    Raises:
        DataError: `out` is None, or a variant has the name of a tracker.
    """
    if trackers and out is None:
        text = "without out, the runs and the tracker's files are removed when the session ends"
        raise DataError(KEY, f"track: {text}; give out=DIR beside track")
    names = {variant.name.casefold() for variant in plan.variants}
    for tracker in trackers:
        if tracker.kind.casefold() in names:
            text = f"the variant {tracker.kind!r} has the name of the tracker's folder"
            raise DataError(KEY, f"track: {text} OUT/{tracker.kind}; rename the variant")


def _find(asked: object, known: BlockCatalogue) -> Tracker:
    """Return a tracker by its name, or the tracker itself."""
    if isinstance(asked, Tracker):
        return asked
    model = known.find(TRACKERS, asked) if isinstance(asked, str) else None
    if model is None:
        raise DataError(KEY, f"track: {unknown(asked, known.names(TRACKERS))}")
    try:
        tracker = model()
    except ValueError as error:  # of pydantic: a field without a default
        hint = "give it a default, or hand over an instance in Python"
        raise DataError(KEY, f"track: {show(asked)} needs settings; {hint}: {error}") from None
    assert isinstance(tracker, Tracker)  # noqa: S101 - as its registry admits it
    return tracker


@dataclass
class _Store:
    """The opened store of one tracker."""

    tracker: Tracker
    folder: Path
    write: Callable[[TrackedRun], None]
    stored: set[str] = field(default_factory=set)

    def add(self, run: Path, study: str) -> None:
        """Store a run, unless it is stored already."""
        seal = str(read_manifest(run)[SEAL])
        if seal in self.stored:
            return
        with redirect_stdout(sys.stderr):  # standard output is the command's
            self.write(TrackedRun.of(run, study))
        self.stored.add(seal)
        with (self.folder / STORED).open("a", encoding="utf-8") as lines:
            lines.write(f"{seal}\n")


class Tracking:
    """The trackers of a campaign.

    Args:
        trackers: to store the runs with.
        plan: of the campaign.
        out: the folder of the runs.
        tell: called with one note about a tracker that fails; it stores no further run.
    """

    def __init__(self, trackers: Sequence[Tracker], plan: Plan, out: Path, tell: Tell) -> None:
        self._plan, self._out, self._tell = plan, out, tell
        self._stores: list[_Store] = []
        for tracker in trackers:
            try:
                self._stores.append(self._open(tracker))
            except Exception as error:  # noqa: BLE001 - from a library, or user code: any
                self._report(tracker, error)

    def _open(self, tracker: Tracker) -> _Store:
        """Open a tracker in its folder."""
        folder = self._out / tracker.kind
        check_links(self._out, folder / STORED)
        folder.mkdir(exist_ok=True)
        file = folder / STORED
        stored = set(file.read_text(encoding="utf-8").split()) if file.exists() else set()
        with redirect_stdout(sys.stderr), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a library deprecates is not the user's concern
            write = tracker.open(folder, self._plan.name)
        return _Store(tracker, folder, write, stored)

    def watch(self, watch: Watch) -> Watch:
        """Return a progress callback that also stores runs that end, then calls another one."""
        if not self._stores:
            return watch

        def report(progress: RunProgress) -> None:
            if progress.ended:
                self._add(RunFolder.place(self._out, progress.variant, progress.seed))
            watch(progress)

        return report

    def _add(self, run: Path) -> None:
        """Store a run with every tracker; one that fails is left out from then on."""
        for store in [*self._stores]:
            try:
                store.add(run, self._plan.name)
            except Exception as error:  # noqa: BLE001 - as above
                self._stores.remove(store)
                self._report(store.tracker, error)

    def _report(self, tracker: Tracker, error: Exception) -> None:
        reason = f"{type(error).__name__}: {first_line(error)}"
        text = f"{tracker.kind} stores no further run ({reason}); the runs are not affected"
        self._tell(Note(self._plan.name, KEY, text))
