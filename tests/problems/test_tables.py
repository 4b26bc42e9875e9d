"""Tables of mixed columns: every format reads alike, roles follow from cells, gaps are filled."""

import bz2
import gzip
import io
import lzma
import sqlite3
from collections.abc import Callable
from contextlib import closing, nullcontext
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import datasets
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler

import fedsim
from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.problems import Groups, Samples
from fedsim.problems.data import Csv, Database, Hub, Table
from fedsim.problems.heterogeneity import label_test
from fedsim.problems.tables import features
from fedsim.problems.tables.cells import clean
from fedsim.problems.tables.columns import column_of
from fedsim.problems.tables.formats import find_separator, lines_before
from fedsim.problems.tables.names import near_duplicates
from tests.problems import messy
from tests.tiers import every

RNG = np.random.default_rng(0)


def read(folder: Path, name: str = "data.csv", **fields: Any) -> Samples:
    return Table.model_validate({"path": name, **fields}).plain(folder, RNG)


def notes(samples: Samples) -> str:
    assert samples.described is not None
    return "\n".join(samples.described.notes)


def wine() -> pd.DataFrame:
    return messy.with_hospitals(messy.sklearn_frame("wine"))


def _text(**options: Any) -> Callable[[pd.DataFrame], bytes]:
    encoding = options.pop("encoding", "utf-8")
    return lambda frame: frame.to_csv(index=False, **options).encode(encoding)


def _excel(frame: pd.DataFrame) -> bytes:
    out = io.BytesIO()
    frame.to_excel(out, index=False)
    return out.getvalue()


FORMATS: dict[str, tuple[Callable[[pd.DataFrame], bytes], str]] = {
    "csv": (_text(), "commas, UTF-8"),
    "tsv": (_text(sep="\t"), "tabs, UTF-8"),
    "semicolons": (_text(sep=";", decimal=",", encoding="latin-1"), "semicolons, Latin-1"),
    "quoted-commas": (_text(decimal=",", quoting=1), "commas, UTF-8"),
    "bom": (_text(encoding="utf-8-sig"), "byte order mark"),
    "utf-16": (_text(encoding="utf-16"), "utf-16"),
    "utf-16-be": (_text(encoding="utf-16-be"), "utf-16-be"),
    "gzip": (lambda frame: gzip.compress(_text()(frame)), "compressed by gzip"),
    "bzip2": (lambda frame: bz2.compress(_text()(frame)), "compressed by bzip2"),
    "xz": (lambda frame: lzma.compress(_text()(frame)), "compressed by xz"),
    "json": (
        lambda frame: frame.to_json(orient="records", lines=True, double_precision=15).encode(),
        "JSON lines",
    ),
    "parquet": (lambda frame: frame.to_parquet(), "Parquet"),
}


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_gives_the_same_samples(form: str, tmp_path: Path) -> None:
    frame = wine()
    write, words = FORMATS[form]
    (tmp_path / "table").write_bytes(write(frame))
    samples = read(tmp_path, "table", label="target", client="hospital")
    assert pytest.approx(frame.iloc[:, :13].to_numpy(), rel=1e-12) == samples.X
    assert samples.described is not None
    assert samples.described.clients == tuple(sorted(messy.HOSPITALS))
    assert samples.client is not None
    names = [samples.described.clients[number] for number in samples.client.tolist()]
    assert names == frame["hospital"].tolist()
    labels = [samples.described.labels[label] for label in samples.y.tolist()]
    assert labels == frame["target"].tolist()
    assert words in notes(samples)


@pytest.mark.needs("tables")
def test_workbooks_and_feather_are_read(tmp_path: Path) -> None:
    frame = wine()
    (tmp_path / "a.xlsx").write_bytes(_excel(frame))
    frame.to_feather(tmp_path / "a.feather")
    for name in ("a.xlsx", "a.feather"):
        samples = read(tmp_path, name, label="target", client="hospital")
        assert pytest.approx(frame.iloc[:, :13].to_numpy(), rel=1e-12) == samples.X
    with pytest.raises(DataError, match="has no sheet 'B'; it has Sheet1"):
        read(tmp_path, "a.xlsx", label="target", sheet="B")


