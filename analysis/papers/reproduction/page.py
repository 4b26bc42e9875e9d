"""The page of all papers, and the tables of the command: published beside measured."""

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite, isnan
from pathlib import Path

from fedsim.core.text import quantity
from reproduction import model
from reproduction.measures import Found, load
from reproduction.model import SEPARATOR, SOURCES, Measure, Paper, Row
from reproduction.states import (
    CHECKED,
    NOT,
    OPEN,
    PARTLY,
    REPRODUCED,
    SUBSTITUTED,
    Verdict,
    mean,
    state,
    summary,
    verdicts,
)

PAGE = model.FOLDER / "README.md"

HEAD = """\
# Published results: published beside measured

Each figure and table of five papers, at the paper's own settings, beside what fedsim measures. The
rows are data: a file a paper, such as `chb.yaml`, says what a row claims, how it is measured and
when it holds ([the format](FORMAT.md)); what was measured is kept in `results`. This page is
written from both by `python analysis/papers/run.py --page`.

    python analysis/papers/run.py chb                      # all rows of a paper
    python analysis/papers/run.py chb table-1-linear       # some of them
    python analysis/papers/run.py chb figure-2 --out runs  # to be resumed when interrupted

**States** are decided by a program, from the numbers. A row has checks: each published number that
has a tolerance is one, and so is each condition that the paper's claim comes to. *Reproduced*: all
of them hold. *In part*: some do. *Does not reproduce*: none does. *Substitute data*: the claim was
tested on data other than the paper's, which the row names. *Checked*: the paper draws no conclusion
from the figure, or the row is beyond the paper (under "Further"); its checks are ours. *Not run
here*: nothing was measured, for the most part because a file of the user's is needed.

Columns called *published* have what the paper prints; those called *checked* have what a
computation of ours without fedsim found. Comparisons with such a computation are shown, but count
towards no state except *checked*.

Settings are those that the paper states, those read from code that it cites, and those that are
ours, set apart in each row. Where a row has several seeds, a number is their mean, with the
smallest and largest in brackets. Times are those of one processor. Energies
end at the last round: tails of radios after it are not included. Orders by time and energy
depend on constants of radios and devices: [Claims in time and energy](../claims.md) tests what the
papers claim on seven radios; [Robustness of the claims](../claim_robustness.md) has the rest.
Files of the catalogue: FEDSIM_DATA names their folder, or `fedsim fetch` gets them.
"""

EARLIER = """\
*Before* is how the page stood at commit adc3703f, when the papers' full texts were not at hand: it
had fewer rows, some of several tables at once, and a third of them had another number, setting or
claim than the paper. *Now* is counted from what is kept in `results`; figures and tables alone
count, and one that is split by task or data set counts once a part.
"""

STATES = (REPRODUCED, PARTLY, NOT, OPEN)
"""Those that the page had before, in the order of `Paper.before`."""

LATER = (SUBSTITUTED, CHECKED)

COMMAND = "python analysis/papers/run.py"


def page(papers: Sequence[str] | None = None) -> str:
    """Return the page of all papers, from their files and what is kept of them."""
    every = {
        name: (model.read(model.FOLDER / f"{name}.yaml"), load(name))
        for name in papers or model.names()
    }
    parts = [HEAD, "## States by paper\n", EARLIER, "\n".join(_states(every)) + "\n"]
    parts.append("## Every figure and table\n")
    parts.append("\n".join(_overview(every, further=False)) + "\n")
    parts.append("Beyond the papers:\n")
    parts.append("\n".join(_overview(every, further=True)) + "\n")
    for name, (paper, found) in every.items():
        parts.append("\n".join(_section(name, paper, found)))
    return "\n".join(parts)


