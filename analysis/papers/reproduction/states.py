"""The state of a row, decided from its numbers: conditions, and how many of them hold.

A condition is an expression of numbers, such as

    [CHB | transmissions] < min([HB | transmissions], [LAG | transmissions])

in which the name of a number stands in square brackets: variant | measure, with the case before it
where the row has several. A star in a name stands for anything, within min(), max() or count(): of
the numbers that have such a name. Numbers are those of one seed, or their means.
"""

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from reproduction.model import SEPARATOR, SOURCES, Check, Row

REPRODUCED, PARTLY, NOT, OPEN = "reproduced", "in part", "does not reproduce", "not run here"
SUBSTITUTED, CHECKED = "substitute data", "checked"

Numbers = Mapping[str, Sequence[float]]
"""Name of a number -> its values, one a seed."""

Value = float | bool | list[float]
"""Of an expression: a number, whether something holds, or all numbers of a name with a star."""

_NAME = re.compile(r"\[([^\[\]]+)\]")

_OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda a, b: a / b if b else math.copysign(math.inf, a) if a else math.nan,
    ast.Pow: operator.pow,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
}


def _known(values: Sequence[Any]) -> list[float]:
    flat = [each for value in values for each in (value if isinstance(value, list) else [value])]
    return [float(each) for each in flat if not math.isnan(each)]


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": lambda *values: min(_known(values), default=math.nan),
    "max": lambda *values: max(_known(values), default=math.nan),
    "count": lambda *values: len(_known(values)),
    "abs": abs,
    "log": lambda value: math.log(value) if value > 0 else math.nan,
    "sqrt": lambda value: math.sqrt(value) if value >= 0 else math.nan,
    "missing": lambda *values: not _known(values),
}
"""What expressions may call; min, max and count leave missing numbers out."""


def evaluate(expression: str, numbers: Mapping[str, float]) -> Value:
    """Return the value of an expression.

    Args:
        expression: see the head of this module.
        numbers: by name.

    Raises:
        ValueError: it is no such expression, or names a number that there is not.
    """
    named = dict[str, Value]()

    def place(found: re.Match[str]) -> str:
        key = f"_{len(named)}"
        named[key] = _numbers(found[1], numbers)
        return key

    text = _NAME.sub(place, expression)
    try:
        tree = ast.parse(" ".join(text.split()), mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"got {expression!r}, expected a condition of numbers") from error
    value: Value = _value(tree, named, expression)
    return value


def _numbers(name: str, numbers: Mapping[str, float]) -> Value:
    name = SEPARATOR.join(part.strip() for part in name.split(SEPARATOR.strip()))
    if "*" in name:
        found = [value for key, value in numbers.items() if fnmatchcase(key, name)]
        if found:
            return found
    elif name in numbers:
        return numbers[name]
    raise ValueError(f"got [{name}], expected one of {', '.join(numbers)}")


def _value(node: ast.AST, named: Mapping[str, Value], text: str) -> Any:
    result: Any
    match node:
        case ast.Constant(value=int() | float() as value):
            result = value
        case ast.Name(id=name) if name in named:
            result = named[name]
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
            sides = _value(left, named, text), _value(right, named, text)
            result = _OPERATORS[type(sign)](*sides)
        case ast.UnaryOp(op=sign, operand=operand) if type(sign) in _OPERATORS:
            result = _OPERATORS[type(sign)](_value(operand, named, text))
        case ast.BoolOp(op=sign, values=values):
            parts = [_value(each, named, text) for each in values]
            result = all(parts) if isinstance(sign, ast.And) else any(parts)
        case ast.Compare(left=left, ops=signs, comparators=others):
            ends = [_value(each, named, text) for each in (left, *others)]
            pairs = zip(ends, signs, ends[1:], strict=False)
            result = all(_OPERATORS[type(sign)](one, other) for one, sign, other in pairs)
        case ast.Call(func=ast.Name(id=name), args=values) if name in _FUNCTIONS:
            result = _FUNCTIONS[name](*(_value(each, named, text) for each in values))
        case _:
            raise ValueError(f"got {ast.unparse(node)!r} in {text!r}, expected numbers and signs")
    return result


