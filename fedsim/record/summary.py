"""The summary of a run: its fields and their types."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from fedsim.record.manifest import check_kinds, read_mapping

Count = Annotated[int, Field(ge=0)]


class Optimum(BaseModel):
    """The least objective, and how it was found."""

    model_config = ConfigDict(strict=True)

    value: float
    method: str
    residual: float | None


class Summary(BaseModel):
    """The fields that are read of a summary; further ones are allowed.

    Attributes:
        variant, seed, algorithm: which run it is of.
        parameters: the method's, as the numbers that ran.
        concerns: what the theory of the method does not cover.
        target: the gap at which the run was to stop, if any.
        targets: that, and all other figures at which it was to stop.
        start: the objective before the first round; None where it is not known.
        clients, dimension, problem: sizes, and a hash of the clients' losses.
        reference: the optimum, and how it was found; None where none is known.
        status, reason: how the run ended, as `fedsim.record.ends` has it, and why.
        notes: remarks on a completed run.
        rounds, t: how far it came, in seconds.
        objective, gap: after the last round; None where they are not finite.
        looks: auxiliary evaluations that the method made.
        cohort, transmissions, beacons, bits_up, bits_down, joules: totals of the run.
        grams: the same, of CO2; None if not tracked.
    """

    model_config = ConfigDict(strict=True, extra="allow")

    variant: str
    seed: Count
    algorithm: str
    parameters: dict[str, Any]
    concerns: list[str]
    target: float | None
    targets: dict[str, float] = {}
    start: float | None = None
    clients: Count
    dimension: Count
    problem: str
    reference: Optimum | None
    status: str
    reason: str
    notes: list[str] = []
    rounds: Count
    t: float
    objective: float | None
    gap: float | None
    looks: list[str]
    cohort: Count
    transmissions: Count
    beacons: Count
    bits_up: Count
    bits_down: Count
    joules: float
    grams: float | None = None


def read_summary(path: Path) -> dict[str, Any]:
    """Return the summary of a run.

    Raises:
        DataError: there is none, or it is damaged.
    """
    content = read_mapping(path)
    check_kinds(Summary, content, path)
    return content
