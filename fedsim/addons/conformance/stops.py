"""Checks of a stop rule: independence of runs, declared columns and costs.

from fedsim.addons.conformance import check_stop_rule
print(check_stop_rule(Budget(most=3)))
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import isnan, nan

import pandas as pd

from fedsim.addons.conformance.any_block import pickles
from fedsim.addons.conformance.findings import Promises, table
from fedsim.protocol.stop_rules import RoundEnd, StopRule

ROUNDS = 200
"""Rounds of each test run; costs double every few rounds."""

_RUNS: dict[str, Callable[[int], float]] = {
    "an objective that falls": lambda number: 100 * 0.97**number,
    "one that stays": lambda _: 1.0,
    "one that rises": lambda number: 1 + 0.1 * number,
    "one that falls and stays": lambda number: max(1.0, 10.0 - number),
    "one that is not evaluated": lambda _: nan,
}
"""Objectives of test runs, by round."""


def check_stop_rule(rule: StopRule) -> pd.DataFrame:
    """Check a stop rule on runs whose objectives fall, stay, rise, or are unknown.

    Args:
        rule: the stop rule, with its parameters.

    Returns:
        One row per check: check, outcome (kept or broken), and the reason.

    Example:
        >>> from fedsim.scenario import Patience
        >>> check_stop_rule(Patience(rounds=3))["outcome"].unique().tolist()
        ['kept']
    """
    return table(type(rule), _promises(rule))


def _promises(rule: StopRule) -> Promises:
    yield "a reason is a text", _reasons(rule)
    yield "a run ends independently of other runs", _judges_alone(rule)
    yield "it reads only the columns it declares", _columns(rule)
    yield "without `physical`, time and energy do not decide", _costs(rule)
    yield "no moment is before the start, and batteries have a text", _moments(rule)
    yield "it can be sent to another process and back", pickles(rule)


class _Figures(dict[str, float | None]):
    """The figures of a round; they record the names of figures that are read."""

    def __init__(self, figures: dict[str, float | None], read: set[str]) -> None:
        super().__init__(figures)
        self._read = read

    def get(self, name: str, default: float | None = None) -> float | None:  # type: ignore[override]
        self._read.add(name)
        return super().get(name, default)

    def __getitem__(self, name: str) -> float | None:
        self._read.add(name)
        return super().__getitem__(name)


def _run(
    rule: StopRule, objective: Callable[[int], float], read: set[str] | None = None
) -> list[RoundEnd]:
    """Return the rounds of a test run; the columns of the rule equal the objective.

    Args:
        rule: the rule.
        objective: the objective of each round.
        read: a set to which the names of figures that are read are added.
    """
    record = set[str]() if read is None else read
    ends = []
    for number in range(1, ROUNDS + 1):
        value, cost = objective(number), 2 ** (number / 4)
        objective_or_none: float | None = None if isnan(value) else value
        figures: dict[str, float | None] = dict.fromkeys(rule.columns, objective_or_none)
        ends.append(
            RoundEnd(
                round=number,
                t=cost,
                bits=int(1000 * cost),
                joules=10 * cost,
                objective=value,
                gap=value,
                figures=_Figures(figures, record),
            )
        )
    return ends


def _answers(rule: StopRule, ends: Sequence[RoundEnd]) -> list[str]:
    """Return the answers of the rule for one run, up to the round that ends it."""
    check, answers = rule.watch(), list[str]()
    for end in ends:
        answers.append(check(end))
        if answers[-1]:
            break
    return answers


def _reasons(rule: StopRule) -> Iterator[str]:
    for name, objective in _RUNS.items():
        answers: Sequence[object] = _answers(rule, _run(rule, objective))
        for number, answer in enumerate(answers, 1):
            if not isinstance(answer, str):
                yield f"{name}: round {number} returned {answer!r}; expected a text"


def _judges_alone(rule: StopRule) -> Iterator[str]:
    """Yield runs that end differently if the same block also judges another run."""
    for name, objective in _RUNS.items():
        ends = _run(rule, objective)
        alone = _answers(rule, ends)
        for other in _RUNS.values():
            check, beside, again = rule.watch(), rule.watch(), list[str]()
            for end, different in zip(ends[: len(alone)], _run(rule, other), strict=False):
                beside(different)
                again.append(check(end))
            if again != alone:
                yield (
                    f"{name}: it ends after {len(alone)} rounds alone, and otherwise beside a run"
                    " of another objective; keep what it remembers within `watch`"
                )


def _columns(rule: StopRule) -> Iterator[str]:
    read = set[str]()
    for objective in _RUNS.values():
        _answers(rule, _run(rule, objective, read))
    for name in sorted(read - {*rule.columns}):
        yield f"it reads {name!r}, which `columns` does not name, so no scenario has to evaluate it"


def _costs(rule: StopRule) -> Iterator[str]:
    for name, objective in {} if rule.physical else _RUNS.items():
        ends = _run(rule, objective)
        dear = [replace(end, t=1e3 * end.t, joules=1e3 * end.joules) for end in ends]
        one, other = (_answers(rule, each) for each in (ends, dear))
        if one != other:
            yield (
                f"{name}: after {len(one)} rounds, but after {len(other)} where each takes a"
                " thousand times as long and as much energy; say physical: ClassVar[bool] = True"
            )


def _moments(rule: StopRule) -> Iterator[str]:
    if not rule.ends_at > 0:
        yield f"`ends_at` is {rule.ends_at:g} s; give a time after 0 s"
    for count in range(5):
        answer: object = rule.on_empty(count)
        if not isinstance(answer, str):
            yield f"{count} empty batteries are answered by {answer!r}; give a text"
