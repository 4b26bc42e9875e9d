"""Tables as they are: columns of numbers, categories and dates, text labels, named clients.

`TableSource` has the keys that describe the columns. Its subclasses get the table from a file, a
database, OpenML, Hugging Face's hub, or a data frame in memory.
"""

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from fedsim.core.blocks.choice import failure
from fedsim.core.blocks.in_memory import Holding
from fedsim.core.blocks.spec import FILE_OR_ADDRESS, AnyPath, Given, as_written
from fedsim.core.errors import DataError
from fedsim.problems.data.base import Source
from fedsim.problems.data.preprocess import LEARNING, Transform, fit_transform
from fedsim.problems.description import Description, names_of_clients
from fedsim.problems.samples import Samples, check
from fedsim.problems.tables import features
from fedsim.problems.tables.fit_exchange import FitExchange, exchange_of
from fedsim.problems.tables.formats import Found, Reading, check_names, read_table
from fedsim.problems.tables.rows import Wanted, table_samples

if TYPE_CHECKING:  # importing pandas takes half a second: only when a table is read
    import pandas as pd

Place = str | int


class TableSource(Source):
    """A table of mixed columns, whose roles follow from their cells unless they are stated."""

    numbers_clients: ClassVar[bool | str] = "with client: a column"

    label: Place = Field(description="the column of labels: its name, or its number from 1")
    client: Place | None = Field(
        default=None,
        description="the column that names the client, such as a hospital; for the split `groups`",
    )
    drop: Given[tuple[Place, ...], Sequence[Place]] = as_written(
        (), "columns to leave out, by name or number"
    )
    columns: Mapping[str, Literal["number", "category", "date"]] = Field(
        default_factory=dict,
        description="roles of columns, by name, where the cells do not show them",
    )
    missing: Literal["impute", "drop-rows"] = Field(
        default="impute",
        description=(
            "impute: a missing cell becomes the median of its column, or its most frequent"
            " text; drop-rows: rows with missing cells are left out and counted. Rows"
            " without a label always are"
        ),
    )
    missing_marks: Given[tuple[str, ...], Sequence[str]] = as_written(
        (),
        "texts and numbers that stand for a missing value, beside ?, NA, null and their like in"
        " files of text",
    )
    not_missing: Given[tuple[str, ...], Sequence[str]] = as_written(
        (), "texts such as NA and - that count as values, not as missing"
    )
    decimal: Literal[".", ","] | None = Field(
        default=None,
        description="decimal sign of numbers in text; null: detected for the whole table",
    )
    duplicates: Literal["keep", "drop"] = Field(
        default="keep", description="whether rows that repeat an earlier one are kept"
    )
    positive: str | None = Field(
        default=None, description="the text of the label that becomes +1; all others become -1"
    )
    classes: Mapping[Annotated[str, Field(coerce_numbers_to_str=True)], float] = Field(
        default_factory=dict,
        description="the numbers of the label's texts, such as {good: -1, bad: 1}; by default in"
        " ascending order of the texts. Several texts may share one",
    )
    rename: Mapping[str, str] = Field(
        default_factory=dict,
        description="new names of clients, by name; clients of equal names are merged",
    )
    scale: Literal["standardise", "unit-range", "none"] = Field(
        default="standardise",
        description="of numbers and dates: to mean 0 and variance 1, to [0, 1], or as they are;"
        " `preprocess` follows",
    )
    rare: float = Field(
        default=0.01, ge=0, lt=1,
        description=(
"texts of a category that appear in a smaller share of the rows are pooled into"
" one"
),
    )  # fmt: skip
    fit: Literal["all", "exchange", "clients"] = Field(
        default="all",
        description=(
            "training rows that decide imputation and scaling. all: those of all clients,"
            " at no cost; exchange: those of all clients, and the messages are charged;"
            " clients: each client's own"
        ),
    )

    @model_validator(mode="after")
    def _numbers_classes_once(self) -> Self:
        if self.classes and self.positive is not None:
            text = f"got classes and positive: {self.positive}; give one of them"
            raise failure(("positive", text, self.positive))
        return self

    @model_validator(mode="after")
    def _exchanges_once(self) -> Self:
        late = [step for step in self.preprocess if step in LEARNING]
        if self.fit == "exchange" and late:
            text = f"got {late[0]}, which would need an exchange of its own; give `scale` instead,"
            raise failure(("preprocess", f"{text} or take fit: all", self.preprocess))
        return self

    @abstractmethod
    def table(self, folder: Path) -> Found:
        """Return the table.

        Raises:
            DataError: it cannot be read.
        """

    @property
    def wanted(self) -> Wanted:
        """What the scenario states about the columns."""
        return Wanted(
            self.label, self.client, tuple(self.drop), dict(self.columns),
            self.decimal, tuple(self.missing_marks),
            self.missing == "drop-rows", self.duplicates == "drop", self.positive,
            dict(self.rename), kept=tuple(self.not_missing),
            classes=dict(self.classes),
        )  # fmt: skip

    def read(self, folder: Path, rng: np.random.Generator) -> Samples:
        """Read the table as raw features: NaN for missing cells, and numbers for categories."""
        return self._samples(folder)

    def plain(self, folder: Path, rng: np.random.Generator) -> Samples:
        """Return the samples, checked; features may be missing until they are transformed."""
        return self._check(self._samples(folder))

    def plain_like(self, folder: Path, rng: np.random.Generator, training: Samples) -> Samples:
        """Return test rows with the columns, texts and labels of the training rows."""
        return self._check(self._samples(folder, training.described))

    def load(self, folder: Path, rng: np.random.Generator) -> Samples:
        """Return the samples as features, fitted on all of them."""
        samples = self.plain(folder, rng)
        transform = self.transform_for(samples)
        return samples.with_features(transform(samples.X)) if transform else samples

    def transform_for(self, samples: Samples) -> Transform | None:
        """Return the function that converts raw rows to features, fitted on some rows."""
        fitted = features.fit_all(np.asarray(samples.X), self._recipe(samples))
        if not self.preprocess:
            return fitted
        later = fit_transform(fitted(samples.X), self.preprocess)
        return lambda X: later(fitted(X))

    @property
    def transforms(self) -> bool:
        """True: raw features, such as numbers of categories, are not suitable for computing."""
        return True

    @property
    def fits_clients(self) -> bool:
        """Whether each client's rows are transformed by what is fitted on them alone."""
        return self.fit == "clients"

    def transform_clients(
        self, samples: Samples, rows: Sequence[NDArray[np.intp]], test: Samples | None
    ) -> tuple[Samples, Samples | None]:
        """Return samples and test rows as features, fitted for each client on its own rows.

        A test row has to belong to a client of the data. Rows of a client without training rows are
        transformed as fitted on these test rows themselves.

        Raises:
            DataError: a test row belongs to no client, or a client has no value in a column.
        """
        recipe, X = self._recipe(samples), np.asarray(samples.X)
        described = samples.described or Description()
        names = names_of_clients(samples.client, described.clients, rows)
        fitted, encode = features.fit_clients(X, rows, recipe, names)
        later = [
            fit_transform(each(X[own]), self.preprocess)
            for each, own in zip(fitted, rows, strict=True)
        ]
        parts = [second(first(X[own]))
                 for first, second, own in zip(fitted, later, rows, strict=True)]  # fmt: skip
        transformed = np.zeros((samples.rows, parts[0].shape[1]))
        for own, part in zip(rows, parts, strict=True):
            transformed[own] = part
        if test is None:
            return samples.with_features(transformed), None
        if test.client is None or not names or samples.client is None:
            text = "fit: clients transforms test rows by what their client's rows fit, but here"
            raise DataError("data.fit", f"{text} they belong to no client; give `client` and"
                            " `split: groups`, or take fit: all")  # fmt: skip
        # Under the split `groups`, all rows of a client have one number.
        known = {int(samples.client[own[0]]): place for place, own in enumerate(rows)}
        tested = np.zeros((test.rows, transformed.shape[1]))
        for number in np.unique(test.client).tolist():
            own = np.flatnonzero(test.client == number)
            raw = np.asarray(test.X)[own]
            if number in known:
                tested[own] = later[known[number]](fitted[known[number]](raw))
            else:
                # A client without training rows has only its test rows to fit on.
                first = features.fit_alone(raw, recipe, encode)(raw)
                tested[own] = fit_transform(first, self.preprocess)(first)
        return samples.with_features(transformed), test.with_features(tested)

    @property
    def exchanges_fit(self) -> bool:
        """Whether the messages of the fit are exchanged, and charged."""
        return self.fit == "exchange"

    def fit_exchange(self, samples: Samples, rows: Sequence[NDArray[np.intp]]) -> FitExchange:
        """Return the messages by which the server fits all clients' training rows."""
        return exchange_of(np.asarray(samples.X), rows, self._recipe(samples))

    def explain_fit(self, samples: Samples) -> str:
        """Return on which rows preprocessing is fitted, and what would have to be sent for it."""
        recipe = self._recipe(samples)
        if self.exchanges_fit:
            return (
                "preprocessing is fitted on the training rows of all clients (data.fit: exchange):"
                " its messages are exchanged in round 1, before the method's, and charged"
            )
        if self.fits_clients:
            return "preprocessing is fitted on each client's own training rows (data.fit: clients)"
        numbers = recipe.statistics
        return (
            "preprocessing is fitted on the training rows of all clients (data.fit: all); this"
            f" needs at least {numbers} numbers per client in each direction, which are not charged"
        )

    def _recipe(self, samples: Samples) -> features.FeatureRecipe:
        described = samples.described or Description()
        return features.FeatureRecipe(described.features, self.scale, self.rare)

    def _samples(self, folder: Path, like: Description | None = None) -> Samples:
        table = self.table(folder)
        where = str(getattr(self, "path", None) or "the table")
        wanted = replace(self.wanted, thousands=table.separator == ",", typed=table.typed)
        samples = table_samples(table.frame, wanted, where, like)
        noted = [f"{where} is read as {table.words}"] if table.words else []
        if (index := table.frame.index.name) is not None:
            text = f"the index {str(index)!r} is left out"
            noted.append(f"{text}; frame.reset_index() makes a column of it")
        if like is None and noted and samples.described is not None:
            noted += samples.described.notes
            samples = replace(samples, described=replace(samples.described, notes=tuple(noted)))
        return samples

    @staticmethod
    def _check(samples: Samples) -> Samples:
        X = np.asarray(samples.X)
        # Missing cells are allowed here, since they are filled when features are made.
        check(replace(samples, X=np.where(np.isnan(X), 0.0, X)))
        return samples


