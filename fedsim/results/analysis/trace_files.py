"""Trace files of runs: choice of runs, rounds, clients and paths."""

import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from fedsim.core.atomic import check_links
from fedsim.core.errors import DataError
from fedsim.core.ports import node_name
from fedsim.results.analysis.costs import last_round
from fedsim.results.analysis.trace import Log, check_rounds, write_trace
from fedsim.results.record.folder import PACKED, TRACE, check_run
from fedsim.results.record.outputs import Call, output
from fedsim.results.record.parts import as_frame, read_table
from fedsim.results.record.read import hold_no_runs, missing, run_folders

_NEEDED = [
    *("t", "duration", "event", "node", "peer", "round", "message"),
    *("payload_bits", "header_bits", "transport_bits", "joules", "state_of_charge", "detail"),
]

_PLAIN = ".json"

MOST_ROWS = 1_000_000
"""Most rows of a log in a trace, about 270 MB: viewers cannot open more."""


def write_traces(
    place: Path,
    out: Path | None = None,
    rounds: str | None = None,
    clients: str | None = None,
    *,
    gzip: bool = False,
) -> list[tuple[Path, int]]:
    """Write a trace for every run in a folder; return the files and their numbers of events.

    Files of other calls are not overwritten: the trace then gets a name with a number.

    Args:
        place: OUT with all its runs, one variant's folder in it, or one run's folder.
        out: a file that ends in .json or .json.gz for one run, else a folder, in which they are
            called VARIANT-seed-N.json; trace.json in each run's own folder where not given.
        rounds: such as "10:20", both included; either may be left out, or the colon.
        clients: such as "0:99", in the same form; all clients by default.
        gzip: whether they are compressed, and end in .gz; a file that ends so is in any case.

    Raises:
        DataError: there is no such folder, no run in it, or one that has not ended or is
            damaged; the runs have no such rounds or clients; one file is given for several
            runs, or one that does not end in .gz for what is to be compressed; or a trace would
            be of more than `MOST_ROWS` rows.
    """
    first, last = read_range(rounds, "rounds")
    client_range = read_range(clients, "clients")
    folders = _find(place)
    if gzip and out is not None and out.suffix == _PLAIN:
        hint = f"a compressed file ends in {PACKED}, such as {out}{PACKED}"
        raise DataError("trace", f"--gzip: got the file {out}; {hint}")
    if out is not None and _is_file(out) and len(folders) > 1:
        raise DataError(
            "trace",
            f"--out: got one file, {out}, for the {len(folders)} runs in {place}; "
            f"give a folder, or name one run, such as {folders[0]}",
        )
    for folder in folders:  # checked before anything is written
        try:
            check_rounds(first, last, last_round(_read(folder, "rounds")))
        except ValueError as error:
            raise DataError("trace", f"--rounds: {error}, in {folder}") from None
        _check_size(folder, (first, last), _choose(folder, client_range))
    written = []
    for folder in folders:
        log = Log(_read(folder, "events"), _read(folder, "rounds"), _read(folder, "clients"))
        window, chosen = log.window(first, last), _choose(folder, client_range)
        if out is None and folder.is_relative_to(place):
            check_links(place, folder)
        call = Call.of("trace", [folder], rounds=rounds, clients=clients, gzip=gzip)
        with output(call, _file(folder, out, PACKED if gzip else "")) as draft:
            events = write_trace(draft.path, log if chosen is None else log.of(chosen), window)
        written.append((draft.place, events))
    return written


def _choose(folder: Path, client_range: tuple[int | None, int | None]) -> Sequence[str] | None:
    """Return the names of the clients in a trace; None for all clients."""
    if client_range == (None, None):
        return None
    count = read_table(folder, "clients", ["client"]).num_rows
    low, high = client_range[0] or 0, count - 1 if client_range[1] is None else client_range[1]
    if not low <= high < count:
        text = f"the run has clients 0 to {count - 1}, not {low} to {high}, in {folder}"
        raise DataError("trace", f"--clients: {text}")
    return [node_name(client) for client in range(low, high + 1)]


def _check_size(
    folder: Path, rounds: tuple[int | None, int | None], chosen: Sequence[str] | None
) -> None:
    """Check that a trace is small enough for a viewer.

    Raises:
        DataError: it would have more than `MOST_ROWS` rows of the log.
    """
    events = read_table(folder, "events", ["t", "node", "peer"])
    if events.num_rows <= MOST_ROWS:
        return
    log = Log(as_frame(events), _read(folder, "rounds"), _read(folder, "clients"))
    window = log.window(*rounds)
    own = (log if chosen is None else log.of(chosen)).events
    row_count = int(own["t"].between(window.begin, window.end).sum())
    if row_count > MOST_ROWS:
        text = f"{row_count:,} rows of the log, but a trace holds at most {MOST_ROWS:,}"
        hint = "give fewer --rounds, such as 1:2, or some --clients, such as 0:99"
        raise DataError("trace", f"{folder}: got {text}; {hint}")


def read_range(text: str | None, option: str) -> tuple[int | None, int | None]:
    """Parse "10:20", "10:", ":20" or "10"; None stands for an open end.

    Raises:
        DataError: the text has another form.

    >>> [read_range(text, "rounds") for text in ("10:20", ":3", "7", None)]
    [(10, 20), (None, 3), (7, 7), (None, None)]
    """
    if text is None:
        return None, None
    match = re.fullmatch(r"(\d*)(:?)(\d*)", text.strip())
    if match is None or not (match[1] or match[3]):
        hint = f"give the first and the last of the {option}, such as 10:20"
        raise DataError("trace", f"--{option}: got {text!r}; {hint}")
    first = int(match[1]) if match[1] else None
    last = int(match[3]) if match[3] else None
    return first, last if match[2] else first


def _find(place: Path) -> list[Path]:
    """Return the folders of the runs, after checking that all have ended and are undamaged."""
    if not place.is_dir():
        raise missing("trace", place)
    folders = run_folders(place)
    if not folders:
        raise DataError("trace", hold_no_runs(place))
    for path in folders:
        check_run(path)
    return folders


def _read(folder: Path, name: str) -> pd.DataFrame:
    table = read_table(folder, name)
    frame: pd.DataFrame = as_frame(table.select(_NEEDED) if name == "events" else table)
    return frame


def _is_file(out: Path) -> bool:
    """Return whether a name is that of a trace file, not of a folder of traces."""
    return out.name.endswith((_PLAIN, f"{_PLAIN}{PACKED}"))


def _file(folder: Path, out: Path | None, ending: str) -> Path:
    """Return the path of a run's trace; `ending` is ".gz" or empty."""
    if out is None:
        return folder / f"{TRACE}{ending}"
    name = f"{folder.parent.name}-{folder.name}{_PLAIN}{ending}"
    return out if _is_file(out) else out / name
