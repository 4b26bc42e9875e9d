"""Which share of frames does a LoRa gateway receive, beside closed forms and LoRaSim?

    python analysis/reality/lora.py            the shares that are stored (lora.csv)
    python analysis/reality/lora.py simulate   after computing them anew

The experiment is that of LoRaSim (Bor, Roedig, Voigt, Alonso: Do LoRa low-power wide-area networks
scale? MSWiM 2016, corrected version, eprints.lancs.ac.uk/81674): each node sends 20 bytes at SF12,
125 kHz and a code rate of 4/8 every 1000 s in the mean, all on one channel. Without capture pure
ALOHA has a closed form, exp(-2 G) with G frames of the others in the time of one (Abramson 1970);
with capture one frame and its rivals are drawn, without an engine. What LoRaSim says is read off
its curves, as quoted by others.
"""

import csv
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf, sqrt
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from stored import asked_for, replacing

from fedsim.core.ports import Array, ClientId, Message, Payload
from fedsim.protocol.transport import Envelope
from fedsim.results.record.recorder import RunRecorder
from fedsim.results.record.rounds import Traffic
from fedsim.scenario import load
from fedsim.scenario.building import Builder
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.fleet import Fleet

FOUND = Path(__file__).resolve().parent / "lora.csv"
"""What was found once: the shares of `Share`."""

PERIOD = 1000.0
"""The mean time between two frames of a node, s."""

AIRTIME = 1.71213
"""Of a frame of 20 bytes at SF12, 125 kHz and a code rate of 4/8, s."""

BITS = 8 * 7
"""Of a message: LoRaWAN adds 13 bytes."""

SPARED = 3 * 2**12 / 125e3
"""LoRaSim's rule of preambles: an overlap with the first 3 of 8 symbols is harmless, s."""

CAPTURE = 6.0
"""By how much the stronger of two frames has to be stronger to be received, dB."""

NODES = (30, 100, 200, 300)
PERIODS, TRIALS = 20, 100_000

BATCHES, STUDENT = 20, 2.093
"""Parts of a run whose shares are compared, and the 97.5 % point of Student's t of one less."""

PUBLISHED: Mapping[tuple[int, float | None], float] = {(200, None): 0.51, (200, CAPTURE): 0.64}
"""LoRaSim's data extraction rates, by the number of nodes and the capture."""


@dataclass(frozen=True, slots=True)
class Load:
    """A payload of which only the length matters; see `fedsim.core.ports.Payload`."""

    bits: int

    @property
    def values(self) -> Array:
        """Nothing."""
        return np.zeros(0)


@dataclass(frozen=True, slots=True)
class Reading(Message):
    """What a node sends."""

    load: Payload


def losses(rng: np.random.Generator, nodes: int) -> NDArray[np.float64]:
    """Draw path losses as LoRaSim has them: 127.41 dB + 20.8 dB ln(d / 40 m), over a disc.

    The disc is as wide as SF12 reaches; how losses differ does not depend on its width.
    """
    furthest = 40 * np.exp((14 + 137 - 127.41) / 20.8)
    return np.asarray(127.41 + 20.8 * np.log(furthest * np.sqrt(rng.random(nodes)) / 40))


def by_fedsim(nodes: int, capture: float | None, seed: int) -> NDArray[np.bool_]:
    """Return which frames are received, in the order of their sending, of `PERIODS` of all nodes.

    Args:
        nodes: their number.
        capture: dB; None for none.
        seed: of the path losses and the times.
    """
    rng = np.random.default_rng(seed)
    modem = {"kind": "lora-sf12", "latency": "0 s", "tries": 1, "coding": 4}
    fleet = [
        {
            "device": "cortex-m7",
            "radio": {**modem, "lorawan": {"device_class": "b", "path_loss": f"{loss:.6f} dB"}},
        }
        for loss in losses(rng, nodes)
    ]
    gateway = {"channels": 1, "capture": None if capture is None else f"{capture} dB"}
    scenario = {
        "problem": {
            "loss": {"kind": "squared", "l2": 1.0},
            "data": {
                "kind": "sparse-linear",
                "clients": nodes,
                "rows": 1,
                "features": 1,
                "ones": 1,
            },
            "split": {"kind": "groups"},
            "optimum": "unknown",
        },
        "algorithm": {"kind": "gd", "step_size": 1.0},
        "fleet": fleet,
        "network": {"lora": gateway},
        "participation": {
            "kind": "full",
            "deadline": "1 d",
        },  # of rounds, of which there are none here
        "stop": {"rounds": 1},
    }
    starts = rng.exponential(PERIOD, (nodes, 3 * PERIODS)).cumsum(axis=1)
    sent = sorted(
        (float(start), node)
        for node in range(nodes)
        for start in starts[node]
        if start < PERIODS * PERIOD
    )
    return _send(scenario, sent)


