"""Fetching traces: from a server on this machine, which tells the truth, lies, or is not there."""

import hashlib
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest
from typer.testing import CliRunner

from fedsim.cli import app
from fedsim.core.errors import DataError
from fedsim.physics.formats import published
from fedsim.physics.formats.published import TRACE_SETS, PublicFile, fetch_traces, obtain

CONTENT = b"0 1\n1 2\n" * 1000


def zipped() -> bytes:
    buffer = BytesIO()
    with ZipFile(buffer, "w") as archive:
        archive.writestr("set/a.csv", "1,2\n")
        archive.writestr("set/readme.txt", "no trace")
        archive.writestr("__MACOSX/set/._a.csv", "rubbish")
        archive.writestr("../../out.csv", "nowhere")
    return buffer.getvalue()


ZIPPED = zipped()
ASKED: list[str] = []


class Answers(BaseHTTPRequestHandler):
    """Gives what is asked for, half of it, something else, or nothing."""

    def do_GET(self) -> None:
        ASKED.append(self.path)
        if self.path == "/gone":
            self.send_error(404)
            return
        content = ZIPPED if self.path == "/set.zip" else CONTENT
        self.send_response(200)
        if self.path != "/longer":  # which has no end
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        match self.path:
            case "/cut":
                self.wfile.write(content[: len(content) // 2])
            case "/other":
                self.wfile.write(content[::-1])
            case "/longer":
                self.close_connection = True
                self.wfile.write(content)
                with suppress(OSError):  # whoever asked has gone
                    while True:
                        self.wfile.write(content)
            case _:
                self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as declared there
        pass


@pytest.fixture
def address() -> Iterator[str]:
    ASKED.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


SHA = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"
GIT = f"git:{hashlib.sha1(b'blob 8000' + bytes(1) + CONTENT).hexdigest()}"  # noqa: S324


def file(address: str, path: str = "good", known: str = SHA) -> PublicFile:
    return PublicFile(name="trace.txt", address=f"{address}/{path}", known=known, size=8000)


@pytest.mark.parametrize("known", [SHA, GIT])
def test_what_is_right_is_kept_and_not_fetched_again(
    known: str, address: str, tmp_path: Path
) -> None:
    for _ in range(2):
        path = obtain(file(address, known=known), tmp_path / "new")
        assert path == tmp_path / "new" / "trace.txt"
        assert path.read_bytes() == CONTENT
    assert ASKED == ["/good"]
    path.write_bytes(b"damaged since")
    assert obtain(file(address, known=known), tmp_path / "new").read_bytes() == CONTENT
    assert [each.name for each in (tmp_path / "new").iterdir()] == ["trace.txt"]


def test_the_name_that_git_gives_is_that_of_git_itself(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"hello\n")
    known = "git:ce013625030ba8dba906f756967f9e9ca394464a"  # as `git hash-object a` prints it
    there = replace(file("http://127.0.0.1:1", known=known), name="a")
    assert obtain(there, tmp_path) == tmp_path / "a"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "known", "words"),
    [
        ("other", SHA, ["is not trace.txt, and was not stored", "of 8000 bytes", SHA]),
        ("good", "git:" + "0" * 40, [GIT, "git:000"]),
        ("cut", SHA, ["trace.txt"]),
        ("longer", SHA, ["cannot fetch trace.txt", "got more bytes than the 8000"]),
        ("gone", SHA, ["cannot fetch trace.txt", "404", "Without a network", "put it at"]),
    ],
)
def test_what_is_wrong_is_not_kept_and_said(
    path: str, known: str, words: list[str], address: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError) as caught:
        obtain(file(address, path, known), tmp_path)
    told = str(caught.value)
    assert [word for word in words if word not in told] == [], told
    assert list(tmp_path.iterdir()) == []


def test_without_a_network_it_is_said_what_to_do_by_hand(tmp_path: Path) -> None:
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(DataError, match=r"cannot fetch trace\.txt") as caught:
            obtain(file(address), tmp_path)
    assert f"put it at {tmp_path / 'trace.txt'}" in str(caught.value)
    (tmp_path / "trace.txt").write_bytes(CONTENT)
    assert obtain(file(address), tmp_path) == tmp_path / "trace.txt"


def test_of_an_archive_the_traces_are_taken_and_nothing_leaves_the_folder(
    address: str, tmp_path: Path
) -> None:
    known = f"sha256:{hashlib.sha256(ZIPPED).hexdigest()}"
    packed = replace(
        file(address, "set.zip", known), name="set.zip", size=len(ZIPPED), unpacked=".csv"
    )
    folder = obtain(packed, tmp_path / "deep" / "er")
    found = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*"))
    assert folder == tmp_path / "deep" / "er" / "set"
    assert found == ["deep/er/set.zip", "deep/er/set/set/a.csv"]


def test_the_command_fetches_into_the_cache_and_lists_what_there_is(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDSIM_CACHE", str(tmp_path))
    mine = replace(TRACE_SETS["flash"], files=(file(address),))
    monkeypatch.setitem(published.TRACE_SETS, "flash", mine)
    done = CliRunner().invoke(app, ["fetch", "flash"])
    assert (done.exit_code, "".join(done.stdout.split())) == (
        0,
        str(tmp_path / "traces" / "flash" / "trace.txt"),
    )
    listed = CliRunner().invoke(app, ["fetch"])
    assert listed.exit_code == 0
    for name, found in TRACE_SETS.items():
        assert name in listed.stdout
        assert found.licence.split()[0] in listed.stdout
    assert "mnist" in listed.stdout


@pytest.mark.parametrize("name", [name for name, found in TRACE_SETS.items() if not found.files])
def test_what_is_not_fetched_is_told_with_its_page_and_licence(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        fetch_traces(name, tmp_path)
    found = TRACE_SETS[name]
    for word in (found.page, found.licence, found.hand):
        assert word in str(caught.value)


def test_the_page_says_of_each_set_where_it_is_and_under_which_licence() -> None:
    page = Path(__file__).parents[3] / "docs" / "howto" / "traces.md"
    lines = page.read_text(encoding="utf-8").splitlines()
    for name, found in TRACE_SETS.items():
        assert any(f"`{name}`" in line for line in lines), name
        for row in (line for line in lines if f"<{found.page}>" in line):
            assert found.licence.split()[0] in row or "none said" in found.licence, name


def test_what_there_is_not_is_refused_with_what_is_near(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="did you mean 'flash'"):
        fetch_traces("flahs", tmp_path)
    done = CliRunner().invoke(app, ["fetch", "ucc"])
    assert done.exit_code == 2
    assert "ucc-5g" in done.stderr


def test_whatever_is_fetched_has_a_licence_and_a_checksum() -> None:
    for name, found in TRACE_SETS.items():
        assert bool(found.files) != bool(found.hand), name
        if found.files:
            assert found.licence != "none said"
        for each in found.files:
            kind, _, digits = each.known.partition(":")
            assert len(digits) == {"sha256": 64, "git": 40}[kind]
            assert int(digits, 16) > 0
            assert each.address.startswith("https://")