class Table(TableSource):
    """A file with a table: CSV, TSV, Excel, Parquet, Feather or JSON lines, plain or compressed.

    Format, compression, encoding, separator and decimal sign are detected, and shown by `fedsim
    check`. For text files they can be set.
    """

    source: ClassVar[str] = "read by pandas; features by scikit-learn"
    also_called: ClassVar[tuple[str, ...]] = (
        *("parquet", "feather", "arrow", "excel", "xlsx", "xls"),
        *("tsv", "json", "jsonl", "json-lines", "ndjson"),
    )

    kind: Literal["table"] = "table"
    path: AnyPath = Field(description="the file, relative to the scenario file's folder")
    separator: str | None = Field(
        default=None,
        min_length=1,
        max_length=1,
        description="separator between cells; null: detected",
    )
    encoding: str | None = Field(
        default=None, description="encoding of text, such as latin-1 or utf-16; null: detected"
    )
    header: bool | None = Field(
        default=None,
        description=(
            "whether the first line names the columns; null: it does, unless it is like the"
            " rows after it"
        ),
    )
    sheet: str | None = Field(default=None, description="sheet of a workbook; null: the first")

    def table(self, folder: Path) -> Found:
        """Read the file."""
        wanted = Reading(self.separator, self.encoding, self.header, self.sheet)
        return read_table(folder / self.path, wanted)