def _send(scenario: Mapping[str, object], sent: list[tuple[float, ClientId]]) -> NDArray[np.bool_]:
    """Return which messages arrive over the network of a scenario, sent by nodes at some times."""
    variant = load(scenario)
    calendar, came = Calendar(), np.zeros(len(sent), bool)
    setup = Builder(variant).check()[0].setup
    with (
        tempfile.TemporaryDirectory() as folder,
        RunRecorder(Path(folder), len(setup.fleet)) as book,
    ):
        network = Fleet(setup, calendar, book.log, Traffic()).network()

        def receive(_: ClientId, envelope: Envelope) -> None:
            came[envelope.exchange] = True

        def send(number: int) -> None:
            network.send_up(sent[number][1], Envelope(Reading(Load(BITS)), 1, number, 0, word=0))

        network.connect(receive, receive, lambda *_: None)
        for number, (start, _) in enumerate(sent):
            calendar.at(start, send, number)
        until = 1.2 * PERIODS * PERIOD
        calendar.at(until, lambda: None)
        while calendar.peek() <= until:
            calendar.step()
        network.close()
    return came


def aloha(nodes: int) -> float:
    """Return the share of pure ALOHA, without capture."""
    return exp(-2 * (nodes - 1) * AIRTIME / PERIOD)


def monte_carlo(nodes: int, capture: float, rng: np.random.Generator, spared: float = 0.0) -> float:
    """Return the same with capture: of one frame, and the Poisson frames that overlap it.

    Args:
        nodes: as above.
        capture: dB.
        rng: draws losses and rivals.
        spared: of an overlap, how much is harmless, s.
    """
    rivals = rng.poisson(2 * (AIRTIME - spared) * (nodes - 1) / PERIOD, TRIALS)
    own = losses(rng, TRIALS)
    strongest = np.full(TRIALS, inf)
    for number in range(int(rivals.max())):
        strongest = np.where(number < rivals, np.minimum(strongest, losses(rng, TRIALS)), strongest)
    return float((strongest - own >= capture).mean())


class Share(NamedTuple):
    """The share of frames that are received in one case.

    Attributes:
        nodes: their number.
        capture: dB; None for none.
        ours: by fedsim.
        margin: half of its 95 % interval, from the shares of `BATCHES` parts of the run.
        law: pure ALOHA's, or with capture by the Monte Carlo method.
        spared: the same by LoRaSim's rule of preambles; None without capture.
    """

    nodes: int
    capture: float | None
    ours: float
    margin: float
    law: float
    spared: float | None

    @property
    def published(self) -> float | None:
        """What LoRaSim says, where it is known."""
        return PUBLISHED.get((self.nodes, self.capture))


def share(nodes: int, capture: float | None) -> Share:
    """Compute the shares of one case."""
    received = by_fedsim(nodes, capture, seed=nodes).astype(float)
    parts = [part.mean() for part in np.array_split(received, BATCHES)]
    margin = STUDENT * float(np.std(parts, ddof=1)) / sqrt(BATCHES)
    law, spared = aloha(nodes), None
    if capture is not None:
        law, spared = (
            monte_carlo(nodes, capture, np.random.default_rng(5), spared=each)
            for each in (0.0, SPARED)
        )
    return Share(nodes, capture, float(received.mean()), margin, law, spared)


def find_all() -> None:
    """Compute all shares anew, and store them."""
    with replacing(FOUND) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Share._fields)
        for capture in (None, CAPTURE):
            for nodes in NODES:
                found = share(nodes, capture)
                cells = ["" if each is None else f"{each:.5g}" for each in found]
                writer.writerow(cells)


def read() -> Iterator[Share]:
    """Yield the shares that are stored."""
    with FOUND.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            capture, spared = (
                float(row[name]) if row[name] else None for name in ("capture", "spared")
            )
            ours, margin, law = (float(row[name]) for name in ("ours", "margin", "law"))
            yield Share(int(row["nodes"]), capture, ours, margin, law, spared)


def errors() -> Iterator[tuple[bool, float]]:
    """Yield whether it is LoRaSim that a share was held against, and its relative error."""
    for each in read():
        yield False, each.ours / each.law - 1.0
        if each.published is not None:
            yield True, each.ours / each.published - 1.0


def lines(found: Iterable[Share]) -> Iterator[str]:
    """Yield the lines of the table of shares."""
    yield (
        "| nodes | capture | fedsim | exp(-2G), or drawn with capture | with LoRaSim's rule of "
        "preambles | LoRaSim, published |"
    )
    yield "|---|---|---|---|---|---|"
    for each in found:
        capture = "none" if each.capture is None else f"{each.capture:g} dB"
        cells = [str(each.nodes), capture, f"{each.ours:.3f} +- {each.margin:.3f}"]
        cells += [f"{each.law:.3f}", "" if each.spared is None else f"{each.spared:.3f}"]
        cells.append("" if each.published is None else f"{each.published:.2f}")
        yield f"| {' | '.join(cells)} |"


def main(arguments: Sequence[str]) -> None:
    """Print the shares."""
    if asked_for(arguments, "simulate"):
        find_all()
    for line in lines(read()):
        print(line)


if __name__ == "__main__":
    main(sys.argv[1:])
