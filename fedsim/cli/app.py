"""The command `fedsim`, to which the other modules here add subcommands.

The module of a subcommand is imported when that subcommand is run or listed. Each command imports
its dependencies in its body: loading all of fedsim takes a second, most commands need only a part,
and `fedsim --help` needs none.
"""

import errno
import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from inspect import get_annotations, unwrap
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.text import Text
from typer.core import TyperGroup
from typer.main import get_command_from_info, get_command_name
from typer.models import CommandInfo

from fedsim.core.atomic import check_folder, check_links
from fedsim.core.errors import (
    BlockError,
    DataError,
    FedsimError,
    FrozenError,
    OccupiedError,
    OutputError,
    ScenarioError,
    TheoryWarning,
)
from fedsim.core.extras import VERSION
from fedsim.core.text import visible

if TYPE_CHECKING:
    from rich.table import Table

    from fedsim.results.analysis import Comparison
    from fedsim.results.record.outputs import Output
    from fedsim.running.run import RunProgress, Watch

_MODULES = {
    "run": "fedsim.cli.runs",
    "check": "fedsim.cli.runs",
    "status": "fedsim.cli.results",
    "watch": "fedsim.cli.results",
    "compare": "fedsim.cli.results",
    "report": "fedsim.cli.results",
    "examples": "fedsim.cli.results",
    "init": "fedsim.cli.starting",
    "list": "fedsim.cli.blocks",
    "schema": "fedsim.cli.blocks",
    "fetch": "fedsim.cli.blocks",
    "conformance": "fedsim.addons.conformance.command",
    "calibrate": "fedsim.addons.calibration.command",
    "explore": "fedsim.addons.explorer.command",
    "clean": "fedsim.cli.folders",
    "history": "fedsim.cli.folders",
    "diff": "fedsim.cli.folders",
    "live": "fedsim.addons.live.command",
    "serve": "fedsim.addons.live.command",
    "join": "fedsim.addons.live.command",
    "paper": "fedsim.addons.paper.command",
    "crate": "fedsim.addons.crate.command",
    "trace": "fedsim.cli.results",
    "robust": "fedsim.addons.robustness.command",
    "reprice": "fedsim.addons.repricing.command",
    "bench": "fedsim.addons.bench.command",
}
"""The module of each command, in the order of a first session."""


class _CommandTable(Mapping[str, Any]):
    """The commands by name, each built when it is looked up."""

    def __init__(self) -> None:
        self._built: dict[str, Any] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(_MODULES)

    def __len__(self) -> int:
        return len(_MODULES)

    def __contains__(self, name: object) -> bool:
        return name in _MODULES

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            import_module(_MODULES[name])
            (declared,) = (info for info in app.registered_commands if _name(info) == name)
            self._built[name] = get_command_from_info(
                declared,
                pretty_exceptions_short=app.pretty_exceptions_short,
                rich_markup_mode=app.rich_markup_mode,
            )
            _restore_help(self._built[name])
        return self._built[name]


def _name(command: CommandInfo) -> str:
    return command.name or get_command_name(getattr(command.callback, "__name__", ""))


class _Commands(TyperGroup):
    """The commands, in the order of a first session."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands: Any = _CommandTable()

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, as `--help` lists them."""
        return list(self.commands)

    def resolve_command(self, ctx: Any, args: Any) -> Any:
        """Return a command; the error for an unknown one suggests the nearest name.

        Since click 8.4 its own error suggests a name. typer would add a second suggestion.
        """
        name = args[0]
        unknown = self.get_command(ctx, name) is None and not name.startswith("-")
        if unknown and not ctx.resilient_parsing:
            from fedsim.core.blocks.wording import nearest

            ctx.fail(f"unknown command {name!r}{nearest(name, self.commands)}")
        return super().resolve_command(ctx, args)


def _restore_help(command: Any) -> None:
    """Restore the declared help of arguments where typer loses it.

    typer before 0.21, which Flower requires, sets an argument's help too early: click 8.5 then
    clears it.
    """
    declared = get_annotations(unwrap(command.callback))
    for argument in command.params:
        metadata = getattr(declared.get(argument.name), "__metadata__", ())
        if not getattr(argument, "help", None) and metadata:
            argument.help = metadata[0].help


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    help="Simulate federated optimisation over a network: scenario in, event log and tables out.",
)


