"""What can be executed: a job, or what takes the place of one."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from fedsim.record.models import Keeper
from fedsim.scenario import Variant
from fedsim.sim.setup import Setup


class Ready(Protocol):
    """A run that is ready to start: a `Job`, or what is made of the log of one."""

    @property
    def variant(self) -> Variant:
        """What it was built from."""
        ...

    @property
    def seed(self) -> int:
        """The seed of all its streams."""
        ...

    @property
    def members(self) -> Sequence[int]:
        """The number of the group that each client belongs to."""
        ...

    @property
    def setup(self) -> Setup:
        """Everything that its world is made of."""
        ...

    @property
    def opening(self) -> str:
        """What the first row of its log says."""
        ...

    @property
    def identity(self) -> Mapping[str, Any]:
        """What is known of it before it begins, for its summary."""
        ...

    @property
    def computing(self) -> Mapping[str, Any]:
        """What was chosen of how its numbers are computed, for its manifest."""
        ...

    @property
    def inputs(self) -> Mapping[str, str]:
        """The hashes of the files that its scenario names beside its data, by path."""
        ...

    @property
    def facts(self) -> Mapping[str, Sequence[object]]:
        """What each client is, for the client table."""
        ...

    def advice(self) -> str:
        """Return what to say beside that it diverged."""
        ...

    def keeper(self, folder: Path) -> Keeper:
        """Return what keeps its models in the folder of the run."""
        ...
