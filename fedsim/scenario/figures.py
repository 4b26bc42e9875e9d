"""Figures of a model: which are evaluated, and what reads one that is not."""

from collections.abc import Iterable, Iterator, Sequence

from fedsim.blocks.registry import kinds_of
from fedsim.blocks.wording import nearest, printable, unknown
from fedsim.problems import MEASURES, Measure
from fedsim.protocol.stop_rules import MeasureTarget
from fedsim.protocol.stopping import Stop


def targets(
    stop: Stop, measures: Sequence[Measure], reported: Iterable[str] = ()
) -> Iterator[tuple[str, str, object]]:
    """Yield stop rules on figures that no measure provides, as key, message and value.

    Args:
        stop: the rules.
        measures: of the scenario.
        reported: the figures that the clients' own programs say of a model.
    """
    measured = {name for measure in measures for name in measure.columns} | set(reported)
    known = columns()
    for name in stop.own:
        if name in measured or name in known:
            text = "a stop rule and a measure's column have this name; give the rule another kind"
            yield f"stop.{name}", text, name
    for rule in stop.rules:
        for name in rule.columns:
            if name in measured or name in ("objective", "gap"):
                continue
            own = isinstance(rule, MeasureTarget)  # the column is the key itself
            if name in known:
                text = f"no measure gives {'it' if own else name}; give measures: [{known[name]}]"
            elif own:
                rules = [*type(stop).model_fields, *dict.fromkeys([*known, *measured])]
                hint = nearest(name, rules) or "."
                text = f"unknown key '{printable(name)}'{hint} Accepted here: {', '.join(rules)}"
            else:
                every = ["objective", "gap", *dict.fromkeys([*known, *measured])]
                text = f"reads a column that no run evaluates: {unknown(name, every)}"
            yield f"stop.{rule.key}", text, stop.figures.get(rule.key)


def find_unmeasured(
    best: str | None, measures: Sequence[Measure], reported: Iterable[str] = ()
) -> Iterator[tuple[str, str, object]]:
    """Yield the figure whose best model is to be kept, if nothing provides it.

    Args:
        best: the figure; None for none.
        measures: of the scenario.
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
    return {name: kinds_of(each)[0] for each in MEASURES for name in each.columns}


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
