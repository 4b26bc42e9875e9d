"""CSV files: what pandas writes is read back, and what is not a table of numbers is named."""

import bz2
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import fedsim
from fedsim.core.errors import DataError, ScenarioError
from fedsim.core.ports import Array
from fedsim.problems import Groups, Samples
from fedsim.problems.data import Csv
from tests.runs import small
from tests.tiers import every

TEXT = "height,weight,sick\n1.5,60,0\n1.75,81.5,1\n"


def load(folder: Path, content: str | bytes, **fields: Any) -> Samples:
    path = folder / "data.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    source = Csv.model_validate({"path": path.name, **fields})
    return source.load(folder, np.random.default_rng(0))


@pytest.mark.parametrize("label", ["sick", 3])
def test_labels_are_a_column_by_name_or_number(label: str | int, tmp_path: Path) -> None:
    samples = load(tmp_path, TEXT, label=label)
    assert samples.X.tolist() == [[1.5, 60], [1.75, 81.5]]
    assert samples.y.tolist() == [0, 1]
    assert samples.client is None


def test_labels_may_stand_first_or_in_the_middle(tmp_path: Path) -> None:
    assert load(tmp_path, TEXT, label=1).X.tolist() == [[60, 0], [81.5, 1]]
    assert load(tmp_path, TEXT, label="weight").X.tolist() == [[1.5, 0], [1.75, 1]]


def test_without_a_header_the_first_line_is_a_row(tmp_path: Path) -> None:
    samples = load(tmp_path, "1;2;3\n4;5;6\n", label=2, header=False, separator=";")
    assert samples.X.tolist() == [[1, 3], [4, 6]]
    assert samples.y.tolist() == [2, 5]


def test_compression_goes_by_content(tmp_path: Path) -> None:
    assert load(tmp_path, bz2.compress(TEXT.encode()), label="sick").rows == 2


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    X=arrays(
        np.float64,
        st.tuples(st.integers(1, 5), st.integers(2, 4)),
        elements=st.floats(-1e150, 1e150),  # beyond, the sum of their squares is infinite
    )
)
def test_what_pandas_writes_is_read_back_exactly(X: Array, tmp_path: Path) -> None:
    samples = load(tmp_path, pd.DataFrame(X).to_csv(index=False), label=1)
    assert np.array_equal(samples.X, X[:, 1:])
    assert np.array_equal(samples.y, X[:, 0])


@pytest.mark.parametrize(
    ("writers", "numbers"),
    [(["bo", "al", "bo"], [1, 0, 1]), (["10", "9", "10"], [1, 0, 1]), (["1", "x", "2"], [0, 2, 1])],
)
def test_rows_may_say_whose_they_are(
    writers: list[str], numbers: list[int], tmp_path: Path
) -> None:
    lines = [f"{row},{writer},{row}.5" for row, writer in enumerate(writers)]
    samples = load(tmp_path, "\n".join(["y,who,a", *lines]), label="y", client="who")
    assert samples.client is not None
    assert samples.client.tolist() == numbers
    assert samples.X.tolist() == [[0.5], [1.5], [2.5]]
    parts = Groups().assign(samples, None, np.random.default_rng(0))
    assert len(parts) == len(set(writers))