def _states(every: Mapping[str, tuple[Paper, Mapping[str, Found]]]) -> Iterator[str]:
    """Yield the table of how many rows have each state, before and now; the last line adds up."""
    told = {
        paper.name: (paper.before, counted(paper, found))
        for paper, found in every.values()
        if paper.before
    }
    heads = [f"{each}: before | now" for each in STATES]
    yield f"| paper | {' | '.join([*heads, *LATER])} |"
    yield "|---" * (1 + 2 * len(STATES) + len(LATER)) + "|"
    for name, pair in told.items():
        yield _line(name, *pair)
    if len(told) > 1:
        sums = (tuple(map(sum, zip(*own, strict=True))) for own in zip(*told.values(), strict=True))
        yield _line("all", *sums)


def _line(name: str, before: Sequence[int], now: Sequence[int]) -> str:
    pairs = zip(before, now, strict=False)  # later states have no number before
    cells = [*(f"{earlier} | {later}" for earlier, later in pairs), *now[len(before) :]]
    return f"| {name} | {' | '.join(map(str, cells))} |"


def counted(paper: Paper, found: Mapping[str, Found]) -> tuple[int, ...]:
    """Return how many of a paper's figures and tables have each of `STATES` and `LATER`."""
    own = [state(row, judged(row, found.get(key))) for key, row in paper.rows.items()]
    return tuple(own.count(each) for each in (*STATES, *LATER))


def judged(row: Row, found: Found | None) -> list[Verdict] | None:
    """Return the verdicts of a row; None if nothing was measured."""
    return verdicts(row, found.numbers) if found else None


def _overview(
    every: Mapping[str, tuple[Paper, Mapping[str, Found]]], *, further: bool
) -> Iterator[str]:
    yield "| figure, table | state | scenario | command | time |"
    yield "|---|---|---|---|---|"
    for name, (paper, found) in every.items():
        for key, row in (paper.further if further else paper.rows).items():
            own = judged(row, found.get(key))
            said = summary(row, own)
            if own is None and row.needs:
                said += f": needs {row.needs}"
            scenarios = dict.fromkeys(each.scenario.stem for each in row.settings())
            shown = ", ".join(f"`{each}`" for each in scenarios)
            link = f"[{paper.name}, {row.place}](#{anchor(paper, row)})"
            took = duration(found[key].seconds) if key in found else "-"
            yield f"| {link} | {said} | {shown} | `{name} {key}` | {took} |"


def anchor(paper: Paper, row: Row) -> str:
    """Return the anchor of a row's heading."""
    text = f"{paper.name}, {row.place}".lower()
    return "".join(
        letter for letter in text.replace(" ", "-") if letter.isalnum() or letter in "-_"
    )


def duration(seconds: float) -> str:
    """Return a duration in words.

    >>> duration(7.2), duration(500), duration(8000), duration(float("nan"))
    ('7 s', '8 min', '2 h', 'not timed')
    """
    if isnan(seconds):
        return "not timed"
    for length, unit in ((3600, "h"), (60, "min")):
        if seconds >= 1.5 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 1):.0f} s"


def _section(name: str, paper: Paper, found: Mapping[str, Found]) -> Iterator[str]:
    yield f"## {paper.title}\n"
    yield f"{paper.source}\n"
    if paper.settings:
        yield f"{paper.settings.strip()}\n"
    for key, row in paper.rows.items():
        yield from _entry(name, key, paper, row, found.get(key))
    if paper.further:
        if paper.rows:
            yield f"### {paper.name}: further\n\nBeyond the paper.\n"
        level = "####" if paper.rows else "###"
        for key, row in paper.further.items():
            yield from _entry(name, key, paper, row, found.get(key), level=level)
    if paper.notes:
        yield f"{paper.notes.strip()}\n"


