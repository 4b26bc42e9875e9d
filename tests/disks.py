"""A disk that has no room any more from a chosen moment on; `met(folder, disk)` mounts it."""

import errno
import os

from fedsim.core.atomic import ASIDE
from fedsim.results.record.live import LIVE
from tests.campaigns.faults.operations import Operation

MOMENTS = ("open", "write", "close", "rename")
"""When a file can meet a full disk."""


class Disk:
    """Counts the files that are written, and fails at one moment of one of them, and ever after.

    Args:
        file: the number of the file, from 0; none where below.
        moment: one of `MOMENTS`.

    Attributes:
        names: of the files, as long as they are drafts.
        full: whether the moment has come.
    """

    def __init__(self, file: int = -1, moment: str = "open") -> None:
        self.names: list[str] = []
        self.full = False
        self._file, self._moment = file, moment

    def __call__(self, operation: Operation) -> None:
        """Raise if this is the moment, or it has been; what has been written can be renamed."""
        name, path = operation.name, str(operation.path)
        if name not in MOMENTS or not (path.endswith(ASIDE) or name == "rename"):
            return
        # How far a run is, is written down by the clock, so those files have no number.
        counted = LIVE not in operation.path.parts
        if name == "open" and counted:
            self.names.append(path)
        chosen = counted and self._file >= 0 and self._number(path) == self._file
        self.full = self.full or (chosen and name == self._moment)
        if self.full and (chosen or name != "rename"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _number(self, path: str) -> int:
        """Return which file this is, by its own name or by the one that it is to get."""
        latest = len(self.names) - 1
        found = (each == path or each.startswith(f"{path}.") for each in reversed(self.names))
        return latest - next((back for back, own in enumerate(found) if own), latest + 1)
