"""Commands about folders of runs: clean, history, diff."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from fedsim.cli.app import AsJson, Plugins, app
from fedsim.cli.app import err as _err
from fedsim.cli.app import errors as _errors
from fedsim.cli.app import out as _out

if TYPE_CHECKING:
    from fedsim.results.analysis.differences import DifferingValue, Side
    from fedsim.running.cleaning import Removable
    from fedsim.running.history import PastCall

Folder = Annotated[
    Path, typer.Argument(metavar="DIR", help="a folder written by `fedsim run`, with all its runs")
]

_MOST = 10
"""Number of rows of each kind in a table."""

_NAMED = 3
"""Number of variants that are named in a row."""

_MEANINGS = """\
Runs in .earlier return when the scenario has their values again. Runs in
.trash were replaced by --fresh, or damaged. Killed processes left the rest.
"""


@app.command()
def clean(
    place: Folder,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="remove without asking")] = False,
    earlier: Annotated[
        bool, typer.Option("--earlier", help="only runs with other values, in .earlier")
    ] = False,
    trash: Annotated[
        bool, typer.Option("--trash", help="only what --fresh has replaced, in .trash")
    ] = False,
    leftovers: Annotated[
        bool, typer.Option("--leftovers", help="only files of processes that were killed")
    ] = False,
) -> None:
    """Remove earlier runs, trash and leftovers of a folder, after showing them.

    Show what would be removed and its size, and ask first. Without a
    terminal and without --yes, nothing is removed. The study's present
    runs, tables and figures stay.
    """
    from fedsim.core.memory import format_size
    from fedsim.results.record.lock import hold
    from fedsim.running.cleaning import KINDS, check_is_study, removable, remove

    selected = {"earlier": earlier, "trash": trash, "leftovers": leftovers}
    with _errors() as work:
        check_is_study(place)
        with hold(place):
            kinds = [kind for kind in KINDS if selected[kind]] or [*KINDS]
            items = removable(place, kinds)
            if not items:
                _out.print(f"nothing to remove in {place}", markup=False)
                return
            _out.print(_table(place, items))
            _out.print(_MEANINGS, highlight=False)
            size = format_size(sum(item.size for item in items))
            if not yes:
                _confirm(size)
            work.begin()
            remove(place, items)
    _out.print(f"removed {size}")


def _confirm(size: str) -> None:
    """Ask for confirmation.

    Raises:
        Exit: the user declines; with the code 2 if there is no terminal to ask in.
    """
    if not sys.stdin.isatty():
        _err.print("nothing was removed: no terminal to confirm in; --yes removes it all")
        raise typer.Exit(2)
    if not typer.confirm(f"Remove all of it, {size}?", default=False):
        _out.print("nothing was removed")
        raise typer.Exit


def _table(place: Path, items: Sequence["Removable"]) -> Table:
    """Return one row per removable item, and a row of sums if there are several."""
    from fedsim.core.tables import listing
    from fedsim.running.cleaning import KINDS

    rows = list[tuple[str, ...]]()
    for kind in KINDS:
        of_kind = [item for item in items if item.kind == kind]
        for item in of_kind[:_MOST]:
            date = f"{datetime.fromtimestamp(item.date, UTC):%Y-%m-%d}" if item.date else "-"
            rows.append((str(item.path.relative_to(place)), *_contents([item]), date))
        if rest := of_kind[_MOST:]:
            rows.append((f"{len(rest)} more", *_contents(rest), ""))
    if len(items) > 1:
        rows.append(("all", *_contents(items), ""))
    heads = ("path", "runs", "size", "last changed")
    return listing(f"can be removed from {place}", heads, rows)


def _contents(items: Sequence["Removable"]) -> tuple[str, str]:
    """Return the cells of several items: their runs, and their size."""
    from fedsim.core.memory import format_size

    runs = [name for item in items for name in item.variants]
    names = [*dict.fromkeys(runs)]
    more = [f"{len(names) - _NAMED} more"] if len(names) > _NAMED else []
    text = f"{len(runs)} of {', '.join([*names[:_NAMED], *more])}" if runs else "-"
    return text, format_size(sum(item.size for item in items))


@app.command()
def history(
    place: Folder,
    *,
    as_json: AsJson = False,
) -> None:
    """List the calls of `fedsim run` in a folder: time, scenario and result.

    The digest of a variant changes when the variant is edited. A call
    without an end was killed.
    """
    from fedsim.running.history import read_history, runs_without_history

    with _errors():
        calls = read_history(place)
        if as_json:
            typer.echo(json.dumps([asdict(call) for call in calls], indent=2))
        elif calls:
            _out.print(_calls_table(place, calls))
        else:
            _out.print(runs_without_history(place), markup=False)


def _calls_table(place: Path, calls: Sequence["PastCall"]) -> Table:
    """Return one row per call of a history, the oldest first."""
    from fedsim.core.tables import listing

    heads = ("begun (UTC)", "scenario", "runs", "made", "ended", "best variant")
    meanings = "runs: variants x seeds; made: runs that the call computed"
    return listing(
        f"calls of `fedsim run` in {place}; {meanings}", heads, [_call_row(call) for call in calls]
    )


def _call_row(call: "PastCall") -> tuple[str, ...]:
    runs = f"{call.variants} x {call.seeds}{f' ({call.shard})' if call.shard else ''}"
    made = f"{call.made} of {call.runs}{f', {call.failed} failed' if call.failed else ''}"
    begun = call.begun[:16].replace("T", " ")
    return begun, f"{call.name} {call.digest[:6]}", runs, made, call.ended, call.result


@app.command("diff")
def diff_command(
    one: Annotated[
        Path, typer.Argument(metavar="A", help="a scenario, or a folder of runs or of one run")
    ],
    other: Annotated[
        Path, typer.Argument(metavar="B", help="a scenario or a folder to compare it with")
    ],
    plugins: Plugins = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Show what differs between two scenarios, two runs or two studies.

    It compares keys of scenarios, seeds, versions, digests of data, and
    results, with their ratio B / A. The exit code is 0 if nothing
    differs, 1 if something does, and 2 if they cannot be compared.
    """
    from fedsim.results.analysis.differences import differences

    with _errors():
        sides = [_side(place, plugins or ()) for place in (one, other)]
        differing = differences(*sides)
        if as_json:
            typer.echo(json.dumps([_plain(value) for value in differing], indent=2))
        else:
            _print_differences(sides, differing)
    raise typer.Exit(1 if differing else 0)


