"""The stored models of a run: the last one, and on request the best one or every n-th one.

They are a Parquet table like the others, one row per model, rather than a NumPy archive. It grows
on disk during the run, so that memory does not grow with the rounds. The same models give the same
bytes, whereas a zip archive contains the time of day. Values of float64 are kept exactly, NaN and
-0.0 included; zeros of sparse models are compressed; and one model can be read without the others.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from math import inf, prod
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from fedsim.core.errors import OutputError
from fedsim.core.ports import Array, constant
from fedsim.results.record.folder import MODELS, SUMMARY
from fedsim.results.record.manifest import check_files, damage_error
from fedsim.results.record.parts import UNREADABLE, PartWriter, read_table, reading_error
from fedsim.results.record.read import join_tables, summary_of
from fedsim.results.record.variants import BASE

_CHUNK = 2**20
"""Size of the models that are collected in memory before they are written, bytes."""

_FLAT = pa.list_(pa.field("element", pa.float64()))  # as Parquet calls it, when read as well
COLUMNS = pa.schema([("round", pa.int64()), ("model", _FLAT)])
"""The schema of the table: models are flattened."""

SHAPE = b"shape"
"""The key of the shape of all models, in the metadata of the table."""


CLIENTS = pa.field("clients", _FLAT)
"""The column of the clients' own models, concatenated, in a run that stores them."""

OwnModels = Callable[[Array], Sequence[Array]]
"""Returns the clients' own models, shape (d,) each, after the last round that has a model."""


class NodeModels:
    """The models of peers in the last round: `OwnModels` of a run among them."""

    def __init__(self) -> None:
        self._models: Sequence[Array] = ()

    def see(self, models: Array) -> None:
        """Receive the models of all nodes, shape (M, d), before the model of the same round."""
        self._models = list(models)

    def __call__(self, _: Array) -> Sequence[Array]:
        """Return them."""
        return self._models


Figure = Callable[[str], float]
"""Returns a figure of a round by the name of its column; NaN where it was not evaluated."""


class Best(NamedTuple):
    """The figure that selects the best model of a run.

    Attributes:
        figure: a column of the round table.
        rises: whether larger values are better.
    """

    figure: str
    rises: bool


class KeptModel(NamedTuple):
    """A model of the server, and the clients' own models of the same round.

    Attributes:
        number: of the round.
        model: the server's model, or the one that the method reports, shape (d,).
        own: the clients' models, shape (d,) each; empty if they are not stored.
    """

    number: int
    model: Array
    own: Sequence[Array] = ()


class CheckpointWriter(Protocol):
    """Receives every model of a run and stores some; it is closed once, or abandoned."""

    @property
    def nodes(self) -> NodeModels | None:
        """The receiver of the models of peers; None if these are not stored."""

    def see(self, number: int, model: Array, figure: Figure) -> None:
        """Receive the model of a round, and the figures of that round."""

    def close(self) -> None:
        """Complete the table of a run that has ended."""

    def abandon(self) -> None:
        """Write the remaining models of a run that ends early, if possible."""


class ModelTable:
    """The writer of `models.parquet`.

    Args:
        parts: the writer of the table.
        shape: of every model, for readers; models are passed in flat.
        every: models of rounds that are multiples of this are stored, and the last; None for the
            last only. The initial model, round 0, is stored only if it is the last one.
        best: the figure that selects one more model, the first of several equal ones; or None.
            Rounds without a value of it are skipped. It excludes `every`.
        own: returns the clients' own models, to store them as well; None to leave them out.
    """

    def __init__(
        self,
        parts: PartWriter,
        shape: Sequence[int],
        every: int | None = None,
        best: Best | None = None,
        own: OwnModels | None = None,
    ) -> None:
        columns = COLUMNS if own is None else COLUMNS.append(CLIENTS)
        self._schema = columns.with_metadata({SHAPE: json.dumps(list(shape)).encode()})
        self._own = own
        self.nodes = own if isinstance(own, NodeModels) else None
        self._parts = parts
        self._every = every
        self._best, self._least = best, inf
        self._found: KeptModel | None = None  # the best so far
        self._last: KeptModel | None = None
        self._kept: int | None = None  # the last round whose model is on disk or queued
        self._waiting: list[KeptModel] = []
        self._bytes = 0

    def see(self, number: int, model: Array, figure: Figure) -> None:
        """Receive the model of a round, shape (d,); round 0 has the initial model.

        An empty array stands for an unknown model, which is not stored. The array is copied if the
        method may modify it later.

        Raises:
            OutputError: models cannot be written.
        """
        if not model.size:
            self._last = None
            return
        self._last = KeptModel(number, constant(model))
        if self.nodes is not None:  # copied now: peers may change them before this round is stored
            self._last = self._complete(self._last)
        if self._best is not None:
            value = -figure(self._best.figure) if self._best.rises else figure(self._best.figure)
            if value < self._least:  # False for NaN
                self._least, self._found = value, self._complete(self._last)
        if self._every is not None and number and number % self._every == 0:
            self._keep()
            if self._bytes >= _CHUNK:
                self._flush()

    def _keep_all(self) -> None:
        """Queue the best model and the last one for writing, in the order of their rounds."""
        if self._found and self._last and self._found.number < self._last.number:
            self._waiting.append(self._found)
        self._keep()

    def _complete(self, last: KeptModel) -> KeptModel:
        """Return the model of the last round, with the clients' own models if these are stored."""
        if self._own is None or last.own:
            return last
        return last._replace(own=tuple(self._own(last.model)))

    def _keep(self) -> None:
        """Queue the last model for writing."""
        if self._last is not None and self._last.number != self._kept:
            self._kept = self._last.number
            self._waiting.append(self._complete(self._last))
            self._bytes += self._last.model.nbytes * (1 + len(self._waiting[-1].own))

    def _flush(self) -> None:
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        columns = [
            pa.array([model.number for model in waiting], pa.int64()),
            _lists([model.model for model in waiting]),
        ]
        if self._own is not None:
            columns.append(_lists([np.concatenate(model.own) for model in waiting]))
        self._parts.write(pa.Table.from_arrays(columns, schema=self._schema))

    def close(self) -> None:
        """Write the rest and join the parts; without any model the table has no rows.

        Raises:
            OutputError: it cannot be written.
        """
        self._keep_all()
        if self._waiting or self._kept is None:
            self._flush()
        self._parts.close()

    def abandon(self) -> None:
        """Write what can still be written, the last model included; see `PartWriter`."""
        self._keep_all()
        if self._waiting:
            with suppress(OutputError):  # the reason of the run's end is reported already
                self._flush()
        self._parts.abandon()