class Database(TableSource):
    """The rows that a query selects from a database; nothing is written there.

    SQLite needs nothing else; other databases need SQLAlchemy and their driver. An address must not
    contain a password, since runs record it: drivers read passwords from their own files or from
    the environment.
    """

    source: ClassVar[str] = "SQLite, or SQLAlchemy"

    kind: Literal["sql"] = "sql"
    address: Annotated[str, FILE_OR_ADDRESS] = Field(
        min_length=1,
        description="a file of SQLite, relative to the scenario file's folder, or an address of"
        " SQLAlchemy, such as postgresql://host/name",
    )
    query: str = Field(min_length=1, description="the query: SELECT ... FROM ...")

    @model_validator(mode="after")
    def _reads_only(self) -> Self:
        head = self.query.strip().split(None, 1)[0].lower() if self.query.strip() else ""
        if head not in {"select", "with", "values"}:
            text = f"got {self.query.strip()[:40]!r}; expected a query that reads, such as SELECT *"
            raise failure(("query", text, self.query))
        place, _, rest = self.address.partition("://")[2].partition("/")
        secret = re.search(r"[?&](password|passwd|pwd)=", rest, re.IGNORECASE)
        if secret or ("@" in place and ":" in place.rpartition("@")[0]):
            text = "an address with a password, which runs would record; leave the password to the"
            raise failure(("address", f"{text} driver's file or environment, such as PGPASSFILE",
                           "..."))  # fmt: skip
        return self

    def table(self, folder: Path) -> Found:
        """Run the query."""
        from fedsim.problems.tables.remote import query_table  # rarely needed

        return query_table(self.address, self.query, folder)


