"""The columns of a run's round table and client table, one row here for each.

A column of the round table that follows from its other costs is a row here with its rule, `of`;
stars, peers, tiers, arrays and live runs have it then. One that is counted is a row here and a
total of `fedsim.results.record.rounds.Traffic`, whose fields are the costs of that table. A column
of the client table is a row here, with its value in `fedsim.results.record.recorder`.

The checks of a run's files, the tables of `run`, `compare` and `report`, and the page on the log
take names, units and words from here. The event log's columns, whose layout in memory is fixed, are
in `fedsim.results.record.schema`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

Kind = Literal["text", "count", "number"]


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        name: in files and frames.
        kind: text, whole numbers, or numbers, which may be NaN.
        meaning: for the documentation.
        unit: the unit of its values; empty for those that are counted or have none.
        title: the head in tables and figures; empty if it is the name.
        cost: whether its sum over rounds is a cost of the run.
        filled: whether every row has a value.
        only: the runs that have it; empty for all.
        measured_in: a word for its amount in an ordering, "by seconds".
        least: the phrase for the variant that is best by it, "in the least time"; empty if none.
        of: returns its value in a round from the round's row of totals; None for what is counted.
    """

    name: str
    kind: Kind
    meaning: str
    unit: str = ""
    title: str = ""
    cost: bool = False
    filled: bool = False
    only: Literal["", "carbon", "constraint", "infrastructure", "names", "privacy", "relays"] = ""
    measured_in: str = ""
    least: str = ""
    of: "Callable[[Mapping[str, Any]], float] | None" = None


ROUNDS = (
    Column("variant", "text", "the variant"),
    Column("seed", "count", "the seed"),
    Column(
        "round",
        "count",
        "the round, from 1; 0 is the model that the run starts with",
        title="rounds",
        filled=True,
        measured_in="rounds",
    ),
    Column(
        "t",
        "number",
        "simulated time at which the round was committed",
        unit="s",
        title="time",
        filled=True,
        measured_in="seconds",
        least="in the least time",
    ),
    Column("objective", "number", "the objective at the round's model"),
    Column(
        "gap",
        "number",
        "its distance to the optimum, or to the best value found; NaN where none is known",
    ),
    Column("cohort", "count", "clients asked, once for each exchange of the round", filled=True),
    Column(
        "transmissions", "count", "uplink messages that carry something", cost=True, filled=True
    ),
    Column("beacons", "count", "uplink messages that carry nothing", cost=True, filled=True),
    Column(
        "bits_up",
        "count",
        "uplink bits: payload, header and transport",
        unit="bit",
        title="bits up",
        cost=True,
        filled=True,
    ),
    Column(
        "bits_down",
        "count",
        "downlink bits, one copy per receiver",
        unit="bit",
        title="bits down",
        cost=True,
        filled=True,
    ),
    Column(
        "joules",
        "number",
        "energy of the fleet in the round, idle power included",
        unit="J",
        title="energy",
        cost=True,
        filled=True,
        measured_in="joules",
        least="for the least energy",
    ),
    Column(
        "grams",
        "number",
        "CO2 emitted for that energy",
        unit="g",
        title="CO2",
        only="carbon",
        measured_in="CO2",
        least="for the least CO2",
    ),
    Column(
        "joules_after",
        "number",
        "energy that radios would take after the round until they sleep, if the run ended with it;"
        " no sum over rounds",
        unit="J",
        filled=True,
    ),
    Column("grams_after", "number", "CO2 emitted for that energy", unit="g", only="carbon"),
    Column(
        "server_joules",
        "number",
        "energy of the server and its site in the round",
        unit="J",
        title="server energy",
        only="infrastructure",
    ),
    Column(
        "network_joules",
        "number",
        "energy of the network behind the radios in the round",
        unit="J",
        title="network energy",
        only="infrastructure",
    ),
    Column(
        "constraint",
        "number",
        "the constraint g at the round's model",
        only="constraint",
    ),
    Column(
        "feasible",
        "count",
        "1 where g is within 1 % of the method's tolerance, else 0",
        only="constraint",
    ),
)
"""The round table; the measures of the scenario and of the method are further columns."""

BITS = Column(
    "bits",
    "count",
    "bits of both directions",
    unit="bit",
    measured_in="bits",
    least="for the fewest bits",
)
"""A column of comparisons, the sum of two."""

TOTAL = Column(
    "total_joules",
    "number",
    "energy of clients, server and network",
    unit="J",
    title="total energy",
    measured_in="joules in total",
    least="for the least total energy",
)
"""A column of comparisons, the sum of three."""


def _of_event(event: str) -> Column:
    return Column(f"{event}_s", "number", f"time in its `{event}` rows", unit="s")


def _joules_of(event: str) -> Column:
    meaning = f"energy in its `{event}` rows, beyond idle power"
    return Column(f"{event}_joules", "number", meaning, unit="J")


