"""The catalogue: where a set is looked for, that it is the right one, and how it is fetched."""

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from fedsim.errors import DataError
from fedsim.problems import ENTRIES, Catalogue, Samples, fetch

CONTENT = b"1 1:0.5\n-1 2:2\n"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as declared there
        pass


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A server on this machine, in the place of the public one."""
    folder = tmp_path / "public"
    folder.mkdir()
    (folder / "tiny.svm").write_bytes(CONTENT)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/tiny.svm"
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Put a tiny set in the place of ijcnn1, except where the real one is asked for."""
    if "data_folder" in request.fixturenames:
        return
    entry = replace(
        ENTRIES["ijcnn1"],
        file="tiny.svm",
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        size=len(CONTENT),
        shape=(2, 2),
    )
    monkeypatch.setitem(ENTRIES, "ijcnn1", entry)


def load() -> Samples:
    return Catalogue(name="ijcnn1").load(Path("unused"), np.random.default_rng(0))


def refusal() -> str:
    with pytest.raises(DataError) as caught:
        load()
    assert caught.value.key == "data.name"
    return str(caught.value)


@pytest.mark.parametrize("place", ["tiny.svm", "ijcnn1/tiny.svm"])
def test_a_copy_in_the_users_folder_is_found(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mine" / place
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT)
    monkeypatch.setenv("FEDSIM_DATA", str(tmp_path / "mine"))
    assert load().X.tolist() == [[0.5, 0], [0, 2]]


def test_a_fetched_copy_is_found(cache: Path) -> None:
    (cache / "data").mkdir(parents=True)
    (cache / "data" / "tiny.svm").write_bytes(CONTENT)
    assert load().y.tolist() == [1, -1]


def test_the_users_folder_comes_first(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cache / "data").mkdir(parents=True)
    (cache / "data" / "tiny.svm").write_bytes(b"something else")
    (tmp_path / "tiny.svm").write_bytes(CONTENT)
    monkeypatch.setenv("FEDSIM_DATA", str(tmp_path))
    assert load().rows == 2


def test_where_it_was_looked_for_and_how_to_get_it_is_said(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "FEDSIM_DATA is not set" in refusal()
    monkeypatch.setenv("FEDSIM_DATA", str(tmp_path / "mine"))
    text = refusal()
    for place in ("mine/tiny.svm", "mine/ijcnn1/tiny.svm"):
        assert str(tmp_path / place) in text
    assert str(cache / "data" / "tiny.svm") in text
    assert "`fedsim fetch ijcnn1`" in text
    assert ENTRIES["ijcnn1"].address in text


def test_another_file_of_that_name_is_refused_with_both_checksums(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tiny.svm").write_bytes(b"1 1:0.5\n-1 2:3\n")
    monkeypatch.setenv("FEDSIM_DATA", str(tmp_path))
    text = refusal()
    assert hashlib.sha256(b"1 1:0.5\n-1 2:3\n").hexdigest() in text
    assert ENTRIES["ijcnn1"].sha256 in text


def test_fetching_puts_a_set_where_it_is_found(
    address: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ENTRIES, "ijcnn1", replace(ENTRIES["ijcnn1"], address=address))
    assert fetch("ijcnn1") == cache / "data" / "tiny.svm"
    assert load().rows == 2


def test_what_is_not_the_set_is_not_kept(
    address: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = replace(ENTRIES["ijcnn1"], address=address, sha256="0" * 64)
    monkeypatch.setitem(ENTRIES, "ijcnn1", wrong)
    with pytest.raises(DataError, match="cannot fetch ijcnn1") as caught:
        fetch("ijcnn1")
    assert caught.value.key == "data.name"
    assert not list(cache.rglob("tiny*"))


def test_an_address_that_does_not_answer_is_named(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = address.replace("tiny", "nothing")
    monkeypatch.setitem(ENTRIES, "ijcnn1", replace(ENTRIES["ijcnn1"], address=missing))
    with pytest.raises(DataError, match=f"cannot fetch ijcnn1 from {missing}: 404"):
        fetch("ijcnn1")


def test_only_what_is_in_the_catalogue_can_be_fetched() -> None:
    with pytest.raises(DataError, match="no 'mnist' in the catalogue; it has ijcnn1"):
        fetch("mnist")


def test_the_real_ijcnn1_is_as_published(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDSIM_DATA", str(data_folder))
    samples = load()
    assert samples.X.shape == ENTRIES["ijcnn1"].shape == (49990, 22)
    labels, counts = np.unique(samples.y, return_counts=True)
    assert dict(zip(labels, counts, strict=True)) == {-1.0: 45137, 1.0: 4853}
    # The first row of the file as it is printed: 6:1 11:-0.731854 ... 22:-0.00081.
    assert samples.X[0, [5, 10, 21, 0]].tolist() == [1, -0.731854, -0.00081, 0]
