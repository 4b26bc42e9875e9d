"""The command bench."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fedsim.cli.app import AsJson, Jobs, OnCluster, app, check_out
from fedsim.cli.app import errors as _errors
from fedsim.cli.app import out as _out
from fedsim.cli.app import remark as _remark

if TYPE_CHECKING:
    from fedsim.addons.bench.rules import Rules


@app.command()
def bench(
    action: Annotated[
        Literal["list", "run", "verify", "score", "page"],
        typer.Argument(metavar="ACTION", help="what to do, as above"),
    ],
    places: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="ENTRY|SUMMARY...",
            help="run: entries; verify: a summary and its entry; score and page: summaries beside"
            " those of the season",
        ),
    ] = None,
    tasks: Annotated[
        list[str] | None, typer.Option("--tasks", metavar="TASK", help="only this task; repeatable")
    ] = None,
    fleets: Annotated[
        list[str] | None,
        typer.Option("--fleets", metavar="FLEET", help="only this fleet; repeatable"),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(metavar="DIR", help="folder for what `run` and `page` write"),
    ] = Path("runs/bench"),
    sample: Annotated[
        int, typer.Option(min=0, metavar="N", help="number of runs that `verify` makes again")
    ] = 2,
    jobs: Jobs = 1,
    cluster: OnCluster = None,
    as_json: AsJson = False,
) -> None:
    """Rank methods over tasks and fleets by bits, seconds and joules.

    `list` shows tasks, fleets and entries. `run ENTRY` trains an
    entry, prices it on all fleets and seals a summary. `verify SUMMARY
    ENTRY` checks a summary. `score` ranks the entries of the first
    season and further SUMMARY files. `page` writes the ranks, scores
    by fleet, profiles and entries as one HTML file.
    """
    from dataclasses import replace

    from fedsim.addons.bench.rules import named

    given = places or []
    with _errors():
        for kind, own in (("tasks", tasks), ("fleets", fleets)):
            for name in own or ():
                named(kind, name)
        rules = _rules(action, given, tasks)
        rules = replace(rules, tasks=tasks or rules.tasks, fleets=fleets or rules.fleets)
        if action == "list":
            _list()
        elif action == "run":
            check_out(out)
            _run(given, out, rules, tasks, jobs=jobs, cluster=cluster)
        elif action == "verify":
            _verify(given, rules, sample)
        elif action == "score":
            _score(given, rules, as_json=as_json)
        else:
            check_out(out)
            _page(given, out, rules)


def _rules(action: str, given: list[Path], tasks: list[str] | None) -> "Rules":
    """Return the rules of the tasks' group, else of the first entry's or summary's."""
    from fedsim.addons.bench.rules import Entry, Rules, group_in, group_of
    from fedsim.addons.bench.running import read_summary

    if tasks:
        return Rules.first(group_of(tasks[0]))
    if given and action == "run":
        return Rules.first(Entry.of(given[0]).group)
    if given and action != "list":
        return Rules.first(group_in(read_summary(given[0])["entry"]))
    return Rules.first()


def _list() -> None:
    from fedsim.addons.bench.rules import Entry, group_of, names, summary_of
    from fedsim.core.tables import listing

    groups = {
        "tasks": {name: group_of(name) for name in names("tasks")},
        "entries": {name: Entry.of(name).group for name in names("entries")},
    }
    for kind in ("tasks", "fleets", "entries"):
        known = groups.get(kind, {})
        rows = [(name, known.get(name, "all"), summary_of(kind, name)) for name in names(kind)]
        _out.print(listing(kind, ("name", "group", "what it is"), rows))


def _run(
    given: list[Path],
    out: Path,
    rules: "Rules",
    tasks: list[str] | None,
    *,
    jobs: int,
    cluster: str | None,
) -> None:
    from dataclasses import replace

    from fedsim.addons.bench import run_entry
    from fedsim.addons.bench.rules import Entry, Rules

    for entry in [Entry.of(place) for place in _wanted(given, 1, "run takes an ENTRY")]:
        own = rules if tasks else replace(Rules.first(entry.group), fleets=rules.fleets)
        written = run_entry(entry, out, own, jobs=jobs, cluster=cluster, say=_remark)
        _out.print(f"summary in {written}", markup=False)


def _verify(given: list[Path], rules: "Rules", sample: int) -> None:
    from fedsim.addons.bench import verify
    from fedsim.addons.bench.rules import Entry
    from fedsim.addons.bench.running import read_summary

    summary, entry, *_ = _wanted(given, 2, "verify takes a SUMMARY and its ENTRY")
    found = verify(read_summary(summary), Entry.of(entry), rules, sample=sample)
    for text in found:
        _out.print(text, markup=False)
    if found:
        raise typer.Exit(1)
    _out.print(f"nothing is wrong; runs made again: {sample}")


def _score(given: list[Path], rules: "Rules", *, as_json: bool) -> None:
    from fedsim.addons.bench import score
    from fedsim.addons.bench.rules import group_of
    from fedsim.addons.bench.running import CLOCKS, read_summary
    from fedsim.addons.bench.scoring import orders, season, sentences
    from fedsim.core.tables import listing

    summaries = [*season(group_of(rules.tasks[0])), *map(read_summary, given)]
    ranked, pairs = score(summaries, rules), orders(summaries, rules)
    if as_json:
        from fedsim.cli.json_output import print_json, rows_of

        print_json({"scores": rows_of(ranked), "orders": rows_of(pairs)})
        return
    for clock in CLOCKS:
        rows = [
            (
                *(str(row["rank"]), row["entry"], f"{row['score']:.3f}"),
                *(f"{row['low']:.2f} to {row['high']:.2f}", f"{row['first']:.0%}"),
                f"{row['missed']:.0%}",
                f"{row['tuning']:.1f}",
            )
            for row in ranked[ranked["clock"] == clock].to_dict("records")
        ]
        heads = ("rank", "entry", "score", "interval", "highest score", "missed", "tuning")
        _out.print(listing(f"By {clock.replace('_', ' ')}", heads, rows))
    if not pairs["worlds"].any():
        _remark("probabilities ignore uncertain constants: a summary has no costs in their worlds")
    for text in sentences(pairs):
        _out.print(text, markup=False)


def _page(given: list[Path], out: Path, rules: "Rules") -> None:
    from fedsim.addons.bench.rules import group_of
    from fedsim.addons.bench.running import read_summary
    from fedsim.addons.bench.scoring import season
    from fedsim.addons.bench.site import write_page

    out.mkdir(parents=True, exist_ok=True)
    summaries = [*season(group_of(rules.tasks[0])), *map(read_summary, given)]
    written = write_page(summaries, out / "bench.html", rules)
    _out.print(f"page in {written}", markup=False)


def _wanted(given: list[Path], least: int, text: str) -> list[Path]:
    from fedsim.core.errors import DataError

    if len(given) < least:
        raise DataError("bench", f"got {len(given)} arguments; {text}")
    return given
