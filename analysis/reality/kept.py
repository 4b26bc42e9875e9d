"""How far is fedsim from rounds over kept connections of Linux and of ns-3?

    python analysis/reality/kept.py             the errors against what both did once
    python analysis/reality/kept.py measure     after measuring Linux anew (an hour; as root)
    python analysis/reality/kept.py simulate    after asking ns-3 anew (minutes)

gRPC and HTTP/2 keep a connection per client, so its window outlasts a message. A case has a few
rounds: the server sends to all clients at once, each client works and replies, and the next round
begins when the server has all replies. Its error is that of the time that messages take: how long
all rounds last, without the work. Each case is measured three times, and the median counts. What
was measured is in linux/kept.csv, so a comparison needs no namespaces. ns-3 has the same cases, in
ns3/kept.csv; its window does not shrink while a connection is idle, which Linux's does.
"""

import csv
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import packets
from kernel import APART, HEADERS, ITSELF, KINDS, NONE, OVERFLOW, CaseSet, draw, kind
from linux.namespaces import links_of, star
from linux.relay import be_prompt
from linux.rounds import Rounds, lasting
from linux.transfers import round_trips
from packets import magnitude
from stored import asked_for, replacing

from fedsim.addons.tcp.bearers import Connections, bearers
from fedsim.physics.network_models import Site
from fedsim.physics.radios import ConstantRate
from fedsim.physics.radios.channel import NONE as NO_FRAMING
from fedsim.physics.radios.channel import framing
from fedsim.physics.tcp import Tcp
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.models import layer

TABLE = Path(__file__).with_name("linux") / "kept.csv"

NS3_SOURCE = Path(__file__).with_name("ns3") / "rounds.cc"
NS3_TABLE = NS3_SOURCE.with_name("kept.csv")

COLUMNS = ("set", "case", "run", "rounds")

SETS = {
    "develop": CaseSet(20261203, 20, 2e7, 1.5),
    "held-out": CaseSet(20261204, 60, 2e7, 1.5),
}
"""The sets of cases."""

UNSEEN = "held-out"
"""The set that no model was made with."""

RUNS = 3
"""How often a case is measured."""

_PHONES = packets.Case(
    variant="cubic",
    discipline="drop-tail",
    queue=1000,
    loss=0.0,
    direction="up",
    rate=10e6,
    delay=0.02,
    gateways=0,
    gateway_rate=0.0,
    bytes=307_265,
    own_rate=6e6,
    own_delays=(0.03,) * 10,
)

QUICKSTART = {
    "FedAvg": Rounds(_PHONES, 307_265, 307_265, 0.003, 16),
    "top-k": Rounds(_PHONES, 307_265, 34_500, 0.003, 16),
}
"""Rounds as those of the scenario `quickstart`: the sizes of its messages, and of its links."""


def plan() -> Iterator[tuple[str, int, Rounds]]:
    """Yield all cases, each with its set and its number in it."""
    for name, of in SETS.items():
        for number in range(of.cases):
            yield name, number, drawn(of, number)
    for number, case in enumerate(QUICKSTART.values()):
        yield "quickstart", number, case


def drawn(of: CaseSet, number: int) -> Rounds:
    """Draw a case: the star and the larger message are those of `kernel.draw`, without losses."""
    own = replace(draw(of, number), loss=0.0)
    rng = np.random.default_rng([of.seed, number, 1])
    share = 1.0 if rng.random() < 0.5 else magnitude(rng, 0.01, 1.0)
    sizes = own.bytes, max(500, round(own.bytes * share))
    down, up = sizes if rng.random() < 0.8 else reversed(sizes)
    return Rounds(own, down, up, round(magnitude(rng, 0.01, 2.0), 3), int(rng.integers(3, 9)))


def measured(case: Rounds) -> Sequence[float]:
    """Return how long each round lasted over Linux's sockets, s."""
    with star(links_of(case.star)) as built:
        round_trips(built)
        lasted: Sequence[float] = lasting(case, built)
    return lasted


LINUX = packets.Stack(HEADERS, lambda case: Tcp(variant=case.variant, queue=case.queue), APART)
"""The block's defaults, which are Linux's."""

NS3 = packets.Stack(
    packets.HEADERS,
    lambda case: Tcp(variant=case.variant, queue=case.queue, stack="ns-3"),
)


def by_ns3(case: Rounds, program: Path) -> Sequence[float]:
    """Return how long each round lasts by ns-3, s.

    Args:
        case: the messages.
        program: of ns3/rounds.cc, compiled.
    """
    own = case.star
    lines = [
        f"kept {own.variant} {own.queue} {own.rate} {own.delay} {own.flows}",
        *(f"{own.own_rate} {own.own_rate} {delay}" for delay in own.own_delays),
        f"{case.rounds}",
        *[f"{case.down} {case.work} {case.up}"] * (case.rounds * own.flows),
    ]
    times = np.array(packets.ask(program, "\n".join(lines))).reshape(case.rounds, own.flows, 4)
    lasted: Sequence[float] = (times[:, :, 3].max(axis=1) - times[:, :, 0].min(axis=1)).tolist()
    return lasted


