"""How fast is fedsim beside plain loops, the limit of the machine, and other simulators?

    python analysis/benchmarks/peers/compare.py [--workloads w1 w2 w3 w4 w5] [--turns 5]
        [--rounds 30] [--folder DIR] [--with fedjax flwr pfl]

Every contestant is a process that is ready before the first turn; then they take turns, so that
what else the machine does falls on all of them alike. What is printed is the median over turns of
client-updates a second (a client's whole work of a round), and its ratio to the limit; then the
processor time of one, over all threads, and the limit's as a share of it, which other programs on
the machine leave nearly as it is. fedsim's
figures are those of whole rounds: with messages over radios, energy, the log and an observer; as it
comes, evaluator and observed rounds are those that it chooses itself. Others are installed from
their packages, each into an environment of its own in the folder, when they are asked for; they
compute in float32.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import venv
from math import isfinite
from pathlib import Path
from typing import IO, NamedTuple

from workloads import HERE, prepare

OTHERS = {
    "fedjax": (
        *("fedjax==0.0.17", "jax==0.4.25", "jaxlib==0.4.25", "numpy<2", "scipy<1.13"),
        *("dm-haiku==0.0.12", "flax==0.8.2", "optax==0.2.2", "chex==0.1.86"),
    ),
    "flwr": ("flwr[simulation]", "torch==2.13.0"),
    "pfl": ("pfl==0.6.0", "torch==2.13.0"),
}
"""Other simulators, and what is installed of them."""

ABLE = {"fedjax": {"w1", "w2", "w3"}, "flwr": {"w1", "w5"}, "pfl": {"w5"}}
"""Which workloads they have a program for; a round of a thousand clients takes Flower minutes."""

NETWORKS = {"w5"}
"""Those in which the first contestant is a plain loop in PyTorch, and no limit of the machine."""

FEDSIM = {
    "fedsim, as it comes": ("base",),
    "fedsim, without a fleet": ("base", "fleet=[]"),
    "fedsim, float32": ("float32",),
    "fedsim, compiled": ("compiled", "observe.every=10"),
    "fedsim, one by one": ("reference", "observe.every=10"),
}


class Contestant(NamedTuple):
    """A program that takes turns.

    Attributes:
        name: for the table.
        process: that runs.
        rates: what its turns came to, client-updates a second.
        costs: the processor time of a client-update in these turns, s; NaN if not measured.
    """

    name: str
    process: subprocess.Popen[str]
    rates: list[float]
    costs: list[float]

    def answer(self) -> str:
        """Return the next line that it says, beside what it says of other things.

        Raises:
            RuntimeError: it has ended.
        """
        stream: IO[str] | None = self.process.stdout
        for line in stream or ():
            words = line.split()
            if words == ["ready"] or (len(words) == 3 and words[0].isdigit()):
                return line
        raise RuntimeError(f"{self.name} has ended with code {self.process.wait()}")

    def turn(self) -> None:
        """Let it take a turn."""
        if self.process.stdin is not None:
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
        updates, seconds, processor = self.answer().split()
        self.rates.append(int(updates) / float(seconds))
        self.costs.append(float(processor) / int(updates))


def environment(name: str, folder: Path) -> str:
    """Return the interpreter of an environment that has another simulator in it."""
    place = folder / "environments" / name
    python = place / "bin" / "python"
    if not (place / "ready").exists():
        venv.create(place, with_pip=True, clear=True)
        install = [str(python), "-m", "pip", "install", "--quiet", *OTHERS[name]]
        subprocess.run(install, check=True)
        (place / "ready").touch()
    return str(python)


def begin(name: str, python: str, script: str, *arguments: str) -> Contestant:
    """Start a contestant and wait until it is ready."""
    command = [python, str(HERE / f"contestant_{script}.py"), *arguments]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=HERE,
    )
    contestant = Contestant(name, process, [], [])
    contestant.answer()
    return contestant


def contestants(workload: str, folder: Path, others: list[str], rounds: int) -> list[Contestant]:
    """Return all programs of a workload, the limit first."""
    place, length = str(folder), f"stop.rounds={rounds}"
    if workload in NETWORKS:
        own = [
            begin("plain PyTorch loop", sys.executable, "torch", workload, place),
            begin("the same, one thread", sys.executable, "torch", workload, place, "1"),
            begin("fedsim", sys.executable, "fedsim", workload, place, "base", length),
        ]
        return own + _able(workload, folder, others)
    own = [
        begin("limit, two threads", sys.executable, "limit", workload, place),
        begin("plain NumPy loop", sys.executable, "numpy", workload, place),
    ]
    for name, given in FEDSIM.items():
        own.append(begin(name, sys.executable, "fedsim", workload, place, *given, length))
    return own + _able(workload, folder, others)


def _able(workload: str, folder: Path, others: list[str]) -> list[Contestant]:
    able = [name for name in others if workload in ABLE[name]]
    return [begin(name, environment(name, folder), name, workload, str(folder)) for name in able]


def compare(workload: str, folder: Path, others: list[str], turns: int, rounds: int) -> None:
    """Let all take turns at a workload, and print what they came to."""
    prepare(workload, folder)
    taking_part = contestants(workload, folder, others, rounds)
    try:
        for _ in range(turns):
            for contestant in taking_part:
                contestant.turn()
    finally:
        for contestant in taking_part:
            with contestant.process:  # closes its pipes and waits for its end
                contestant.process.kill()
    report(workload, taking_part)


def report(workload: str, taking_part: list[Contestant]) -> None:
    """Print the medians of all turns, the limit's first."""
    found = [
        (each.name, statistics.median(each.rates), statistics.median(each.costs))
        for each in taking_part
    ]
    first, limit, least = found[0]
    print(f"\n{workload}: client-updates a second, and as a share of {first};")
    print("  us of processor time of one, and the first's as a share of it")
    for name, rate, cost in found:
        by_time = f"{1e6 * cost:10,.1f} {least / cost:7.2f}" if isfinite(cost) else ""
        print(f"  {name:24} {rate:10,.0f} {rate / limit:7.2f} {by_time}", flush=True)


def main() -> None:
    """Compare at all workloads that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workloads", nargs="+", default=["w1", "w2", "w3", "w4", "w5"])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=30, help="of a turn of fedsim; 4 or more")
    parser.add_argument("--folder", type=Path, help="keeps data and environments")
    parser.add_argument("--with", nargs="*", default=[], choices=OTHERS, dest="others")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (given.folder or Path(temporary)).resolve()
        for workload in given.workloads:
            compare(workload, folder, given.others, given.turns, given.rounds)


if __name__ == "__main__":
    main()