def test_a_database_is_read_by_a_query_and_not_written(tmp_path: Path) -> None:
    frame = wine()
    with sqlite3.connect(tmp_path / "a.db") as connection:
        frame.to_sql("wine", connection, index=False)
    connection.close()
    source = Database(address="a.db", query="SELECT * FROM wine", label="target")
    samples = source.plain(tmp_path, RNG)
    assert samples.X[:, :13] == pytest.approx(frame.iloc[:, :13].to_numpy())
    bad = Database(address="a.db", query="SELECT * FROM beer", label="target")
    with pytest.raises(DataError, match="no such table: beer"):
        bad.plain(tmp_path, RNG)
    with pytest.raises(DataError, match="is an SQLite database; take `kind: sql`"):
        read(tmp_path, "a.db", label="target")


WRITES = (
    "WITH a AS (SELECT 1) DELETE FROM wine RETURNING *",
    "WITH a AS (SELECT 7 AS x) INSERT INTO wine SELECT x, x FROM a RETURNING *",
    "WITH a AS (SELECT 1) DELETE FROM wine WHERE x > 100 RETURNING *",  # finds no row
    "WITH a AS (SELECT 1) UPDATE wine SET x = 0 RETURNING *",
    "SELECT 1; DELETE FROM wine",
)


@pytest.mark.parametrize("query", WRITES)
@pytest.mark.parametrize("beginning", ["", "sqlite:///", "sqlite+pysqlite:///"])
def test_no_query_writes_a_file_of_sqlite(tmp_path: Path, beginning: str, query: str) -> None:
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        connection.execute("CREATE TABLE wine (x, y)")
        connection.executemany("INSERT INTO wine VALUES (?, ?)", [(1, 0), (2, 1)])
        connection.commit()
    before = (tmp_path / "a.db").read_bytes()
    with pytest.raises(DataError, match=r"readonly database|one statement"):
        Database(address=f"{beginning}a.db", query=query, label="y").table(tmp_path)
    assert (tmp_path / "a.db").read_bytes() == before


@pytest.mark.parametrize(
    "address", ["typo.db", "sqlite:///typo.db", "sqlite+pysqlite:///typo.db",
                "sqlite+pysqlite:///file:typo.db?mode=rwc&uri=true", "sqlite://", "sqlite:///",
                "sqlite+pysqlcipher:///typo.db", "duckdb:///typo.db", "mssql+pyodbc://host/a"]
)  # fmt: skip
def test_a_mistyped_address_creates_no_file(tmp_path: Path, address: str) -> None:
    with pytest.raises(DataError) as caught:
        Database(address=address, query="SELECT 1 AS x, 0 AS y", label="y").table(tmp_path)
    assert caught.value.key == "data.address"
    assert not list(tmp_path.iterdir())


class Rows(list[tuple[int, int]]):
    """Stands in for a result of SQLAlchemy."""

    def keys(self) -> list[str]:
        return ["x", "y"]


class Recorder:
    """Stands in for SQLAlchemy's engine, connection and transaction: it notes what is sent."""

    def __init__(self, url: Any) -> None:
        self.sent = list[str]()
        self.dialect = SimpleNamespace(name=url.get_backend_name())

    def connect(self) -> Any:
        return nullcontext(self)

    def begin(self) -> Any:
        self.sent.append("begin")
        return SimpleNamespace(rollback=lambda: self.sent.append("rollback"))

    def execution_options(self, **_: bool) -> Any:
        return self

    def execute(self, statement: object) -> Any:
        self.sent.append(str(statement))
        return Rows([(1, 0), (2, 1)])


