"""Figures of a model: which are evaluated, and what reads one that is not."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from pydantic import BaseModel, ValidationError, create_model

from fedsim.core.blocks.registry import kinds_of
from fedsim.core.blocks.spec import Spec
from fedsim.core.blocks.wording import nearest, printable, unknown
from fedsim.core.table_columns import HIGHER_IS_BETTER
from fedsim.problems import MEASURES, Measure
from fedsim.problems.programs import reports
from fedsim.protocol.stop_rules import MeasureTarget
from fedsim.protocol.stopping import Stop
from fedsim.scenario.located import Located
from fedsim.scenario.specs import ProblemSpec, ScenarioKeys


def targets(
    stop: Stop, measures: Sequence[Measure], reported: Iterable[str] | None = ()
) -> Iterator[tuple[str, str, object]]:
    """Yield stop rules on figures that no measure provides, as key, message and value.

    Args:
        stop: the rules.
        measures: the measures of the scenario.
        reported: the figures that the clients' own programs say of a model; None where that is
            not known: then a name may be theirs, unless it is nearly that of a rule.
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
        if isinstance(rule, MeasureTarget) and rule.value > 1 and rule.measure in HIGHER_IS_BETTER:
            yield f"stop.{rule.key}", _above_one(rule), rule.value
        for name in rule.columns:
            if name in measured or name in ("objective", "gap"):
                continue
            is_own = isinstance(rule, MeasureTarget)  # the column is the key itself
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


def _above_one(rule: MeasureTarget) -> str:
    """Return a message on a share that no model reaches; a percentage is what was meant."""
    text = f"got {rule.value:g}, but {rule.measure} is a share, at most 1"
    meant = f"; give {rule.value / 100:g} for {rule.value:g} %" if rule.value <= 100 else ""
    return text + meant


def unread_targets(tree: Located, context: object) -> list[tuple[str, str]]:
    """Return stop rules that nothing can mean, of a scenario that is wrong elsewhere.

    A measure's column is known once measures and the loss are: where these and the rules can be
    read, the rest need not be right. Where there is no loss yet, only misspelt names are returned.

    Args:
        tree: the scenario as written.
        context: the context of its validation.

    Returns:
        The key and the message of each.
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
        return []  # which is said of these themselves
    unread = targets(read.stop, read.measures, reports(read.loss) if known else None)
    return [(key, text) for key, text, _ in unread]


@cache
def _parts(*, with_loss: bool) -> type[BaseModel]:
    """Return the parts of a scenario that say which columns there are, and which are read."""
    fields = {name: ScenarioKeys.model_fields[name] for name in ("stop", "measures")}
    if with_loss:
        fields["loss"] = ProblemSpec.model_fields["loss"]
    parts: dict[str, Any] = {name: (field.annotation, field) for name, field in fields.items()}
    return create_model("Figures", __base__=Spec, **parts)


def find_unmeasured(
    best: str | None, measures: Sequence[Measure], reported: Iterable[str] = ()
) -> Iterator[tuple[str, str, object]]:
    """Yield the figure whose best model is to be kept, if nothing provides it.

    Args:
        best: the figure; None for none.
        measures: the measures of the scenario.
        reported: the figures that the clients' own programs say of a model.
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
    """Return the columns that fedsim's own measures fill, each with the kind that fills it."""
    return {name: kinds_of(measure)[0] for measure in MEASURES for name in measure.columns}


def find_repeated(measures: Sequence[Measure]) -> Iterator[tuple[str, str, object]]:
    """Yield where two measures would fill the same columns, as key, message and value."""
    first: dict[str, int] = {}
    for number, measure in enumerate(measures):
        column = measure.columns[0] if measure.columns else measure.kind
        if first.setdefault(column, number) != number:
            text = (
                f"measures.{first[column]} is {measure.kind} already, and a column has one"
                " value a round; leave one of the two out"
            )
            yield f"measures.{number}", text, measure.kind
