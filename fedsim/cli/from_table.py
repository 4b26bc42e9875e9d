"""`fedsim init --from FILE`: a scenario generated from a table, and the roles of its columns."""

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from rich.table import Table

from fedsim.core.blocks.wording import join_names
from fedsim.core.errors import DataError
from fedsim.core.tables import listing
from fedsim.problems.description import Naming
from fedsim.problems.tables.columns import quote
from fedsim.problems.tables.guess import Guess

_CLIENTS = 10  # without a column of clients
_HELD_OUT = 0.2  # of each client's rows, for testing
LEAST_ROWS = 12  # then each of ten clients keeps a row
_ROUNDS = 500
_GAP = 0.001  # target gap; for a regression, as a share of the variance of the labels
_SEEDS = 6  # fewest for a sign interval of 95 %; see `fewest_seeds`
_SHOWN = 4  # columns of classes that a note names, at most


def roles_table(seen: Guess, path: Path) -> Table:
    """Return type, role and missing cells of each column, and the reason for the role."""
    rows = []
    for column in seen.columns:
        left_out = column.role in {"identifier", "text", "empty", "constant"}
        role = f"{column.role}, left out" if left_out else column.role
        role = "left out" if column.role == "dropped" else role
        reason = column.reason
        if column.role == "label":
            reason = seen.why
        elif column.role == "client":
            reason = seen.why_client
        elif column.role == "dropped":
            reason = "--drop"
        rows.append((column.name, column.type, role, f"{column.missing:,}", reason))
    title = f"{path.name}: {len(seen.found.frame):,} rows, {seen.found.words}"
    return listing(title, ("column", "type", "role", "missing", "why"), rows)


def notes(seen: Guess) -> Iterator[str]:
    """Yield notes on choices made in reading the table, and on ambiguous columns."""
    if seen.classes_elsewhere:
        first, *more = map(shlex.quote, seen.classes_elsewhere[:_SHOWN])
        others = f" (or {join_names(more, 'or')})" if more else ""
        text = f"the label is the last column, {seen.label}: numbers, to be estimated"
        yield f"{text}; to predict the classes of a column, give --target {first}{others}"
    described = seen.samples.described
    for note in described.notes if described else ():
        if not note.startswith("missing cells") and not (
            note.startswith("the column") and "is left out" in note
        ):  # both are in the table of roles
            yield note
    for name, marks in seen.marks.items():
        shown = ", ".join(map(repr, marks))
        yield (
            f"{shown} among the numbers of {name!r} {'counts' if len(marks) == 1 else 'count'} as"
            " missing: the scenario lists such texts under `missing_marks`"
        )
    if seen.doubtful:
        several = ", ".join(seen.doubtful)
        text = f"any of {several} could hold the clients: choose one with --client"
        yield f"{text}; until then rows are assigned to clients at random"
    elif not seen.client:
        text = "no column of clients was found (choose one with --client)"
        yield f"{text}: rows are assigned to clients at random"


def name_of(path: Path) -> str:
    """Return the name of the scenario of a file.

    >>> name_of(Path("My patients (2021).csv.gz"))
    'my-patients-2021'
    """
    stem = path.name.split(".")[0].lower()
    return re.sub(r"[\W_]+", "-", stem).strip("-") or "study"


