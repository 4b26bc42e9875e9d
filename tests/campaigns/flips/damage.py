"""What can happen to a file: each kind of damage as a function of its bytes and of chance."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfile

import numpy as np

Change = Callable[[bytearray, np.random.Generator], None]
SECTOR = 512


def _bit(data: bytearray, rng: np.random.Generator) -> None:
    place = int(rng.integers(8 * len(data)))
    data[place // 8] ^= 1 << place % 8


def _bits(data: bytearray, rng: np.random.Generator) -> None:
    for _ in range(int(rng.integers(2, 9))):
        _bit(data, rng)


def _byte(data: bytearray, rng: np.random.Generator) -> None:
    """Another byte: of text often another digit, which is as readable as what was there."""
    place = int(rng.integers(len(data)))
    others = [each for each in b'0123456789\0\xff \n{["' if each != data[place]]
    data[place] = others[rng.integers(len(others))]


def _cut(data: bytearray, rng: np.random.Generator) -> None:
    del data[int(rng.integers(len(data))) :]


def _end(data: bytearray, rng: np.random.Generator) -> None:
    del data[-int(rng.integers(1, 17)) :]


def _front(data: bytearray, rng: np.random.Generator) -> None:
    del data[: int(rng.integers(1, 17))]


def _zeros(data: bytearray, rng: np.random.Generator) -> None:
    """A sector of zeros, as a disk gives back that has lost one."""
    place = int(rng.integers(len(data))) // SECTOR * SECTOR
    count = min(SECTOR, len(data) - place)
    data[place : place + count] = bytes(count)


def _inserted(data: bytearray, rng: np.random.Generator) -> None:
    place = int(rng.integers(len(data) + 1))
    data[place:place] = rng.bytes(int(rng.integers(1, 65)))


def _removed(data: bytearray, rng: np.random.Generator) -> None:
    place = int(rng.integers(len(data)))
    del data[place : place + int(rng.integers(1, 65))]


def _twice(data: bytearray, rng: np.random.Generator) -> None:
    place = int(rng.integers(len(data)))
    data[place:place] = data[place : place + int(rng.integers(1, 129))]


def _more(data: bytearray, rng: np.random.Generator) -> None:
    data += rng.bytes(int(rng.integers(1, 65)))


def _noise(data: bytearray, rng: np.random.Generator) -> None:
    data[:] = rng.bytes(len(data))


def _emptied(data: bytearray, rng: np.random.Generator) -> None:
    data.clear()


CHANGES: dict[str, Change] = {
    "a bit": _bit,
    "bits": _bits,
    "a byte": _byte,
    "cut": _cut,
    "its end": _end,
    "its front": _front,
    "a sector of zeros": _zeros,
    "inserted": _inserted,
    "removed": _removed,
    "a piece twice": _twice,
    "more behind": _more,
    "noise": _noise,
    "emptied": _emptied,
}
"""What changes the bytes of a file that has some."""

MISSING, FOLDER, SWAPPED, OTHER = "missing", "a folder", "of another run", "another file"
_KINDS = (*["a bit"] * 12, *CHANGES, MISSING, FOLDER, *[SWAPPED] * 2, OTHER)
"""The kinds as they are drawn: half of all cases are single bits."""


@dataclass(frozen=True)
class Damage:
    """What happens to a file of a folder of runs.

    Attributes:
        kind: of the damage.
        file: that is damaged, within the folder.
        state: of the random numbers that it takes.
        other: the file that takes its place, where one does.
    """

    kind: str
    file: str
    state: tuple[int, ...]
    other: str = ""

    def to(self, folder: Path) -> bool:
        """Damage a file; say whether it is not as it was."""
        path = folder / self.file
        before = path.read_bytes()
        if self.kind == MISSING:
            path.unlink()
        elif self.kind == FOLDER:
            path.unlink()
            path.mkdir()
        elif self.other:
            copyfile(folder / self.other, path)
        else:
            data = bytearray(before)
            CHANGES[self.kind](data, np.random.default_rng(self.state))
            path.write_bytes(data)
        return not path.is_file() or path.read_bytes() != before

    def __str__(self) -> str:
        return f"{self.file}: {self.kind}{f' ({self.other})' if self.other else ''}"


def drawn(files: Sequence[str], state: tuple[int, ...]) -> Damage:
    """Return damage to one of some files.

    Args:
        files: of a folder of runs, none of them empty.
        state: of the random numbers.
    """
    rng = np.random.default_rng(state)
    file = str(rng.choice(files))
    kind = str(rng.choice(_KINDS))
    name, home = Path(file).name, Path(file).parent
    alike = [each for each in files if each != file and Path(each).name == name]
    beside = [each for each in files if each != file and Path(each).parent == home]
    others = {SWAPPED: alike, OTHER: beside}.get(kind, [])
    if kind in (SWAPPED, OTHER) and not others:
        kind = "a bit"
    other = str(rng.choice(others)) if others else ""
    return Damage(kind, file, (*state, 1), other)
