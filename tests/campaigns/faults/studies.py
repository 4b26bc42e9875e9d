"""The study that faults are done to, and what counts as a fault of fedsim's.

A study is two variants, long enough for logs of two parts. It is made in one of
several ways, into a folder that is empty, that holds runs of the scenario before it was edited,
or that holds the very runs, which are to be made anew. What it leaves undisturbed is what it has
to leave after any disturbance, once the same commands have been given again: every file of the
folder, each to the last byte. Nothing that a run writes tells of the time of day.
"""

import json
import shutil
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path

from fedsim.core.atomic import ASIDE
from fedsim.results.record.folder import SUMMARY
from fedsim.results.record.lock import HOLDER
from fedsim.running.staging import MAKING
from tests.campaigns.faults.commands import Ended, given, gone
from tests.interrupting import NOISE
from tests.runs import files, small

WAYS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "turn": ((),),
    "jobs": (("--jobs", "2"),),
    "shards": (("--shard", "1/2"), ("--shard", "2/2")),
}
"""How a study is made: the options of its commands."""

BEFORE = ("empty", "edited", "fresh")
"""What the folder holds before."""

STUDY = small(sweep={"algorithm.censor": [0.01, 0.1]}, stop={"rounds": 16}, models={"every": 8})
EARLIER = {**STUDY, "algorithm": {"kind": "chb", "step_size": "0.5/L"}}

Files = dict[str, bytes]


class Study:
    """A study that is made in one way, into a folder that holds what is said.

    Args:
        home: an empty folder for all that is made of it.
        way: one of `WAYS`.
        before: one of `BEFORE`.
    """

    def __init__(self, home: Path, way: str, before: str) -> None:
        self.home, self.way, self.before = home / f"{way}-{before}", way, before
        self.home.mkdir(parents=True)
        self.scenario, self.out = self.home / "study.yaml", self.home / "out"
        self.temporary = self.home / "said"
        self.temporary.mkdir()

    @property
    def commands(self) -> Iterator[list[str | Path]]:
        """The commands that make the study."""
        anew = ["--fresh"] if self.before == "fresh" else []
        for options in WAYS[self.way]:
            yield ["run", self.scenario, "--out", self.out, *options, *anew]

    @cached_property
    def earlier(self) -> Path:
        """A folder as it is before."""
        folder = self.home / "earlier"
        self.scenario.write_text(json.dumps(EARLIER if self.before == "edited" else STUDY))
        if self.before != "empty":
            words: list[str | Path] = ["run", self.scenario, "--out", folder]
            assert given(words, self.temporary).code == 0
        self.scenario.write_text(json.dumps(STUDY))  # which is YAML
        return folder

    @cached_property
    def wanted(self) -> Files:
        """What it leaves undisturbed."""
        self.begin()
        for words in self.commands:
            ended = given(words, self.temporary)
            assert ended.code == 0, ended.said
        return files(self.out)

    def begin(self) -> None:
        """Make the folder what it is before."""
        shutil.rmtree(self.out, ignore_errors=True)
        if self.earlier.exists():
            shutil.copytree(self.earlier, self.out)

    def completed(self) -> Iterator[str]:
        """Give the commands, undisturbed, and yield what is wrong with what they leave."""
        for words in self.commands:
            ended = given(words, self.temporary)
            if ended.code:
                yield f"taking it up ended with {ended.code}: {ended.said[-500:]}"
            yield from noises(ended)
        yield from self.differences()

    def differences(self, *, leftovers: bool = True) -> Iterator[str]:
        """Yield in what the folder differs from what it is to be, what is left over if asked."""
        left = files(self.out)
        for name in sorted(left.keys() ^ self.wanted.keys()):
            if name in left and not leftovers:
                continue
            yield f"{name} is {'left over' if name in left else 'missing'}"
        for name in sorted(left.keys() & self.wanted.keys()):
            if left[name] != self.wanted[name]:
                yield f"{name} has other bytes"

    def readable(self, *, compared: bool = True, damaged: bool = False) -> Iterator[str]:
        """Yield what is wrong with what status and compare say of the folder as it is.

        Args:
            compared: whether compare is tried, too.
            damaged: whether files may be, which is then to be said.
        """
        if not self.out.is_dir():
            return
        for command in ("status", "compare")[: 1 + compared]:
            words: list[str | Path] = [command, self.out]
            if command == "compare":
                words += ["--out", self.home / "compared"]
            ended = given(words, self.temporary)
            yield from noises(ended, command)
            known = (self.out / "study.json").exists() and not damaged
            if ended.code not in ({0, 2} if command == "compare" or not known else {0}):
                yield f"{command} ended with {ended.code}: {ended.said[-500:]}"
            if not damaged and "damaged" in ended.said + ended.printed:
                yield f"{command} says {ended.said + ended.printed}"

    def mixed(self) -> Iterator[str]:
        """Yield runs that count as ended, and are neither what is wanted nor what was there."""
        earlier = files(self.earlier) if self.earlier.exists() else {}
        for summary in self.out.glob(f"*/*/{SUMMARY}"):
            name = str(summary.parent.relative_to(self.out))
            own = files(summary.parent)
            if not any(own.items() >= _of(whole, name).items() for whole in (self.wanted, earlier)):
                yield f"{name} has a summary and is not whole"

    def leftovers(self) -> set[str]:
        """Return what is there that a command tidies up at its end, if it is heard."""
        names = {MAKING, HOLDER}
        found = [
            path for path in self.out.rglob("*") if path.name.endswith(ASIDE) or path.name in names
        ]
        return {str(path) for path in (*found, *(self.temporary / "tmp").glob("*"))}


def noises(ended: Ended, command: str = "run") -> Iterator[str]:
    """Yield what a command says that nobody is to read."""
    for noise in NOISE[:-1]:
        if noise in ended.said:
            yield f"{command} says {noise}: {ended.said[-1500:]}"


def alone(ended: Ended) -> Iterator[str]:
    """Yield whether processes of a command have not ended with it."""
    if not gone(ended.group):
        yield "a process is left"


def _of(whole: Files, name: str) -> Files:
    own = {path[len(name) + 1 :]: content for path, content in whole.items() if name in path}
    return own or {"": b""}  # what there is none of contains nothing