def _side(place: Path, plugins: Sequence[Path]) -> "Side":
    """Return one side of the comparison, from a folder of runs or a scenario."""
    from fedsim.results.analysis.differences import Side
    from fedsim.results.record.scenarios import parse
    from fedsim.scenario import dump, load
    from fedsim.scenario.registries import blocks_in

    if place.is_dir():
        return Side.of_folder(place)
    plan = load(place, blocks=blocks_in(plugins))
    scenarios = {each.name: parse(dump(each.scenario), place) for each in plan.variants}
    return Side(str(place), scenarios, {each.name: [*each.seeds] for each in plan.variants})


def _plain(difference: "DifferingValue") -> dict[str, Any]:
    """Return a difference for JSON, in which numbers that are not finite are null."""
    from math import isfinite

    return {
        key: None if isinstance(value, float) and not isfinite(value) else value
        for key, value in difference._asdict().items()
    }


def _print_differences(sides: Sequence["Side"], values: Sequence["DifferingValue"]) -> None:
    """Print a table for each part that differs, and notes on sides without results."""
    from fedsim.core.tables import listing
    from fedsim.results.analysis.differences import describe_values

    _out.print(f"A is {sides[0].name}\nB is {sides[1].name}", markup=False, highlight=False)
    for part in dict.fromkeys(value.part for value in values):
        of_part = [value for value in values if value.part == part]
        rows = [(value.variant, value.key, *describe_values(value)) for value in of_part]
        heads = ("variant", "key", "A", "B", "B / A")
        columns = [number for number in range(5) if any(row[number] for row in rows)]
        cells = [[row[number] for number in columns] for row in rows]
        _out.print(listing(part, [heads[number] for number in columns], cells))
    if not values:
        _out.print("nothing differs")
    for side in sides:
        if not side.runs:
            _out.print(f"no run of {side.name} has ended: results are not compared", markup=False)
