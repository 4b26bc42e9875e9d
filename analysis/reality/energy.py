"""How far are the joules and watts of the presets from what meters read?

    python analysis/reality/energy.py           the table of docs/explanation/truth.md
    python analysis/reality/energy.py predict   after predicting all points of energy.csv anew

Each point is a published measurement with its place in the source. Its prediction is the law of a
device or a radio, with the preset as it is: nothing is fitted. Only what the source states about
its network is set, such as the time until a connection is released (`settings`). What is done, and
whether it is a power or an energy, is in the column `work`:

    operations N            the energy of a task of N operations (two per multiply-accumulate)
    power FIELD             the power of a state: idle, active, sleep, send
    rate WAY R              the power of a radio that transfers at a rate, above its power at rest
    message up S, down S    the energy of messages from rest to rest, above that at rest

Sources are held out by a rule that looks at no figure: their names are sorted by their SHA-256, and
every second one is held out. Neither half has sources from which a preset has its own figures, nor
passes of networks in 8-bit integers: presets state speeds of training, in floats.

The interval of a prediction follows from the 90 % intervals of the preset's figures, and for
operations also from the factor of `fedsim robust` on them. Each is drawn from a lognormal law whose
5 % and 95 % points are the ends of its interval, with the preset's value as its median.
"""

import csv
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from math import exp, log
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import TypeAdapter
from scipy.special import ndtri
from scipy.stats import qmc
from stored import asked_for, replacing

from fedsim.addons.robustness.constants import FLOPS, general
from fedsim.core.blocks.presets import Preset, Presettable, read_field
from fedsim.core.blocks.quantities import Bytes, Rate
from fedsim.core.ports import Array
from fedsim.physics.devices import DEVICES, DeviceLaw
from fedsim.physics.radios import RadioLaw, powers_of
from fedsim.scenario import Group, load

POINTS = Path(__file__).resolve().parent / "energy.csv"
WORLDS = 512
INTEGERS = "work, 8-bit"
COMPUTED = ("predicted", "low", "high", "ratio", "held_out")
"""The columns that this script writes; all others are what the sources say."""

HEAD = (
    "| what | of | points | sources | median factor | nine of ten | worst, predicted / measured |"
    " in the preset's interval |"
)

_RATE = TypeAdapter[Any](Rate)
_SIZE = TypeAdapter[Any](Bytes)

Point = Mapping[str, str]
"""A row of energy.csv."""


def read() -> list[Point]:
    """Return the points."""
    with POINTS.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


# Predictions.


def block_of(point: Point) -> DeviceLaw | RadioLaw:
    """Return the device or the radio of a point: its preset, with what the source states."""
    settings = dict(part.split(": ") for part in point["settings"].split("; ") if part)
    name = "device" if point["preset"] in DEVICES else "radio"
    group = Group.model_validate({"count": 1, name: {"kind": point["preset"], **settings}})
    block: DeviceLaw | RadioLaw = getattr(group, name)
    return block


def predict(point: Point, block: DeviceLaw | RadioLaw, operations: float = 1.0) -> float:
    """Return what the law of a block gives for the work of a point, J or W.

    Args:
        point: the point.
        block: the device or the radio.
        operations: a factor on the operations of a task.
    """
    what, _, rest = point["work"].partition(" ")
    if what == "power":
        return float(getattr(block, rest))
    if isinstance(block, DeviceLaw):
        return block.seconds(operations * float(rest), 1.0) * block.working()
    powers, rates = powers_of(block), block.rates({})
    ways = {
        "up": (rates.up, powers.per_bit[1], powers.on_air[1]),
        "down": (rates.down, powers.per_bit[0], powers.on_air[0]),
    }
    if what == "rate":
        way, _, rate = rest.partition(" ")
        return float(powers.held + ways[way][1] * _RATE.validate_python(rate))
    *stages, last = block.states.stages
    joules = last.wake_power * last.wake_time + sum(each.power * each.time for each in stages)
    for part in rest.split(", "):
        way, _, size = part.partition(" ")
        law, per_bit, on_air = ways[way]
        bits = 8 * int(_SIZE.validate_python(size))
        bits += block.packaging.bits(bits)
        joules += (powers.held + on_air) * law.seconds(bits, bits) + per_bit * bits
    return float(joules)


def interval(point: Point, block: DeviceLaw | RadioLaw) -> tuple[float, float]:
    """Return the 90 % interval of a prediction, by the intervals of the preset's figures."""
    ends = _figures(point, block)
    if point["work"].startswith("power"):
        ((_, low, high),) = ends.values()  # exactly, in place of drawn ones
        return low, high
    shares = qmc.Sobol(len(ends) + 1, scramble=True, rng=0).random(WORLDS)
    drawn = {
        name: _quantiles(*three, column)
        for (name, three), column in zip(ends.items(), shares.T[1:], strict=True)
    }
    factors = _quantiles(*_kernel(), shares.T[0])
    found = [
        predict(
            point,
            block.model_copy(update={name: float(values[world]) for name, values in drawn.items()}),
            float(factors[world]),
        )
        for world in range(WORLDS)
    ]
    low, high = np.quantile(found, (0.05, 0.95))
    return float(low), float(high)


