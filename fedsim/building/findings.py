"""What is wrong with a variant, gathered while it is built: everything, not the first thing."""

from collections.abc import Iterator
from contextlib import contextmanager

from fedsim.errors import DataError, Fault, ScenarioError
from fedsim.scenario import Variant


class Findings:
    """The faults of a variant that only building can see.

    Attributes:
        faults: those found so far, one for each key.
    """

    def __init__(self, variant: Variant) -> None:
        self.faults: list[Fault] = []
        self._variant = variant

    def add(self, key: str, message: str) -> None:
        """Take note of what is wrong at a key, unless something is already."""
        if all(fault.key != key for fault in self.faults):
            self.faults.append(self._variant.fault(key, message))

    @contextmanager
    def at(self, key: str) -> Iterator[None]:
        """Turn a file or data that cannot do what is asked into a fault at a key."""
        try:
            yield
        except (DataError, OSError) as error:
            self.add(key, _text(error))

    def settle(self) -> None:
        """Raise a ScenarioError with all that was found, if anything was."""
        if self.faults:
            raise ScenarioError(self.faults)


def _text(error: DataError | OSError) -> str:
    if isinstance(error, OSError):
        return f"{error.filename} cannot be read: {error.strerror}"
    return str(error)
