"""One case: the fault, the same command again, and what is wrong with what is there then."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import fedsim
from fedsim.results.record.folder import SUMMARY
from fedsim.running.run import RunProgress
from tests.interrupting import Ended as Seen
from tests.interrupting import alive, hearing
from tests.runs import files

from .cases import RUNS, STUDY, Case
from .parts import ENVIRONMENT, Parts

_LOOK = 0.02  # seconds of real time between two looks at how many runs have ended


class Ended(NamedTuple):
    """How a case ended.

    Attributes:
        case: which one.
        struck: whether the study went on when the fault came.
        end: of the command: "done", or what it said.
        faults: what is wrong.
    """

    case: Case
    struck: bool
    end: str
    faults: list[str]


def tried(case: Case, parts: Parts, whole: Mapping[str, bytes]) -> Ended:
    """Let a fault happen, take the study up again, and judge.

    Args:
        case: the fault.
        parts: of a cluster; all are there.
        whole: the files of an undisturbed study.
    """
    with TemporaryDirectory(prefix="cluster-fault-") as home:
        out = Path(home) / "out"
        if case.part in {"parent", "all here"}:
            address = parts.address if case.part == "parent" else "local:2"
            first = _command(case, address, out)
        else:
            first = _call(case, parts, out)
        ages = _ages(out)
        parts.begin()
        again = _Told()
        faults = list(first.faults)
        try:
            fedsim.run(STUDY, out=out, cluster=parts.address, watch=again)
        except fedsim.FedsimError as error:
            faults.append(f"taken up again: {error}")
        faults += [f"taken up again: {each}" for each in again.faults()]
        faults += _anew(ages, _ages(out))
        faults += _differing(files(out), whole)
        return Ended(case, first.struck, first.end, faults)


class _First(NamedTuple):
    struck: bool
    end: str
    faults: list[str]


class _Told:
    """Counts what is told of runs."""

    def __init__(self) -> None:
        self.ended: Counter[tuple[str, int]] = Counter()

    def __call__(self, progress: RunProgress) -> None:
        if progress.ended:
            self.ended[progress.variant, progress.seed] += 1

    def faults(self) -> Iterator[str]:
        """Yield whose end was told more than once."""
        for (variant, seed), times in self.ended.items():
            if times > 1:
                yield f"{variant}, seed {seed} was told to have ended {times} times"


def _call(case: Case, parts: Parts, out: Path) -> _First:
    """Make the study by a call, during which a part fails."""
    told, error = _Told(), ""
    with _striking(case, lambda: len(told.ended), parts.ways()[case.part, case.way]) as struck:
        try:
            fedsim.run(STUDY, out=out, cluster=parts.address, watch=told)
        except fedsim.FedsimError as raised:
            error = str(raised)
    faults = list(told.faults())
    gone = re.match(r"the scheduler .* is gone: (\d+) runs? had not ended", error)
    if error and not (gone and case.part == "scheduler" and case.way in {"SIGKILL", "SIGTERM"}):
        faults.append(f"ended with: {error}")
    if gone and int(gone[1]) != RUNS - len(told.ended):
        faults.append(f"{len(told.ended)} runs had ended, but it said {error}")
    if not error and len(told.ended) != RUNS:
        faults.append(f"ended after {len(told.ended)} runs")
    return _First(bool(struck), error or "done", faults)


def _command(case: Case, address: str, out: Path) -> _First:
    """Make the study by a command, which is interrupted, or stopped for a while."""
    aside, study = out.parent / "tmp", out.parent / "study.yaml"
    aside.mkdir()
    study.write_text(json.dumps(STUDY))
    with subprocess.Popen(
        [sys.executable, "-m", "fedsim", "run", study, "--out", out, "--cluster", address],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | ENVIRONMENT | {"TMPDIR": str(aside)},
        preexec_fn=hearing,  # noqa: PLW1509 - what it does is safe beside threads
    ) as process:
        name, _, to_all = case.way.partition(" ")
        number = signal.Signals[name]

        def strike() -> Callable[[], None]:
            with suppress(ProcessLookupError):
                (os.killpg if to_all else os.kill)(process.pid, number)
            return lambda: process.send_signal(signal.SIGCONT)

        with _striking(case, lambda: len(_ages(out)), strike) as struck:
            _, told = process.communicate()
    left = [] if number == signal.SIGKILL else sorted(path.name for path in aside.iterdir())
    seen = Seen(process.returncode, told, left, alive(process.pid))
    end = f"ended with {seen.code}" if seen.code else "done"
    return _First(bool(struck), end, list(_wrong(seen, number)))


def _wrong(seen: Seen, number: signal.Signals) -> Iterator[str]:
    """Yield what is wrong with how a command ended that got a signal, perhaps too late."""
    if number in {signal.SIGINT, signal.SIGTERM}:
        yield from (f"{fault}: {seen.said}" for fault in seen.faults(number))
    elif seen.code not in {0, -signal.SIGKILL if number == signal.SIGKILL else 0}:
        yield f"ended with {seen.code}: {seen.said}"
    elif seen.alive:
        yield "a process is left"


@contextmanager
def _striking(
    case: Case, ended: Callable[[], int], strike: Callable[[], Callable[[], None]]
) -> Iterator[list[bool]]:
    """Let a fault happen when so many runs have ended; yield what says whether it has happened."""
    over, struck = threading.Event(), list[bool]()

    def strikes() -> None:
        while ended() < case.after:
            if over.wait(_LOOK):
                return
        if over.wait(case.pause):
            return
        back = strike()
        struck.append(True)
        time.sleep(case.lasting if case.way in {"SIGSTOP", "stall"} else 0)
        back()

    thread = threading.Thread(target=strikes)
    thread.start()
    try:
        yield struck
    finally:
        over.set()
        thread.join()


def _ages(out: Path) -> dict[str, int]:
    """Return when the runs that are whole ended."""
    return {
        str(path.relative_to(out)): path.stat().st_mtime_ns
        for path in out.glob(f"*/seed-*/{SUMMARY}")
    }


def _anew(before: Mapping[str, int], after: Mapping[str, int]) -> Iterator[str]:
    for name, age in before.items():
        if after.get(name) != age:
            yield f"{name} was whole, and was made anew"


def _differing(found: Mapping[str, bytes], whole: Mapping[str, bytes]) -> Iterator[str]:
    """Yield which files are more, or less, or others than those of an undisturbed study."""
    drawn = {"study.yaml", "convergence.png"}
    kinds = {
        "left": sorted(found.keys() - whole.keys() - drawn),
        "missing": sorted(whole.keys() - found.keys()),
        "different": sorted(
            name for name in found.keys() & whole.keys() if found[name] != whole[name]
        ),
    }
    for kind, names in kinds.items():
        if names:
            more = f" and {len(names) - 3} more" if names[3:] else ""
            yield f"{kind}: {', '.join(names[:3])}{more}"
