"""What was computed once, as files of the repository, and the pages that are written from them."""

import csv
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO


@contextmanager
def replacing(path: Path) -> Iterator[TextIO]:
    """Open a text file that takes the place of another one when all of it is written.

    A computation of hours that is interrupted, or fails, leaves the old file as it was.

    Args:
        path: of the file; its folder has the new one until then.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(handle, "w", newline="", encoding="utf-8") as file:  # noqa: PTH123 - a handle
            yield file
        Path(name).chmod(path.stat().st_mode if path.exists() else 0o644)
        os.replace(name, path)  # noqa: PTH105 - beside `str.replace`, Path's is easily misread
    except BaseException:
        Path(name).unlink()
        raise


def asked_for(arguments: Sequence[str], *words: str) -> str:
    """Return what a script is asked to compute anew, by its only argument; empty for nothing.

    Raises:
        SystemExit: the arguments are others.
    """
    if list(arguments) not in ([], *([word] for word in words)):
        sys.exit(f"got {' '.join(arguments)}; expected nothing, or: {' or '.join(words)}")
    return "".join(arguments)


@dataclass(frozen=True)
class Finding:
    """The errors of one setting.

    Attributes:
        errors: of the durations of rounds, relative.
        tau: Kendall's, of the rankings of the methods by time.
    """

    errors: Sequence[float]
    tau: float


Findings = Sequence[tuple[str, str, Finding]]
"""Those of a setting, each with its model and fleet: that of the presets, and calibrated."""

COLUMNS = ("setting", "model", "fleet", "tau", "errors")


def write_findings(found: Iterable[tuple[int, Findings]], path: Path) -> None:
    """Write what is found in each setting."""
    with replacing(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for setting, each in found:
            for model, fleet, one in each:
                writer.writerow([setting, model, fleet, f"{one.tau:.4f}", join(one.errors)])


def read_findings(path: Path) -> Iterator[tuple[int, Findings]]:
    """Yield what was found in each setting."""
    found = dict[int, list[tuple[str, str, Finding]]]()
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            one = Finding(split(row["errors"]), float(row["tau"]))
            found.setdefault(int(row["setting"]), []).append((row["model"], row["fleet"], one))
    yield from found.items()


def write_errors(errors: Mapping[str, Sequence[float]], path: Path) -> None:
    """Write the errors of each row of a table, by its name."""
    with replacing(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["row", "errors"])
        writer.writerows([name, join(each)] for name, each in errors.items())


def read_errors(path: Path) -> Mapping[str, Sequence[float]]:
    """Return the errors of each row of a table, by its name."""
    with path.open(newline="", encoding="utf-8") as file:
        csv.field_size_limit(1 << 20)
        return {row["row"]: split(row["errors"]) for row in csv.DictReader(file)}


def join(errors: Iterable[float]) -> str:
    """Return errors as text, with four digits.

    >>> join([0.012345, -1.0]), split("0.01234 -1")
    ('0.01234 -1', [0.01234, -1.0])
    """
    return " ".join([f"{each:.4g}" for each in errors])


def split(text: str) -> list[float]:
    """Return the errors that a text has."""
    return [float(word) for word in text.split()]


def fill(page: Path, name: str, lines: Iterable[str]) -> None:
    """Write lines into a page, in place of those between its marks of a name."""
    begin, end = (f"<!-- {mark}{name} -->\n" for mark in ("", "end of "))
    before, rest = page.read_text(encoding="utf-8").split(begin)
    after = rest.split(end)[1]
    text = "".join(f"{line}\n" for line in lines)
    with replacing(page) as file:
        file.write(f"{before}{begin}{text}{end}{after}")
