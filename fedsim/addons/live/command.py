"""Commands for live runs over real sockets: live, serve, join."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from fedsim.cli.app import (
    AsJson,
    File,
    Overrides,
    Plugins,
    Quiet,
    WatchPage,
    app,
    check_out,
    check_watch,
)
from fedsim.cli.app import err as _err
from fedsim.cli.app import errors as _errors
from fedsim.cli.app import remark as _remark
from fedsim.cli.app import suggest as _next
from fedsim.cli.app import theory as _theory

if TYPE_CHECKING:
    from fedsim.addons.live.access import Access, Address
    from fedsim.addons.live.connection import Timing
    from fedsim.addons.live.meters import Meter
    from fedsim.results.result import Result
    from fedsim.running.run import Watch
    from fedsim.scenario import Plan

LiveOut = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="folder for the runs; runs/NAME-live of the scenario if not given",
    ),
]
Record = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="write start and end of messages and work, as CSV for `fedsim calibrate`",
    ),
]
Token = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="a file with a token that server and clients share"),
]
Certificate = Annotated[
    Path | None,
    typer.Option(metavar="PEM", help="the certificate of this end, for TLS"),
]
Key = Annotated[
    Path | None, typer.Option(metavar="PEM", help="the private key of this certificate")
]
Authority = Annotated[
    Path | None,
    typer.Option(metavar="PEM", help="the certificates that verify the other end"),
]
MeteredBy = Annotated[
    str | None,
    typer.Option(
        "--meter",
        metavar="rapl|COMMAND",
        help="how energy is measured: rapl (processor counters), or a command that prints watts",
    ),
]
Wait = Annotated[
    float,
    typer.Option(min=1.0, metavar="SECONDS", help="how long to wait for the other end to start"),
]
Silent = Annotated[
    float,
    typer.Option(
        "--silence",
        min=1.0,
        metavar="SECONDS",
        help="how long a connection may be silent until it counts as lost",
    ),
]

_WAIT, _SILENCE = 120.0, 30.0


@app.command("live")
def live_command(
    file: File,
    overrides: Overrides = None,
    out: LiveOut = None,
    record: Record = None,
    plugins: Plugins = None,
    processes: Annotated[
        int,
        typer.Option(min=0, metavar="N", help="number of processes for the clients; 0 for none"),
    ] = 0,
    meter: MeteredBy = None,
    quiet: Quiet = False,
    watch: WatchPage = False,
    as_json: AsJson = False,
) -> None:
    """Run a scenario live on this machine: server and clients over TCP.

    The same server and clients as in a simulation exchange encoded
    messages over real sockets, in real time. Radios, devices and
    links of the scenario have no effect.
    """
    from fedsim.addons.live import run_live
    from fedsim.addons.live.meters import meter_of
    from fedsim.core.errors import DataError

    with _errors() as work:
        check_watch(watch=watch, quiet=quiet)
        if meter is not None and processes:
            text = "got --meter and --processes; expected at most one of them"
            raise DataError("meter", f"{text}: several processes cannot share a meter")
        plan, out = _prepare(file, overrides, plugins, out, record)
        with (
            _closing(meter_of(meter)) as measured,
            _show(plan, out, quiet=quiet, watch=watch) as callback,
        ):
            result = run_live(
                plan,
                out=out,
                processes=processes,
                command=_words(file, overrides, plugins),
                meter=measured,
                watch=work.follow(callback),
                check=False,
            )
        work.begin()
        code = _finish(result, plan, file, record, as_json=as_json, quiet=quiet)
    raise typer.Exit(code)


@app.command()
def serve(
    file: File,
    listen: Annotated[
        str,
        typer.Option(metavar="HOST:PORT", help="where clients connect; port 0 for any free one"),
    ],
    overrides: Overrides = None,
    out: LiveOut = None,
    record: Record = None,
    plugins: Plugins = None,
    token: Token = None,
    certificate: Certificate = None,
    key: Key = None,
    authority: Authority = None,
    wait: Wait = _WAIT,
    silence: Silent = _SILENCE,
    quiet: Quiet = False,
    watch: WatchPage = False,
    as_json: AsJson = False,
) -> None:
    """Run the server of live runs; clients join over TCP.

    Variants and seeds run one after the other. Each run starts when
    all clients of the fleet have joined. A client that has left may
    join again. Clients on other machines need --token or
    certificates.
    """
    from fedsim.addons.live import serve as serve_live

    with _errors() as work:
        check_watch(watch=watch, quiet=quiet)
        access = _access(token, certificate, key, authority)
        plan, out = _prepare(file, overrides, plugins, out, record)
        with (
            _show(plan, out, quiet=quiet, watch=watch) as callback,
        ):
            result = serve_live(
                plan,
                listen,
                out=out,
                access=access,
                timing=_timing(wait, silence),
                watch=work.follow(callback),
                refused=_remark,
                tell=_tell,
                listening=_announce,
                check=False,
            )
        work.begin()
        code = _finish(result, plan, file, record, as_json=as_json, quiet=quiet)
    raise typer.Exit(code)


@app.command()
def join(
    address: Annotated[str, typer.Argument(metavar="HOST:PORT", help="where the server listens")],
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="the server's scenario, for comparison; if not given, the server sends it",
            show_default=False,
        ),
    ] = None,
    clients: Annotated[
        list[str],
        typer.Option(
            "--client", metavar="N", help="the number of a client, from 0, or a range: 0-9"
        ),
    ] = [],  # noqa: B006 - typer reads it only
    overrides: Overrides = None,
    plugins: Plugins = None,
    token: Token = None,
    certificate: Certificate = None,
    key: Key = None,
    authority: Authority = None,
    meter: MeteredBy = None,
    wait: Wait = _WAIT,
    silence: Silent = _SILENCE,
    quiet: Quiet = False,
) -> None:
    """Run one or more clients of a server's live runs.

    Clients take part in all runs, and exit after the last one. A
    client reads the same data as the server; paths in a scenario that
    the server sends are relative to the current folder. Clients
    reconnect after a broken connection.
    """
    from fedsim.addons.live import join as join_live
    from fedsim.addons.live.meters import meter_of
    from fedsim.scenario.registries import blocks_in

    with _errors():
        numbers = _numbers(clients)
        access = _access(token, certificate, key, authority)
        with _closing(meter_of(meter)) as measured:
            join_live(
                address,
                numbers,
                source=file,
                overrides=overrides or (),
                blocks=blocks_in(plugins or ()),
                access=access,
                meter=measured,
                timing=_timing(wait, silence),
                tell=_tell_nothing if quiet else _tell,
            )
    if not quiet:
        _err.print("all runs of the server have ended")


def _prepare(
    file: Path,
    overrides: Sequence[str] | None,
    plugins: Sequence[Path] | None,
    out: Path | None,
    record: Path | None,
) -> "tuple[Plan, Path]":
    """Return the plan of a scenario, and the folder for its runs.

    Raises:
        DataError: the recording's file exists.
    """
    from fedsim.cli.downloads import offer_downloads
    from fedsim.core.errors import DataError
    from fedsim.scenario import load
    from fedsim.scenario.registries import blocks_in

    plan = load(file, overrides=overrides or (), blocks=blocks_in(plugins or ()))
    out = out or Path("runs") / f"{plan.folder_name}-live"
    check_out(out)
    if record is not None:
        check_out(record, file=True, option="record")
        if record.exists():
            text = f"--record: {record} exists; expected the name of a new file"
            raise DataError("record", text)
    offer_downloads(plan)
    return plan, out


def _words(
    file: Path, overrides: Sequence[str] | None, plugins: Sequence[Path] | None
) -> list[str]:
    """Return the scenario as arguments of a command."""
    words = [str(file)]
    for name, values in (("--set", overrides or ()), ("--plugin", plugins or ())):
        words += [word for each in values for word in (name, str(each))]
    return words


@contextmanager
def _show(plan: "Plan", out: Path, *, quiet: bool, watch: bool) -> "Iterator[Watch]":
    """Show runs in the terminal while the block runs; yield the callback for their progress."""
    from fedsim.cli.progress import variant_names
    from fedsim.cli.showing import show_runs

    count = sum(len(variant.seeds) for variant in plan.variants)
    shown = show_runs(out, count, variant_names(plan), quiet=quiet, watch=watch)
    with shown as callback, _theory():
        yield callback


def _tell(text: str) -> None:
    """Print a message about a connection."""
    _err.print(escape(text), highlight=False, soft_wrap=True)


def _tell_nothing(_: str) -> None:
    """Ignore a message."""


@contextmanager
def _closing(meter: "Meter") -> "Iterator[Meter]":
    try:
        yield meter
    finally:
        meter.close()


def _finish(
    result: "Result",
    plan: "Plan",
    file: Path,
    record: Path | None,
    *,
    as_json: bool,
    quiet: bool,
) -> int:
    """Print the results of the runs, and write the recording; return the exit code."""
    from fedsim.cli.json_output import of_run, print_json
    from fedsim.cli.next_steps import command
    from fedsim.cli.progress import draw_overview, print_ends, report, variant_names

    code = print_ends(result, variant_names(plan))
    if record is not None:
        from fedsim.addons.calibration.logs import read_log
        from fedsim.addons.calibration.recording import write_recording

        write_recording(read_log(result.folder), record)
    if as_json:
        print_json(of_run(result, 0, None, draw_overview(result)))
    else:
        report(result)
        after = [command("compare", result.folder)]
        after += [] if record is None else [command("calibrate", record, file)]
        _next(*after, quiet=quiet)
    return code


def _announce(address: "Address") -> None:
    _err.print(escape(f"listening at {address}"), highlight=False)


def _timing(wait: float, silence: float) -> "Timing":
    from fedsim.addons.live.connection import Timing

    return Timing(joining=wait, silence=silence, beat=min(Timing.beat, silence / 4))


def _access(
    token: Path | None, certificate: Path | None, key: Path | None, authority: Path | None
) -> "Access":
    """Return the authentication of connections.

    Raises:
        DataError: a file cannot be read, or some of the three TLS files are missing.
    """
    from fedsim.addons.live.access import Access, Certificates, read_token
    from fedsim.core.errors import DataError

    secret = None if token is None else read_token(token)
    if certificate is None and key is None and authority is None:
        return Access(secret)
    if certificate is None or key is None or authority is None:
        given = {"--certificate": certificate, "--key": key, "--authority": authority}
        missing = ", ".join(name for name, path in given.items() if path is None)
        raise DataError("certificate", f"TLS needs three files, and {missing} is missing")
    return Access(secret, Certificates(certificate, key, authority))


def _numbers(texts: Sequence[str]) -> list[int]:
    """Return the numbers of clients, from numbers and ranges.

    Raises:
        DataError: a text is neither, or no client is given.

    >>> _numbers(["7", "0-2"])
    [0, 1, 2, 7]
    """
    from fedsim.core.errors import DataError

    numbers: set[int] = set()
    for text in texts:
        first, dash, last = text.partition("-")
        ends = first, last if dash else first
        if not all(end.isdecimal() and len(end) < _LONG for end in ends):
            raise DataError("client", f"got --client {text!r}; expected a number, or 0-9")
        numbers |= set(range(int(ends[0]), int(ends[1]) + 1))
    if not numbers:
        raise DataError("client", "got no client; expected --client N, with N from 0, or 0-9")
    return sorted(numbers)


_LONG = 7
"""A number of digits that exceeds every client number."""
