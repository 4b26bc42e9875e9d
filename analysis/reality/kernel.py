"""How far is fedsim from Linux's own TCP, between real sockets in namespaces?

    python analysis/reality/kernel.py           the errors against what Linux did once
    python analysis/reality/kernel.py measure   after measuring anew (40 minutes; as root)

A case's time is that at which the last of its messages has arrived, and its error is relative to
Linux's, positive where the model is too slow. Each case is measured several times: without losses
the median counts, and how far single measurements are from it is printed as `Linux itself`; with
random losses there are two errors, of the median and of the time that nine of ten stay below.
What was measured is in linux/results.csv, so a comparison needs no namespaces.
"""

import csv
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import packets
from linux.namespaces import links_of, star
from linux.relay import be_prompt
from linux.transfers import Control, Transfers, round_trips
from packets import Case, magnitude
from stored import asked_for, replacing

from fedsim.physics.tcp import Tcp

TABLE = Path(__file__).with_name("linux") / "results.csv"

COLUMNS = ("set", "control", "case", "times")

RUNS = {False: 3, True: 15}
"""How often a case is measured, without random losses and with them."""


class CaseSet(NamedTuple):
    """A set of drawn cases.

    Attributes:
        seed: of the draws.
        cases: their number.
        rate: the highest of the server's link, bit/s.
        seconds: the longest that the payload of a case takes over the narrowest link, s.
    """

    seed: int
    cases: int
    rate: float
    seconds: float


SETS = {
    "develop": CaseSet(3307, 75, 5e7, 12.0),
    "held-out": CaseSet(20261125, 75, 2e7, 6.0),
    "held-out-2": CaseSet(20261127, 19, 2e7, 6.0),
}
"""The sets of cases: one to develop the model with, and others that only report its errors."""

UNSEEN = ("held-out", "held-out-2")
"""The sets that no model was made with."""

PLANS = (
    *(("held-out", "drawn"), ("held-out", "bbr")),
    *(("develop", "drawn"), ("held-out-2", "drawn")),
)
"""What is measured: a set, by the congestion controls that were drawn, or by BBR for all."""

PACKETS = 20_000
"""The most segments of a case: what the relay hands over without being late."""

HEADERS = 52
"""What IP, and TCP with timestamps, add to a segment, bytes."""

APART = 3e-5
"""The time from one message's call to connect to the next one's in the measuring process, s."""

SPREAD = 0.1
"""Measurements of a case differ where the longest one is longer than the shortest by more."""

KINDS = ("one flow", "many flows, first windows fit the queue")
OVERFLOW = "many flows, first windows overflow the queue"
NONE, DIFFER = "no losses", "no losses, measurements differ by at most 10 %"
LOSSES = ("random losses: median", "random losses: 9 of 10")
ITSELF = "Linux itself"


def draw(of: CaseSet, number: int) -> Case:
    """Draw a case of a set, in the ranges that the relay can carry.

    Every third one is a single flow, and every fifth one loses packets at random.
    """
    rng = np.random.default_rng([of.seed, number])
    flows = 1 if number % 3 == 0 else round(magnitude(rng, 2, 30))
    rate, trip = magnitude(rng, 1e6, of.rate), magnitude(rng, 1e-2, 3e-1)
    queue = round(magnitude(rng, 30, 300))
    if rng.random() < 0.5:  # in products of rate and round trip
        queue = max(10, round(magnitude(rng, 0.25, 4.0) * rate * trip / (8 * 1500)))
    own_rate = round(rate * magnitude(rng, 0.5, 10.0))
    most = min(PACKETS * packets.SEGMENT, of.seconds * min(rate, flows * own_rate) / 8) / flows
    own = rng.uniform(0.3, 0.7, flows) if rng.random() < 0.5 else np.full(flows, 0.5)
    return Case(
        variant="cubic" if rng.random() < 0.6 else "newreno",
        discipline="drop-tail",
        queue=queue,
        loss=magnitude(rng, 1e-3, 2e-2) if number % 5 == 4 else 0.0,
        direction="up" if rng.random() < 0.5 else "down",
        rate=round(rate),
        delay=round(trip / 4, 6),
        gateways=0,
        gateway_rate=0.0,
        bytes=round(magnitude(rng, 1e3, max(most, 2e3))),
        own_rate=own_rate,
        own_delays=tuple([round(float(share) * trip / 2, 6) for share in own]),
    )


