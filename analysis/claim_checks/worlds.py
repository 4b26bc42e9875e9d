"""Worlds: the same methods on every radio, with beacons and with deadlines."""

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import fedsim
from claim_checks.papers import RADIOS, Experiment
from claim_checks.settings import Setting

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


def train(setting: Setting, out: Path) -> fedsim.Result:
    """Run the methods of an experiment, on the fleet of its row."""
    return _run(setting, out / "trained", ())


def price(
    experiment: Experiment, setting: Setting, trained: fedsim.Result, out: Path
) -> Iterator[tuple[World, fedsim.Result]]:
    """Yield the runs in every world: re-priced, and trained again for each deadline.

    Args:
        experiment: says which worlds there are.
        setting: its runs.
        trained: what they came to.
        out: where the run folders go.
    """
    for radio in experiment.radios:
        beacons = price_on(radio, setting, trained, out)
        yield World(radio, "beacon"), beacons
        if experiment.late:
            after = f"silence.after={SLACK * _longest(beacons):.6g} s"
            late = (*_everywhere(radio, setting), "silence.kind=deadline", after)
            yield World(radio, "deadline"), _run(setting, out / f"{radio}-deadline", late)


def price_on(
    radio: str,
    setting: Setting,
    trained: fedsim.Result,
    out: Path,
    further: Sequence[str] = (),
) -> fedsim.Result:
    """Return the runs re-priced with every client on a radio, with beacons."""
    where = [*_everywhere(radio, setting), *further]
    return fedsim.reprice(trained.folder, where, out / radio)


def _everywhere(radio: str, setting: Setting) -> list[str]:
    """Return the overrides by which every client is on a radio."""
    return [f"fleet.{number}.radio={radio}" for number in range(len(setting.scenario["fleet"]))]


def _run(setting: Setting, out: Path, overrides: Sequence[str]) -> fedsim.Result:
    with warnings.catch_warnings():
        # Papers censor more, and step further, than theory covers, and some runs diverge.
        warnings.simplefilter("ignore", fedsim.TheoryWarning)
        warnings.simplefilter("ignore", fedsim.RunWarning)
        return fedsim.run(dict(setting.scenario), out=out, overrides=overrides)


def _longest(result: fedsim.Result) -> float:
    """Return the longest round of any run, s: of the method that always answers, as a rule."""
    times = result.rounds.groupby(["variant", "seed"], sort=False, observed=True)["t"]
    return float(times.diff().fillna(result.rounds["t"]).max())
