"""The audit: what the ledger checked, the books of each run, and what it was made with."""

from fedsim.report.parts import Cell, Table, number, words
from fedsim.report.study import Run, Study

CHECKS = (
    "Bits sent are bits delivered, lost or in flight, counted by the network and in the log.",
    "The joules of every client in its log are those that its radio and processor metered.",
    "What the fleet drew at rest is what the log says of it.",
    (
        "What every battery gave is what its client spent; what is left is what was there, and "
        "what was charged, less what was drained."
    ),
    "Time never runs back.",
)
"""What the ledger compares at the end of every run, bits exactly and joules to 1e-9."""

_BITS = ["payload_bits", "header_bits", "transport_bits"]


def books(run: Run) -> dict[str, float]:
    """Return the sums of a run's log: bits by what became of them, joules in all."""
    rows = run.events(["event", "detail", "joules", *_BITS])
    bits = rows[_BITS].sum(axis=1)
    sums = bits.groupby(rows["event"], observed=False).sum()
    flying = (rows["event"] == "send") & (rows["detail"] == "in flight")
    return {
        "sent": float(sums["send"] + sums["retransmit"]),
        "received": float(sums["receive"]),
        "lost": float(sums["lost"] + sums["retransmit"]),
        "in flight": float(bits[flying].sum()),
        "joules": float(rows["joules"].sum()),
    }


def book_table(study: Study) -> Table:
    """Return the books of every run, and whether the ledger found them right."""
    rows = []
    for run in study.runs:
        own = books(run)
        failed = run.summary["status"] == "audit"
        bits = [number(own[name], "bit") for name in ("sent", "received", "lost", "in flight")]
        rows.append(
            [
                *words(study.labels[run.variant], run.seed),
                Cell("failed" if failed else "passed"),
                *bits,
                number(own["joules"], "J"),
                number(float(run.rows(study.clients)["joules"].sum()), "J"),
            ]
        )
    heads = ("variant", "seed", "audit", "sent", "received", "lost", "in flight")
    return Table(
        "The books of every run, added up again from its log: bits as sent, received by every "
        "listener, lost and in flight; joules of the log, and of the client table",
        (*heads, "joules, log", "joules, clients"),
        rows,
    )


def run_table(study: Study) -> Table:
    """Return how every run ended, and the hash of its log."""
    rows = []
    for run in study.runs:
        own, events = run.summary, run.manifest.get("events", {})
        rows.append(
            [
                *words(study.labels[run.variant], run.seed, own["status"], own["reason"]),
                number(own["rounds"]),
                number(own["t"], "s"),
                number(events.get("rows") or 0),
                _folded(events.get("sha256")),
            ]
        )
    heads = ("variant", "seed", "status", "why it ended", "rounds", "time", "rows", "log, SHA-256")
    return Table("How every run ended", heads, rows)


def _folded(digest: str | None) -> Cell:
    """Return the cell of a hash, of which the beginning tells one from another."""
    return Cell(digest, folded=f"{digest[:8]}\N{HORIZONTAL ELLIPSIS}") if digest else Cell("-")


def version_table(study: Study) -> Table:
    """Return what the runs were made with; several versions where the runs differ."""
    facts: dict[str, list[str]] = {}
    for run in study.runs:
        made = run.manifest
        own = {
            "schema of the log": made.get("schema_version"),
            "Python": made.get("python"),
            "machine": made.get("machine"),
            **made.get("versions", {}),
        }
        for name, value in own.items():
            seen = facts.setdefault(name, [])
            if str(value) not in seen:
                seen.append(str(value))
    rows = [words(name, ", ".join(values)) for name, values in facts.items()]
    return Table("What the runs were made with", ("what", "version"), rows)
