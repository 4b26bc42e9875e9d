"""Outputs of commands (tables, figures, pages): no call overwrites the output of another call.

A call first writes into a staging folder beside the wanted place. What it has written then moves
into that place if no file there is in its way, else into NAME-2, NAME-3 and so on. A file is in the
way unless its content is the same, or the same call wrote it and it was not changed since. So a
call that is repeated replaces its own output, and a file that a user has edited stays.

A call is the same if its command, its options, its places and the scenarios of the study are. Which
call wrote what is in a journal in the folder of the runs, `OUT/.outputs.jsonl`, with a hash of
every file. If the journal cannot be written, or files have been moved since, a call takes another
name rather than theirs.
"""

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from shutil import rmtree
from typing import Any, Self

from fedsim.core.atomic import ASIDE, check_links, link_error, unwritable
from fedsim.core.errors import DataError, OutputError
from fedsim.core.signals import defer_signals
from fedsim.results.record.earlier import EARLIER
from fedsim.results.record.folder import PACKED, STUDY
from fedsim.results.record.journal import locked_journal
from fedsim.results.record.lock import hold
from fedsim.results.record.manifest import hash_of
from fedsim.results.record.studies import study_in

OUTPUTS = ".outputs.jsonl"
"""In OUT: the journal."""

_SERIALS = count()  # makes names of staging folders unique among threads

_DIGITS = 12  # of a hash, in the name of a file that is kept


@dataclass(frozen=True)
class Call:
    """A call of a command that writes about runs.

    Attributes:
        root: the folder of all runs, with the journal.
        words: the command, its options, its places and a digest of the scenarios, as text.
    """

    root: Path
    words: str

    @classmethod
    def of(cls, command: str, places: Sequence[Path], **options: object) -> Self:
        """Return a call.

        Args:
            command: its name.
            places: the folders that it reads: of all runs, of a variant, or of one run.
            options: the options that affect its output.
        """
        roots = [_root_of(place) for place in places]
        parts = [
            (_relative(place, roots[0]), study.digest if (study := study_in(root)) else "")
            for place, root in zip(places, roots, strict=True)
        ]
        chosen = {key: value for key, value in sorted(options.items()) if value not in (None, ())}
        return cls(roots[0], json.dumps([command, parts, chosen], default=str))


def _root_of(place: Path) -> Path:
    """Return the folder of all runs of a place in it."""
    whole = place.resolve()
    return next(
        (parent for parent in (whole, *whole.parents[:2]) if (parent / STUDY).exists()), whole
    )


def _relative(path: Path, root: Path) -> str:
    """Return a path below a folder as one that moves with it, any other one as absolute."""
    whole = path.parent.resolve() / path.name
    return (whole.relative_to(root) if whole.is_relative_to(root) else whole).as_posix()


@dataclass
class Output:
    """A file or folder that is being written.

    Attributes:
        path: where to write it, in a staging folder.
        place: its final path after the block of `output`; the wanted path until then.
    """

    path: Path
    place: Path


@contextmanager
def output(call: Call, wanted: Path, *, keep_name: bool = False) -> Iterator[Output]:
    """Context manager for a file or folder that is written at `Output.path` within the block.

    Args:
        call: that writes it.
        wanted: its place, if no other file is in the way.
        keep_name: move a file that is in the way into `.earlier` of the runs instead.

    Raises:
        OutputError: it cannot be written, or a symbolic link stands in its place.
        OccupiedError: another process is writing into the folder.
    """
    wanted = wanted if wanted.name and wanted.name != ".." else wanted.resolve()
    if wanted.is_symlink():
        raise link_error(wanted)
    created = [each for each in (wanted.parent, *wanted.parent.parents) if not each.exists()]
    aside = wanted.parent / f"outputs.{os.getpid()}-{next(_SERIALS)}{ASIDE}"
    draft = Output(aside / wanted.name, wanted)
    try:
        _make(aside, wanted)
        yield draft
        draft.place = _settle(call, wanted, draft.path, keep_name=keep_name)
    except OutputError as error:
        raise _error_at_place(error, aside, wanted.parent) from None
    finally:
        with defer_signals():
            rmtree(aside, ignore_errors=True)
            for folder in created:
                with suppress(OSError):  # there is something in it
                    folder.rmdir()


def _make(aside: Path, wanted: Path) -> None:
    try:
        aside.mkdir(parents=True)
    except OSError as error:
        raise unwritable(wanted, error) from None


def _error_at_place(error: OutputError, aside: Path, folder: Path) -> OutputError:
    """Return an error about a file in a staging folder as one about its place."""
    path = Path(str(error.filename))
    if not path.is_relative_to(aside):
        return error
    place = folder / path.relative_to(aside)
    return OutputError(error.errno or 0, error.strerror or str(error), str(place))


