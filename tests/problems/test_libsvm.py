"""LIBSVM files: what scikit-learn writes is read back, and what nobody should write is named."""

import bz2
import gzip
import lzma
import tracemalloc
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_array
from sklearn.datasets import dump_svmlight_file

from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.problems import IID, Contiguous, LibSVM, Samples
from fedsim.problems.data import libsvm
from fedsim.problems.data.libsvm import Layout, parse
from tests.tiers import every

PATH = Path("some.svm")
GOOD = b"+1 1:0.5 3:-2\n-1 2:1e-3\n"


def load(folder: Path, name: str, features: int | None = None) -> Samples:
    return LibSVM(path=Path(name), features=features).load(folder, np.random.default_rng(0))


def refusal(content: bytes, features: int | None = None) -> str:
    with pytest.raises(DataError) as caught:
        parse(content, PATH, features)
    assert caught.value.key == "data.path"
    return str(caught.value)


@given(
    X=arrays(
        np.float64,
        st.tuples(st.integers(1, 6), st.integers(1, 5)),
        elements=st.floats(allow_nan=False, allow_infinity=False),
    )
)
def test_numbers_are_read_back_exactly(X: Array) -> None:
    y = np.arange(len(X)) - 1.5
    text = ""
    for label, row in zip(y.tolist(), X.tolist(), strict=True):
        cells = (f"{column}:{value!r}" for column, value in enumerate(row, 1) if value)
        text += " ".join([repr(label), *cells]) + "\n"
    samples = parse(text.encode(), PATH, X.shape[1])
    assert np.array_equal(samples.X, X)
    assert np.array_equal(samples.y, y)
    assert samples.X.flags.c_contiguous


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("name", ["data", "data.gz", "data.bz2", "data.txt"])
def test_compression_goes_by_content_not_by_name(
    name: str, compress: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(compress(GOOD))
    samples = load(tmp_path, name)
    assert samples.X.tolist() == [[0.5, 0, -2], [0, 1e-3, 0]]
    assert samples.y.tolist() == [1, -1]


def test_features_beyond_the_largest_index_are_zero() -> None:
    assert parse(GOOD, PATH, 5).X.shape == (2, 5)


def test_comments_blank_lines_and_empty_rows_are_read() -> None:
    samples = parse(b"# a header\n\n1 1:2 # a remark\r\n\n0\n", PATH)
    assert samples.X.tolist() == [[2], [0]]


@every(
    ("line", "seen"),
    [
        (b"one 1:2", "'one 1:2'"),
        (b"1 1:two", "'1 1:two'"),
        (b"1 1", "'1 1'"),
        (b"1 0:3", "'1 0:3'"),
        (b"1 -4:3", "'1 -4:3'"),
        (b"1 3:1 2:1", "'1 3:1 2:1'"),
        (b"1 2:1 2:1", "'1 2:1 2:1'"),
        (b"1,2,3", "'1,2,3'"),
        (b"1 1:", "'1 1:'"),
        (b"\xff\xfe", r"\xff\xfe"),
        (b"x" * 500, "'" + "x" * 60 + "' ..."),
    ],
)
@every("before", [0, 1, 5, 100])
def test_a_malformed_line_is_named_with_its_number(line: bytes, seen: str, before: int) -> None:
    text = refusal(b"1 1:1\n" * before + line + b"\n" + b"1 1:1\n" * 7)
    assert f"some.svm, line {before + 1}: cannot read" in text
    assert seen in text
    assert "label index:value" in text


def test_the_first_of_several_malformed_lines_is_named() -> None:
    assert "line 2:" in refusal(b"1 1:1\nfirst\n1 1:1\nsecond\nthird\n")


def test_an_index_beyond_the_features_is_named() -> None:
    text = refusal(b"1 1:1\n1 7:1\n1 2:1\n", features=3)
    assert "line 2: cannot read '1 7:1'" in text


@every("damage", [lambda b: b[:-9], lambda b: b[:20] + b"????" + b[24:]])
@every("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_a_damaged_compressed_file_is_refused(
    compress: Callable[[bytes], bytes], damage: Callable[[bytes], bytes]
) -> None:
    assert "damaged or cut off" in refusal(damage(compress(GOOD * 50)))


class TestLayout:
    def test_an_array_too_large_to_be_dense_is_sparse(self) -> None:
        text = b"1 1:1\n" * 10 + b"1 1000000000:1\n"
        samples = parse(text, PATH)
        assert isinstance(samples.X, csr_array)
        assert samples.X.shape == (11, 1000000000)
        assert samples.X.nnz == 11
        with pytest.raises(DataError, match="11 rows of 1000000000 features, 88") as caught:
            parse(text, PATH, layout="dense")
        assert caught.value.key == "data.layout"
        assert "layout: sparse" in str(caught.value)

    @pytest.mark.parametrize(("limit", "dense"), [(48, True), (47, False)])
    def test_the_limit_is_on_bytes(
        self, limit: int, dense: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(libsvm, "DENSE_LIMIT", limit)
        assert isinstance(parse(GOOD, PATH).X, np.ndarray) == dense

    @pytest.mark.parametrize(
        ("features", "small", "dense"),
        [(6, 0, True), (7, 0, False), (7, 8 * 2 * 7, True), (7, 8 * 2 * 7 - 1, False)],
    )
    def test_mostly_zeros_are_sparse_unless_the_array_is_small(
        self, features: int, small: int, dense: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Three of 2 x 6 numbers are a quarter.
        monkeypatch.setattr(libsvm, "SMALL", small)
        assert isinstance(parse(GOOD, PATH, features).X, np.ndarray) == dense

    @given(
        X=arrays(
            np.float64,
            st.tuples(st.integers(1, 6), st.integers(1, 5)),
            elements=st.sampled_from([0.0, 0.0, 1.5, -2.0]),
        )
    )
    def test_both_layouts_hold_the_same_numbers(self, X: Array) -> None:
        file = BytesIO()
        dump_svmlight_file(X, np.arange(len(X)), file, zero_based=False)
        dense, sparse = (
            parse(file.getvalue(), PATH, X.shape[1], layout=layout)
            for layout in get_args(Layout)[1:]
        )
        assert isinstance(dense.X, np.ndarray)
        assert isinstance(sparse.X, csr_array)
        assert np.array_equal(dense.X, sparse.X.toarray())
        assert sparse.X.nnz == np.count_nonzero(X)
        assert sparse.X.has_sorted_indices

    def test_zeros_that_are_written_are_not_stored(self) -> None:
        samples = parse(b"1 1:0 2:3\n-1 1:0\n", PATH, layout="sparse")
        assert isinstance(samples.X, csr_array)
        assert samples.X.nnz == 1

    def test_a_number_that_is_not_finite_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "data").write_bytes(b"1 1:1\n2\n1 1:1 7:nan\n")
        source = LibSVM(path=Path("data"), layout="sparse")
        with pytest.raises(DataError, match=r"row 3, column 7 .*nan"):
            source.load(tmp_path, np.random.default_rng(0))

    @pytest.mark.slow
    def test_memory_is_of_the_order_of_the_non_zeros(self, tmp_path: Path) -> None:
        # A tenth of rcv1: as a dense array it would take 756 MB.
        rows, features, each = 2000, 47236, 74
        rng = np.random.default_rng(0)
        with (tmp_path / "like-rcv1").open("w") as file:
            for row in range(rows):
                places = np.sort(rng.choice(features, each, replace=False)) + 1
                cells = " ".join(f"{place}:0.1" for place in places.tolist())
                file.write(f"{row % 2} {cells}\n")
        tracemalloc.start()
        samples = LibSVM(path=Path("like-rcv1"), features=features).load(tmp_path, rng)
        parts = [samples.take(own) for own in IID(clients=20).assign(samples, None, rng)]
        blocks = [samples.take(own) for own in Contiguous(clients=20).assign(samples, None, rng)]
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert sum(part.X.nnz for part in parts) == rows * each  # type: ignore[union-attr]
        assert sum(part.X.nnz for part in blocks) == rows * each  # type: ignore[union-attr]
        assert peak < 80 * rows * each  # bytes; a stored number takes 12


@pytest.mark.parametrize("content", [b"", b"\n\n", b"# nothing\n"])
def test_a_file_without_rows_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(content)
    with pytest.raises(DataError, match="at least one row"):
        load(tmp_path, "empty")


@pytest.mark.parametrize(("value", "column"), [(b"nan", 2), (b"inf", 2), (b"-inf", 2)])
def test_a_number_that_is_not_finite_is_named(value: bytes, column: int, tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"1 1:1\n1 2:" + value + b"\n")
    with pytest.raises(DataError, match=f"row 2, column {column} .*{value.decode()}"):
        load(tmp_path, "data")


def test_a_missing_file_is_named_with_its_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot read .*nowhere\.svm: No such file") as caught:
        load(tmp_path, "nowhere.svm")
    assert str(tmp_path / "nowhere.svm") in str(caught.value)


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot read"):
        load(tmp_path, ".")


def test_what_scikit_learn_writes_is_read_back(rng: np.random.Generator) -> None:
    file, X = BytesIO(), np.round(rng.standard_normal((20, 7)), 3) * (rng.random((20, 7)) < 0.5)
    dump_svmlight_file(X, X[:, 0], file, zero_based=False, comment="two\nlines")
    samples = parse(file.getvalue(), PATH, 7)
    assert np.array_equal(samples.X, X)
    assert np.array_equal(samples.y, X[:, 0])


@given(content=st.binary(max_size=60) | st.text("01:. -e#qid\n", max_size=30).map(str.encode))
@example(b"1 99999999999999999999:1\n")
@example(b"1 qid:x 1:1\n")
@example(b"BZh")
@example(b"\x1f\x8b")
def test_whatever_is_in_a_file_it_is_read_or_refused(content: bytes) -> None:
    try:
        samples = parse(content, PATH)
    except DataError as refused:
        text = str(refused)
    else:
        text = f"some.svm has {samples.rows} rows"
    assert "some.svm" in text


def test_a_refused_line_is_told_in_a_few_words(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1 1:" + b"[" * 10_000)
    with pytest.raises(DataError) as caught:
        LibSVM(path=Path("a")).read(tmp_path, np.random.default_rng(0))
    assert len(str(caught.value)) < 600
