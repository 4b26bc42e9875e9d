"""The auditor's carbon: the grams of a log, integrated once more, step by step, in plain Python."""

from collections.abc import Callable, Iterator
from math import fsum, inf

from fedsim.physics.carbon import GridCarbon, HourlyCarbon
from fedsim.scenario import Group

from .evidence import Evidence, Row, close
from .files import GRID

Emitted = Callable[[float, float, float], float]
"""Returns the grams of joules that are drawn evenly from one time to another."""

_SHARE = 1e-7  # a step may begin where a span does, but for the clock's rounding
_KILOWATT_HOUR = 3.6e6


def emitted(group: Group) -> Emitted | None:
    """Return what the electricity of a group emits; None where nobody says."""
    law = group.carbon
    if law is None:
        return None
    if isinstance(law, GridCarbon):
        intensity = law.intensity
        return lambda joules, _, __: joules * intensity / _KILOWATT_HOUR
    assert isinstance(law, HourlyCarbon)
    steps = [(3600.0 * hour, law.scale * grams) for hour, grams in GRID]
    period = 2 * steps[-1][0] - steps[-2][0] if law.repeat else inf
    ends = [time for time, _ in steps[1:]] + [period]

    def of(joules: float, begin: float, end: float) -> float:
        at, until, parts = begin + law.start, end + law.start, list[float]()
        cycle = at // period if law.repeat else 0.0
        base = cycle * period if law.repeat else 0.0
        while True:
            for (since, grams), to in zip(steps, ends, strict=True):
                if base + since <= until and (base + to > at or at == until == base + to):
                    shared = min(until, base + to) - max(at, base + since)
                    if at == until and base + since <= at < base + to:
                        return joules * grams / _KILOWATT_HOUR
                    parts.append(grams * max(shared, 0.0))
            base += period
            if base > until:  # a span is as long as this clock says, whose digits it is made of
                return joules * fsum(parts) / (until - at) / _KILOWATT_HOUR if until > at else 0.0

    return of


def carbon(run: Evidence) -> Iterator[str]:
    """Every row emits what its joules do while they are drawn; sums are those of the tables."""
    laws = [emitted(group) for group in run.groups]
    if not any(laws):
        tables = [run.summary, *run.events[:1], *run.rounds[:1], *run.clients[:1]]
        if any("grams" in row for row in tables):
            yield "grams are told, and nobody has any"
        return
    number = {name: client for client, name in enumerate(run.names)}
    mine: dict[str, list[float]] = {name: [] for name in run.names}
    for row in run.events:
        if row["node"] in mine:
            law, span = laws[number[row["node"]]], (row["t"] - row["duration"], row["t"])
            wanted = law(row["joules"], *span) if law and row["joules"] else 0.0
            if not close(row["grams"], wanted, share=_SHARE):
                yield f"row {row['seq']}: {row['grams']} g, and {wanted} by its span"
            mine[row["node"]].append(row["grams"])
    for row, law in zip(run.clients, laws, strict=True):
        yield from _client(run, row, law, fsum(mine[row["client"]]))
    yield from _sums(run)


def _client(run: Evidence, row: Row, law: Emitted | None, spent: float) -> Iterator[str]:
    if law is None:
        if not (row["grams"] is None and row["idle_grams"] is None):
            yield f"{row['client']} has grams, and nobody says what its electricity emits"
        return
    group = run.groups[run.names.index(row["client"])]
    watts, since, idle = run.resting_power(group), 0.0, list[float]()
    on = True
    for event in [*run.events, {"node": row["client"], "event": "depleted", "t": run.end}]:
        if event["node"] == row["client"] and event["event"] in {"depleted", "charged"}:
            if event["event"] == "depleted" and on:
                idle.append(law(watts * (event["t"] - since), since, event["t"]))
            on, since = event["event"] == "charged", event["t"]
    if not close(fsum(idle), row["idle_grams"], watts * run.end * 1e-6, _SHARE):
        yield f"{row['client']} emits {fsum(idle)} g at rest, {row['idle_grams']} in the table"
    if not close(spent + row["idle_grams"], row["grams"]):
        yield f"{row['client']}: {spent} g in the log, {row['grams']} in the table"


def _sums(run: Evidence) -> Iterator[str]:
    total = fsum(row["grams"] for row in run.events)
    if not close(total, run.summary["grams"]):
        yield f"grams: {total} in the log, {run.summary['grams']} in the summary"
    by_client = fsum(row["grams"] for row in run.clients if row["grams"] is not None)
    if not close(total, by_client):
        yield f"grams: {total} in the log, {by_client} in the table of clients"
    by_round = fsum(row["grams"] for row in run.rounds)
    if by_round > total and not close(by_round, total):
        yield f"grams: {total} in the log, {by_round} in the table of rounds"
    yield from (f"round {row['round']}: {row['grams']} g" for row in run.rounds if row["grams"] < 0)