CLIENTS = (
    Column("client", "text", "the client", filled=True),
    Column("name", "text", "its name in the data", only="names"),
    Column("group", "count", "its group of the fleet, from 0", filled=True),
    Column("device", "text", "its device", filled=True),
    Column("radio", "text", "its radio", filled=True),
    Column("samples", "count", "its samples", filled=True),
    Column("epsilon", "number", "epsilon that it has lost (`privacy`)", only="privacy"),
    Column("transmissions", "count", "messages sent that carry something"),
    Column("beacons", "count", "messages sent that carry nothing"),
    *(
        Column(event, "count", f"its `{event}` rows")
        for event in ("silent", "late", "lost", "skipped")
    ),
    Column("bits_up", "count", "bits in its `send` rows", unit="bit"),
    Column("bits_down", "count", "bits in its `receive` rows", unit="bit"),
    Column("bits_again", "count", "bits in its `retransmit` rows", unit="bit"),
    *map(_of_event, ("compute", "send", "receive", "tail")),
    Column("offline_s", "number", "time out of reach", unit="s"),
    Column("off_s", "number", "time off with an empty battery", unit="s"),
    Column(
        "left_s",
        "number",
        "when it left for good: from then on it was offline, or its battery too low, for ever; NaN"
        " if it stayed",
        unit="s",
    ),
    *map(_joules_of, ("compute", "send", "receive", "retransmit", "promotion", "tail")),
    Column("idle_joules", "number", "energy of idle power", unit="J"),
    Column("bits_forwarded", "count", "bits of its `forward` rows", unit="bit", only="relays"),
    Column("forward_joules", "number", "energy of its `forward` rows", unit="J", only="relays"),
    Column("joules", "number", "energy of all kinds", unit="J"),
    Column(
        "idle_grams", "number", "CO2 of idle power; NaN if not tracked", unit="g", only="carbon"
    ),
    Column("grams", "number", "CO2 of all its energy; NaN if not tracked", unit="g", only="carbon"),
    Column(
        "initial_joules", "number", "energy in its battery at the start; NaN on mains", unit="J"
    ),
    Column("charged_joules", "number", "energy charged into its battery; NaN on mains", unit="J"),
    Column("drained_joules", "number", "energy drained from its battery; NaN on mains", unit="J"),
    Column("final_joules", "number", "energy in its battery at the end; NaN on mains", unit="J"),
    Column("depletions", "number", "how often its battery was empty; NaN on mains"),
)
"""The client table; frames of several runs begin with the variant and the seed."""

TABLES = {"rounds": ROUNDS, "clients": CLIENTS}


def names(table: str, *, only: str = "") -> tuple[str, ...]:
    """Return the columns of a table that all runs have, or those that only some have."""
    return tuple(column.name for column in TABLES[table] if column.only == only)


def of_kind(kind: Kind, table: str) -> tuple[str, ...]:
    """Return the columns of a kind that a table has in all runs."""
    return tuple(column.name for column in TABLES[table] if column.kind == kind and not column.only)


def always_filled(table: str) -> frozenset[str]:
    """Return the columns of a table of which every row has a value."""
    return frozenset(column.name for column in TABLES[table] if column.filled)


_COSTS = {column.name: column for column in (*ROUNDS, BITS, TOTAL)}

UNITS = {name: column.unit for name, column in _COSTS.items() if column.unit}
"""Units of costs; the others are counted."""

TITLES = {name: column.title for name, column in _COSTS.items() if column.title}
"""Heads of costs in tables, if other than the names of their columns."""

COSTS = tuple(column.name for column in ROUNDS if column.cost)
"""Columns of the round table that are additive costs; grams may be a further one."""

INFRASTRUCTURE = names("rounds", only="infrastructure")
"""The costs of runs that count the energy of server and network."""

TOTAL_JOULES = TOTAL.name
"""The energy of clients, server and network, until radios sleep."""

SPENT = ("round", *COSTS[:-1], "t", COSTS[-1])
"""The costs of a run in the order of tables: rounds, messages, bits, time, energy."""

SHOWN = ("round", "t", "joules", *COSTS[2:4], *COSTS[:2])
"""The costs in the order of printed tables: what is asked for first, in case a table is wide."""

RANKED = ("round", "bits", "t", "joules", "grams")
"""The costs by which variants are ranked."""

MEASURED_IN = {name: _COSTS[name].measured_in for name in RANKED}
"""The words for amounts of these."""

LEAST = {name: _COSTS[name].least for name in RANKED if _COSTS[name].least}
"""The phrases for the variant that is best by one of these."""


HIGHER_IS_BETTER = frozenset(
    {
        *("train_accuracy", "test_accuracy", "test_top_accuracy", "test_f1", "test_auc"),
        *("exact_match", "generation_accuracy"),
        *("worst_accuracy", "tenth_accuracy", "median_accuracy"),
        *("support_precision", "support_recall", "support_f1"),
    }
)
"""Columns whose targets are reached from below; those of all others from above."""

JOULES_AFTER, GRAMS_AFTER = "joules_after", "grams_after"
"""The energy that radios take after a round until they sleep, and the CO2 for it."""

AFTER = {"joules": JOULES_AFTER, "grams": GRAMS_AFTER}
"""The costs that go on after a run, with the columns of what is added to their sums then."""

SECRECY_OPERATIONS = "secrecy_operations"
"""The operations of the server in a round under secure aggregation."""

CONSTRAINT, FEASIBLE = names("rounds", only="constraint")
"""The columns of runs whose method has a constraint."""

_RISING = frozenset(
    {"accuracy", "acc", "precision", "recall", "f1", "auc", "auroc", "r2", "score", "iou", "kappa"}
)
"""The last words of user-defined figures that are better when higher."""


def higher_is_better(column: str) -> bool:
    """Return whether higher is better: fedsim's figures by list, user-defined ones by name.

    >>> [higher_is_better(name) for name in ("test_accuracy", "eval_acc", "eval_loss", "nonzeros")]
    [True, True, False, False]
    """
    return column in HIGHER_IS_BETTER or column.replace("-", "_").rpartition("_")[2] in _RISING
