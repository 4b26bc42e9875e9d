"""The sets of the catalogue: what is said of each, and that the real files are those meant."""

from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from fedsim.core.errors import DataError
from fedsim.problems import ENTRIES, Catalogue, fetch
from fedsim.problems.data import Divide, Entry, find
from tests.tiers import every


class TestFemnist:
    """A set that a user makes: nothing is downloaded, and it is said how to make it."""

    def test_how_to_make_it_is_said(self) -> None:
        source = Catalogue(name="femnist")
        assert not source.fetchable
        with pytest.raises(DataError, match=r"femnist\.npz.*LEAF.*client \(n,\)"):
            source.load(Path(), np.random.default_rng(0))
        with pytest.raises(DataError, match="cannot be downloaded: LEAF"):
            fetch("femnist")

    @pytest.mark.parametrize(("features", "right"), [(784, True), (28, False)])
    def test_a_file_of_the_users_own_is_read(
        self, features: int, right: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FEDSIM_DATA", str(tmp_path))
        X, client = np.ones((3, features)), np.array([5, 5, 9])
        np.savez(tmp_path / "femnist.npz", X=X, y=np.arange(3), client=client)
        source = Catalogue(name="femnist")
        if right:
            samples = source.load(Path(), np.random.default_rng(0))
            assert samples.client is not None
            assert samples.client.tolist() == [5, 5, 9]
        else:
            with pytest.raises(DataError, match="it is 3 x 28, that of the catalogue any x 784"):
                source.load(Path(), np.random.default_rng(0))

    def test_the_rows_of_some_classes_are_kept(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FEDSIM_DATA", str(tmp_path))
        X, client = np.arange(5.0)[:, None] * np.ones(784), np.array([5, 5, 9, 9, 9])
        np.savez(tmp_path / "femnist.npz", X=X, y=np.array([0, 61, 3, 0, 12]), client=client)
        samples = Catalogue(name="femnist", classes=[0, 3]).load(Path(), np.random.default_rng(0))
        assert samples.y.tolist() == [0, 3, 0]
        assert samples.X[:, 7].tolist() == [0, 2, 3]
        assert samples.client is not None
        assert samples.client.tolist() == [5, 9, 9]
        with pytest.raises(DataError, match=r"no row of femnist has the label 7; .* from 0 to 61"):
            Catalogue(name="femnist", classes=[0, 7]).load(Path(), np.random.default_rng(0))


@every(("name", "entry"), ENTRIES.items())
def test_entries_say_where_files_are_and_who_made_them(name: str, entry: Entry) -> None:
    assert bool(entry.download) != bool(entry.made)
    assert len(entry.origin) > 10
    for file in entry.files:
        assert not file.address or file.address.startswith("https://")
        assert not file.address or file.address.endswith(f"/{file.name}")
        kind, _, digest = file.known.partition(":")
        assert not kind or len(digest) == {"sha256": 64, "md5": 32}[kind]
    assert {*entry.parts} <= {"train", "test"}
    for rows in entry.parts.values():
        assert not rows.labels or sum(rows.labels.values()) == rows.shape[0]
        classes = [*(rows.labels or ())]
        assert classes in ([], [-1, 1], [*range(len(classes))])
    assert name in Catalogue.model_fields["name"].description  # type: ignore[operator]


def test_files_of_mnist_are_as_long_as_the_page_of_its_authors_says() -> None:
    sizes = {file.name.partition(".")[0]: file.size for file in ENTRIES["mnist"].files}
    assert sizes == {
        "train-images-idx3-ubyte": 9912422,
        "train-labels-idx1-ubyte": 28881,
        "t10k-images-idx3-ubyte": 1648877,
        "t10k-labels-idx1-ubyte": 4542,
    }


def test_a_part_that_a_set_does_not_have_is_refused() -> None:
    with pytest.raises(ValidationError, match="rcv1 has no part 'test'; it has train"):
        Catalogue(name="rcv1", part="test")


def test_the_real_ijcnn1_is_as_published(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDSIM_DATA", str(data_folder))
    samples = Catalogue(name="ijcnn1").load(Path(), np.random.default_rng(0))
    assert isinstance(samples.X, np.ndarray)
    assert samples.X.shape == (49990, 22)
    labels, counts = np.unique(samples.y, return_counts=True)
    assert dict(zip(labels, counts, strict=True)) == {-1.0: 45137, 1.0: 4853}
    # The first row of the file as it is printed: 6:1 11:-0.731854 ... 22:-0.00081.
    assert samples.X[0, [5, 10, 21, 0]].tolist() == [1, -0.731854, -0.00081, 0]


def test_the_real_mnist_is_as_published(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (data_folder / "mnist").is_dir():
        pytest.skip(f"no mnist in {data_folder}")
    monkeypatch.setenv("FEDSIM_DATA", str(data_folder))
    source = Catalogue(name="mnist", part="test", preprocess=(Divide(divide=255),))
    samples = source.load(Path(), np.random.default_rng(0))
    assert isinstance(samples.X, np.ndarray)
    assert samples.X.shape == (10000, 784)
    assert (samples.X.min(), samples.X.max()) == (0, 1)
    assert samples.y[:10].tolist() == [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]
    assert [path.name for path in find("mnist")] == [
        "train-images-idx3-ubyte.gz",
        "train-labels-idx1-ubyte.gz",
    ]