@pytest.mark.parametrize(
    ("content", "fields", "key", "words"),
    [
        (TEXT, {"label": "ill"}, "data.label", ["no column 'ill'", "3 (height, weight, sick)"]),
        (TEXT, {"label": 4}, "data.label", ["no column 4"]),
        (TEXT, {"label": 0}, "data.label", ["no column 0"]),
        (TEXT, {"label": 1, "header": False}, "data.path", ["row 1 ", "'weight' in column 2"]),
        (TEXT, {"label": "sick", "header": False}, "data.label", ["no header that names"]),
        (TEXT, {"label": 3, "client": "who"}, "data.client", ["no column 'who'"]),
        ("a,b\n1,2\n3,four\n", {"label": "a"}, "data.path", ["row 2 ", "'four'", "column 2 (b)"]),
        ("a,b\n1,2\nx,4\n", {"label": "a"}, "data.path", ["row 2 ", "'x'", "column 1 (a)"]),
        ("a,b\n1,2\n3\n", {"label": "a"}, "data.path", ["row 2 ", "nothing in column 2"]),
        ("a,b\n1,2,3\n4,5,6\n", {"label": "a"}, "data.path", ["not a table"]),
        ("a,b\n1,2\n3,4,5\n", {"label": "a"}, "data.path", ["not a table", "line 3"]),
        ("", {"label": "a"}, "data.path", ["is empty"]),
        ("a,b\n", {"label": "a"}, "data", ["at least one row"]),
        ("a\n1\n", {"label": "a"}, "data", ["1 x 0"]),
        ("a,b\n1,inf\n", {"label": "a"}, "data", ["row 1, column 1", "inf"]),
        (f"a,b\n1,2\n3,{'9' * 400}\n", {"label": "a"}, "data", ["row 2, column 1", "inf"]),
        ("a,b,c\n1,2,\n", {"label": "a", "client": 3}, "data.client", ["row 1 ", "no client"]),
        (b"\xff\xfe\x00", {"label": 1}, "data.path", ["not a table"]),
    ],
)
def test_what_is_not_a_table_of_numbers_is_refused(
    content: str | bytes, fields: dict[str, Any], key: str, words: list[str], tmp_path: Path
) -> None:
    with pytest.raises(DataError) as caught:
        load(tmp_path, content, **fields)
    assert caught.value.key == key
    assert all(word in str(caught.value) for word in words), str(caught.value)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=40) | st.text('01.,-"ex\n\r', max_size=40).map(str.encode))
def test_whatever_is_in_a_file_it_is_read_or_refused(content: bytes, tmp_path: Path) -> None:
    with suppress(DataError):
        assert load(tmp_path, content, label=1).rows


def test_all_columns_at_fault_are_named_with_the_kind_that_reads_them(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        load(tmp_path, "id,ward,age,y\nP1,a,3,0\nP2,b,,1\n", label="y")
    text = str(caught.value)
    assert text.startswith("3 columns of ")
    for words in ("'P1' in column 1 (id)", "'a' in column 2 (ward)", "nothing in column 3 (age)"):
        assert words in text
    assert "`kind: table` reads texts" in text


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (
            b"a;b;label\n1,5;2,5;1\n2,5;3,5;0\n",
            (
                "values separated by commas: some rows have more values than the first line;"
                " semicolons separate them; `kind: table` reads texts"
            ),
        ),
        (
            "a,Größe,label\n1,2,0\n".encode("latin-1"),
            "is not a table in UTF-8; `kind: table` reads",
        ),
    ],
)
def test_what_is_wrong_is_said_in_words_of_the_scenario(
    content: bytes, text: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError) as caught:
        load(tmp_path, content, label="label")
    assert text in str(caught.value)


@every("kind", ["parquet", "XLSX", "excel", "feather", "tsv", "jsonl"])
def test_kinds_of_files_without_a_block_of_their_own_lead_to_tables(kind: str) -> None:
    data = {"kind": kind, "path": f"rows.{kind}", "label": "y"}
    with pytest.raises(ScenarioError, match=r"did you mean 'table'\?"):
        fedsim.run(small(problem={"loss": {"kind": "logistic"}, "data": data}))


@pytest.mark.parametrize("cells", ["1,2", "x,2", "1", '"'])
def test_a_column_is_named_in_a_few_letters(cells: str, tmp_path: Path) -> None:
    long = "n" * 50_000
    for names in (f"{long},y", f"{long},{long}", long):
        (tmp_path / "a").write_text(f"{names}\n{cells}\n", encoding="utf-8")
        for label in ("y", "z", 2) if cells != "1,2" else ("z",):
            with pytest.raises(DataError) as refused:
                Csv(path=Path("a"), label=label).load(tmp_path, np.random.default_rng(0))
            assert len(str(refused.value)) < 1000
