"""Assertions for tests: on conformance checks, and on the ledger of a run."""

from collections.abc import Sequence
from math import isclose
from pathlib import Path

import pandas as pd

from fedsim.addons.conformance.energy import check_energy
from fedsim.core.blocks.spec import Spec
from fedsim.results.record.parts import as_frame, read_table
from fedsim.results.result import Result

WRONG = frozenset({"broken", "failed", "diverged"})
"""Outcomes of failed checks. A test chooses the step size, so its runs must not diverge either."""

EVENTS = ("compute", "send", "receive", "retransmit", "promotion", "tail", "forward")
"""Events that cost energy, each with a column of the client table."""

CLOSE = 1e-9
"""Relative difference of two sums of the same joules."""


def assert_kept(found: pd.DataFrame) -> None:
    """Raise unless every check of a table of `check_...` is kept.

    Args:
        found: the table of a `check_...` function.

    Raises:
        AssertionError: a check is broken or a run failed; the message lists them with reasons.

    Example:
        >>> assert_kept(pd.DataFrame({"check": ["zeros"], "outcome": ["kept"], "reason": [""]}))
    """
    broken = found[found["outcome"].isin(WRONG)]
    lines = [f"{row.iloc[0]}: {row['reason']}" for _, row in broken.iterrows()]
    if lines:
        raise AssertionError("\n".join(lines))


def assert_ledger_balanced(run: Result | str | Path, blocks: Sequence[type[Spec]] = ()) -> None:
    """Raise unless the energy of every client follows from the log, twice.

    The joules of its rows, by event, have to add up to its columns in the client table, and these
    to its total. The energy of each row has to follow from its span and the powers of device and
    radio, as in `check_energy`.

    Args:
        run: a result, or the folder of one run.
        blocks: user-defined classes that its scenario names.

    Raises:
        AssertionError: a sum or a row differs; the message names the client and both figures.
        DataError: there is no run, or its files are damaged.

    Example:
        >>> assert_ledger_balanced(result)
    """
    for folder in run.runs if isinstance(run, Result) else (Path(run),):
        assert_kept(check_energy(folder, blocks))
        log, clients = (as_frame(read_table(folder, name)) for name in ("events", "clients"))
        assert_kept(check_sums(log, clients))


def check_sums(log: pd.DataFrame, clients: pd.DataFrame) -> pd.DataFrame:
    """Compare the sums of one run's log with its client table.

    Returns:
        One row per column of joules: check, outcome (kept or broken), and the reason.
    """
    clients = clients.set_index("client")
    by_event = log.groupby(["event", "node"], observed=True)["joules"].sum()
    parts = [f"{event}_joules" for event in EVENTS if f"{event}_joules" in clients]
    rows = []
    for event in EVENTS:
        if f"{event}_joules" in parts:
            logged = by_event.get(event, pd.Series(dtype=float)).reindex(clients.index).fillna(0)
            rows.append(_row(f"{event}_joules", logged, clients[f"{event}_joules"]))
    total = clients[[*parts, "idle_joules"]].sum(axis=1)
    rows.append(_row("joules", total, clients["joules"]))
    return pd.DataFrame(rows, columns=["check", "outcome", "reason"])


def _row(column: str, logged: "pd.Series[float]", stated: "pd.Series[float]") -> tuple[str, ...]:
    """Return whether the two figures of each client agree, and the first that does not."""
    for client, one, other in zip(logged.index, logged, stated, strict=True):
        if not isclose(one, other, rel_tol=CLOSE, abs_tol=1e-12):
            return column, "broken", f"{client}: {one:g} J in the log, {other:g} J in its row"
    return column, "kept", ""
