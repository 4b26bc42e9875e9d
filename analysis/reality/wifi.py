"""Transfers in one Wi-Fi cell: cases drawn by a seed, and what ns-3 says of them.

The program that simulates every frame is ns3/wifi.cc; what it said of all cases is in ns3/wifi.csv,
so a comparison with it needs no ns-3.

    python analysis/reality/wifi.py             the errors against what ns-3 said once
    python analysis/reality/wifi.py simulate    the same after asking ns-3 anew (minutes)
"""

import csv
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import packets
from stored import asked_for, replacing

from fedsim.physics.network_models import Site
from fedsim.physics.radios import ConstantRate
from fedsim.physics.radios.channel import NONE
from fedsim.physics.topology import star
from fedsim.physics.wifi import Wifi, modulation_rate
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.models import layer

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "ns3/wifi.cc"
TABLE = HERE / "ns3/wifi.csv"


class CaseSet(NamedTuple):
    """A set of drawn cases.

    Attributes:
        seed: of the draws.
        cases: their number.
        both: whether every other message goes up, whatever is drawn.
    """

    seed: int
    cases: int
    both: bool = False


SETS = {
    "develop": CaseSet(2133, 40),
    "validate": CaseSet(9133, 60),
    "validate-2": CaseSet(17133, 60),
    "held-out": CaseSet(27133, 60),
    "both ways": CaseSet(37133, 20, both=True),
}
"""The sets of cases: three to develop the model with, and two that only report its errors."""

RUNS = 5
"""The runs of a case: backoffs are random."""

MOST = 30e6
"""The most bytes of a case, over all its stations: what ns-3 simulates in seconds."""

LIBRARIES = (
    "core",
    "network",
    "internet",
    "applications",
    "mobility",
    "propagation",
    "traffic-control",
    "wifi",
)

COLUMNS = ("set", "case", "seed", "times")

Standard = Literal["n", "ac", "ax"]

HIGHEST: dict[Standard, int] = {"n": 7, "ac": 8, "ax": 11}
"""The highest modulation of each standard that all widths and numbers of streams drawn have."""


@dataclass(frozen=True, slots=True)
class Case:
    """Equal messages between the stations of a cell and its access point.

    Attributes:
        standard: n, ac or ax.
        width: of the channel, MHz.
        streams: of every transmission.
        transport: udp or tcp, with a new connection for each message.
        direction: up (to the access point), down, or both: every other message goes up.
        bytes: of each message.
        starts: by station, s.
        mcs: by station, of its data both ways.
    """

    standard: Standard
    width: int
    streams: int
    transport: Literal["udp", "tcp"]
    direction: Literal["up", "down", "both"]
    bytes: int
    starts: tuple[float, ...]
    mcs: tuple[int, ...]

    @property
    def stations(self) -> int:
        """Their number."""
        return len(self.mcs)

    def is_up(self, number: int) -> bool:
        """Return whether the message of a station goes up."""
        return number % 2 == 0 if self.direction == "both" else self.direction == "up"

    def written(self, seed: int) -> str:
        """Return the case as ns3/wifi.cc reads it."""
        head = (
            f"{self.standard} {self.width} {self.streams} {self.transport} {self.direction} {seed}"
            f" {self.stations}"
        )
        own = [
            f"{start:.6f} {self.bytes} {mcs}"
            for start, mcs in zip(self.starts, self.mcs, strict=True)
        ]
        return "\n".join([head, *own, ""])


def draw(set_seed: int, number: int) -> Case:
    """Draw a case: one in three has stations of different modulations."""
    rng = np.random.default_rng([set_seed, number])
    standards: tuple[Standard, ...] = ("n", "ac", "ax")
    standard = standards[number % 3]
    widths = (20, 40) if standard == "n" else (20, 40, 80)
    width, streams = int(rng.choice(widths)), int(rng.integers(1, 3))
    transport: Literal["udp", "tcp"] = "udp" if rng.random() < 0.4 else "tcp"
    direction: Literal["up", "down"] = "up" if rng.random() < 0.6 else "down"
    stations = round(float(np.exp(rng.uniform(0.0, np.log(30.0)))))
    most = min(5e6, MOST / stations)
    size = round(float(np.exp(rng.uniform(np.log(1e4), np.log(most)))))
    starts = [0.0] if stations == 1 else rng.uniform(0.0, 1e-3, stations).tolist()
    top = HIGHEST[standard]
    if rng.random() < 1 / 3:
        mcs = rng.integers(0, top + 1, stations).tolist()
    else:
        mcs = [int(rng.integers(0, top + 1))] * stations
    return Case(standard, width, streams, transport, direction, size, tuple(starts), tuple(mcs))


def case_of(name: str, number: int) -> Case:
    """Return a case of a set."""
    of_set = SETS[name]
    case = draw(of_set.seed, number)
    return replace(case, direction="both") if of_set.both else case