def _lists(rows: Sequence[Array]) -> pa.Array:
    """Return arrays as a column of lists."""
    ends = np.cumsum([0, *(row.size for row in rows)], dtype=np.int32)
    values = rows[0] if len(rows) == 1 else np.concatenate(rows) if rows else np.zeros(0)
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(values), type=_FLAT)


# Readers of recorded models, as arrays in their shape.

_FEW = 12
"""Longest list of numbers in a message."""


def chunks(folder: Path) -> Iterator[pa.Table]:
    """Yield the table of an ended run, one row group at a time.

    Raises:
        DataError: it is missing or damaged.
    """
    path = folder / f"{MODELS}.parquet"
    check_files(folder, [path.name])
    try:
        with pq.ParquetFile(path) as file:
            for number in range(file.num_row_groups):
                yield file.read_row_group(number, use_threads=False)
    except UNREADABLE as error:
        raise reading_error(path, error) from None


def read_rounds(folder: Path) -> list[int]:
    """Return the rounds whose models a run has stored, ended or not.

    Raises:
        FileNotFoundError: the run has kept none yet.
        DataError: a file of it is damaged.
    """
    rounds: list[int] = _table(folder, columns=["round"])["round"].to_pylist()
    return rounds


def read_model(folder: Path, number: int) -> Array:
    """Return the stored model of a round; other models do not stay in memory.

    Raises:
        DataError: a file is damaged.
    """
    table = _table(folder, COLUMNS.names, filters=[("round", "==", number)])
    return next(_in_shape(table, folder))


def read_own_model(folder: Path, number: int, client: int) -> Array:
    """Return a client's own model of a round.

    Raises:
        ValueError: the run has not stored the clients' models, or has no such client.
        DataError: a file is damaged.
    """
    table = read_table(folder, MODELS, None, [("round", "==", number)])
    if CLIENTS.name not in table.column_names:
        text = f"{folder}: the clients' personal models were not stored"
        raise ValueError(f"{text}; models: {{clients: true}} stores them, if the method has any")
    shape = _shape(table, folder / f"{MODELS}.parquet")
    models = np.array(table[CLIENTS.name][0].values, dtype=np.float64).reshape(-1, *shape)
    if not 0 <= client < len(models):
        raise ValueError(f"got the client {client}; expected 0 to {len(models) - 1}")
    model: Array = models[client].copy()
    return model


def read_models(folders: Sequence[Path]) -> pd.DataFrame:
    """Read the models of several runs: columns variant, seed, round and model (arrays).

    Raises:
        FileNotFoundError: there are no runs, or one of them has kept no model yet.
        DataError: a file is damaged.
    """
    tables = [_table(path) for path in folders]
    models = [
        model
        for table, path in zip(tables, folders, strict=True)
        for model in _in_shape(table, path)
    ]
    rounds = [table.select(["round"]).replace_schema_metadata() for table in tables]
    frame = join_tables(folders, rounds, [path.parent.name for path in folders])
    column = np.empty(len(models), dtype=object)  # pandas would stack arrays of one shape
    for row, model in enumerate(models):
        column[row] = model
    return frame.assign(model=column)


