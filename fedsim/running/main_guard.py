"""The guard against scripts that start workers when workers import them.

A spawned Python process begins by importing the script that was run. If that script calls
`fedsim.run` outside of `if __name__ == "__main__":`, each worker would begin the study again, and
start workers in turn. Such a worker ends with a special exit code, which shows its parent the
reason.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import current_process
from multiprocessing.context import SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from fedsim.core.blocks.plugins import has_script
from fedsim.core.errors import RunError

_PARENT, _NOTE = "FEDSIM_PARENT", "FEDSIM_LOADING"
"""Environment variables: the parent's process id, and a file that such a worker creates."""

_CODE = 87
"""The exit code of a worker whose import of the script would run the study again."""

UNGUARDED = (
    "a script that makes runs in several processes needs its calls of fedsim below"
    ' `if __name__ == "__main__":`, since every worker process imports the script; or use jobs=1'
)


class RecordingContext(SpawnContext):
    """A spawn context that records the processes it has started."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[BaseProcess] = []

    def Process(self, *args: Any, **kwargs: Any) -> BaseProcess:  # type: ignore[override]  # noqa: N802 - as in multiprocessing
        """Return a new process, which is not yet started."""
        self.begun.append(super().Process(*args, **kwargs))
        return self.begun[-1]

    def check(self) -> None:
        """Raise an error if a worker ended because its import of the script would start workers.

        Raises:
            RunError: one did.
        """
        if any(process.exitcode == _CODE for process in self.begun):
            raise RunError(UNGUARDED)


@contextmanager
def mark_workers(note: Path | None = None) -> Iterator[None]:
    """Mark processes that are started in this block as workers of this process.

    Args:
        note: created by a worker that ends in `end_if_loading`, if exit codes are not available.
    """
    variables = {_PARENT: str(os.getpid()), _NOTE: "" if note is None else str(note)}
    before = {name: os.environ.get(name) for name in variables}
    os.environ |= variables
    try:
        with _without_missing_script():
            yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _without_missing_script() -> Iterator[None]:
    """Prevent workers from importing a script that is not a file: it was read from standard input.

    The caller's module then looks like that of `python -c`, which workers do not import.
    """
    main = sys.modules["__main__"]
    script = getattr(main, "__file__", None)
    if script is None or has_script():
        yield
        return
    del main.__file__
    try:
        yield
    finally:
        main.__file__ = script


def end_if_loading() -> None:
    """End this process if it is a worker of fedsim that is importing the caller's script."""
    loading = getattr(current_process(), "_inheriting", False)
    if loading and os.environ.get(_PARENT) == str(os.getppid()):
        if note := os.environ.get(_NOTE):
            Path(note).touch()
        raise SystemExit(_CODE)
