"""What is to be said of a run once it has ended, beside how it did: its notes."""

from collections.abc import Callable, Iterator

from fedsim.record.ends import NO_CLIENTS, Ending
from fedsim.record.notes import DESERTED, RISEN
from fedsim.scenario import Scenario

_ROUNDING = 1e-9  # relative


def risen(scenario: Scenario, start: float | None, end: float) -> bool:
    """Return whether an objective is above where its run began.

    Under a constraint it may have to be: the start need not be feasible.
    """
    if start is None or scenario.algorithm.constrained:
        return False
    return end > start + _ROUNDING * abs(start)


def verdict(
    scenario: Scenario, ending: Ending, start: float | None, end: float, advice: Callable[[], str]
) -> Iterator[str]:
    """Yield the notes of a run that ended without an error, each a key and a sentence.

    Args:
        scenario: of the run.
        ending: how and why it ended.
        start: the objective at the model that it began with; None where nobody knows.
        end: the objective of its last round; NaN where there was none.
        advice: returns what to say of its step size, which may take long to know.
    """
    status, reason = ending
    if status == NO_CLIENTS:
        yield f"{DESERTED}: no stop rule ended it: {reason}"
    if risen(scenario, start, end):
        yield f"{RISEN}: it ended at {end:.6g}, above {start:.6g}, where it began{advice()}"
    if reason.startswith("rounds: ") and "rounds" not in scenario.stop.model_fields_set:
        yield f"stop.rounds: {reason.removeprefix('rounds: ')}: a default has ended it, not a rule"
