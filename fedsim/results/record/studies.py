"""The study of a folder of runs: its scenario and its variants.

`study.json` stands in OUT beside the folders of the variants. It records which of these the
scenario had when it was last run, and the sources of each; a run's manifest records the sources of
the run. So leftovers of an earlier state of a scenario are identified, and no other
scenario overwrites these runs.
"""

import json
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from fedsim.core.atomic import unwritable, write_whole
from fedsim.core.errors import DataError
from fedsim.results.record.folder import HISTORY, STUDY
from fedsim.results.record.journal import read_lines
from fedsim.results.record.manifest import (
    MADE_FROM,
    PRICED_FROM,
    SEAL,
    as_json,
    damage_error,
    read_manifest,
    read_sealed,
    seal,
)
from fedsim.results.record.read import run_folders

_DIGITS = 12  # of a digest, in hexadecimal


@dataclass(frozen=True)
class Study:
    """A scenario with its variants.

    Attributes:
        name: of the scenario.
        file: of the scenario, with its folder; empty if it was created in Python.
        variants: a hash of each variant's scenario; see `Variant.fingerprint`.
        priced: whether the runs are re-priced, from runs of that scenario.
        seeds: the seeds to run for each variant, if known.
        baseline: the variant that the others are compared with; empty if the scenario names none.
    """

    name: str
    file: str = ""
    variants: Mapping[str, str] = field(default_factory=dict)
    priced: bool = False
    seeds: Mapping[str, list[int]] = field(default_factory=dict)
    baseline: str = ""

    @property
    def digest(self) -> str:
        """A short digest of the scenarios of all variants; it changes when one is edited."""
        text = json.dumps([self.priced, sorted(self.variants.items())])
        return sha256(text.encode()).hexdigest()[:_DIGITS]

    def is_edited(self, other: "Study") -> bool:
        """Return whether another study is an edited state of the same scenario."""
        if self.priced != other.priced:
            return False
        if self.priced and not other.name:  # interrupted before the study was recorded
            return True
        if self.file and other.file:
            return self.file == other.file
        return self.name == other.name

    def changed_variants(self, other: "Study") -> list[str]:
        """Return the variants of both that have another source or kind of pricing there."""
        both = self.variants.keys() & other.variants.keys()
        return [name for name in self.variants if name in both and self._differs(other, name)]

    def removed_variants(self, other: "Study") -> list[str]:
        """Return the variants of the other study that this one lacks."""
        return [name for name in other.variants if name not in self.variants]

    def _differs(self, other: "Study", name: str) -> bool:
        return self.priced != other.priced or self.variants[name] != other.variants[name]

    def write(self, out: Path) -> None:
        """Record the study in its folder of runs."""
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(out, error) from None
        write_whole(out / STUDY, as_json(seal(asdict(self))).encode())


_STUDY = TypeAdapter(Study)

_RESUME = ("fedsim", "run")
"""The words with which a command begins that makes the missing runs of its study."""


def resuming_command(out: Path, study: Study) -> str:
    """Return the command that makes the missing runs of a study; empty if it is not known.

    It is the last `fedsim run` of the folder for these scenarios, as its history has it. A call
    from Python, or for one share of the runs, is none.
    """
    for line in reversed(read_lines(out / HISTORY)):
        words = line.get("command")
        if line.get("digest") != study.digest or not isinstance(words, list):
            continue
        if tuple(words[:2]) == _RESUME and not line.get("shard"):
            # With --fresh it would repeat the runs that exist.
            return shlex.join(str(word) for word in words if word != "--fresh")
    return ""


def read_study(out: Path) -> Study | None:
    """Return the study that a folder of runs belongs to; None if not recorded.

    Raises:
        DataError: the record is damaged.
    """
    path = out / STUDY
    if not path.exists():
        return None
    content = read_sealed(path)
    try:
        return _STUDY.validate_python({key: content[key] for key in content if key != SEAL})
    except ValidationError as error:
        raise damage_error(path, str(error)) from None


def study_in(out: Path) -> Study | None:
    """Return the study of a folder, reconstructed from its runs if not recorded.

    None if there are no runs either.
    """
    try:
        recorded = read_study(out)
    except DataError:
        recorded = None
    return recorded or _study_of_runs(out)


def _study_of_runs(out: Path) -> Study | None:
    """Reconstruct the study from the runs of a folder; runs without a manifest are skipped."""
    variants, priced = dict[str, str](), False
    for path in run_folders(out) if out.is_dir() else ():
        try:
            manifest = read_manifest(path)
            variants[path.parent.name] = str(manifest[MADE_FROM])
        except (DataError, KeyError):
            continue
        priced = priced or PRICED_FROM in manifest
    return Study("", "", variants, priced) if variants else None
