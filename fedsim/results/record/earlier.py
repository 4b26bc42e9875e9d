"""Earlier runs of a folder: a finished run that another one replaces is moved, never removed.

    OUT/.earlier/<digest>/<variant>/seed-<n>    made from another scenario, data, code or versions
    OUT/.trash/<time>/<variant>/seed-<n>        replaced by `--fresh`, or damaged

The digest covers the sources of the run except its seed. So the seeds of one state of a
variant stand together, and a folder below `.earlier` is one that `compare` and `report` read. A
run in `.earlier` comes back when the scenario is set back; one in the trash never does by itself.

A move is one rename within OUT. A process that is killed leaves a run in the old place or in the
new one, and a full disk refuses it before anything has changed. The caller holds the folder's lock.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from errno import EEXIST, ENOTEMPTY
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from typing import Any

from fedsim.core.atomic import check_links, unwritable
from fedsim.core.errors import DataError
from fedsim.core.files import read_file
from fedsim.results.record.folder import RESULTS, SUMMARY
from fedsim.results.record.manifest import (
    EVENTS,
    FILES,
    MADE_FROM,
    MANIFEST,
    SEAL,
    read_manifest,
    read_sealed,
)

EARLIER, TRASH = ".earlier", ".trash"
"""In OUT: folders of runs that were replaced; see above."""

_OF_ONE_RUN = {"seed", EVENTS, FILES, SEAL}
"""Entries of a manifest that differ between the seeds of one state of a variant."""

_DIGITS = 12  # of the digest, in hexadecimal


def time_stamp() -> str:
    """Return the present time as the name of a folder, in UTC: "2026-05-01T09-30-00Z"."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%SZ}"


def set_aside(out: Path, run: Path, trash: str = "") -> Path | None:
    """Move a finished run out of its place; return its new place.

    A run that has not ended stays where it is, and None is returned.

    Args:
        out: the folder of all runs, whose lock is held.
        run: the folder of the run, `out/<variant>/seed-<n>`.
        trash: the name of a folder in `.trash`; if empty, the run goes to `.earlier`.

    Raises:
        OutputError: it cannot be moved, or a symbolic link is in the way; it stays in its place.
    """
    if not (run / SUMMARY).exists():
        return None
    check_links(out, run)
    if trash:
        home = out / TRASH / trash
    else:
        try:
            home = out / EARLIER / _digest(read_sealed(run / MANIFEST))  # of any version
        except DataError:
            home = out / TRASH / time_stamp()
    return _move(out, run, home, SUMMARY)


def _move(out: Path, run: Path, home: Path, known_by: str) -> Path | None:
    """Move a run into a folder, or into a numbered one if that folder has such a run already.

    Args:
        out: the folder of all runs.
        run: the folder of the run.
        home: where the folder of its variant goes.
        known_by: the file of the run without which another worker has just moved it; empty for
            any folder.
    """
    number = 1
    while (run / known_by).exists():
        target = home if number == 1 else home.with_name(f"{home.name}-{number}")
        place = target / run.parent.name / run.name
        check_links(out, place)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            if not place.exists():  # an empty folder would be replaced by a rename
                run.rename(place)
                return place
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno not in {ENOTEMPTY, EEXIST}:
                raise unwritable(place, error) from None
        number += 1
    return None


def bring_back(out: Path, kept: Path, run: Path) -> None:
    """Move an earlier run back into its place, and move a run in that place away.

    A finished run is set aside, one that has not ended goes to the trash.

    Args:
        out: the folder of all runs, whose lock is held.
        kept: the earlier run, as `earlier_runs` yields it.
        run: its place, `out/<variant>/seed-<n>`.

    Raises:
        OutputError: it cannot be moved.
    """
    check_links(out, kept)
    if set_aside(out, run) is None:
        _move(out, run, out / TRASH / time_stamp(), "")
    try:
        run.parent.mkdir(parents=True, exist_ok=True)
        kept.rename(run)
    except OSError as error:
        raise unwritable(run, error) from None
    _remove_empty(kept)


def discard(out: Path, kept: Path) -> None:
    """Move a damaged earlier run into the trash.

    Args:
        out: the folder of all runs, whose lock is held.
        kept: the earlier run, as `earlier_runs` yields it.

    Raises:
        OutputError: it cannot be moved.
    """
    set_aside(out, kept, time_stamp())
    _remove_empty(kept)


def earlier_runs(out: Path, variant: str, seed: int, made_from: str) -> Iterator[Path]:
    """Yield the earlier runs that were made from a scenario, the latest one first.

    Args:
        out: the folder of all runs.
        variant: of the run.
        seed: of the run.
        made_from: the hash of the variant's scenario.
    """
    candidates = [state / variant / f"seed-{seed}" for state in (out / EARLIER).glob("*")]
    finished = [path for path in candidates if (path / SUMMARY).exists()]
    for path in sorted(
        finished, key=lambda path: (path / SUMMARY).stat().st_mtime_ns, reverse=True
    ):
        if (_manifest_of(path) or {}).get(MADE_FROM) == made_from:
            yield path


def remove_copy(kept: Path) -> None:
    """Remove an earlier run that has a copy elsewhere; see `is_copy`."""
    rmtree(kept, ignore_errors=True)
    _remove_empty(kept)


def _remove_empty(earlier: Path) -> None:
    for folder in earlier.parents[:3]:  # folders of the variant, of the state, and of all
        with suppress(OSError):  # other runs are there
            folder.rmdir()


def is_copy(run: Path, other: Path) -> bool:
    """Return whether two finished runs have the same files with the same content.

    Their manifests, which have the hashes of all results, are compared; a run with further files,
    such as a trace, is no copy of one without.
    """
    try:
        same = read_file(run / MANIFEST) == read_file(other / MANIFEST)
        return same and all(
            {path.name for path in folder.iterdir()} == {*RESULTS, MANIFEST}
            for folder in (run, other)
        )
    except OSError:
        return False


def _manifest_of(run: Path) -> dict[str, Any] | None:
    """Return the manifest of a run; None if it is damaged."""
    try:
        return read_manifest(run)
    except DataError:
        return None


def _digest(manifest: dict[str, Any]) -> str:
    """Return a digest of the sources of a run, equal for all seeds of a variant."""
    common = {key: value for key, value in manifest.items() if key not in _OF_ONE_RUN}
    return sha256(json.dumps(common, sort_keys=True).encode()).hexdigest()[:_DIGITS]