def _table(
    folder: Path,
    columns: Sequence[str] | None = None,
    filters: Sequence[tuple[str, str, object]] | None = None,
) -> pa.Table:
    """Return the table of a run, or a part of it.

    Raises:
        FileNotFoundError: the run has kept no model yet.
        DataError: a file is damaged, or no table of models.
    """
    table = read_table(folder, MODELS, columns, filters)
    for name in COLUMNS.names if columns is None else columns:
        if name not in table.column_names or table[name].type != COLUMNS.field(name).type:
            path = folder / f"{MODELS}.parquet"
            raise damage_error(path, f"it has no column {name} of {COLUMNS.field(name).type}")
    return table


def _in_shape(table: pa.Table, folder: Path) -> Iterator[Array]:
    """Yield the models of a table as separate arrays in their shape.

    Raises:
        DataError: the rows are not models of that shape.
    """
    path = folder / f"{MODELS}.parquet"
    shape = _shape(table, path)
    for row in table["model"]:
        values = np.array(row.values, dtype=np.float64)
        if values.size != prod(shape):
            raise damage_error(path, f"a model has {values.size} numbers, and its shape is {shape}")
        yield values.reshape(shape)


def _shape(table: pa.Table, path: Path) -> tuple[int, ...]:
    """Return the shape of the models of a table."""
    try:
        shape = json.loads((table.schema.metadata or {})[SHAPE])
        return tuple(int(size) for size in shape)
    except (KeyError, TypeError, ValueError):
        raise damage_error(path, "it lacks the shape of its models") from None


def model_of(
    folders: Sequence[Path],
    variant: str | None,
    seed: int | None = None,
    number: int | None = None,
    client: int | None = None,
) -> Array:
    """Return the model of one of several runs after a round; see `fedsim.Result.model`."""
    first = next((path.parent.name for path in folders), BASE)
    folder = folder_of(folders, variant or first, seed)
    stored = read_rounds(folder)
    round_number = _last_round(folder, stored) if number is None else number
    if round_number not in stored:
        if not stored:
            raise ValueError(f"{folder}: no model is stored")
        rounds = _list_numbers(stored)
        text = f"{folder}: no model is stored for round {round_number}, only for {rounds}"
        raise ValueError(f"{text}; models: {{every: n}} keeps those of every n-th round")
    return (
        read_model(folder, round_number)
        if client is None
        else read_own_model(folder, round_number, client)
    )


def nodes_of(
    folders: Sequence[Path],
    variant: str | None,
    seed: int | None = None,
    number: int | None = None,
) -> Array:
    """Return the models of the nodes of one run; see `fedsim.Result.node_models`."""
    first = next((path.parent.name for path in folders), BASE)
    folder = folder_of(folders, variant or first, seed)
    table = read_table(folder, MODELS)
    if CLIENTS.name not in table.column_names:
        text = f"{folder}: the models of its nodes are not stored"
        raise ValueError(f"{text}; models: {{every: n, clients: true}} keeps them every n-th round")
    stored = table["round"].to_pylist()
    round_number = max(stored, default=0) if number is None else number
    if round_number not in stored:
        text = f"{folder}: no models of nodes are stored for round {round_number}, only for"
        raise ValueError(f"{text} {_list_numbers(stored)}")
    shape = _shape(table, folder / f"{MODELS}.parquet")
    flat = np.array(table[CLIENTS.name][stored.index(round_number)].values, dtype=np.float64)
    return flat.reshape(-1, *shape)


def folder_of(folders: Sequence[Path], variant: str, seed: int | None) -> Path:
    """Return the folder of a run.

    Raises:
        ValueError: there is none, or there are several.
    """
    of_variant = [path for path in folders if path.parent.name == variant]
    if not of_variant:
        names = ", ".join(dict.fromkeys(path.parent.name for path in folders))
        raise ValueError(f"got the variant {variant!r}; expected one of {names or 'none'}")
    seeds = [int(path.name.removeprefix("seed-")) for path in of_variant]
    if seed is None and len(of_variant) > 1:
        raise ValueError(
            f"{variant} was run under the seeds {_list_numbers(seeds)}; give one of them"
        )
    if seed is not None and seed not in seeds:
        raise ValueError(f"got the seed {seed}; {variant} was run under {_list_numbers(seeds)}")
    return of_variant[0 if seed is None else seeds.index(seed)]


def _last_round(folder: Path, stored: Sequence[int]) -> int:
    """Return the last round of a run; of an unfinished run, the last one with a stored model."""
    if (folder / SUMMARY).exists():
        return int(summary_of(folder)["rounds"])
    return max(stored, default=0)


def _list_numbers(numbers: Sequence[int]) -> str:
    """Return a list of numbers as text, of many only the first and the last ones.

    >>> _list_numbers(range(12)), _list_numbers(range(13))
    ('0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11', '0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ..., 12')
    """
    few = [str(number) for number in numbers]
    return ", ".join(few if len(few) <= _FEW else [*few[: _FEW - 2], "...", few[-1]])
