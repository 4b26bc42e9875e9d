"""The catalogue: where a set is looked for, that it is the right one, and how it is fetched."""

import bz2
import gzip
import hashlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.core.errors import DataError
from fedsim.problems import ENTRIES, Catalogue, Samples, fetch
from fedsim.problems.data import Entry, find
from fedsim.problems.data.catalogue import File, Part, PartSpecification

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


def tiny_entry(**changed: Any) -> Entry:
    """Return an entry of one small file, with some fields of the file changed."""
    file = File(name="tiny.svm", address="https://example.org/tiny.svm", size=len(CONTENT))
    file = replace(file, **{"known": f"sha256:{hashlib.sha256(CONTENT).hexdigest()}", **changed})
    rows = PartSpecification(files=(file,), shape=(2, 2), labels={1.0: 1, -1.0: 1})
    return Entry(format="libsvm", parts={"train": rows}, origin="made up")


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a tiny set in the place of ijcnn1."""
    monkeypatch.setitem(ENTRIES, "ijcnn1", tiny_entry())


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
    assert ENTRIES["ijcnn1"].download in text


def test_another_file_of_that_name_is_refused_with_both_checksums(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tiny.svm").write_bytes(b"1 1:0.5\n-1 2:3\n")
    monkeypatch.setenv("FEDSIM_DATA", str(tmp_path))
    text = refusal()
    assert hashlib.sha256(b"1 1:0.5\n-1 2:3\n").hexdigest() in text
    assert hashlib.sha256(CONTENT).hexdigest() in text


def test_fetching_puts_a_set_where_it_is_found(
    address: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ENTRIES, "ijcnn1", tiny_entry(address=address))
    assert Catalogue(name="ijcnn1").fetchable
    assert fetch("ijcnn1") == cache / "data" / "tiny.svm"
    assert load().rows == 2
    assert not Catalogue(name="ijcnn1").fetchable


def test_what_is_not_the_set_is_not_kept(
    address: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = tiny_entry(address=address, known="sha256:" + "0" * 64)
    monkeypatch.setitem(ENTRIES, "ijcnn1", wrong)
    with pytest.raises(DataError, match=r"is not tiny\.svm, and was not stored") as caught:
        fetch("ijcnn1")
    assert caught.value.key == "data.name"
    assert not list(cache.rglob("tiny*"))


def test_an_address_that_does_not_answer_is_named(
    address: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = address.replace("tiny", "nothing")
    monkeypatch.setitem(ENTRIES, "ijcnn1", tiny_entry(address=missing))
    with pytest.raises(DataError, match=f"cannot fetch ijcnn1 from {missing}: .* 404") as caught:
        fetch("ijcnn1")
    text = str(caught.value)
    assert "Without a network: get tiny.svm from there by other means, and put it at" in text
    assert str(cache / "data" / "tiny.svm") in text
    assert "FEDSIM_DATA" in text
    answered: Any = caught.value.__cause__
    assert answered.fp.closed  # else its connection stays open for as long as the error


def test_only_what_is_in_the_catalogue_can_be_fetched() -> None:
    with pytest.raises(DataError, match="no 'mnits' in the catalogue; it has ijcnn1, a1a"):
        fetch("mnits")


class TestWithoutChecksum:
    """A file whose checksum is not known is recognised by its shape and its labels."""

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            (CONTENT, []),
            (b"-1 1:7\n1 2:9\n", []),
            (CONTENT + b"1 1:1\n", ["it is 3 x 2", "catalogue 2 x 2"]),
            (b"1 1:1\n1 1:2\n", ["{1.0: 2}", "{1.0: 1, -1.0: 1}"]),
        ],
    )
    def test_its_content_has_to_look_right(
        self,
        content: bytes,
        words: list[str],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setitem(ENTRIES, "ijcnn1", tiny_entry(known=""))
        (tmp_path / "tiny.svm").write_bytes(content)
        monkeypatch.setenv("FEDSIM_DATA", str(tmp_path))
        if not words:
            assert load().rows == 2
            return
        text = refusal()
        assert all(word in text for word in [*words, "not the ijcnn1 of the catalogue"])

    def test_it_is_fetched_as_it_is(self, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(ENTRIES, "ijcnn1", tiny_entry(address=address, known=""))
        fetch("ijcnn1")
        assert load().y.tolist() == [1, -1]


def test_a_copy_that_is_packed_in_another_way_is_recognised_by_its_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = tiny_entry(content=hashlib.sha256(CONTENT).hexdigest(), known="md5:of another file")
    monkeypatch.setitem(ENTRIES, "ijcnn1", entry)
    monkeypatch.setenv("FEDSIM_DATA", str(tmp_path))
    for pack in (bytes, gzip.compress, bz2.compress):
        (tmp_path / "tiny.svm").write_bytes(pack(CONTENT))
        assert load().rows == 2
    (tmp_path / "tiny.svm").write_bytes(gzip.compress(CONTENT + b"1 1:1\n"))
    assert "its sha256 is" in refusal()


def test_every_file_of_a_set_is_needed_and_fetched(
    address: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = address.replace("tiny.svm", "other")
    (tmp_path / "public" / "other").write_bytes(b"more")
    files = (File(name="tiny.svm", address=address), File(name="other", address=other, size=4))
    parts: dict[Part, PartSpecification] = {
        "train": PartSpecification(files=files[:1], shape=(2, 2)),
        "test": PartSpecification(files=files[1:], shape=(0, 0)),
    }
    entry = Entry(format="libsvm", parts=parts, origin="made up")
    monkeypatch.setitem(ENTRIES, "a1a", entry)
    assert entry.download == f"from {address} and 1 more"
    assert fetch("a1a") == cache / "data"
    assert find("a1a") == (cache / "data" / "tiny.svm",)
    assert find("a1a", "test") == (cache / "data" / "other",)
    (cache / "data" / "other").unlink()
    assert not Catalogue(name="a1a").fetchable
    assert Catalogue(name="a1a", part="test").fetchable


@pytest.mark.parametrize(
    ("size", "told"), [(7, "got more bytes than the 7"), (10**6, "expected 1000000")]
)
def test_what_is_not_of_the_stated_length_is_not_kept(
    size: int, told: str, address: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = tiny_entry(address=address)
    (only,) = entry.parts["train"].files
    rows = replace(entry.parts["train"], files=(replace(only, size=size, known=""),))
    monkeypatch.setitem(ENTRIES, "ijcnn1", replace(entry, parts={"train": rows}))
    with pytest.raises(DataError, match="cannot fetch ijcnn1") as caught:
        fetch("ijcnn1")
    assert told in str(caught.value)
    assert not list(cache.rglob("*tiny*"))
