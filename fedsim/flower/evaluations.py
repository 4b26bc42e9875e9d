"""What evaluations say of a model: the objective, and figures beside it."""

from collections.abc import Mapping, Sequence
from math import fsum, isfinite, nan
from typing import Any, NamedTuple

from flwr.app import MetricRecord, RecordDict
from flwr.compat.common.recorddict_compat import recorddict_to_evaluateres

from fedsim.errors import Failed

EXAMPLES = "num-examples"
"""The figure by which Flower weighs what clients say."""


class Looked(NamedTuple):
    """How good a model is.

    Attributes:
        objective: NaN where nobody says it.
        figures: what is said beside it.
    """

    objective: float
    figures: Mapping[str, float]


NOTHING = Looked(nan, {})


class Said(NamedTuple):
    """What one client says of a model.

    Attributes:
        weight: how many samples it has looked at.
        figures: by name.
    """

    weight: float
    figures: Mapping[str, float]


def said(content: RecordDict, *, legacy: bool) -> Said:
    """Return what the answer to an evaluation says.

    Args:
        content: of the answer.
        legacy: whether it is by a client of the older interface.
    """
    if legacy:
        result = recorddict_to_evaluateres(content)
        figures = {"loss": float(result.loss), **numbers(result.metrics)}
        return Said(float(result.num_examples), figures)
    records: Sequence[MetricRecord] = list(content.metric_records.values())
    found = numbers({name: each for record in records for name, each in record.items()})
    weight = found.pop(EXAMPLES, 1.0)
    return Said(weight, found)


def mean_of(answers: Sequence[Said], objective: str) -> Looked:
    """Return the mean of what clients say, by their weights, in their order.

    Args:
        answers: of all clients.
        objective: the figure that is the objective; if empty, the one that is named loss, or the
            first whose name ends so.

    Raises:
        Failed: a client says NaN or infinity as the objective.
    """
    total = fsum(each.weight for each in answers)
    if not total:
        return NOTHING
    names = [name for name in answers[0].figures if all(name in each.figures for each in answers)]
    means = {
        name: fsum(each.weight * each.figures[name] for each in answers) / total for name in names
    }
    losses = [name for name in names if name == "loss"] or [n for n in names if n.endswith("loss")]
    chosen = objective or next(iter(losses), "")
    for client, each in enumerate(answers if chosen in names else ()):
        if not isfinite(each.figures[chosen]):
            text = f"evaluate of client {client} for the observer has said"
            raise Failed(f"{text} {each.figures[chosen]:g} as {chosen}")
    return Looked(means.pop(chosen, nan), means)


def numbers(figures: Mapping[str, Any]) -> dict[str, float]:
    """Return the figures that are single numbers."""
    return {name: float(each) for name, each in figures.items() if isinstance(each, int | float)}
