"""How far is fedsim from Linux's own TCP, between real sockets in namespaces?

    python analysis/reality/kernel.py           the errors against what Linux did once
    python analysis/reality/kernel.py measure   the same after measuring anew (minutes; as root)

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

import numpy as np
import packets
from linux.namespaces import links_of, star
from linux.relay import be_prompt
from linux.transfers import Transfers, round_trips
from packets import Case, magnitude

from fedsim.physics.tcp import Tcp

TABLE = Path(__file__).with_name("linux") / "results.csv"

COLUMNS = ("case", "run", "times")

CASES = 75

RUNS = {False: 3, True: 15}
"""How often a case is measured, without random losses and with them."""

SECONDS = 12.0
"""The longest that the payload of a case takes over the narrowest link, s."""

PACKETS = 20_000
"""The most segments of a case: what the relay hands over without being late."""

HEADERS = 52
"""What IP, and TCP with timestamps, add to a segment, bytes."""

KINDS = ("one flow", "many flows, first windows fit the queue")
OVERFLOW = "many flows, first windows overflow the queue"
LOSSES = ("random losses: median", "random losses: 9 of 10")
ITSELF = "Linux itself"


def draw(number: int) -> Case:
    """Draw a case in the ranges that the relay can carry, up to 50 Mbit/s.

    Every third one is a single flow, and every fifth one loses packets at random.
    """
    rng = np.random.default_rng([3307, number])
    flows = 1 if number % 3 == 0 else round(magnitude(rng, 2, 30))
    rate, trip = magnitude(rng, 1e6, 5e7), magnitude(rng, 1e-2, 3e-1)
    queue = round(magnitude(rng, 30, 300))
    if rng.random() < 0.5:  # in products of rate and round trip
        queue = max(10, round(magnitude(rng, 0.25, 4.0) * rate * trip / (8 * 1500)))
    own_rate = round(rate * magnitude(rng, 0.5, 10.0))
    most = min(PACKETS * packets.SEGMENT, SECONDS * min(rate, flows * own_rate) / 8) / flows
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


def by_linux(case: Case, seed: int) -> Sequence[float]:
    """Return when each message has arrived over Linux's sockets, s from the call to connect."""
    with star(links_of(case), seed) as built:
        round_trips(built)
        transfers = Transfers(case, built)
        try:
            times: Sequence[float] = transfers.run()
        finally:
            transfers.close()
    return times


def _law_of_linux(case: Case) -> Tcp:
    return Tcp(variant=case.variant, queue=case.queue)


LINUX = packets.Stack(HEADERS, _law_of_linux)
"""The block's defaults, which are Linux's."""


def measure() -> None:
    """Measure all cases, and write the table."""
    be_prompt()
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for number in range(CASES):
            case = draw(number)
            for run in range(RUNS[case.loss > 0]):
                times = by_linux(case, run)
                writer.writerow([number, run, " ".join([f"{time:.5g}" for time in times])])
                file.flush()


def read() -> Mapping[int, Sequence[float]]:
    """Return the time of the last message, s, by case and run."""
    found: dict[int, list[float]] = {}
    with TABLE.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            times = [float(word) for word in row["times"].split()]
            found.setdefault(int(row["case"]), []).append(max(times))
    return found


def kind(case: Case) -> str:
    """Return the row of the table that a case without random losses belongs to."""
    windows = case.flows * min(10, -(-case.bytes // packets.SEGMENT))
    return OVERFLOW if case.flows > 1 and windows > case.queue else KINDS[case.flows > 1]


def errors(model: packets.Sharing) -> Iterator[tuple[str, float]]:
    """Yield the row of the table and the relative error of each case."""
    for number, measured in read().items():
        case = draw(number)
        runs = range(len(measured) if case.loss else 1)
        ours = [max(packets.by_fedsim(case, model, run, stack=LINUX)) for run in runs]
        if not case.loss:
            yield kind(case), float(ours[0] / np.median(measured) - 1.0)
            continue
        for name, share in zip(LOSSES, (0.5, 0.9), strict=True):
            yield name, float(np.quantile(ours, share) / np.quantile(measured, share) - 1.0)


def repeated() -> Iterator[tuple[str, float]]:
    """Yield how far single measurements without losses are from the median of their case."""
    for number, measured in read().items():
        case = draw(number)
        if not case.loss:
            for one in measured:
                yield kind(case), float(one / np.median(measured) - 1.0)


def report() -> None:
    """Print the table of errors."""
    print("| model | case | number | mean | median | 9 of 10 | worst |")
    print("|---|---|---|---|---|---|---|")
    named = {f"`{model}`": errors(model) for model in packets.MODELS}
    for name, each in {**named, ITSELF: repeated()}.items():
        found: dict[str, list[float]] = {}
        for row, error in each:
            found.setdefault(row, []).append(error)
        for row in (*KINDS, OVERFLOW, *LOSSES):
            if row in found:
                print(f"| {name} | {row} | {packets.summary(found[row])} |")


def main(arguments: Sequence[str]) -> None:
    """Print the errors, after measuring if that is asked for."""
    if list(arguments) == ["measure"]:
        measure()
    elif arguments:
        sys.exit(f"got {' '.join(arguments)}; expected nothing, or: measure")
    report()


if __name__ == "__main__":
    main(sys.argv[1:])
