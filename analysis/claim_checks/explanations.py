"""Answers: what a claim comes to in each world, what time and energy follow, and their parts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

import fedsim
from claim_checks.papers import COSTS, Claim, Experiment
from claim_checks.probabilities import WorldShare, world_shares
from claim_checks.settings import Setting, read
from claim_checks.verdicts import Cell, Outcome, cells, outcome, short
from claim_checks.worlds import World, price, train
from fedsim.results.analysis import energy_parts

NEAR = 1.05
"""Ratios within five per cent of each other are described as one following the other."""

WORDS = {"tail": "of its energy in tails", "idle": "of it at rest"}
"""What parts of the energy are called in a sentence."""


class Answer(NamedTuple):
    """The outcome of a claim in one world, with the costs of the better method.

    Attributes:
        world: where.
        cells: a cell for each of `COSTS`.
        energy: of the better method's energy the share of each part, largest first.
        busy: of a client's time under it the share of sending, receiving and computing.
        sure: in what share of worlds it holds in time (t) and in joules; empty where that would
            take a training in each.
    """

    world: World
    cells: Mapping[str, Cell]
    energy: pd.Series
    busy: pd.Series
    sure: Mapping[str, WorldShare]


class Finding(NamedTuple):
    """A claim, and what came of it.

    Attributes:
        claim: which one.
        setting: of its runs.
        found: a cell for each of `COSTS`, on the fleet of its row.
        answers: in each world; none where it does not hold in what its paper counts.
    """

    claim: Claim
    setting: Setting
    found: Mapping[str, Cell]
    answers: Sequence[Answer]

    @property
    def outcome(self) -> Outcome:
        """What it comes to in what its paper counts."""
        return outcome(self.claim, self.found)


def examine(experiment: Experiment, out: Path, overrides: Sequence[str] = ()) -> list[Finding]:
    """Run an experiment, and price what holds of its claims in every world."""
    setting = read(experiment, out, overrides)
    trained = train(setting, out)
    found = [cells(claim, setting, trained) for claim in experiment.claims]
    answers: list[list[Answer]] = [[] for _ in experiment.claims]
    holding = [
        number
        for number, claim in enumerate(experiment.claims)
        if outcome(claim, found[number]) != "does not hold"
    ]
    if holding:
        for world, result in price(experiment, setting, trained, out):
            for number in holding:
                answers[number].append(_answer(experiment.claims[number], setting, world, result))
    each = zip(experiment.claims, found, answers, strict=True)
    return [Finding(claim, setting, own, priced) for claim, own, priced in each]


def _answer(claim: Claim, setting: Setting, world: World, result: fedsim.Result) -> Answer:
    """Return the outcome of a claim in one world."""
    (better,) = [name for name, label in setting.labels.items() if label == claim.better]
    clients = result.clients[result.clients["variant"] == better]
    energy = energy_parts(clients, ["variant"]).iloc[0]
    ends = result.rounds.groupby(["variant", "seed"], sort=False, observed=True)["t"].max()
    whole = float(ends.loc[better].sum()) * clients["client"].nunique()
    seconds = {part: clients[f"{part}_s"].sum() / whole for part in ("send", "receive", "compute")}
    shares = energy.sort_values(ascending=False) / energy.sum()
    sure = world_shares(claim, setting, result) if world.silence == "beacon" else {}
    own = cells(claim, setting, result)
    return Answer(world, own, shares, pd.Series(seconds), sure)


def why(claim: Claim, answers: Sequence[Answer]) -> str:
    """Describe what time and energy follow, and their parts, in the figures of the runs."""
    beacons = [each for each in answers if each.world.silence == "beacon"]
    deadlines = [each for each in answers if each.world.silence == "deadline"]
    followed = {cost: _followed(beacons, cost) for cost in ("t", "joules")}
    if followed["t"] == followed["joules"]:
        parts = [f"Each of time and energy {followed['t']}"]
    else:
        parts = [f"{COSTS[cost].capitalize()} {said}" for cost, said in followed.items()]
    if deadlines:
        parts.append(_waited(deadlines))
    parts += [*_unsure(beacons), _spent(claim, beacons), _busy(beacons)]
    return " ".join(f"{part}." for part in parts)


def _followed(answers: Sequence[Answer], cost: str) -> str:
    """Return the count that a cost follows: of rounds, of bits, of messages, or of none."""
    groups: dict[str, list[Answer]] = {}
    for each in answers:
        groups.setdefault(_image(each.cells, cost), []).append(each)
    said = [
        f"{how} on {'every radio' if len(groups) == 1 else _places(own)}"
        for how, own in groups.items()
    ]
    return "; it ".join(said)


def _image(found: Mapping[str, Cell], cost: str) -> str:
    """Return what a cost does in one world, beside rounds, bits and messages."""
    own, rounds, bits = (found[name].ratio for name in (cost, "round", "bits"))
    if not np.isfinite(own):
        return "is not known"
    for name in ("round", "bits", "transmissions"):
        if abs(np.log(found[name].ratio / own)) <= np.log(NEAR):
            return f"follows {COSTS[name]}"
    if min(rounds, bits) < own < max(rounds, bits):
        return "lies between rounds and bits"
    return f"{'exceeds' if own > rounds else 'falls short of'} both rounds and bits"


def _waited(answers: Sequence[Answer]) -> str:
    """Describe the effect of deadlines in place of beacons."""
    ranges = {
        COSTS[cost]: sorted(each.cells[cost].ratio for each in answers) for cost in ("t", "joules")
    }
    said = [
        f"the ratio of {name} is {short(own[0])} to {short(own[-1])}"
        for name, own in ranges.items()
        if np.isfinite(own).all()
    ]
    return (
        f"With deadlines {' and '.join(said) or 'no gap is reached'}: a round in which any client"
        " is silent lasts as long as the deadline, which has to outlast the longest round of"
        " all, where there is a promotion the one that wakes the radios"
    )


def _unsure(answers: Sequence[Answer]) -> Iterator[str]:
    """List the cases in which constants decide rather than methods."""
    for each in answers:
        reasons = [
            f"in {COSTS[cost]} in {own.share:.0%} of the worlds"
            for cost, own in each.sure.items()
            if own.doubtful
        ]
        if reasons:
            yield f"On {each.world} constants decide: it holds {' and '.join(reasons)}"


def _spent(claim: Claim, answers: Sequence[Answer]) -> str:
    groups: dict[str, list[Answer]] = {}
    for each in answers:
        groups.setdefault(str(each.energy.index[0]), []).append(each)
    spent = [
        f"{_span(each.energy.iloc[0] for each in own)} {WORDS.get(part, f'on {part}')}"
        f" ({'every radio' if len(groups) == 1 else _places(own)})"
        for part, own in groups.items()
    ]
    return f"{claim.better} spends {', '.join(spent)}"


def _busy(answers: Sequence[Answer]) -> str:
    busy = _span(each.busy.sum() for each in answers)
    return (
        f"A client sends, receives and computes for {busy} of the time; the rest is latency and"
        " waiting for others"
    )


def _places(answers: Sequence[Answer]) -> str:
    return ", ".join(str(each.world) for each in answers)


def _span(shares: Iterable[float]) -> str:
    every = sorted(shares)
    ends = [f"{share:.2%}" if share < 0.01 else f"{share:.0%}" for share in (every[0], every[-1])]
    return " to ".join(dict.fromkeys(ends))