def scenario_text(seen: Guess, path: Path, folder: Path) -> str:
    """Return a commented scenario in YAML that runs on the table.

    Args:
        seen: the roles guessed for the columns.
        path: the path of the table.
        folder: the folder of the scenario, for a relative path to the table.

    Raises:
        DataError: the table has too few rows for such a scenario.
    """
    _check_rows(seen, path)
    described = seen.samples.described
    labels = described.labels if described else {}
    clients = len(described.clients) if described and seen.client else _CLIENTS
    count = "data" if seen.client else str(clients)
    place = os.path.relpath(path.absolute(), folder.absolute()).replace(os.sep, "/")
    test = "test_accuracy" if seen.classes else "test_loss"
    goal = f"predicts {seen.label}" if seen.classes else f"estimates {seen.label}"
    return "\n".join(
        [
            f"# Which method {goal} best for the fewest bits, seconds and joules?",
            f"name: {name_of(path)}",
            "problem:",
            f"  loss: {_loss(seen)}",
            "  data:",
            "    kind: table",
            f"    path: {quote(place)}",
            *([] if seen.header is None else [f"    header: {str(seen.header).lower()}"]),
            f"    label: {quote(seen.label)}{_labels(labels)}",
            *_clients(seen, clients),
            *_left_out(seen),
            *_marks(seen),
            "    # Missing cells are filled and numbers scaled by statistics over the rows of all",
            "    # clients, at no cost. With `fit: clients` each client uses its own rows.",
            "    fit: all",
            "    preprocess: [intercept]",
            "  split: groups" if seen.client else _deal(clients),
            f"  test: {{fraction: {_HELD_OUT}}}  # of each client's rows",
            "algorithm: {kind: fedavg, step_size: 1/L_max, local_steps: 5}",
            "fleet:",
            "  # As many clients as the data has; `fedsim list devices` and `fedsim list radios`.",
            f"  - {{count: {count}, device: laptop-n100, radio: wifi}}",
            f"measures: [{test}]",
            "# Variants are compared by their cost to reach this gap to the optimal loss.",
            f"stop: {{gap: {_gap(seen):.1g}, rounds: {_ROUNDS}}}",
            *_accuracy_target(seen),
            f"seeds: {_SEEDS}  # each with other test rows and draws, for intervals",
            "variants:",
            "  fedavg: {}  # five local steps between messages",
            "  one-step: {algorithm: {local_steps: 1}}  # one gradient step per round",
            "  qsgd:  # fedavg with quantized updates",
            "    wire: {up: {compressor: {kind: qsgd, levels: 16}}}",
            "",
        ]
    )


def _check_rows(seen: Guess, path: Path) -> None:
    """Check that rows are left for every client, and some for testing.

    Raises:
        DataError: there are too few.
    """
    samples, share = seen.samples, f"{100 * _HELD_OUT:g} % of the rows for testing"
    if samples.client is None:
        kept = samples.rows - round(_HELD_OUT * samples.rows)
        fits, wanted = kept >= _CLIENTS, f"{LEAST_ROWS} are needed for {_CLIENTS} clients and"
    else:
        _, sizes = np.unique(samples.client, return_counts=True)
        fits, wanted = round(_HELD_OUT * sizes.max()) >= 1, "some client needs 3 for"
    if not fits:
        rows = f"{samples.rows} {'row' if samples.rows == 1 else 'rows'} with a label"
        raise DataError("from", f"{path} has {rows}, but {wanted} {share}")


def _deal(clients: int) -> str:
    return f"  split: {{kind: iid, clients: {clients}}}"


def _accuracy_target(seen: Guess) -> list[str]:
    """Return a comment with a target accuracy, for the labels of a classification."""
    if not seen.classes:
        return []
    return [
        "# Or by their cost to reach a test accuracy:",
        f"# stop: {{test_accuracy: 80 %, rounds: {_ROUNDS}}}",
    ]


def _gap(seen: Guess) -> float:
    return _GAP if seen.classes else _GAP * float(np.var(seen.samples.y))


def _loss(seen: Guess) -> str:
    if seen.classes == 2:
        described = seen.samples.described
        labels = "" if described and described.labels else ", labels: plus-minus"
        return f"{{kind: logistic, l2: 0.01{labels}}}"
    return f"{{kind: {'softmax' if seen.classes else 'squared'}, l2: 0.01}}"


def _labels(labels: object) -> str:
    """Return a comment with the numbers of labels."""
    if not isinstance(labels, dict) or not labels:
        return ""
    naming = Naming(labels=labels)
    shown = [naming.label(value) for value in sorted(labels)]
    more = ", ..." if len(shown) > 4 else ""
    return f"  # {', '.join(shown[:4])}{more}"


def _clients(seen: Guess, clients: int) -> Iterator[str]:
    if seen.client:
        yield f"    client: {quote(seen.client)}  # {clients} clients"


def _marks(seen: Guess) -> Iterator[str]:
    marks = dict.fromkeys(mark for texts in seen.marks.values() for mark in texts)
    if marks:
        written = ", ".join("'" + mark.replace("'", "''") + "'" for mark in marks)
        yield f"    missing_marks: [{written}]  # among numbers: they count as missing"


def _left_out(seen: Guess) -> Iterator[str]:
    if seen.drop:
        yield f"    drop: [{', '.join(map(quote, seen.drop))}]"
    if seen.duplicates:
        yield "    duplicates: drop  # rows that repeat an earlier one"
