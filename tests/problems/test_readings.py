"""How cells are read that could be read otherwise: gaps and words, decimals and thousands."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim.cli.from_table import notes as notes_of_init
from fedsim.cli.from_table import scenario_text
from fedsim.core.errors import DataError
from fedsim.problems.data.table import Table
from fedsim.problems.samples import Samples
from fedsim.problems.tables.guess import guess
from fedsim.running.check import preflight_notes
from fedsim.scenario import load
from fedsim.scenario.building import Builder
from tests.tiers import every

ROWS = 40
WRITERS = {
    "t.csv": lambda frame, path: frame.to_csv(path, index=False),
    "t.parquet": lambda frame, path: frame.to_parquet(path),
    "t.xlsx": lambda frame, path: frame.to_excel(path, index=False),
    "t.jsonl": lambda frame, path: frame.to_json(path, orient="records", lines=True),
}
FORMATS = [
    pytest.param(name, marks=[pytest.mark.needs("tables")] if name == "t.xlsx" else [])
    for name in WRITERS
]


def read(folder: Path, **keys: Any) -> Samples:
    return Table(label="y", **keys).read(folder, np.random.default_rng(0))


def notes(samples: Samples) -> str:
    assert samples.described is not None
    return "\n".join(samples.described.notes)


def table(**columns: list[object]) -> pd.DataFrame:
    """Return a frame of 40 rows in which columns repeat, with a number and a label."""
    given = {name: (values * ROWS)[:ROWS] for name, values in columns.items()}
    return pd.DataFrame({**given, "b": np.arange(ROWS) ** 2 % 7 / 3, "y": [0, 1] * (ROWS // 2)})


def written(folder: Path, name: str, frame: pd.DataFrame) -> str:
    WRITERS[name](frame, folder / name)
    return name


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("cells", [[-999, 20, 21, 22], [-999.0, 20.5, 21.25, 22.0]])
def test_a_mark_is_a_gap_among_numbers_in_every_format(
    name: str, cells: list[object], tmp_path: Path
) -> None:
    path = written(tmp_path, name, table(t=cells))
    samples = read(tmp_path, path=path, missing_marks=["-999", "k.A."])
    assert np.isnan(np.asarray(samples.X)[::4, 0]).all()
    assert not np.isnan(np.asarray(samples.X)[1::4, 0]).any()
    assert "missing_marks: no cell of the table is 'k.A.'" in notes(samples)
    assert "is '-999'" not in notes(samples)


@pytest.mark.parametrize("name", FORMATS)
def test_a_mark_of_the_label_leaves_its_rows_out(name: str, tmp_path: Path) -> None:
    frame = table(t=[1, 2, 3, 4, 5])
    frame.loc[:4, "y"] = -1
    samples = read(tmp_path, path=written(tmp_path, name, frame), missing_marks=["-1"])
    assert set(samples.y) == {0, 1}
    assert samples.rows == ROWS - 5


def test_a_word_of_a_text_file_is_a_gap_and_said_so_unless_it_is_kept(tmp_path: Path) -> None:
    cells: list[object] = ["NA", "NL", "NO", "DE", "None"]
    path = written(tmp_path, "t.csv", table(country=cells, t=[1, 2, "NA", 4]))
    taken = read(tmp_path, path=path, client="country")
    assert taken.described is not None
    assert taken.described.clients == ("DE", "NL", "NO")
    for word in ("NA", "None"):
        assert f"cells of {word!r} are taken for missing values: country (8)" in notes(taken)
    kept = read(tmp_path, path=path, client="country", not_missing=["NA", "None", "x"])
    assert kept.described is not None
    assert kept.described.clients == ("DE", "NA", "NL", "NO", "None")
    assert "not_missing: no cell of the table is 'x'" in notes(kept)
    assert np.isnan(np.asarray(kept.X)[2::4, 0]).all(), "among numbers it is a gap in any case"


def test_where_gaps_are_known_words_are_values_and_said_so(tmp_path: Path) -> None:
    frame = table(service=["-", "dns", None, "http"])
    path = written(tmp_path, "t.parquet", frame)
    samples = read(tmp_path, path=path)
    assert samples.described is not None
    assert samples.described.features[0].texts == ("-", "dns", "http")
    assert np.isnan(np.asarray(samples.X)[2::4, 0]).all()
    assert "cells of '-' are values, as this table marks missing cells itself: " in notes(samples)
    marked = read(tmp_path, path=path, missing_marks=["-"])
    assert np.isnan(np.asarray(marked.X)[::2, 0]).all()
    block = fedsim.table(frame, target="y")
    of_frame = block.read(tmp_path, np.random.default_rng(0))
    assert np.array_equal(np.asarray(of_frame.X), np.asarray(samples.X), equal_nan=True)


@pytest.mark.parametrize(
    ("first", "other", "read_as"),
    [
        (["950", "1.188", "12.500"], ["0,09", "1,25"], [950, 1188, 12500]),
        (["950", "1,188", "12,500"], ["0.09", "1.25"], [950, 1188, 12500]),
        (["950", "1.188", "12.500"], ["0.09", "1.25"], [950, 1.188, 12.5]),
        (["950", "1,188", "12,500"], ["0,09", "1,25"], [950, 1.188, 12.5]),
        (["950", "1.188", "1.234.567"], ["7", "8"], [950, 1188, 1234567]),
        (["950", "1.188", "12.500"], ["7", "8"], [950, 1.188, 12.5]),
    ],
)
@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.jsonl"])
def test_one_column_settles_the_decimal_sign_of_all(
    name: str, first: list[object], other: list[object], read_as: list[float], tmp_path: Path
) -> None:
    frame = table(a=first, c=other).drop(columns="b")
    if name == "t.csv":
        frame.to_csv(tmp_path / name, index=False, sep=";")
    else:
        written(tmp_path, name, frame)
    samples = read(tmp_path, path=name)
    assert np.asarray(samples.X)[:3, 0].tolist() == read_as
    doubtful = other == ["7", "8"] and 1188 not in read_as
    assert ("1188 would be possible, too; `decimal` says which" in notes(samples)) == doubtful
    settled = 1188 in read_as and other != ["7", "8"]
    assert ("is read as 1188, since the column 'c' has" in notes(samples)) == settled
    for decimal in ".,":
        given = (
            read(tmp_path, path=name, decimal=decimal)
            if decimal in "".join(map(str, other))
            else samples
        )
        assert np.array_equal(np.asarray(given.X), np.asarray(samples.X))


def test_readings_are_notes_of_the_run_and_of_init(tmp_path: Path) -> None:
    path = tmp_path / written(tmp_path, "t.csv", table(country=["NA", "NL", "NO", "DE"]))
    data = {"kind": "table", "path": str(path), "label": "y", "client": "country"}
    plan = load({
        "problem": {"loss": {"kind": "logistic", "labels": "plus-minus"}, "data": data,
                    "split": "groups"},
        "algorithm": {"kind": "gd", "step_size": "1/L"},
        "stop": {"rounds": 2},
    })  # fmt: skip
    said = [
        note.text for note in preflight_notes(Builder(plan).check()) if note.key == "problem.data"
    ]
    assert any("cells of 'NA' are taken for missing values: " in text for text in said)
    assert any("10 rows without a client" in text for text in said)
    assert any("cells of 'NA' are" in text for text in notes_of_init(guess(path)))


@pytest.mark.parametrize("cells", [["a"], ["a", "b"], [1]])
def test_a_column_of_categories_may_have_one_alone(cells: list[object], tmp_path: Path) -> None:
    frame = table(c=cells, t=[1, 2, 3, 5]).astype({"c": "category"})
    plain = frame.astype({"c": object})
    one, other = (
        np.asarray(fedsim.table(each, target="y").read(tmp_path, np.random.default_rng(0)).X)
        for each in (frame, plain)
    )
    assert np.array_equal(one, other)


def test_a_number_is_a_name_first_and_refused_where_it_counts_another_column() -> None:
    frame = table(t=[1, 2, 3, 5])
    frame.columns = pd.Index([10, 20, 30])
    assert fedsim.table(frame, target=30).read(Path(), np.random.default_rng(0)).rows == ROWS
    assert fedsim.table(frame, target=3).read(Path(), np.random.default_rng(0)).rows == ROWS
    frame.columns = pd.Index([0, 1, 2])
    with pytest.raises(DataError, match="the name of column 3 of the table and the number of") as e:
        fedsim.table(frame, target=2)
    assert "'2' or '1'" in str(e.value)
    assert fedsim.table(frame, target="2").read(Path(), np.random.default_rng(0)).rows == ROWS


def test_pandas_rows_are_paired_only_where_their_indices_agree() -> None:
    X = pd.DataFrame({"a": [0.5, 2, 1], "b": [1, 3, 2.5]})
    y = pd.Series([1.0, 0.0, 0.0], index=[1, 2, 0])
    with pytest.raises(DataError, match=r"rows are paired by their place; give y\.loc"):
        fedsim.arrays(X, y)
    with pytest.raises(DataError, match="client 1, 2, 0"):
        fedsim.arrays(X, [0.0, 1.0, 0.0], pd.Series([0, 1, 1], index=y.index))
    aligned = fedsim.arrays(X, y.loc[X.index]).read(Path(), np.random.default_rng(0))
    assert aligned.y.tolist() == [0, 1, 0]
    for rows, labels in ((X.to_numpy(), y), (X, y.to_numpy())):
        by_place = fedsim.arrays(rows, labels).read(Path(), np.random.default_rng(0))
        assert by_place.y.tolist() == [1, 0, 0]


@every(
    "kind",
    ["bool", "uint8", "int16", "uint16", "int32", "uint32", "float16", "float32", "float64"],
)
def test_arrays_keep_each_number_of_their_type(kind: str) -> None:
    finest = 1 if kind == "bool" else 1 + np.finfo(kind).eps if "f" in kind else np.iinfo(kind).max
    X = np.array([[finest, 1], [0, 1]], dtype=kind)
    read = fedsim.arrays(X, [0.0, 1.0]).read(Path(), np.random.default_rng(0))
    assert np.array_equal(read.X, X)


@pytest.mark.parametrize(
    "form",
    ["%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S+00:00", "%Y-%m-%dT%H:%M:%S.250Z", "%Y-%m-%dT%H:%M"],
)
def test_dates_with_z_offsets_and_fractions_are_days_of_utc(form: str, tmp_path: Path) -> None:
    days = pd.date_range("2021-03-01 05:30", periods=ROWS, freq="7h")
    path = written(tmp_path, "t.csv", table(d=list(days.strftime(form))))
    found = np.asarray(read(tmp_path, path=path).X)[:, 0] * 86400
    late = 0.25 if ".250" in form else 0.0
    exact = (days - pd.Timestamp("1970-01-01")).total_seconds().to_numpy() + late
    assert found == pytest.approx(exact, abs=1e-4)


def test_offsets_that_change_within_a_column_are_taken_into_account(tmp_path: Path) -> None:
    texts = ["2021-03-28T01:30:00+01:00", "2021-03-28T03:30:00+02:00"]
    path = written(tmp_path, "t.csv", table(d=[*texts]))
    found = np.asarray(read(tmp_path, path=path).X)[:2, 0]
    assert (found[1] - found[0]) * 24 == pytest.approx(1.0, abs=1e-6)


ADULT = ["39,State-gov,Bachelors,0", "50,Private,HS-grad,1", "38,Private,Bachelors,0"]


def test_a_first_line_that_is_like_the_rest_is_a_row(tmp_path: Path) -> None:
    lines = [*ADULT, "41,State-gov,HS-grad,1", "28,Private,HS-grad,1", "45,Private,Bachelors,0"]
    path = tmp_path / "adult.data"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    keys: dict[str, Any] = {"path": "adult.data", "label": 4, "kind": "table"}
    samples = Table(**keys).read(tmp_path, np.random.default_rng(0))
    assert samples.rows == len(lines)
    assert "no line of names" in notes(samples)
    named = Table(**keys, header=True).read(tmp_path, np.random.default_rng(0))
    assert named.rows == len(lines) - 1
    for head in ("age,work,school,y", "39,State-gov,school,0", "age,State-gov,HS-grad,0"):
        path.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
        with_names = Table(**keys).read(tmp_path, np.random.default_rng(0))
        assert with_names.rows == len(lines), head


def test_init_takes_whether_there_is_a_line_of_names(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("\n".join(["1,x,0", *[f"{n * n},{'ab'[n % 2]},{n % 2}" for n in range(2, 30)]]))
    seen = guess(path, label="3", header=False)
    assert seen.samples.rows == 29
    assert "header: false" in scenario_text(seen, path, tmp_path)
    assert "header" not in scenario_text(guess(path), path, tmp_path)


def test_blanks_separate_cells_where_nothing_else_does(tmp_path: Path) -> None:
    rows = [f" {n / 8:7.3f}  {n % 5:2d}   {'ab'[n % 2]} {n % 2}" for n in range(1, ROWS)]
    (tmp_path / "auto.data").write_text("\n".join(rows) + "\n", encoding="utf-8")
    keys: dict[str, Any] = {"kind": "table", "path": "auto.data", "label": 4}
    samples = Table(**keys).read(tmp_path, np.random.default_rng(0))
    assert samples.rows == ROWS - 1
    assert np.allclose(np.asarray(samples.X)[:, 0], np.arange(1, ROWS) / 8, atol=1e-3)
    assert "separated by blanks" in notes(samples)
    assert Table(**keys, separator=" ").read(tmp_path, np.random.default_rng(0)).rows == ROWS - 1


def test_the_texts_of_the_label_have_the_numbers_that_are_given(tmp_path: Path) -> None:
    frame = table(t=[1, 2, 3, 5, 8]).assign(y=["good", "bad", "good", "worse"] * (ROWS // 4))
    path = written(tmp_path, "t.csv", frame)
    classes = {"good": -1, "bad": 1, "worse": 1}
    samples = read(tmp_path, path=path, classes=classes)
    assert samples.y[:4].tolist() == [-1, 1, -1, 1]
    assert samples.described is not None
    assert samples.described.labels == {-1.0: "good", 1.0: "bad or worse"}
    source = Table(path=path, label="y", classes=classes)
    tested = source.plain_like(tmp_path, np.random.default_rng(0), samples)
    assert np.array_equal(tested.y, samples.y)
    unknown = r"gives .worse. no number; the label .y. of t\.csv has .bad."
    with pytest.raises(DataError, match=unknown):
        read(tmp_path, path=path, classes={"good": -1, "bad": 1})
    with pytest.raises(DataError, match="has 'best', as no row"):
        read(tmp_path, path=path, classes={**classes, "best": 2})
    with pytest.raises(ValueError, match="give one of them"):
        Table(path=path, label="y", classes=classes, positive="bad")


def test_numbers_of_classes_are_numbered_anew(tmp_path: Path) -> None:
    frame = table(t=[1, 2, 3, 5, 8]).assign(y=[1, 2] * (ROWS // 2))
    path = written(tmp_path, "t.parquet", frame)
    samples = read(tmp_path, path=path, classes={1: -1, "2": 1})
    assert samples.y[:2].tolist() == [-1, 1]
