"""A disk that has no room any more from a chosen moment on."""

import errno
from pathlib import Path
from typing import IO, Any

import pytest

from fedsim.record.writing import ASIDE

MOMENTS = ("open", "write", "close", "rename")
"""When a file can meet a full disk."""


class Disk:
    """Counts the files that are written, and fails at one moment of one of them, and ever after.

    Args:
        file: the number of the file, from 0; none where below.
        moment: one of `MOMENTS`.
    """

    def __init__(self, file: int = -1, moment: str = "open") -> None:
        self.names: list[str] = []
        self.full = False
        self._file, self._moment = file, moment

    def meet(self, number: int, moment: str) -> None:
        """Raise if this is the moment, or it has been."""
        self.full = self.full or (number == self._file and moment == self._moment)
        if self.full and moment != "rename":
            raise OSError(errno.ENOSPC, "No space left on device")
        if self.full and number == self._file:
            raise OSError(errno.ENOSPC, "No space left on device")

    def mount(self, patch: pytest.MonkeyPatch) -> None:
        """Let all drafts be written to this disk."""
        opened, replaced = Path.open, Path.replace

        def open_(path: Path, mode: str = "r", **options: Any) -> Any:
            if not (path.name.endswith(ASIDE) and "w" in mode):
                return opened(path, mode, **options)
            number = len(self.names)
            self.names.append(str(path))
            self.meet(number, "open")
            return _File(opened(path, mode, **options), self, number)

        def replace(path: Path, target: Path) -> Path:
            if str(path) in self.names:
                self.meet(self.names.index(str(path)), "rename")
            return replaced(path, target)

        patch.setattr(Path, "open", open_)
        patch.setattr(Path, "replace", replace)


class _File:
    """A file on that disk."""

    def __init__(self, file: IO[bytes], disk: Disk, number: int) -> None:
        self._file, self._disk, self._number = file, disk, number

    @property
    def closed(self) -> bool:
        return self._file.closed

    def write(self, content: bytes) -> int:
        self._disk.meet(self._number, "write")
        return self._file.write(content)

    def flush(self) -> None:
        self._disk.meet(self._number, "write")
        self._file.flush()

    def close(self) -> None:
        self._file.close()
        self._disk.meet(self._number, "close")