def _settle(call: Call, wanted: Path, written: Path, *, keep_name: bool) -> Path:
    """Move the output into a free place, and return that place."""
    new = {name: hash_of(path) for name, path in _files(written).items()}
    journal = call.root / OUTPUTS
    with locked_journal(journal) as (lines, append):
        known = _hashes_by_place(lines, call)
        for place in _names(wanted, folder=written.is_dir()):
            own = known.get(_relative(place, call.root), {})
            if _hindering(place, new, own) and not keep_name:
                continue
            with hold(place) if written.is_dir() else nullcontext():
                hindering = _hindering(place, new, own)  # it may have changed
                if hindering and not keep_name:
                    continue
                for path in hindering:
                    _keep(call.root, path)
                _move(written, place, new)
                line = {"path": _relative(place, call.root), "call": call.words, "files": new}
                if any(own.get(name) != digest for name, digest in new.items()):
                    append(line)
                return place
    raise AssertionError("there is always another name")


def _files(written: Path) -> dict[str, Path]:
    """Return the files that were written, by their paths in the folder; "" for a single file."""
    if not written.is_dir():
        return {"": written}
    every = ((path.relative_to(written).as_posix(), path) for path in sorted(written.rglob("*")))
    return {name: path for name, path in every if path.is_file() and path.name[0] != "."}


def _hashes_by_place(lines: Sequence[Mapping[str, Any]], call: Call) -> dict[str, dict[str, str]]:
    """Return the hashes of files that a call has written last, by place and name."""
    hashes: dict[str, dict[str, str]] = {}
    for line in lines:
        files = line.get("files")
        if line.get("call") == call.words and isinstance(files, dict):
            hashes.setdefault(str(line.get("path")), {}).update(files)
    return hashes


def _names(wanted: Path, *, folder: bool) -> Iterator[Path]:
    """Yield the wanted place, then NAME-2, NAME-3 and so on; folders of runs are left out."""
    packed = PACKED if wanted.name.endswith(PACKED) else ""
    whole = wanted.with_name(wanted.name.removesuffix(packed)) if packed else wanted
    stem, ending = (wanted.name, "") if folder else (whole.stem, whole.suffix + packed)
    for number in count(1):
        place = wanted if number == 1 else wanted.with_name(f"{stem}-{number}{ending}")
        if not any(place.glob("seed-*")):
            yield place


def _hindering(place: Path, new: Mapping[str, str], own: Mapping[str, str]) -> list[Path]:
    """Return the files in a place that another call wrote, or a user wrote or changed."""
    paths = []
    for name, digest in new.items():
        path = place / name
        if not _is_free(path, {digest, own.get(name)}):
            paths.append(path)
        elif any(parent.is_file() for parent in path.parents if parent.is_relative_to(place)):
            paths.append(place)
    return paths


def _is_free(path: Path, digests: Collection[str | None]) -> bool:
    """Return whether the place has no file, or a file with one of these hashes."""
    if path.is_symlink() or not path.exists():
        return not path.is_symlink()
    return path.is_file() and hash_of(path) in digests


def _keep(root: Path, path: Path) -> None:
    """Move a file to the earlier runs, under a name with the hash of its content."""
    if path.is_symlink():
        raise link_error(path)
    place = root / EARLIER / f"{path.stem}-{hash_of(path)[:_DIGITS]}{path.suffix}"
    check_links(root, place)
    try:
        place.parent.mkdir(exist_ok=True)
        path.replace(place)  # a file of that name has the same content
    except OSError as error:
        raise unwritable(place, error) from None


def _move(written: Path, place: Path, new: Mapping[str, str]) -> None:
    """Move files into their place, except those that exist with the same content."""
    for name, digest in new.items():
        path = place / name
        check_links(place.parent, path)
        try:
            if not path.exists() or hash_of(path) != digest:
                path.parent.mkdir(parents=True, exist_ok=True)
                (written / name).replace(path)
        except OSError as error:
            raise unwritable(path, error) from None


def check_page(out: Path | None) -> None:
    """Check that the file of a page ends in .html.

    Raises:
        DataError: it does not.
    """
    if out is not None and out.suffix.lower() not in {".html", ".htm"}:
        text = f"--out {out}: a page is HTML; expected a file that ends in .html"
        raise DataError("out", text)


def describe_move(wanted: Path, place: Path) -> str:
    """Return a note on an output that got another name than requested; empty if it did not."""
    if place.name == wanted.name or not wanted.name:
        return ""
    return f"Kept the existing {wanted}; wrote {place}"