@pytest.mark.needs("tables")
@pytest.mark.parametrize("kind", ["postgresql+psycopg", "mysql+pymysql", "mariadb+pymysql",
                                  "oracle+oracledb"])  # fmt: skip
def test_other_databases_are_read_in_a_transaction_that_only_reads(
    monkeypatch: Any, kind: str
) -> None:
    made = list[Recorder]()

    def create_engine(url: Any) -> Recorder:
        made.append(Recorder(url))
        return made[0]

    monkeypatch.setattr("sqlalchemy.create_engine", create_engine)
    source = Database(address=f"{kind}://host/a", query="SELECT x, y FROM a;", label="y")
    assert len(source.table(Path()).frame) == 2
    first, *read_only, query, last = made[0].sent
    assert (first, query, last) == ("begin", "SELECT x, y FROM a", "rollback")
    assert read_only[-1].endswith("TRANSACTION READ ONLY")


@pytest.mark.needs("tables")
@pytest.mark.parametrize(
    ("address", "query", "words"),
    [
        ("postgresql://host/a", "SELECT 1; COMMIT; DELETE FROM a", "semicolon"),
        ("mysql://host/a", "SELECT 1 INTO OUTFILE '/etc/a'", "writes a file"),
        ("mysql://host/a?init_command=DELETE", "SELECT 1", "init_command"),
    ],
)
def test_a_query_that_might_leave_its_transaction_is_refused(
    address: str, query: str, words: str
) -> None:
    with pytest.raises(DataError, match=words):
        Database(address=address, query=query, label="y").table(Path())


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"address": "a.db", "query": "DROP TABLE a"}, "a query that reads"),
        ({"address": "postgresql://me:secret@host/a", "query": "SELECT 1"}, "with a password"),
        (
            {"address": "postgresql://host/a?password=secret", "query": "SELECT 1"},
            "with a password",
        ),
    ],
)
def test_a_database_is_never_written_and_no_password_is_recorded(
    fields: dict[str, str], words: str
) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        Database.model_validate({"label": "y", **fields})
    assert "secret" not in str(caught.value).split("input_value")[0]


def test_a_library_that_is_missing_is_named_with_its_command(monkeypatch: Any) -> None:
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    with pytest.raises(DataError, match=r"takes datasets.*pip install '\.\[hub\]'"):
        Hub(name="a/b", label="y").plain(Path(), RNG)


def test_the_table_with_everything_wrong_is_read_as_it_is_meant(tmp_path: Path) -> None:
    meant = messy.write_wrong(tmp_path / "data.csv")
    fields: dict[str, Any] = {"label": "outcome", "client": "hospital", "drop": ["patient_id"]}
    samples = read(tmp_path, duplicates="drop", **fields)
    described = samples.described
    assert described is not None
    assert [each.role for each in described.features] == ["number", "number", "category", "date"]
    assert samples.X[:, 0] == pytest.approx(meant["Größe"].to_numpy(), nan_ok=True, abs=1e-9)
    assert samples.X[:, 1] == pytest.approx(meant["weight"].to_numpy(), abs=0.006)
    days = (meant["admitted"] - pd.Timestamp("1970-01-01")).dt.days
    assert samples.X[:, 3].tolist() == days.tolist()
    assert described.clients == tuple(sorted(messy.HOSPITALS[:4]))  # not twice as many
    assert samples.y.tolist() == [1.0 if text == "healthy" else -1.0 for text in meant["outcome"]]
    for words in (
        "semicolons, Latin-1", "5 empty rows", "2 repeated rows are left out", "'empty'",
        "'country'", "missing cells: Größe 2, ward 1",
    ):  # fmt: skip
        assert words in notes(samples), words