def _entry(
    name: str, key: str, paper: Paper, row: Row, found: Found | None, level: str = "###"
) -> Iterator[str]:
    own = judged(row, found)
    yield f"{level} {paper.name}, {row.place}\n"
    decided = summary(row, own)
    yield f"**{decided[0].upper()}{decided[1:]}.** {row.claim.strip()}\n"
    origins = {
        "Substitute data": row.substitute,
        "Stated": row.stated,
        "From cited code": row.cited,
        "Ours": row.ours,
    }
    said = [f"{head}: {text.strip().rstrip('.')}." for head, text in origins.items() if text]
    took = f"; {duration(found.seconds)}" if found and isfinite(found.seconds) else ""
    needs = f" Needs {row.needs}." if row.needs else ""
    yield "\n".join([*said, f"`{COMMAND} {name} {key}`{took}.{needs}"]) + "\n"
    if found:
        yield "\n".join(markdown(*table(row, found))) + "\n"
        if said := list(_verdicts(row, own or [])):
            yield "\n".join(said) + "\n"
        if found.tried:
            best = ", ".join(f"{line}: {text}" for line, text in found.tried.items())
            yield f"Best of what was tried: {best}.\n"
    if row.notes:
        yield f"{row.notes.strip()}\n"
    for file, figure in row.figures.items():
        if (model.FOLDER.parent / f"figures/{file}.png").exists():
            yield f"![{figure.title}](../figures/{file}.png)\n"


def _verdicts(row: Row, own: Sequence[Verdict]) -> Iterator[str]:
    conditions = {*row.checks, *row.cross_checks}
    for each in own:
        if not each.holds or each.text in conditions:
            seen = f" ({each.seen})" if each.seen else ""
            apart = ", but not counted" if each.ours and row.concludes else ""
            yield f"- {'yes' if each.holds else '**no**'}{apart}: {each.text}{seen}"


def table(row: Row, found: Found) -> tuple[list[str], list[list[str]]]:
    """Return heads and cells of a row's table: a line a case and variant.

    A measure of which numbers are published or checked has a column of them beside its own.
    """
    lines = list(dict.fromkeys(key.rpartition(SEPARATOR)[0] for key in found.numbers))
    lines += [line for line in (*row.published, *row.checked) if line not in lines]
    values = {(line, source): row.values(line, source) for line in lines for source in SOURCES}
    beside = {
        name: [source for source in SOURCES if any(name in values[line, source] for line in lines)]
        for name in row.measures
    }
    heads = [""]
    for name, sources in beside.items():
        titles = [*sources, "measured"] if sources else []
        heads += [f"{name}, {titles[0]}", *titles[1:]] if titles else [name]
    cells = []
    for line in lines:
        own = [line.replace(SEPARATOR, ", ")]
        for name, measure in row.measures.items():
            own += [_shown(measure, values[line, source].get(name)) for source in beside[name]]
            own.append(_spread(measure, found.numbers.get(f"{line}{SEPARATOR}{name}", ())))
        cells.append(own)
    return heads, cells


def _shown(measure: Measure, value: float | str | None) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else _one(measure, value)


def _one(measure: Measure, value: float) -> str:
    if isnan(value):
        return "-"
    if not isfinite(value):
        return "diverged"
    return quantity(value, measure.unit) if measure.unit else format(value, measure.show)


def _spread(measure: Measure, values: Sequence[float]) -> str:
    """Return the mean of values, with least and largest where they differ; not of costs."""
    if not values:
        return ""
    known = [value for value in values if not isnan(value)]
    if known and len(known) < len(values):
        return f"{len(values) - len(known)} of {len(values)} do not get there"
    middle, low, high = (_one(measure, each) for each in (mean(values), min(values), max(values)))
    return middle if low == high or measure.unit else f"{middle} ({low} to {high})"


def markdown(heads: Sequence[str], cells: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table in Markdown; columns without an entry are left out."""
    kept = [place for place, head in enumerate(heads) if any(own[place] for own in cells)]
    yield "| " + " | ".join(heads[place] for place in kept) + " |"
    yield "|" + "---|" * len(kept)
    for own in cells:
        yield "| " + " | ".join(own[place] for place in kept) + " |"


def write(file: Path = PAGE) -> None:
    """Write the page."""
    file.write_text(page(), encoding="utf-8")
