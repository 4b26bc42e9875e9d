"""Checks that a run evaluates the figures that its stop rules and kept models use."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeGuard

from pydantic import BaseModel, ValidationError

from fedsim.core.blocks.registry import kinds_of
from fedsim.core.blocks.wording import nearest, no_share, printable, unknown
from fedsim.core.table_columns import HIGHER_IS_BETTER
from fedsim.problems import MEASURES, Measure
from fedsim.problems.programs import reports
from fedsim.protocol.stop_rules import MeasureTarget, StopRule
from fedsim.protocol.stopping import Stop
from fedsim.scenario.located import Located
from fedsim.scenario.specs import ProblemSpec, ScenarioKeys, model_of


def targets(
    stop: Stop, measures: Sequence[Measure], reported: Iterable[str] | None = ()
) -> Iterator[tuple[str, str, object]]:
    """Yield stop rules on figures that no measure provides, as key, message and value.

    Args:
        stop: the rules.
        measures: the measures of the scenario.
        reported: the figures that the clients' own programs report. None if these are unknown: then
            any name may be one, unless it resembles that of a rule and is probably misspelt.
    """
    measured = {name for measure in measures for name in measure.columns} | set(reported or ())
    read = {name for rule in stop.rules for name in rule.columns}
    unmeasured = read - measured - {"objective", "gap"}
    known = columns() if stop.own or unmeasured else {}  # all measures are imported for this
    rules = [*type(stop).model_fields, *dict.fromkeys([*known, *measured])]
    for name in stop.own:
        if name in measured or name in known:
            text = "a stop rule and a measure's column have this name; give the rule another kind"
            yield f"stop.{name}", text, name
    for rule in stop.rules:
        if _is_no_share(rule):
            yield f"stop.{rule.key}", no_share(rule.measure, rule.value), rule.value
        for name in rule.columns:
            if name in measured or name in ("objective", "gap"):
                continue
            is_own = isinstance(rule, MeasureTarget)  # the column is the key itself
            # If it is unknown what the clients report, only a likely misspelling is a fault.
            if reported is None and (name in known or not is_own or not nearest(name, rules)):
                continue
            if name in known:
                text = (
                    f"no measure gives {'it' if is_own else name}; give measures: [{known[name]}]"
                )
            elif is_own:
                hint = nearest(name, rules) or "."
                text = f"unknown key '{printable(name)}'{hint} Accepted here: {', '.join(rules)}"
            else:
                every = ["objective", "gap", *dict.fromkeys([*known, *measured])]
                text = f"reads a column that no run evaluates: {unknown(name, every)}"
            yield f"stop.{rule.key}", text, stop.figures.get(rule.key)


def unread_targets(tree: Located, context: object) -> list[tuple[str, str]]:
    """Return stop rules on unavailable figures, for a scenario with errors elsewhere.

    The full check needs a valid scenario. This one only needs valid measures, stop rules and loss.
    Without a loss, it only returns misspelt names.

    Args:
        tree: the scenario as written.
        context: the context of its validation.

    Returns:
        Key and message of each such rule.
    """
    written = tree.plain()
    problem = written.get("problem") if isinstance(written, Mapping) else None
    if not isinstance(written, Mapping):
        return []
    parts = {key: written[key] for key in ("stop", "measures") if key in written}
    if isinstance(problem, Mapping) and "loss" in problem:
        parts["loss"] = problem["loss"]
    known = "loss" in parts
    model = _parts(with_loss=known)
    try:
        read: Any = model.model_validate_json(json.dumps(parts), strict=True, context=context)
    except ValidationError:
        return []  # these blocks report their own errors
    unread = targets(read.stop, read.measures, reports(read.loss) if known else None)
    return [(key, text) for key, text, _ in unread]


def _is_no_share(rule: StopRule) -> TypeGuard[MeasureTarget]:
    """Return whether a rule gives a share, such as an accuracy, a value outside 0 to 1."""
    if not isinstance(rule, MeasureTarget) or rule.measure not in HIGHER_IS_BETTER:
        return False
    return not 0 <= rule.value <= 1


@cache
def _parts(*, with_loss: bool) -> type[BaseModel]:
    """Return a model of the keys of a scenario that define or use columns."""
    fields = {name: ScenarioKeys.model_fields[name] for name in ("stop", "measures")}
    if with_loss:
        fields["loss"] = ProblemSpec.model_fields["loss"]
    return model_of(fields)


def find_unmeasured(
    best: str | None, measures: Sequence[Measure], reported: Iterable[str] = ()
) -> Iterator[tuple[str, str, object]]:
    """Yield a conflict if nothing provides the figure that selects the best model to keep.

    Args:
        best: the figure; None if no best model is kept.
        measures: the measures of the scenario.
        reported: the figures that the clients' own programs report.
    """
    measured = [name for measure in measures for name in measure.columns]
    every = ["objective", "gap", *dict.fromkeys([*measured, *reported])]
    if best is None or best in every:
        return
    known = columns()
    text = f"no run evaluates it: {unknown(best, every)}"
    if best in known:
        text = f"no measure gives it; give measures: [{known[best]}]"
    yield "models.best", text, best


def columns() -> dict[str, str]:
    """Return the columns of fedsim's own measures, each with the kind of the measure."""
    return {name: kinds_of(measure)[0] for measure in MEASURES for name in measure.columns}


def find_repeated(measures: Sequence[Measure]) -> Iterator[tuple[str, str, object]]:
    """Yield measures that would fill the same columns as an earlier one: key, message and value."""
    first: dict[str, int] = {}
    for number, measure in enumerate(measures):
        column = measure.columns[0] if measure.columns else measure.kind
        if first.setdefault(column, number) != number:
            text = (
                f"measures.{first[column]} is {measure.kind} already, and a column has one"
                " value a round; leave one of the two out"
            )
            yield f"measures.{number}", text, measure.kind
