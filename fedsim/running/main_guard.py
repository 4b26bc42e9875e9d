"""A worker process that loads the caller's script, and the script that starts workers as it loads.

Python starts a worker process by importing the script that was run. Where that calls `fedsim.run`
outside of `if __name__ == "__main__":`, each worker would begin the study again. Such a worker ends
with an exit code of its own, by which its parent knows the reason.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import current_process
from multiprocessing.context import SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from fedsim.errors import RunError

_PARENT, _NOTE = "FEDSIM_PARENT", "FEDSIM_LOADING"
"""Environment variable: the parent of a worker process, and its file for error reports."""

_CODE = 87
"""The exit code of a worker that was told to run the study again."""

UNGUARDED = (
    "a script whose runs are made in several processes needs its calls of fedsim below"
    ' `if __name__ == "__main__":`, for every worker process imports the script; or take jobs=1'
)


class Recording(SpawnContext):
    """The context of processes that begin anew; it knows which have begun."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[BaseProcess] = []

    def Process(self, *args: Any, **kwargs: Any) -> BaseProcess:  # type: ignore[override]  # noqa: N802 - as in multiprocessing
        """Return a new process, which is not yet started."""
        self.begun.append(super().Process(*args, **kwargs))
        return self.begun[-1]

    def check(self) -> None:
        """Refuse that the script starts workers as a worker imports it.

        Raises:
            RunError: it does.
        """
        if any(process.exitcode == _CODE for process in self.begun):
            raise RunError(UNGUARDED)


@contextmanager
def mark_workers(note: Path | None = None) -> Iterator[None]:
    """Mark processes that are started in this block as workers of this process.

    Args:
        note: written by one that ends in `end_if_loading`, if exit codes are out of reach.
    """
    said = {_PARENT: str(os.getpid()), _NOTE: "" if note is None else str(note)}
    before = {name: os.environ.get(name) for name in said}
    os.environ |= said
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def end_if_loading() -> None:
    """End this process where it is a worker of fedsim's that is importing the caller's script."""
    loading = getattr(current_process(), "_inheriting", False)
    if loading and os.environ.get(_PARENT) == str(os.getppid()):
        if note := os.environ.get(_NOTE):
            Path(note).touch()
        raise SystemExit(_CODE)