def test_which_text_is_the_positive_label_can_be_chosen(tmp_path: Path) -> None:
    messy.write_wrong(tmp_path / "data.csv")
    fields: dict[str, Any] = {"label": "outcome", "drop": ["patient_id"]}
    chosen = read(tmp_path, positive="at risk", **fields)
    assert chosen.described is not None
    assert chosen.described.labels == {-1.0: "healthy", 1.0: "at risk"}
    assert (chosen.y == -read(tmp_path, **fields).y).all()
    with pytest.raises(DataError, match="no row has the label 'ill'; the data has 'at risk'"):
        read(tmp_path, positive="ill", **fields)


def expected(frame: pd.DataFrame, train: pd.DataFrame, scaler: Any) -> Array:
    """Return the features of the OpenML-like table by scikit-learn, column by column."""
    numeric, texts = ["credit_amount", "age"], ["checking_status", "purpose", "foreign_worker"]
    known, rows = (
        each[numeric].replace("?", np.nan).astype(float).to_numpy() for each in (train, frame)
    )
    fill = SimpleImputer(strategy="median").fit(known)
    scaler.fit(fill.transform(known))
    old, new = (each[texts].replace("?", np.nan).to_numpy(object) for each in (train, frame))
    frequent = SimpleImputer(strategy="most_frequent").fit(old)
    encoder = OneHotEncoder(
        drop="if_binary",
        min_frequency=0.05,
        sparse_output=False,
        handle_unknown="infrequent_if_exist",
    ).fit(frequent.transform(old))
    encoded = encoder.transform(frequent.transform(new))
    return np.hstack([scaler.transform(fill.transform(rows)), encoded])


@pytest.mark.parametrize(
    ("scale", "scaler"), [("standardise", StandardScaler()), ("unit-range", MinMaxScaler())]
)
def test_features_are_those_of_scikit_learn(scale: str, scaler: Any, tmp_path: Path) -> None:
    frame = messy.openml_like()
    frame.to_csv(tmp_path / "data.csv", index=False)
    source = Table.model_validate(
        {"path": "data.csv", "label": "class", "scale": scale, "rare": 0.05}
    )
    samples = source.plain(tmp_path, RNG)
    train = np.arange(0, 200)
    transform = source.transform_for(samples.take(train))
    assert transform is not None
    found = transform(samples.X)
    assert found == pytest.approx(expected(frame, frame.iloc[train], scaler), abs=1e-12)


def by_client_frame() -> pd.DataFrame:
    return messy.with_hospitals(messy.openml_like(400))