def _version(requested: bool) -> None:  # noqa: FBT001 - as typer calls it
    if requested:
        typer.echo(f"fedsim {VERSION}")
        raise typer.Exit


@app.callback()
def every(
    version: Annotated[  # noqa: ARG001 - its callback handles it
        bool,
        typer.Option("--version", "-v", callback=_version, is_eager=True, help="print the version"),
    ] = False,
) -> None:
    """Handle options before the command."""
    _as_json.set(False)  # a command without --json does not set it


_as_json: ContextVar[bool] = ContextVar("as_json", default=False)
"""Whether the command that runs was called with `--json`."""


def _note_json(requested: bool) -> bool:  # noqa: FBT001 - as typer calls it
    _as_json.set(requested)
    return requested


# Arguments and options shared by several commands.

File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="a scenario in YAML, or the name of one of `fedsim examples`"
    ),
]
Places = Annotated[
    list[Path],
    typer.Argument(metavar="DIR...", help="a folder written by `fedsim run`, or a part of it"),
]
Place = Annotated[
    Path, typer.Argument(metavar="DIR", help="a folder written by `fedsim run`, or a part of it")
]
Targets = Annotated[
    list[str] | None,
    typer.Option(
        "--target",
        metavar="COLUMN=NUMBER",
        help="the target, such as gap=1e-5 or test_accuracy=85%",
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="replace a value: algorithm.censor=0.2; paths are relative to the current folder",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="folder for the runs; runs/NAME of the scenario if not given"),
]
Jobs = Annotated[
    int, typer.Option(min=1, metavar="N", help="number of runs at a time, in worker processes")
]
OnCluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="ADDRESS",
        help="run on a Dask cluster: tcp://HOST:PORT, or local:4 for 4 workers",
    ),
]
Share = Annotated[
    str | None,
    typer.Option(
        "--shard", metavar="K/N", help="run only the K-th of N shares, as in an array job"
    ),
]
PaperStyles = Annotated[
    str,
    typer.Option(
        "--style",
        metavar="STYLE",
        help="ieee, acm, neurips, nature, or a style file of matplotlib",
    ),
]
PaperColumns = Annotated[
    int,
    typer.Option(
        min=1, max=2, metavar="N", help="columns of the paper that figures and tables span"
    ),
]
Gzip = Annotated[
    bool, typer.Option("--gzip", help="compress it to trace.json.gz, a tenth of the size")
]
Practical = Annotated[
    str,
    typer.Option(metavar="PERCENT", help="treat costs that differ by less as the same, such as 1%"),
]
Against = Annotated[
    str | None,
    typer.Option(
        metavar="VARIANT",
        help="the variant that the others are compared with; if not given, the scenario's"
        " `baseline`; without one, answers compare the two cheapest, and tables with the first",
    ),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="print only results: no progress, no next commands")
]
WatchPage = Annotated[
    bool, typer.Option("--watch", help="show curves, runs, workers and events while it runs")
]
AsJson = Annotated[
    bool,
    typer.Option(
        "--json",
        callback=_note_json,
        help="print one JSON document, and everything else on stderr",
    ),
]
Fresh = Annotated[
    bool, typer.Option("--fresh", help="repeat all runs; complete ones move to OUT/.trash")
]
Base = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="folder of relative paths in the scenario; the current one if not given"
    ),
]
Plugins = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin", metavar="PLUGIN", help="a Python file with user-defined blocks; it is executed"
    ),
]
Trackers = Annotated[
    list[str] | None,
    typer.Option(
        "--track",
        metavar="TRACKER",
        help="store every run for mlflow, wandb or tensorboard, in OUT/TRACKER; or for a tracker"
        " of --plugin",
        autocompletion=lambda: ["mlflow", "wandb", "tensorboard"],
    ),
]
HowCarried = Annotated[
    Literal["values", "bytes"],
    typer.Option(
        "--carry",
        metavar="values|bytes",
        help="pass on messages as values, or encode each to bytes and decode it: the same log",
    ),
]


# The terminal: output of commands, and the form of errors and warnings.

_WIDTH = None if sys.stdout.isatty() else 100  # of tables outside of a terminal

