"""Resumption of an interrupted campaign whose scenario has Python objects.

It cannot be verified that such code is unchanged, so a later call makes its runs again. But an
interrupted campaign that is repeated should not begin from the start. So while it makes
runs, it keeps a journal in its folder of those that are complete, with a hash of the script, its
arguments, and all files that hold the user's code. If the same command is repeated, with these
unchanged, the runs in the journal are kept. The journal goes when all runs are complete.

In an interactive session there are no such files, and so there is no journal.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from fedsim.core.blocks.plugins import has_script
from fedsim.core.errors import DataError
from fedsim.core.files import read_file
from fedsim.core.loaded import LOADED
from fedsim.results.record.journal import append_lines, read_lines
from fedsim.results.record.manifest import SEAL, read_manifest
from fedsim.running.imports import INSTALLED

_NAME = ".unfinished"
_KNOWN = frozenset({Path(os.__file__).parent, Path(__file__).parents[1]})
"""The folders of Python's own modules, and of fedsim's."""


class CampaignJournal:
    """The journal of a campaign.

    Args:
        out: the folder of the runs, whose lock is held.
        shard: of the campaign, as K/N; empty for all runs.
        fresh: whether all runs are made again.
    """

    def __init__(self, out: Path, shard: str = "", *, fresh: bool = False) -> None:
        share = f"-{shard.replace('/', '-of-')}" if shard else ""
        self._path = out / f"{_NAME}{share}.jsonl"
        code, lines = hash_of_files(), read_lines(self._path)
        self._known = bool(code)
        begun = self._known and not fresh and lines and lines[0].get("code") == code
        self._seals = {line.get("run") for line in lines} if begun else set()
        if not begun:
            self.end()
            if self._known:
                append_lines(self._path, {"code": code})

    def has(self, seal: object) -> bool:
        """Return whether the campaign has made the run whose manifest has this seal."""
        return seal is not None and seal in self._seals

    def add(self, run: Path) -> None:
        """Note that a run is complete."""
        if self._known:
            try:
                append_lines(self._path, {"run": read_manifest(run)[SEAL]})
            except DataError:
                return  # it is made again

    def end(self) -> None:
        """Forget the runs, since all are complete."""
        with suppress(OSError):  # it is of no use, but harmless
            self._path.unlink()


def hash_of_files() -> str:
    """Return a hash of the script, its arguments, and the files of the user's code.

    These are all files that this process has loaded modules from, but those of Python, of fedsim
    and of installed packages, of which the versions count. The hash is empty in an interactive
    session, and if a file cannot be read or is newer than this process.
    """
    if hasattr(sys, "ps1") or not has_script():
        return ""
    digest = sha256("\0".join((sys.version, *sys.argv, *_packages())).encode(errors="replace"))
    try:
        for file in sorted(set(_files())):
            if file.stat().st_mtime > LOADED:
                return ""
            digest.update(sha256(read_file(file)).digest())
    except OSError:
        return ""
    return digest.hexdigest()


def _files() -> Iterator[Path]:
    """Yield the files of the modules that are neither Python's, fedsim's nor of a package."""
    for module in [*sys.modules.values()]:
        file = getattr(module, "__dict__", {}).get("__file__")
        path = Path(file if isinstance(file, str) else "")
        if path.name and INSTALLED.isdisjoint(path.parts) and _KNOWN.isdisjoint(path.parents):
            yield path


def _packages() -> list[str]:
    """Return the names and versions of installed packages, as their folders have them."""
    folders = [Path(each) for each in sys.path if not INSTALLED.isdisjoint(Path(each).parts)]
    return sorted(path.name for folder in folders for path in folder.glob("*.*-info"))
