"""Makes the runs in every way, and compares what they wrote."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .ways import FIRST, NOTHING, PROMISED, Way

ROOT = Path(__file__).resolve().parents[3]
LEVELS = ("log", "numbers", "files")

Made = dict[str, Any]
"""What `tests.campaigns.same_bytes.making` writes."""


class Seen(NamedTuple):
    """What was seen of one way.

    Attributes:
        way: which one.
        promise: what was promised; less than the way says where packages differ, too.
        facts: what it computed with.
        runs: how many were compared.
        same: how many of them had the same, by what.
        broken: those that a promise was not kept for.
    """

    way: Way
    promise: str
    facts: dict[str, Any]
    runs: int
    same: dict[str, int]
    broken: list[str]


def compared(ways: Iterable[Way], options: Sequence[str] = ()) -> Iterator[Seen]:
    """Make the runs in the first way and in others; yield what was seen of each."""
    first = make(FIRST, options)
    yield compare(FIRST, first, first)
    for way in ways:
        if way.needs is None or importlib.util.find_spec(way.needs):
            yield compare(way, first, make(way, options))


def make(way: Way, options: Sequence[str]) -> Made:
    """Make the runs in one way, in a process of its own.

    Raises:
        RuntimeError: they cannot be made so.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "hashes.json")
        module = [way.python or sys.executable, "-m", "tests.campaigns.same_bytes.making"]
        command = [*module, str(out), *options, *way.arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **way.environment}
        done = subprocess.run(
            command, env=environment, cwd=ROOT, check=False, capture_output=True, text=True
        )
        if done.returncode:
            message = f"{way.name}: {done.stderr[-3000:]}"
            raise RuntimeError(message)
        made: Made = json.loads(out.read_text(encoding="utf-8"))
        return made


def compare(way: Way, first: Made, made: Made) -> Seen:
    """Hold what was made in one way against the first."""
    both = sorted(set(first["runs"]) & set(made["runs"]))
    equal = {
        level: {name for name in both if first["runs"][name][level] == made["runs"][name][level]}
        for level in LEVELS
    }
    numeric = ("numpy", "scipy", "blas")
    alike = all(first["facts"][name] == made["facts"][name] for name in numeric)
    promise = way.promise if alike else NOTHING
    broken = [name for name in both if any(name not in equal[of] for of in PROMISED[promise])]
    counts = {level: len(names) for level, names in equal.items()}
    return Seen(way, promise, made["facts"], len(both), counts, broken)


def row(seen: Seen) -> str:
    """Return a row of the table, as the documentation has it."""
    facts = seen.facts
    name = seen.way.name
    if seen.way.python:
        name = f"Python {facts['python']}, NumPy {facts['numpy']}, SciPy {facts['scipy']}"
    figures = " | ".join(str(seen.same[level]) for level in LEVELS)
    return f"| {name} | {seen.promise} | {seen.runs} | {figures} |"


HEAD = (
    "| how the runs are made | promised | runs | same log | same numbers | same files |\n"
    "|---|---|--:|--:|--:|--:|"
)
