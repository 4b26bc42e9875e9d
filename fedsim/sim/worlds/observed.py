"""The results of a run that its observer provides, in simulated and in real time."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from math import isfinite

from fedsim.core.blocks.wording import put_line_first
from fedsim.core.errors import Diverged, FedsimError, RunError
from fedsim.core.table_columns import JOULES_AFTER
from fedsim.results.record.summary import DONE, Departures, Ending
from fedsim.sim.worlds.observer import Observer


class ObservedRun:
    """A run whose rounds an observer evaluates.

    Attributes:
        status: the status of a run without an error; one of `fedsim.results.record.summary`.
        departures: the clients that left for good, once the run is closed.
        costs_after: what radios take after the end until they sleep, by column, once the run is
            closed; none in a live run, in which it is not known.
    """

    _observer: Observer

    def __init__(self) -> None:
        self.status = DONE
        self.departures = Departures()
        self.costs_after: Mapping[str, float] = {JOULES_AFTER: 0.0}
        self._looks: set[str] = set()

    @property
    def start(self) -> float | None:
        """The objective of the initial model; None if it is not finite."""
        value = self._observer.start
        return value if isfinite(value) else None

    @property
    def last_round(self) -> tuple[int, float]:
        """The number and the objective of the last committed round."""
        return self._observer.last_round

    @property
    def feasible(self) -> bool | None:
        """Whether the last model meets the constraint; None without one."""
        return self._observer.feasible

    @property
    def abandoned(self) -> int:
        """The number of abandoned rounds, which were no step of the algorithm."""
        return self._observer.abandoned

    @property
    def aggregation_notes(self) -> Sequence[tuple[str, str]]:
        """Notes on what the rule of aggregation did, each with the key that it concerns."""
        return ()

    @property
    def looks(self) -> list[str]:
        """The names of what the method has read beside its messages: "battery", "now"."""
        return sorted(self._looks)

    def _run_observed(self, run: Callable[[], Ending]) -> str:
        """Run to the end, have the last model evaluated, and return the reason of the end.

        Raises:
            RunError: an error of the run, or the last model is not finite.
            Exception: an error of the user's code; its message begins with the line that raised it.
        """
        try:
            self.status, reason = run()
            self._observer.end()
        except RunError as error:
            with suppress(Diverged):  # the error that ended the run is raised instead
                self._observer.end()
            if isinstance(error, Diverged):
                raise Diverged(error.round, f"{error.seen}; {self._observer.kept}") from None
            raise
        except FedsimError:
            raise
        except Exception as error:
            put_line_first(error)
            raise
        return reason