def by_fedsim(
    case: Rounds, model: packets.Sharing, stack: packets.Stack = LINUX
) -> Sequence[float]:
    """Return how long each round lasts by a model of fedsim, s."""
    own = case.star
    calendar, radios = Calendar(), [ConstantRate(own.own_rate)] * own.flows
    site = Site(
        calendar=calendar,
        topology=own.topology,
        up=radios,
        down=radios,
        latency=own.own_delays,
    )
    if model == "tcp":
        law = stack.law(own)
        cut = framing(stack.headers, packets.SEGMENT + stack.headers)
        framed = replace(site, framing=lambda _: cut)
        opened = Connections(law, lambda *_: np.random.default_rng(), opened=True)
        up, down = bearers(framed, opened)
    else:
        law, cut = packets.FLOWS[model], NO_FRAMING
        up, down = layer(model, law).bearers(site)
    # A lane keeps its window, and each lookup makes another lane.
    up, down = ([way[number] for number in range(own.flows)] for way in (up, down))
    network = layer(model, law)
    bits = {
        way: 8 * size + cut.bits(8 * size) for way, size in (("up", case.up), ("down", case.down))
    }
    delays = [
        network.delay(own.topology.up[n].latency + each) for n, each in enumerate(own.own_delays)
    ]
    lasted, begun, waiting = list[float](), 0.0, 0

    def begin() -> None:
        nonlocal begun, waiting
        begun, waiting = calendar.now, own.flows
        for number, delay in enumerate(delays):
            calendar.at(calendar.now + number * stack.apart + delay, send, number)

    def send(number: int) -> None:
        down[number].start(bits["down"], own.own_rate, work, number)

    def work(number: int) -> None:
        calendar.at(calendar.now + case.work + delays[number], reply, number)

    def reply(number: int) -> None:
        up[number].start(bits["up"], own.own_rate, arrive, number)

    def arrive(_: int) -> None:
        nonlocal waiting
        waiting -= 1
        if waiting:
            return
        lasted.append(calendar.now - begun)
        if len(lasted) < case.rounds:
            begin()

    begin()
    calendar.run()
    return lasted


def on_the_way(case: Rounds, lasted: Sequence[float]) -> float:
    """Return the time of all rounds without the work, s."""
    working: float = case.rounds * case.work
    return sum(lasted) - working


def measure() -> None:
    """Measure all cases, and write the table."""
    be_prompt()
    with replacing(TABLE) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for name, number, case in plan():
            for run in range(RUNS):
                words = " ".join([f"{time:.5g}" for time in measured(case)])
                writer.writerow([name, number, run, words])


def simulate() -> None:
    """Ask ns-3 about all cases, and write the table."""
    with TemporaryDirectory() as folder, replacing(NS3_TABLE) as file:
        program = packets.compile_ns3(Path(folder), NS3_SOURCE)
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for name, number, case in plan():
            words = " ".join([f"{time:.6g}" for time in by_ns3(case, program)])
            writer.writerow([name, number, 0, words])


def read(name: str, table: Path = TABLE) -> Mapping[int, Sequence[Sequence[float]]]:
    """Return how long rounds lasted by case of a set: for each run a list, s."""
    found: dict[int, list[list[float]]] = {}
    with table.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["set"] == name:
                rounds = [float(word) for word in row["rounds"].split()]
                found.setdefault(int(row["case"]), []).append(rounds)
    return found


def errors(model: packets.Sharing, name: str, *, ns3: bool = False) -> Iterator[tuple[str, float]]:
    """Yield the row of the table and the error of each case of a set."""
    table, stack = (NS3_TABLE, NS3) if ns3 else (TABLE, LINUX)
    for number, runs in read(name, table).items():
        case = drawn(SETS[name], number)
        real = np.median([on_the_way(case, each) for each in runs])
        error = float(on_the_way(case, by_fedsim(case, model, stack)) / real - 1.0)
        yield kind(case.star), error
        yield NONE, error


def repeated(name: str) -> Iterator[tuple[str, float]]:
    """Yield how far single measurements are from the median of their case."""
    for number, runs in read(name).items():
        case = drawn(SETS[name], number)
        times = [on_the_way(case, each) for each in runs]
        for time in times:
            yield kind(case.star), float(time / np.median(times) - 1.0)
            yield NONE, float(time / np.median(times) - 1.0)


def saved(rounds: Callable[[int, Rounds], Sequence[float]]) -> float:
    """Return the share of a round of `QUICKSTART` that top-k saves, by how long rounds last."""
    full, short = (sum(rounds(n, case)) for n, case in enumerate(QUICKSTART.values()))
    return 1.0 - short / full


def report() -> None:
    """Print the table of errors, and what top-k saves in rounds as those of the quickstart."""
    print(packets.HEAD)
    for name in SETS:
        compared = [(f"`{model}`", errors(model, name)) for model in packets.MODELS]
        compared += [
            (f"`{model}`, ns-3", errors(model, name, ns3=True)) for model in packets.MODELS
        ]
        for model, each in [*compared, (ITSELF, repeated(name))]:
            print(*packets.rows_of(name, model, each, (*KINDS, OVERFLOW, NONE)), sep="\n")
    shares = {model: 100 * saved(partial(_modelled, model)) for model in packets.MODELS}
    said = ", ".join([f"`{model}` {share:.0f} %" for model, share in shares.items()])
    runs = [100 * saved(partial(_real, run)) for run in range(RUNS)]
    simulated = 100 * saved(partial(_real, 0, table=NS3_TABLE))
    print(
        f"\nIn rounds as those of `quickstart`, top-k saves: {said}, Linux"
        f" {min(runs):.0f} to {max(runs):.0f} %, ns-3 {simulated:.0f} %."
    )


def _modelled(model: packets.Sharing, _: int, case: Rounds) -> Sequence[float]:
    return by_fedsim(case, model)


def _real(run: int, number: int, _: Rounds, *, table: Path = TABLE) -> Sequence[float]:
    return read("quickstart", table)[number][run]


def main(arguments: Sequence[str]) -> None:
    """Print the errors, after measuring or simulating if that is asked for."""
    match asked_for(arguments, "measure", "simulate"):
        case "measure":
            measure()
        case "simulate":
            simulate()
    report()


if __name__ == "__main__":
    main(sys.argv[1:])
