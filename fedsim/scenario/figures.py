"""Checks that a run evaluates the figures that its stop rules and kept models use."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeGuard

from fedsim.core.blocks.registry import kinds_of
from fedsim.core.blocks.wording import nearest, no_share, printable, unknown
from fedsim.core.table_columns import HIGHER_IS_BETTER
from fedsim.problems import MEASURES, Measure
from fedsim.problems.held_out_targets import lacks_test_rows
from fedsim.protocol.stop_rules import MeasureTarget, StopRule
from fedsim.protocol.stopping import Stop


def targets(
    stop: Stop, measures: Sequence[Measure], reported: Iterable[str] | None = ()
) -> Iterator[tuple[str, str, object]]:
    """Yield stop rules on figures that no measure provides, as key, message and value.

    Args:
        stop: the rules.
        measures: the measures of the scenario.
        reported: the figures that the clients' own programs report. None if measures or loss have
            errors: then any name may be right, unless it resembles that of a rule and is probably
            misspelt.
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


def missing_test_rows(
    stop: Stop, measures: Sequence[Measure], reported: Iterable[str]
) -> Iterator[tuple[str, str, object]]:
    """Yield that test rows are missing, if the measure that a stop rule needs is not given either.

    Otherwise this error would come only once the measure is given. It is for a problem that has
    data, and no test rows.

    Args:
        stop: the rules.
        measures: the measures of the scenario.
        reported: the figures that the clients' own programs report.
    """
    measured = {name for measure in measures for name in measure.columns} | set(reported)
    unmeasured = {name for rule in stop.rules for name in rule.columns} - measured
    unmeasured -= {"objective", "gap"}
    for measure in MEASURES if unmeasured else ():
        if measure.held_out and unmeasured & {*measure.columns}:
            yield "problem.test", lacks_test_rows(kinds_of(measure)[0]), None
            return


def _is_no_share(rule: StopRule) -> TypeGuard[MeasureTarget]:
    """Return whether a rule gives a share, such as an accuracy, a value outside 0 to 1."""
    if not isinstance(rule, MeasureTarget) or rule.measure not in HIGHER_IS_BETTER:
        return False
    return not 0 <= rule.value <= 1


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