TRACEBACK = "FEDSIM_TRACEBACK"
"""Environment variable: if set, errors of user code show their whole traceback."""

_SHOW_ALL = f"{TRACEBACK}=1 shows the whole traceback"

_UNPRINTED = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EPIPE)


class _PlainConsole(Console):
    """A console without emoji codes, in which every character of a text is visible.

    If its reader has gone, as that of `fedsim run ... | head`, the command goes on without it.

    Attributes:
        unread: whether the reader has gone.
    """

    unread = False

    def on_broken_pipe(self) -> None:
        """Send what is printed from now on to nowhere; the command still writes its files."""
        self.unread = self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())

    def render_str(self, text: str, **options: Any) -> Text:
        """Render a text with unprintable characters escaped."""
        return super().render_str(visible(text), **options)


out, err = (
    _PlainConsole(width=_WIDTH, emoji=False),
    _PlainConsole(stderr=True, soft_wrap=True, emoji=False),
)
"""Standard output and standard error."""


@contextmanager
def theory() -> Iterator[None]:
    """Print a line for each warning about convergence theory."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", TheoryWarning)
        warnings.showwarning = lambda message, *_: note(str(message))
        yield


def print_answer(parts: "Sequence[str | Table]") -> None:
    """Print an answer and its causes, and an empty line after them; nothing if there is none."""
    for part in parts:
        out.print(escape(part) if isinstance(part, str) else part)
    if parts:
        out.print()


def note(text: str) -> None:
    """Print a condition of convergence theory that does not hold."""
    warn(f"outside convergence theory: {text}")


def remark(text: object) -> None:
    """Print a note on a scenario or a run."""
    warn(f"note: {text}")


def warn(text: str) -> None:
    """Print a text on standard error, in a terminal with its further lines indented."""
    err.print(escape(_fitted(text)), style="yellow")


def _fitted(text: str, indent: str = "  ") -> str:
    """Return a text whose lines fit into the terminal; elsewhere each stays one line."""
    if not err.is_terminal:
        return text
    lines = [
        fill(line, err.width, subsequent_indent=indent, break_long_words=False)
        if len(line) > err.width
        else line
        for line in text.split("\n")
    ]
    return "\n".join(lines)


def mention_size(folder: Path) -> None:
    """Print a note if replaced runs take much space in a folder of runs."""
    from fedsim.core.memory import format_size
    from fedsim.running.cleaning import LARGE, is_large

    if is_large(folder):
        size = f"more than {format_size(LARGE)} of earlier runs and trash"
        remark(f"{folder} has {size}; fedsim clean {folder} lists and removes them")


@contextmanager
def write_output(
    command: str,
    places: Sequence[Path],
    wanted: Path,
    options: Mapping[str, object],
    *,
    keep_name: bool = False,
) -> Iterator["Output"]:
    """Context manager for a command's output; see `fedsim.results.record.outputs`.

    A remark names the path of the output, if it differs from `wanted`.
    """
    from fedsim.results.record.outputs import Call, describe_move, output

    with output(Call.of(command, places, **options), wanted, keep_name=keep_name) as draft:
        yield draft
    if moved := describe_move(wanted, draft.place):
        remark(moved)


def practical_difference(text: str) -> float:
    """Return the practical difference of `--practical` as a share: "1%" is 0.01.

    Raises:
        DataError: the text is not a percentage from 0 to below 100.
    """
    from fedsim.core.errors import DataError

    try:
        share = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        wanted = "give a percentage from 0 to below 100, such as 1%"
        raise DataError("practical", f"--practical: got {text!r}; {wanted}")
    return share


def comparison_options(comparison: "Comparison", **others: object) -> dict[str, object]:
    """Return the options that determine the output of a comparison."""
    targets = [str(case.target) for case in comparison.cases]
    by = {"by": comparison.by} if comparison.by else {}
    every = {"every": comparison.schedule.every} if comparison.schedule else {}
    return {"targets": targets, "against": comparison.against, **by, **every, **others}


def suggest(*commands: str, quiet: bool = False) -> None:
    """Print commands that a user may want next, in a terminal only."""
    if commands and out.is_terminal and not quiet:
        out.print(escape(f"next: {'   or   '.join(commands)}"), style="dim", soft_wrap=True)


def check_out(place: Path, *, file: bool = False, option: str = "out") -> None:
    """Check that the path of `--out` can be written, before any work begins.

    Args:
        place: a folder, or a file.
        file: whether `place` is a file.
        option: the option that set the path, without dashes; the error names it.

    Raises:
        DataError: the path cannot be written.
    """
    try:
        check_folder(place.absolute().parent if file else place)
    except OutputError as error:
        raise DataError(option, f"--{option} {place}: {error}") from None
    if file and place.is_dir():
        raise DataError(option, f"--{option} {place}: it is a folder; expected a file")


def check_watch(*, watch: bool, quiet: bool) -> None:
    """Check that `--watch` and `--quiet` are not given together.

    Raises:
        DataError: both are.
    """
    if watch and quiet:
        raise DataError("watch", "got --watch and --quiet; expected at most one of them")


def within(place: Path, name: str) -> Path:
    """Return the default output folder within a study.

    Raises:
        OutputError: the folder is a symbolic link.
    """
    check_links(place, place / name)
    return place / name


@contextmanager
def _error_document() -> Iterator[None]:
    """With --json, print a document on an error, which is reported and raised as without it."""
    try:
        yield
    except typer.Exit:
        raise
    except BaseException as error:
        if _as_json.get() and not _is_unprinted(error):
            from fedsim.cli.json_output import of_error, print_json

            print_json(of_error(error))
        raise


def _is_unprinted(error: BaseException) -> bool:
    """Return whether standard output has failed: a full disk, or a closed pipe."""
    return isinstance(error, OSError) and error.errno in _UNPRINTED and error.filename is None


@contextmanager
def _errors_of_user_code() -> Iterator[None]:
    """Report an exception of user code by its line and text, and exit with code 1."""
    try:
        with _error_document():
            yield
    except Exception as error:
        from fedsim.core.blocks.wording import said_by, user_line

        # A defect of user code, although fedsim raises it.
        if isinstance(error, _INTENDED) and not isinstance(error, FrozenError):
            raise
        line = user_line(error)
        if line is None or os.environ.get(TRACEBACK):
            raise
        err.print(escape(f"{line.file}:{line.number}, in {line.function}"), style="red")
        notes = [text for text in getattr(error, "__notes__", ()) if line.place not in text]
        for text in (f"    {line.source}", said_by(error), *notes, _SHOW_ALL):
            err.print(escape(text), highlight=False)
        raise typer.Exit(1) from None


_INTENDED = (FedsimError, OSError, MemoryError)


class Work:
    """Whether a command has done part of its work, which decides the exit code of an error."""

    def __init__(self) -> None:
        self._has_begun = False

    def begin(self) -> None:
        """Note that a part is done: from now on an error exits with 1, not with 2."""
        self._has_begun = True

    def follow(self, watch: "Watch") -> "Watch":
        """Wrap a progress callback: a command has begun when a run has a round, or has ended."""

        def report(progress: "RunProgress") -> None:
            if progress.round or progress.ended:
                self.begin()
            watch(progress)

        return report

    @property
    def code(self) -> int:
        """The exit code of an error in the input."""
        return 1 if self._has_begun else 2


@contextmanager
def errors() -> Iterator[Work]:
    """Turn errors that a user can correct into one readable block and an exit code."""
    work = Work()
    try:
        with _errors_of_user_code():
            yield work
    except ScenarioError as error:
        err.print(error.title, style="red")
        for text in error.describe_faults():
            err.print(escape(_fitted(f"  {text}", "    ")), highlight=False)
        raise typer.Exit(work.code) from None
    except OutputError as error:
        err.print(escape(_fitted(str(error))), style="red")
        raise typer.Exit(work.code if error.misplaced else 1) from None
    except (BlockError, DataError, OccupiedError, OSError) as error:
        if _is_unprinted(error):
            raise
        err.print(escape(_fitted(str(error))), style="red")
        raise typer.Exit(work.code) from None
    except MemoryError:
        err.print("out of memory; finished runs are saved")
        raise typer.Exit(1) from None
    except FedsimError as error:
        err.print(escape(_fitted(str(error))), style="red")
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        err.print("interrupted", style="red")
        raise typer.Exit(130) from None
