"""The terminal: where commands write, and how errors and warnings are told there."""

import errno
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from fedsim.errors import (
    BlockError,
    DataError,
    FedsimError,
    OccupiedError,
    OutputError,
    ScenarioError,
    TheoryWarning,
)
from fedsim.record.writing import check_folder, check_links
from fedsim.visible import visible

_WIDTH = None if sys.stdout.isatty() else 100  # of tables; a terminal has a width of its own

_UNPRINTED = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EPIPE)


class _Plain(Console):
    """A console that shows text as it is: `:b:` is no picture, and nothing hides in a name."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Render a text, as every text and every cell is."""
        return super().render_str(visible(text), **options)


out, err = _Plain(width=_WIDTH, emoji=False), _Plain(stderr=True, soft_wrap=True, emoji=False)
"""Standard output and standard error."""


@contextmanager
def theory() -> Iterator[None]:
    """Print as a line each what the theory of a method does not cover."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", TheoryWarning)
        warnings.showwarning = lambda message, *_: note(str(message))
        yield


def note(text: str) -> None:
    """Print what the theory of a method does not cover."""
    err.print(escape(f"outside convergence theory: {text}"), style="yellow")


def remark(text: object) -> None:
    """Print what a scenario says without effect, or what is to be said of a run."""
    err.print(escape(f"note: {text}"), style="yellow")


def suggest(*commands: str) -> None:
    """Print which commands make sense next, in a terminal and not in a pipe."""
    if out.is_terminal:
        out.print(escape(f"next: {'   or   '.join(commands)}"), style="dim", soft_wrap=True)


def check_out(place: Path, *, file: bool = False) -> None:
    """Make sure before anything begins that what `--out` names can be written.

    Args:
        place: a folder, or a file.
        file: whether it is a file.

    Raises:
        DataError: it cannot; the text names the option.
    """
    try:
        check_folder(place.absolute().parent if file else place)
    except OutputError as error:
        raise DataError("out", f"--out {place}: {error}") from None
    if file and place.is_dir():
        raise DataError("out", f"--out {place}: it is a folder; give a file")


def within(place: Path, name: str) -> Path:
    """Return the folder of a study that results go into where no `--out` says otherwise.

    Raises:
        OutputError: a symbolic link of that name leads elsewhere.
    """
    check_links(place, place / name)
    return place / name


@contextmanager
def errors() -> Iterator[None]:
    """Turn what a user can mend into one readable block and an exit code."""
    try:
        yield
    except ScenarioError as error:
        err.print(error.title, style="red")
        for text in error.told():
            err.print(f"  {escape(text)}", highlight=False)
        raise typer.Exit(2) from None
    except OutputError as error:
        err.print(escape(str(error)), style="red")
        raise typer.Exit(2 if error.misplaced else 1) from None
    except (BlockError, DataError, OccupiedError, OSError) as error:
        if isinstance(error, OSError) and error.errno in _UNPRINTED and error.filename is None:
            raise  # it is standard output that has no room, or no reader any more
        err.print(escape(str(error)), style="red")
        raise typer.Exit(2) from None
    except MemoryError:
        err.print("this machine has not enough memory; what was written until now can be read")
        raise typer.Exit(1) from None
    except FedsimError as error:
        err.print(escape(str(error)), style="red")
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        err.print("interrupted; what was written until now can be read", style="red")
        raise typer.Exit(130) from None