def by_linux(case: Case, seed: int, law: Control | None = None) -> Sequence[float]:
    """Return when each message has arrived over Linux's sockets, s from the first call to connect.

    Args:
        case: of the star and the messages.
        seed: of the losses.
        law: of congestion, if not the case's own.
    """
    with star(links_of(case), seed) as built:
        round_trips(built)
        transfers = Transfers(case, built, law or case.variant)
        try:
            times: Sequence[float] = transfers.run()
        finally:
            transfers.close()
    return times


Error = tuple[str, float]
"""The row of the table, and the relative error of a case."""


def _law_of_linux(case: Case) -> Tcp:
    return Tcp(variant=case.variant, queue=case.queue, connections="new")


LINUX = packets.Stack(HEADERS, _law_of_linux, APART)
"""The block's defaults, which are Linux's, with a socket for each message."""


def measure(plans: Sequence[tuple[str, str]] = PLANS) -> None:
    """Measure cases, and write the table."""
    be_prompt()
    with replacing(TABLE) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for name, control in plans:
            for number in range(SETS[name].cases):
                case = draw(SETS[name], number)
                law: Control = "bbr" if control == "bbr" else case.variant
                runs = range(RUNS[case.loss > 0])
                times = [np.max(by_linux(case, run, law)) for run in runs]
                words = " ".join([f"{time:.5g}" for time in times])
                writer.writerow([name, control, number, words])


def read(name: str, control: str = "drawn") -> Mapping[int, Sequence[float]]:
    """Return the times of the last message, s, by case of a set."""
    with TABLE.open(newline="", encoding="utf-8") as file:
        return {
            int(row["case"]): [float(word) for word in row["times"].split()]
            for row in csv.DictReader(file)
            if (row["set"], row["control"]) == (name, control)
        }


def kind(case: Case) -> str:
    """Return the row of the table that a case without random losses belongs to."""
    windows = case.flows * min(10, -(-case.bytes // packets.SEGMENT))
    return OVERFLOW if case.flows > 1 and windows > case.queue else KINDS[case.flows > 1]


def rows(case: Case, measured: Sequence[float]) -> Iterator[str]:
    """Yield the rows that a case without random losses belongs to."""
    yield kind(case)
    yield NONE
    if max(measured) <= (1 + SPREAD) * min(measured):
        yield DIFFER


def errors(model: packets.Sharing, name: str, control: str = "drawn") -> Iterator[Error]:
    """Yield the errors of a model on a set."""
    for number, measured in read(name, control).items():
        case = draw(SETS[name], number)
        runs = range(len(measured) if case.loss else 1)
        ours = [max(packets.by_fedsim(case, model, run, stack=LINUX)) for run in runs]
        if not case.loss:
            for row in rows(case, measured):
                yield row, float(ours[0] / np.median(measured) - 1.0)
            continue
        for row, share in zip(LOSSES, (0.5, 0.9), strict=True):
            yield row, float(np.quantile(ours, share) / np.quantile(measured, share) - 1.0)


def repeated(name: str, control: str = "drawn") -> Iterator[Error]:
    """Yield how far single measurements without losses are from the median of their case."""
    for number, measured in read(name, control).items():
        case = draw(SETS[name], number)
        if not case.loss:
            for one in measured:
                for row in rows(case, measured):
                    yield row, float(one / np.median(measured) - 1.0)


def compared() -> Iterator[tuple[str, str, Iterator[Error]]]:
    """Yield what a part of the table shows: a set, a model, and its errors."""
    for name in SETS:
        for model in packets.MODELS:
            yield name, f"`{model}`", errors(model, name)
        yield name, ITSELF, repeated(name)
    yield "held-out", "`tcp`, Linux under BBR", errors("tcp", "held-out", "bbr")
    yield "held-out", f"{ITSELF} under BBR", repeated("held-out", "bbr")


def report() -> None:
    """Print the table of errors."""
    print(packets.HEAD)
    for name, model, each in compared():
        order = (*KINDS, OVERFLOW, NONE, DIFFER, *LOSSES)
        print(*packets.rows_of(name, model, each, order), sep="\n")


def main(arguments: Sequence[str]) -> None:
    """Print the errors, after measuring if that is asked for."""
    if asked_for(arguments, "measure"):
        measure()
    report()


if __name__ == "__main__":
    main(sys.argv[1:])