def by_ns3(case: Case, seed: int, program: Path) -> list[float]:
    """Return when each message has arrived by ns-3, s after its start; NaN for never."""
    return [line[0] for line in packets.ask(program, case.written(seed))]


def write(program: Path) -> None:
    """Ask ns-3 about all cases, and write the table."""
    with replacing(TABLE) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for name, of_set in SETS.items():
            for number in range(of_set.cases):
                case = case_of(name, number)
                for seed in range(RUNS):
                    times = by_ns3(case, seed, program)
                    writer.writerow([name, number, seed, " ".join([f"{t:.6g}" for t in times])])


def read() -> Iterator[tuple[str, Case, Sequence[Sequence[float]]]]:
    """Yield the name of the set, the case, and the arrivals of its messages in each run, s."""
    runs: dict[tuple[str, int], list[list[float]]] = {}
    with TABLE.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            times = [float(word) for word in row["times"].split()]
            runs.setdefault((row["set"], int(row["case"])), []).append(times)
    for (name, number), found in runs.items():
        yield name, case_of(name, number), found


def by_fedsim(case: Case, *, cells: bool = True) -> list[float]:
    """Return when each message has arrived by fedsim, s after its start.

    Args:
        case: whose.
        cells: whether the stations share the air, or have it alone.
    """
    law = Wifi(
        standard=case.standard,
        width=f"{case.width} MHz",
        streams=case.streams,
        transport=case.transport,
    )
    packets = law.packaging(NONE)
    width = 1e6 * case.width
    radios = [
        ConstantRate(modulation_rate(case.standard, mcs, width, case.streams)) for mcs in case.mcs
    ]
    calendar, arrived = Calendar(), [float("nan")] * case.stations
    site = Site(
        calendar=calendar,
        topology=star(case.stations),
        up=radios,
        down=radios,
        framing=lambda _: packets,
    )
    network = layer("fluid")
    both = (layer("wifi", law, network) if cells else network).bearers(site)
    bits = 8 * case.bytes + packets.bits(8 * case.bytes)

    def arrive(number: int) -> None:
        arrived[number] = calendar.now - case.starts[number]

    def begin(number: int) -> None:
        both[0 if case.is_up(number) else 1][number].start(
            bits, radios[number].rate, arrive, number
        )

    for number, start in enumerate(case.starts):
        calendar.at(start, begin, number)
    calendar.run()
    return arrived


def last(case: Case, times: Sequence[float]) -> float:
    """Return when the last message of a case has arrived, s."""
    return max(start + time for start, time in zip(case.starts, times, strict=True))


def errors(*, cells: bool = True) -> Iterator[tuple[str, Case, float]]:
    """Yield the set, the case, and the relative error of its end against ns-3's mean."""
    for name, case, runs in read():
        theirs = float(np.mean([last(case, times) for times in runs]))
        yield name, case, last(case, by_fedsim(case, cells=cells)) / theirs - 1.0


KINDS = (
    "all",
    "udp up",
    "udp down",
    "tcp up",
    "tcp down",
    "udp both",
    "tcp both",
    "802.11n",
    "802.11ac",
    "802.11ax",
    "one station",
    "many stations",
    "different modulations",
)
"""The rows of the table."""


def kinds(case: Case) -> set[str]:
    """Return the rows that a case stands in."""
    number = "one station" if case.stations == 1 else "many stations"
    mixed = {"different modulations"} if len(set(case.mcs)) > 1 else set[str]()
    return {"all", f"{case.transport} {case.direction}", f"802.11{case.standard}", number} | mixed


def report() -> None:
    """Print the errors, with the air shared and without."""
    print("| set | cases | number | median | 9 of 10 | worst | median, air alone |")
    print("|---|---|---|---|---|---|---|")
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for (name, case, error), (_, _, alone) in zip(errors(), errors(cells=False), strict=True):
        for kind in kinds(case):
            found.setdefault((name, kind), []).append((error, alone))
    for name, kind in product(SETS, KINDS):
        if (name, kind) not in found:
            continue
        rows = found[name, kind]
        own, alone = np.array(rows).T
        sizes = np.abs(own)
        print(
            f"| {name} | {kind} | {len(rows)} | {100 * np.median(sizes):.1f} %"
            f" | {100 * np.quantile(sizes, 0.9):.0f} % | {100 * own[sizes.argmax()]:+.0f} %"
            f" | {100 * np.median(np.abs(alone)):.0f} % |"
        )


def main(arguments: Sequence[str]) -> None:
    """Print the errors, after a simulation if that is asked for."""
    if asked_for(arguments, "simulate"):
        with tempfile.TemporaryDirectory() as folder:
            write(packets.compile_ns3(Path(folder), SOURCE, LIBRARIES))
    report()


if __name__ == "__main__":
    main(sys.argv[1:])