class OpenML(TableSource):
    """A data set of OpenML, by name and version; scikit-learn downloads and caches it."""

    source: ClassVar[str] = "Vanschoren et al., OpenML, SIGKDD Explorations 2013"

    kind: Literal["openml"] = "openml"
    name: str = Field(min_length=1, description="name of the data set, such as credit-g")
    version: int = Field(default=1, ge=1, description="version of the data set")

    def table(self, folder: Path) -> Found:
        """Download the data set, or read it from the cache."""
        from fedsim.problems.tables.remote import openml_table  # rarely needed

        return openml_table(self.name, self.version)


class Hub(TableSource):
    """A table of Hugging Face's hub, by name; `datasets` downloads and caches it."""

    source: ClassVar[str] = "Lhoest et al., Datasets, EMNLP 2021"

    kind: Literal["hub"] = "hub"
    name: str = Field(min_length=1, description="name of the data set, such as scikit-learn/iris")
    part: str = Field(default="train", description="the split of the data set")
    revision: str | None = Field(
        default=None, description="a commit of the data set, so that later changes have no effect"
    )

    def table(self, folder: Path) -> Found:
        """Download the data set, or read it from the cache."""
        from fedsim.problems.tables.remote import hub_table  # rarely needed

        return hub_table(self.name, self.part, self.revision)


class FrameTable(Holding, TableSource):
    """A data frame passed in from Python; see `fedsim.table`."""

    source: ClassVar[str] = "the user's own"

    kind: Literal["frame"] = "frame"
    rows: int = Field(ge=1, description="number of rows")

    def table(self, folder: Path) -> Found:
        """Return the data frame."""
        return Found(cast("pd.DataFrame", self.value("data")), "", typed=True)


def table(
    frame: "pd.DataFrame", *, target: Place, client: Place | None = None, **keys: Any
) -> FrameTable:
    """Return a data frame as a block, for `problem.data` of a scenario.

    Columns of numbers, categories and dates become features. Texts of labels and clients are
    numbered, and result tables show their names. The frame is copied. A scenario file only contains
    its digest, so such a scenario has to be run from Python.

        data = fedsim.table(frame, target="outcome", client="hospital", drop=["patient_id"])
        fedsim.run({"problem": {"data": data, "split": "groups", ...}, ...})

    Args:
        frame: one row per sample.
        target: the column of labels: its name, or its number from 1.
        client: the column of clients, for the split `groups`.
        keys: further keys of `kind: table` that concern columns, such as `drop`, `columns`,
            `missing`, `rename`, `fit` and `preprocess`.

    Raises:
        DataError: the argument is no data frame, or has no such column; or some columns cannot
            become features, all of which are named.

    Example:
        >>> frame = pd.DataFrame({"age": [51, 34, 67], "ill": ["yes", "no", "yes"]})
        >>> table(frame, target="ill").kind
        'frame'
    """
    import pandas as pd
    from pydantic import ValidationError

    received: object = frame
    if not isinstance(received, pd.DataFrame):
        text = f"got a {type(received).__name__}; expected a pandas DataFrame"
        raise DataError("data", f"{text}; fedsim.arrays takes arrays")
    if not len(frame):
        raise DataError("data", "got a frame without rows; at least one is needed")
    held = frame.reset_index(drop=True).copy()
    held.columns = [str(name) for name in held.columns]
    held.index.name = ", ".join(str(name) for name in frame.index.names if name is not None) or None
    check_names(held, "the frame", "data")
    try:
        block = FrameTable.of_values(
            held, partial(_digest, held), rows=len(held), label=target, client=client, **keys
        )
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "table"
        raise DataError(f"data.{place}", f"{place}: {first['msg']}") from None
    # Faults of the columns are raised now, not only when a run begins.
    block.plain(Path(), np.random.default_rng(0))
    return block


def _digest(frame: "pd.DataFrame") -> str:
    """Return a digest of a frame: of its names, types and cells."""
    digest = sha256()
    for name in frame.columns:
        column = frame[name]
        digest.update(f"{name!r} {column.dtype} ".encode())
        if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iufbM":
            digest.update(np.ascontiguousarray(column.to_numpy()).view(np.uint8).data)
        else:
            for value in column.tolist():
                digest.update(f"{type(value).__name__} {value!r}\n".encode())
    return digest.hexdigest()
