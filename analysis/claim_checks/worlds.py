"""Worlds: the same two methods on every radio, with beacons and with deadlines."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ruamel.yaml import YAML

import fedsim
from claim_checks.papers import RADIOS, Claim

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios/papers"

SLACK = 1.1
"""A deadline, over the longest round in which every client replies."""


class World(NamedTuple):
    """Where a claim is asked.

    Attributes:
        radio: a key of `RADIOS`.
        silence: how a client that has nothing to say is dealt with.
    """

    radio: str
    silence: Literal["beacon", "deadline"]

    def __str__(self) -> str:
        return f"{RADIOS[self.radio]}{', deadline' if self.silence == 'deadline' else ''}"


def asked(claim: Claim) -> dict[str, Any]:
    """Return a claim's scenario, as it is written, with no other variants than the claim's."""
    written = YAML(typ="safe").load(SCENARIOS / f"{claim.scenario}.yaml")
    written["variants"] = {
        name: block for name, block in written["variants"].items() if name in claim.variants
    }
    return dict(written)


def runs(
    claim: Claim, out: Path, overrides: Sequence[str] = ()
) -> Iterator[tuple[World, fedsim.Result]]:
    """Yield the two methods' runs in every world: trained once, and once for each deadline.

    Args:
        claim: which one.
        out: where the run folders go.
        overrides: of the scenario.
    """
    scenario = asked(claim)
    # What the caller overrides takes the place of what the claim does: a key is given once.
    every = {text.partition("=")[0]: text for text in (*claim.overrides, *overrides)}
    changed = list(every.values())
    trained = fedsim.run(scenario, out=out / "trained", overrides=changed)
    for radio in claim.radios:
        where = [f"fleet.{number}.radio={radio}" for number in range(len(scenario["fleet"]))]
        beacons = fedsim.reprice(trained.folder, where, out / radio)
        yield World(radio, "beacon"), beacons
        if claim.silent:
            after = f"silence.after={SLACK * _longest(beacons):.6g} s"
            late = [*changed, *where, "silence.kind=deadline", after]
            folder = out / f"{radio}-deadline"
            yield World(radio, "deadline"), fedsim.run(scenario, out=folder, overrides=late)


def _longest(result: fedsim.Result) -> float:
    """Return the longest round of any run, s: of the method that always answers, as a rule."""
    times = result.rounds.groupby(["variant", "seed"], sort=False, observed=True)["t"]
    return float(times.diff().fillna(result.rounds["t"]).max())