def test_fitted_by_client_each_row_depends_on_its_own_clients_rows(tmp_path: Path) -> None:
    frame = by_client_frame()
    frame.to_csv(tmp_path / "data.csv", index=False)
    source = Table.model_validate(
        {"path": "data.csv", "label": "class", "client": "hospital", "fit": "clients", "rare": 0}
    )
    samples = source.plain(tmp_path, RNG)
    rows = Groups().assign(samples, None, RNG)
    train = [own[: len(own) // 2] for own in rows]
    test = samples.take(np.concatenate([own[len(own) // 2 :] for own in rows]))
    found, tested = source.transform_clients(samples, train, test)
    assert tested is not None
    for client, own in enumerate(train):
        ages = pd.to_numeric(frame["age"].iloc[own], errors="coerce")
        filled = ages.fillna(ages.median()).to_numpy()
        scaled = (filled - filled.mean()) / filled.std()
        assert found.X[own][:, 1] == pytest.approx(scaled, abs=1e-12)
        later = pd.to_numeric(frame["age"].iloc[rows[client][len(own) :]], errors="coerce")
        other = (later.fillna(ages.median()).to_numpy() - filled.mean()) / filled.std()
        assert tested.client is not None
        assert tested.X[tested.client == client][:, 1] == pytest.approx(other, abs=1e-12)


def test_a_client_without_any_value_in_a_column_cannot_fill_its_gaps(tmp_path: Path) -> None:
    frame = by_client_frame()
    frame.loc[frame["hospital"] == "Ulm", ["age", "purpose"]] = "?"
    frame.to_csv(tmp_path / "data.csv", index=False)
    source = Table.model_validate(
        {"path": "data.csv", "label": "class", "client": "hospital", "fit": "clients"}
    )
    samples = source.plain(tmp_path, RNG)
    rows = Groups().assign(samples, None, RNG)
    with pytest.raises(
        DataError, match=r"age of 'Ulm', purpose of 'Ulm'.*`drop: \[age, purpose\]`"
    ):
        source.transform_clients(samples, rows, None)


def scenario(folder: Path, **data: Any) -> dict[str, Any]:
    path = str(folder / "data.csv")
    return {
        "problem": {
            "loss": {"kind": "logistic", "l2": 0.01},
            "data": {"kind": "table", "path": path, "label": "class", "client": "hospital", **data},
            "split": "groups",
            "test": {"fraction": 0.25},
        },
        "algorithm": {"kind": "gd", "step_size": "1/L"},
        "measures": ["test_accuracy"],
        "fleet": [{"count": "data"}],
        "stop": {"rounds": 3},
    }


def test_names_of_clients_reach_the_client_table_and_the_fit_the_manifest(tmp_path: Path) -> None:
    by_client_frame().to_csv(tmp_path / "data.csv", index=False)
    result = fedsim.run(scenario(tmp_path), out=tmp_path / "out")
    assert result.clients["name"].tolist() == sorted(messy.HOSPITALS)
    assert result.clients["client"].iloc[1] == "client-1"
    (manifest,) = (tmp_path / "out").rglob("manifest.json")
    assert "training rows of all clients (data.fit: all)" in manifest.read_text()
    again = fedsim.reprice(tmp_path / "out", ["fleet.0.radio=wifi"], tmp_path / "wifi")
    assert again.clients["name"].tolist() == sorted(messy.HOSPITALS)


def test_clients_held_out_are_prepared_by_what_the_others_fit_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_client_frame().to_csv(tmp_path / "data.csv", index=False)
    fitted: list[int] = []
    original = features.fit_all

    def counted(X: Array, recipe: features.FeatureRecipe) -> Any:
        fitted.append(len(X))
        return original(X, recipe)

    monkeypatch.setattr(features, "fit_all", counted)
    held = scenario(tmp_path)
    held["problem"]["test"] = {"clients": 2}
    (job,) = fedsim.check(held).jobs
    assert fitted == [int(job.problem.rows.sum())]
    assert len(job.problem.naming.clients) == 4


COLUMNS = {
    "patient_id": [f"P{number}" for number in range(40)],
    "remark": [f"came in late on day {number} with a cough" for number in range(40)],
    "size": [*["1.5"] * 39, "tall"],
    "dose": [float(number % 7) for number in range(40)],
    "sick": ["yes", "no"] * 20,
}


def test_all_columns_at_fault_are_named_at_once_with_what_to_write(tmp_path: Path) -> None:
    pd.DataFrame(COLUMNS).to_csv(tmp_path / "data.csv", index=False)
    with pytest.raises(DataError) as caught:
        read(tmp_path, label="sick")
    text = str(caught.value)
    assert text.splitlines()[0] == "3 columns of data.csv cannot be a feature:"
    assert "patient_id: a different text in nearly every row, such as 'P0'" in text
    assert "remark: free text, such as 'came in late on day 0 with a…'" in text
    assert "size: 1 cell is no number: 'tall', first in row 40" in text
    assert "`drop: [patient_id, remark, size]`" in text
    assert "missing_marks" in text
    kept = read(tmp_path, label="sick", drop=["patient_id", "remark"], missing_marks=["tall"])
    assert np.isnan(kept.X[:, 0]).tolist() == [False] * 39 + [True]


def test_leakage_is_warned_of(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    sick = rng.random(80) < 0.5
    frame = pd.DataFrame(
        {
            "age": rng.normal(size=80),
            "code": np.where(sick, "J18", "Z00"),
            "score": sick * 1.0 + rng.random(80) / 2,
            "number": np.arange(80),
            "sick": np.where(sick, "yes", "no"),
        }
    )
    frame.to_csv(tmp_path / "data.csv", index=False)
    said = notes(read(tmp_path, label="sick"))
    assert "leakage: the column 'code' determines the label" in said
    assert "leakage: the column 'score' determines the label" in said
    assert "'age'" not in said
    assert "'number' is left out: a different whole number in every row" in said


def test_a_column_that_is_filled_for_one_class_alone_is_warned_of(tmp_path: Path) -> None:
    """As the lifeboat and the number of the body are, of those on the Titanic."""
    rng = np.random.default_rng(4)
    saved = rng.random(200) < 0.5
    one_in_four = rng.random(200) < 0.25
    frame = pd.DataFrame(
        {
            "boat": np.where(saved, rng.integers(1, 9, 200), np.nan),
            "body": np.where(~saved & one_in_four, rng.integers(1, 300, 200), np.nan),
            "cabin": np.where(one_in_four, rng.integers(1, 9, 200), np.nan),
            "saved": np.where(saved, "yes", "no"),
        }
    )
    frame.to_csv(tmp_path / "data.csv", index=False)
    said = notes(read(tmp_path, label="saved"))
    assert "leakage: the column 'boat' has values in rows of one class alone" in said
    assert "leakage: the column 'body' has values in rows of one class alone" in said
    assert "'cabin' has values" not in said
    frame.loc[frame.index[saved][0], "boat"] = np.nan
    frame.loc[frame.index[~saved][0], "boat"] = 4
    frame.to_csv(tmp_path / "data.csv", index=False)
    said = notes(read(tmp_path, label="saved"))
    assert "'boat' has values in nearly all rows of one class and in nearly none" in said


@pytest.mark.parametrize("name", ["breast_cancer", "iris", "wine_data"])
def test_the_files_that_come_with_scikit_learn_are_read_as_they_are(
    tmp_path: Path, name: str
) -> None:
    """Their first line counts rows and features; iris's has as many cells as its rows."""
    (tmp_path / "data.csv").write_bytes(
        (files("sklearn.datasets.data") / f"{name}.csv").read_bytes()
    )
    whole = getattr(datasets, f"load_{name.removesuffix('_data')}")()
    samples = read(tmp_path, label=whole.data.shape[1] + 1)
    np.testing.assert_array_equal(samples.X, whole.data)
    np.testing.assert_array_equal(samples.y, whole.target)


def test_lines_above_a_table_are_passed_over_and_names_are_not_taken_for_them() -> None:
    text = "Export of 3 May;\n\na;b;c\n1;2;x\n4;5;y\n"
    assert lines_before(text, ";") == ["Export of 3 May;", ""]
    assert lines_before("a,b,c\n1,2,x\n4,5,y\n", ",") == []
    assert lines_before("size,name\n1,2,x\n4,5,y\n", ",") == []  # R's names of columns
    assert lines_before("a\n1\n2\n", ",") == []


@pytest.mark.parametrize(
    ("first", "rows"), [("0,1,2", 2), ("1,2,3", 2), ("a,2,3", 2), ("7,1,2", 3), ("1.5,2,3", 3)]
)
def test_a_first_line_of_numbers_is_a_row_unless_it_numbers_the_columns(
    tmp_path: Path, first: str, rows: int
) -> None:
    (tmp_path / "data.csv").write_text(f"{first}\n3.5,6,1\n2.5,5,0\n")
    samples = read(tmp_path, label=3)
    assert samples.rows == rows


def test_a_first_line_with_decimal_commas_and_thousands_is_a_row(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("1.234;2,5;1\n3.456;6,5;0\n")
    assert read(tmp_path, label=3).rows == 2


def test_two_patients_with_the_same_values_are_not_a_repeated_row(tmp_path: Path) -> None:
    """Their numbers differ; of a row that counts rows nothing follows."""
    frame = pd.DataFrame({"age": [40, 50, 60] * 20, "sick": ["yes", "no", "yes"] * 20})
    patient = np.random.default_rng(5).permutation(9000)[:60] + 1000
    for name, values, repeated in (("patient_id", patient, 0), ("row", np.arange(60), 57)):
        frame.assign(**{name: values}).to_csv(tmp_path / "data.csv", index=False)
        said = notes(read(tmp_path, label="sick"))
        assert (f"{repeated} rows repeat an earlier one" in said) == bool(repeated)


def test_rows_with_gaps_can_be_left_out_and_are_counted(tmp_path: Path) -> None:
    frame = messy.openml_like()
    frame.to_csv(tmp_path / "data.csv", index=False)
    gaps = int((frame == "?").any(axis=1).sum())
    samples = read(tmp_path, label="class", missing="drop-rows")
    assert samples.rows == len(frame) - gaps
    assert f"{gaps} rows with a missing value are left out" in notes(samples)
    assert not np.isnan(samples.X).any()


@every(
    ("names", "pairs"),
    [
        (["Charité", "Charite", "Ulm"], [("Charite", "Charité")]),
        (["St Mary", "St. Mary", "St. Martin"], [("St Mary", "St. Mary")]),
        (["Heidelberg", "Heidelburg"], [("Heidelberg", "Heidelburg")]),
        (["site 1", "site 2", "site 12"], []),
        (["Ward A", "Ward B"], []),
        (["Köln", "Kölln"], []),
    ],
)
def test_near_duplicates_are_those_that_a_reader_would_ask_about(
    names: list[str], pairs: list[tuple[str, str]]
) -> None:
    assert near_duplicates(names) == pairs


def test_near_duplicates_are_listed_and_joined_on_request(tmp_path: Path) -> None:
    frame = by_client_frame()
    frame.loc[:9, "hospital"] = "St Marys"
    frame.to_csv(tmp_path / "data.csv", index=False)
    fields: dict[str, Any] = {"label": "class", "client": "hospital"}
    said = notes(read(tmp_path, **fields))
    assert "near-duplicate names in 'hospital'" in said
    joined = read(tmp_path, rename={"St Marys": "St. Mary's"}, **fields)
    assert joined.described is not None
    assert joined.described.clients == tuple(sorted(messy.HOSPITALS))


def test_parquet_read_as_csv_says_so(tmp_path: Path) -> None:
    wine().to_parquet(tmp_path / "data.csv")
    with pytest.raises(DataError, match="is Parquet, no CSV; take `kind: table`"):
        Csv(path="data.csv", label="target").read(tmp_path, RNG)


def test_the_test_of_labels_keeps_its_level() -> None:
    """Under the hypothesis p is uniform: of 400 draws a twentieth is below 0.05, up to chance."""
    rng = np.random.default_rng(5)
    rows = np.array([60, 80, 100])
    below = 0
    for _ in range(400):
        found = label_test(rng.integers(0, 3, 240).astype(float), rows)
        assert found is not None
        below += found.p < 0.05
    assert abs(below / 400 - 0.05) < 4 * np.sqrt(0.05 * 0.95 / 400)
    apart = label_test(np.repeat([0.0, 1.0, 2.0], rows), rows)
    assert apart is not None
    assert "not iid" in str(apart)


@every(
    ("text", "separator"),
    [("a,b\n1,2\n", ","), ("a\tb\n1\t2\n", "\t"), ("a;b;c\n1,5;2,5;3\n", ";"), ("a|b\n1|2\n", "|"),
     ('x,y\n"a;b",1\n"c;d",2\n', ",")],
)  # fmt: skip
def test_separators_are_found(text: str, separator: str) -> None:
    assert find_separator(text) == separator


@pytest.mark.slow
def test_a_frame_is_data_in_python(tmp_path: Path) -> None:
    frame = by_client_frame()
    frame.to_csv(tmp_path / "data.csv", index=False)
    block = fedsim.table(frame, target="class", client="hospital", missing_marks=["?"])
    given = scenario(tmp_path)
    of_file = fedsim.run(given)
    given["problem"]["data"] = block
    of_frame = fedsim.run(given)
    columns = ["objective", "test_accuracy", "bits_up"]
    assert of_frame.rounds[columns].equals(of_file.rounds[columns])
    frame.loc[0, "age"] = 99  # the frame was copied
    assert fedsim.run(given).rounds[columns].equals(of_frame.rounds[columns])
    with pytest.raises(DataError, match="got a list; expected a pandas DataFrame"):
        fedsim.table([1], target="a")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="no column 'clas'; did you mean 'class'"):
        fedsim.table(frame, target="clas")
    with pytest.raises(DataError, match="fit"):
        fedsim.table(frame, target="class", fit="some")


def test_arrays_take_series_texts_and_names() -> None:
    frame = pd.DataFrame({"a": [1, 2, 3], "b": pd.array([4, 5, 6], dtype="Int64")})
    block = fedsim.arrays(frame, pd.Series(["ill", "well", "ill"]), client=["B ", "A", "B"])
    samples: Samples = block.value("data")
    assert samples.X.tolist() == [[1, 4], [2, 5], [3, 6]]
    assert samples.y.tolist() == [-1, 1, -1]
    assert samples.client is not None
    assert samples.client.tolist() == [1, 0, 1]
    assert samples.described is not None
    assert samples.described.clients == ("A", "B")
    assert block.digest != fedsim.arrays(frame, samples.y, client=samples.client).digest


@every(
    ("given", "words"),
    [
        ({"clients": [0, 1]}, "write client="),
        ({"client": [None, "a"]}, "clients are whole numbers, or texts"),
        ({"y": [None, 1]}, "labels are numbers.* or texts"),
        ({"y": ["a", ""]}, "got ''"),
        ({"X": pd.DataFrame({"a": [1, 2], "ward": ["x", "y"]})}, "texts in the columns ward"),
        ({"X": pd.DataFrame({"a": pd.array([1, None], dtype="Int64")})}, "row 2, column 1"),
    ],
)
def test_what_arrays_cannot_take_is_a_data_error(given: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError, match=words):
        fedsim.arrays(**{"X": [[1.0], [2.0]], "y": [0, 1], **given})


def test_numbers_with_a_mark_for_missing_ones_name_the_mark(tmp_path: Path) -> None:
    rows = [f"{k / 7:.2f}".replace(".", ",") for k in range(90)] + ["k.A."] * 10
    column = column_of(clean(pd.Series(rows, name="lactate"), frozenset()), decimal=None)
    assert column.faulty
    assert column.reason == "10 cells are no number: 'k.A.', first in row 91"
    known = clean(pd.Series(rows, name="lactate"), frozenset({"k.A."}))
    assert column_of(known, decimal=None).role == "number"


@pytest.mark.parametrize("labels", [["x", "y"], [f"{k / 11:.3f}" for k in range(37)]])
def test_a_number_that_is_not_finite_is_named_with_its_column(
    labels: list[str], tmp_path: Path
) -> None:
    """Whether labels are classes or amounts, and without a warning of NumPy."""
    cells = [(k / 7, "inf" if k == 7 else k / 3, labels[k % len(labels)]) for k in range(60)]
    text = "".join(f"{a},{b},{label}\n" for a, b, label in cells)
    (tmp_path / "data.csv").write_text(f"a,b,label\n{text}")
    with pytest.raises(DataError, match=r"the column 'b' is inf in row 8; expected finite"):
        read(tmp_path, label="label")
    kept = read(tmp_path, label="label", missing_marks=["inf"])
    assert isinstance(kept.X, np.ndarray)
    assert np.isfinite(np.delete(kept.X[:, 1], 7)).all()
