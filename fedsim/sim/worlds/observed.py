"""What a run has of its observer, in simulated and in real time."""

from collections.abc import Callable
from contextlib import suppress
from math import isfinite

from fedsim.core.blocks.wording import put_line_first
from fedsim.core.errors import Diverged, FedsimError, RunError
from fedsim.results.record.summary import DONE, Departures, Ending
from fedsim.sim.worlds.observer import Observer


class ObservedRun:
    """A run whose rounds an observer evaluates.

    Attributes:
        status: how it has ended, once it has run without an error; one of
            `fedsim.results.record.summary`.
        departures: the clients that left for good, once it is closed.
    """

    _observer: Observer

    def __init__(self) -> None:
        self.status = DONE
        self.departures = Departures()
        self._looks: set[str] = set()

    @property
    def start(self) -> float | None:
        """The objective of the model that the run starts with; None where it is no number."""
        value = self._observer.start
        return value if isfinite(value) else None

    @property
    def last_round(self) -> tuple[int, float]:
        """Number and objective of the last round that was committed."""
        return self._observer.last_round

    @property
    def feasible(self) -> bool | None:
        """Whether the last model meets the constraint; None without one."""
        return self._observer.feasible

    @property
    def abandoned(self) -> int:
        """How many of its rounds were abandoned, and no step of the algorithm."""
        return self._observer.abandoned

    @property
    def looks(self) -> list[str]:
        """What the method has read beside its messages: "battery", "now"."""
        return sorted(self._looks)

    def _run_observed(self, run: Callable[[], Ending]) -> str:
        """Run to the end, let the observer evaluate the last model, and return why it ended.

        Raises:
            RunError: the run's own, or the last model is not finite.
            Exception: of the user's code; its message begins with the line that raised it.
        """
        try:
            self.status, reason = run()
            self._observer.end()
        except RunError as error:
            with suppress(Diverged):  # the reason of the end is raised already
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