def _figures(point: Point, block: DeviceLaw | RadioLaw) -> Mapping[str, tuple[float, float, float]]:
    """Return value and interval of the figures on which a prediction depends, SI."""
    assert isinstance(block, Presettable)
    preset: Preset = block.presets[point["preset"]]
    stated = {part.split(": ")[0] for part in point["settings"].split("; ")}
    what, _, name = point["work"].partition(" ")
    wanted = {name} if what == "power" else preset.doubts.keys()
    if what == "operations":
        wanted = {"speed", "active"}
    return {
        field: (
            getattr(block, field),
            read_field(block, field, doubt.low),
            read_field(block, field, doubt.high),
        )
        for field, doubt in preset.doubts.items()
        if field in wanted and field not in stated
    }


def _quantiles(value: float, low: float, high: float, shares: Array) -> Array:
    """Return quantiles of a law with a median, and 5 % and 95 % points."""
    scores = ndtri(shares) / ndtri(0.95)
    ends = np.where(scores < 0, value / low, high / value)
    return np.asarray(value * ends**scores)


@cache
def _kernel() -> tuple[float, float, float]:
    """Return the factor on the operations of a task and its interval, of `fedsim robust`."""
    scenarios = [variant.scenario for variant in load("quickstart").variants]
    (found,) = (each for each in general(scenarios) if each.key == FLOPS)
    return found.value, found.low, found.high


# The two halves.


def held_out(points: Sequence[Point]) -> set[str]:
    """Return the sources that are held out: every second of those that no preset has figures of."""
    names = {point["source"] for point in points if point["own"] == "no"}
    return {*sorted(names, key=lambda name: sha256(name.encode()).hexdigest())[1::2]}


def complete(points: Sequence[Point]) -> Iterator[dict[str, str]]:
    """Yield the points with their predictions."""
    unseen = held_out(points)
    for point in points:
        block = block_of(point)
        value, (low, high) = predict(point, block), interval(point, block)
        half = "yes" if point["source"] in unseen else "no"
        figures = value, low, high, value / float(point["measured"])
        texts = [*(f"{figure:.4g}" for figure in figures), half]
        yield {**point, **dict(zip(COMPUTED, texts, strict=True))}


def write(points: Sequence[Point]) -> None:
    """Write all points with their predictions."""
    rows = list(complete(points))
    with replacing(POINTS) as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


# The summary.


class Errors(NamedTuple):
    """The errors of some points, as factors of 1 or more.

    Attributes:
        points: their number.
        sources: the number of their sources.
        median: the factor that half of them stay below.
        nine: the factor that nine of ten stay below.
        worst: the ratio of prediction and measurement that is furthest from 1.
        covered: the share whose measurement lies within the preset's interval.
    """

    points: int
    sources: int
    median: float
    nine: float
    worst: float
    covered: float

    @classmethod
    def of(cls, points: Sequence[Point]) -> "Errors":
        """Return the errors of some points, at least one."""
        logs = np.array([log(float(point["ratio"])) for point in points])
        within = [
            float(point["low"]) <= float(point["measured"]) <= float(point["high"])
            for point in points
        ]
        sizes = np.abs(logs)
        return cls(
            len(points),
            len({point["source"] for point in points}),
            exp(np.median(sizes)),
            exp(np.quantile(sizes, 0.9)),
            exp(logs[sizes.argmax()]),
            float(np.mean(within)),
        )


def counts(point: Point) -> bool:
    """Return whether a point measures what a preset describes, by a source that it is not from."""
    return point["own"] == "no" and point["kind"] != INTEGERS


def groups(points: Sequence[Point]) -> Iterator[tuple[str, str, Sequence[Point]]]:
    """Yield the points by kind and group, without those of presets' own sources, and the halves."""
    others = [point for point in points if point["own"] == "no"]
    names = sorted({(point["kind"], point["group"]) for point in others})
    for name in names:
        yield *name, [each for each in others if (each["kind"], each["group"]) == name]
    for half, held_out in (("calibration half", "no"), ("held-out half", "yes")):
        both = [each for each in others if counts(each)]
        yield "all", half, [each for each in both if each["held_out"] == held_out]


def lines(points: Sequence[Point]) -> Iterator[str]:
    """Yield the lines of the table."""
    yield HEAD
    yield "|---|---|---|---|---|---|---|---|"
    for kind, group, these in groups(points):
        found = Errors.of(these)
        cells = (
            kind,
            group,
            found.points,
            found.sources,
            f"{found.median:.2g}",
            f"{found.nine:.2g}",
            f"{found.worst:.2g}",
            f"{found.covered:.0%}".replace("%", " %"),
        )
        yield f"| {' | '.join(map(str, cells))} |"


def main(arguments: Sequence[str]) -> None:
    """Print the table, after predicting anew if asked for."""
    if asked_for(arguments, "predict"):
        write(read())
    for line in lines(read()):
        print(line)


if __name__ == "__main__":
    main(sys.argv[1:])
