"""Pricing: what a finished run takes to its target in each world of a design."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedsim.analysis.comparing.targets import Target
from fedsim.blocks.spec import Spec
from fedsim.ports import Array
from fedsim.repricing.conditions import refusals
from fedsim.repricing.original import Original
from fedsim.repricing.tape import read_tape
from fedsim.robustness.constants import Key
from fedsim.robustness.fleets import clients_of, counts_grams, overheads, unplayable
from fedsim.robustness.loads import Loads
from fedsim.robustness.timeline import prices
from fedsim.scenario import Group, Variant
from fedsim.wire import HEADER_BITS

_MOST = 2_000_000
"""Numbers in an array of clients x worlds: more worlds than that are priced in parts."""

World = Mapping[Key, Array]


class Costs(NamedTuple):
    """What a run takes in each world, shape (W,).

    Attributes:
        t: seconds; infinite where the run never reached the target, NaN where it would have gone
            another way.
        joules: likewise.
        grams: of CO2, likewise; NaN in every world where a run has none, or they do not follow.
    """

    t: Array
    joules: Array
    grams: Array


@dataclass(frozen=True)
class Run:
    """A finished run, and the round in which it reached the target.

    Attributes:
        folder: where it is.
        variant, seed: which one.
        look: the round, from 1; None where it never reached the target.
        bits: sent until then, both ways.
        target: what it was to reach.
        world: the number of the only one in which it is priced; None for all.
    """

    folder: Path
    variant: str
    seed: int
    look: int | None
    bits: float
    target: Target
    world: int | None = None

    def original(self, blocks: tuple[type[Spec], ...] = ()) -> Original:
        """Return what is known of it."""
        return Original.of(self.folder, blocks)


def hindrance(original: Original) -> str:
    """Say why a run's rounds cannot be priced by their recursion; nothing where they can.

    It is the law of a round that waits for all whom it asks, between a server and clients whose
    radios and devices are numbers.
    """
    scenario = original.scenario
    variant = Variant(original.name, scenario)
    looks = original.summary["looks"]
    for fault in refusals(scenario, variant, len(original.samples), looks):
        own = f"variant {variant.name}: "
        return f"{fault.key}: {fault.message.removeprefix(own)}"
    if scenario.stop.time is not None or scenario.stop.energy is not None:
        return "stop: it ends by the clock or by its energy, in each world elsewhere"
    return unplayable(scenario)


def priced(run: Run, world: World, worlds: int, blocks: tuple[type[Spec], ...] = ()) -> Costs:
    """Price a run without a hindrance in many worlds.

    Args:
        run: see `Run`.
        world: the constants in doubt, each of shape (W,).
        worlds: W.
        blocks: classes of one's own that the scenario names.

    Raises:
        DataError: its log does not tell enough.
    """
    original = run.original(blocks)
    if run.look is None:
        never = np.full(worlds, np.inf)
        counted = counts_grams(original.scenario.fleet)
        return Costs(never, never, never if counted else np.full(worlds, np.nan))
    return Costs(*(each[0] for each in priced_at([run.look], original, world, worlds)))


def priced_at(looks: Sequence[int], original: Original, world: World, worlds: int) -> Costs:
    """Price a run without a hindrance until several of its rounds, in many worlds.

    Args:
        looks: the rounds, L of them, from 1, ascending.
        original: what is known of the run.
        world: the constants in doubt, each of shape (W,).
        worlds: W.

    Returns:
        Costs until the end of each of the rounds, of shape (L, W).

    Raises:
        DataError: its log does not tell enough.
    """
    scenario, tape = original.scenario, read_tape(original.folder, len(original.samples))
    groups = scenario.fleet or (Group(count=len(original.samples)),)
    framings = [group.radio.packaging for group in groups for _ in range(group.count)]
    step = max(1, _MOST // len(framings))
    parts = list[Costs]()
    for first in range(0, worlds, step):
        part = slice(first, min(first + step, worlds))
        some = {key: values[part] for key, values in world.items()}
        framed = overheads(groups, some, part.stop - part.start)
        loads = Loads(tape, framings, HEADER_BITS, framed)
        clients = clients_of(scenario, groups, some, part.stop - part.start)
        known = prices(tape, loads, clients, looks)
        every = known.seconds, known.joules, known.grams
        parts.append(Costs(*(np.where(known.fits, each, np.nan) for each in every)))
    return Costs(*(np.concatenate(each, axis=1) for each in zip(*parts, strict=True)))