class Verdict(NamedTuple):
    """What a check comes to.

    Attributes:
        text: what is claimed.
        holds: whether it holds.
        seen: under how many seeds, or what was measured.
        ours: whether it compares with a computation of ours rather than with the paper.
    """

    text: str
    holds: bool
    seen: str
    ours: bool = False


def mean(values: Sequence[float]) -> float:
    """Return the mean of values; NaN if one is missing."""
    return math.fsum(values) / len(values) if values else math.nan


def decide(text: str, check: Check, numbers: Numbers) -> Verdict:
    """Return what a check of a row comes to."""
    if check.seeds == "mean":
        means = {name: mean(values) for name, values in numbers.items()}
        return Verdict(text, bool(evaluate(check.holds, means)), "mean of the seeds")
    used = {
        key
        for found in _NAME.finditer(check.holds)
        for key in numbers
        if fnmatchcase(key, SEPARATOR.join(part.strip() for part in found[1].split("|")))
    }
    count = max((len(numbers[key]) for key in used), default=1)
    held = 0
    for seed in range(count):
        own = {name: values[seed] for name, values in numbers.items() if len(values) > seed}
        held += bool(evaluate(check.holds, own))
    wanted = count if check.seeds == "each" else min(int(check.seeds), count)
    return Verdict(text, held >= wanted, f"{held} of {count} seeds" if count > 1 else "")


def allowed(tolerance: float | str, published: float) -> float:
    """Return how far a number may be off: absolute, or "3 %" of what is published.

    >>> allowed("5 %", 200), allowed(9, 200)
    (10.0, 9.0)
    """
    if isinstance(tolerance, str):
        return abs(published) * float(tolerance.removesuffix("%")) / 100
    return float(tolerance)


def compare(row: Row, numbers: Numbers) -> list[Verdict]:
    """Return a verdict for each published or checked number that has a tolerance."""
    found = []
    lines = [(source, line) for source in SOURCES for line in row.lines(source)]
    for source, line in lines:
        for measure, value in row.values(line, source).items():
            if measure not in row.tolerance or isinstance(value, str):
                continue
            own = mean(numbers.get(f"{line}{SEPARATOR}{measure}", ()))
            most = allowed(row.tolerance[measure], value) * (1 + 1e-9)
            seen = f"{source} {value:g}, measured {own:.5g}"
            held = abs(own - value) <= most
            found.append(Verdict(f"{line}: {measure}", held, seen, source == "checked"))
    return found


def verdicts(row: Row, numbers: Numbers) -> list[Verdict]:
    """Return all verdicts of a row: of its numbers, of its checks, and of its cross-checks.

    A number that was not measured is missing, as one that a method does not get to.
    """
    every = {**dict.fromkeys(row.names(), (math.nan,)), **numbers}
    own = [decide(text, check, every) for text, check in row.checks.items()]
    crossed = [
        decide(text, check, every)._replace(ours=True) for text, check in row.cross_checks.items()
    ]
    return [*compare(row, numbers), *own, *crossed]


def counted(row: Row, found: Sequence[Verdict]) -> list[Verdict]:
    """Return the verdicts that decide a row: those on the paper, or all if it concludes nothing."""
    return [each for each in found if not (each.ours and row.concludes)]


def state(row: Row, found: Sequence[Verdict] | None) -> str:
    """Return the state of a row: reproduced if all that it concludes holds, in part if some does.

    Only with the paper's data can a conclusion of the paper be reproduced, or not.

    Args:
        row: which one.
        found: its verdicts; None if nothing was measured.
    """
    if found is None:
        return OPEN
    if not row.concludes:
        return CHECKED
    if row.substitute:
        return SUBSTITUTED
    deciding = counted(row, found)
    held = sum(each.holds for each in deciding)
    if held == len(deciding):
        return REPRODUCED
    return PARTLY if held else NOT


def summary(row: Row, found: Sequence[Verdict] | None) -> str:
    """Return the state of a row with how many of the deciding checks hold, unless it says so."""
    name = state(row, found)
    if found is None or name == REPRODUCED:
        return name
    deciding = counted(row, found)
    checks = "check" if len(deciding) == 1 else "checks"
    return f"{name}: {sum(each.holds for each in deciding)} of {len(deciding)} {checks}"
