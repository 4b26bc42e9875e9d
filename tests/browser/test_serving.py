"""Serving the page of a study: who is answered, and when the server ends."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple, cast
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from typer.testing import CliRunner

import fedsim
from fedsim.browser import serve_page, serving
from fedsim.browser.pages import Answer, StudyPages
from fedsim.cli import app
from fedsim.errors import DataError
from tests.interrupting import LONG, hearing, interrupted
from tests.runs import files, small


class _Fixed:
    """Two pages whose content is known."""

    def find(self, name: str) -> Answer | None:
        return {"": Answer("home"), "live.json": Answer("{}", "application/json", "none")}.get(name)


class Reply(NamedTuple):
    """An answer of a server."""

    status: int
    body: str
    headers: dict[str, str]


@pytest.fixture
def port() -> Iterator[int]:
    """Serve two pages below the secret `abc`."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        own = serving.server(listener, "abc", cast("StudyPages", _Fixed()))
        thread = threading.Thread(target=own.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        own.shutdown()
        thread.join()


def ask(port: int, path: str, method: str = "GET", hosts: tuple[str, ...] | None = None) -> Reply:
    connection = HTTPConnection("127.0.0.1", port)
    connection.putrequest(method, path, skip_host=True)
    for host in (f"127.0.0.1:{port}",) if hosts is None else hosts:
        connection.putheader("Host", host.format(port=port))
    connection.endheaders()
    answer = connection.getresponse()
    found = Reply(answer.status, answer.read().decode(), dict(answer.getheaders()))
    connection.close()
    return found


def test_pages_are_answered_by_their_names_below_the_secret(port: int) -> None:
    home = ask(port, "/abc/")
    assert (home.status, home.body) == (200, "home")
    assert home.headers["Content-Type"] == "text/html; charset=utf-8"
    assert home.headers["Cache-Control"] == "no-store"
    assert home.headers["Server"] == "fedsim"
    live = ask(port, "/abc/live.json?3")
    assert (live.status, live.body) == (200, "{}")
    assert live.headers["Content-Security-Policy"] == "none"


@pytest.mark.parametrize(
    "path",
    ["/", "/abc", "/abd/", "/abc/study.json", "/abc/../abc/", "/abc/%2e%2e/", "/live.json", "*"],
)
def test_nothing_else_is_there_and_folders_are_not_listed(port: int, path: str) -> None:
    found = ask(port, path)
    assert found.status == 404
    assert "home" not in found.body


@pytest.mark.parametrize(
    "hosts",
    [
        (),
        ("example.org",),
        ("127.0.0.1",),
        ("127.0.0.1:1",),
        ("127.0.0.1:{port}", "example.org"),
        ("127.0.0.1:{port}.example.org",),
    ],
)
def test_a_name_of_the_web_that_has_come_to_mean_this_machine_is_refused(
    port: int, hosts: tuple[str, ...]
) -> None:
    found = ask(port, "/abc/", hosts=hosts)
    assert found.status == 421
    assert "home" not in found.body
    assert ask(port, "/abc/", hosts=("localhost:{port}",)).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "CONNECT"])
def test_only_get_and_head_are_answered(port: int, method: str) -> None:
    assert ask(port, "/abc/", method).status == 501
    head = ask(port, "/abc/", "HEAD")
    assert (head.status, head.body, head.headers["Content-Length"]) == (200, "", "4")


def test_the_server_listens_on_the_loopback_interface_alone(tmp_path: Path) -> None:
    with serve_page(tmp_path) as address:
        parts = urlsplit(address)
        assert (parts.scheme, parts.hostname) == ("http", "127.0.0.1")
        assert parts.port is not None
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.2", parts.port))


def test_where_no_process_may_listen_one_error_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*words: object) -> socket.socket:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(socket, "create_server", refuse)
    wanted = "--browser: no page can be served here: Permission denied"
    with pytest.raises(DataError, match=wanted), serve_page(tmp_path):
        pass


@pytest.mark.parametrize(
    ("display", "kind", "opened"),
    [
        ("", webbrowser.BackgroundBrowser, 0),
        (":0", webbrowser.GenericBrowser, 0),  # one that draws in the terminal
        (":0", webbrowser.BackgroundBrowser, 1),
    ],
)
def test_a_browser_opens_only_where_there_are_windows(
    monkeypatch: pytest.MonkeyPatch,
    display: str,
    kind: type[webbrowser.GenericBrowser],
    opened: int,
) -> None:
    seen, done = list[str](), threading.Event()

    def show(address: str) -> None:
        seen.append(address)
        done.set()

    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("DISPLAY", display)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr(webbrowser, "get", lambda: kind("any"))
    monkeypatch.setattr(webbrowser, "open", show)
    serving.open_browser("http://127.0.0.1:1/")
    if opened:
        done.wait()
    assert seen == ["http://127.0.0.1:1/"] * opened


def test_quiet_is_refused(tmp_path: Path) -> None:
    scenario = tmp_path / "study.yaml"
    scenario.write_text(json.dumps(small()))
    said = CliRunner().invoke(app, ["run", str(scenario), "--browser", "--quiet"])
    assert said.exit_code == 2
    assert said.stderr.strip() == "got --browser and --quiet; expected at most one of them"


def read(address: str) -> str:
    """Return what is served at an address."""
    with urlopen(address) as answer:  # noqa: S310 - of an address that fedsim has printed
        return str(answer.read().decode())


@pytest.mark.slow
def test_a_page_that_is_read_leaves_every_byte_of_a_run(tmp_path: Path) -> None:
    scenario = small(stop={"rounds": 2000}, seeds=2)
    without, served = tmp_path / "without" / "out", tmp_path / "served" / "out"
    fedsim.run(scenario, out=without)
    over, states = threading.Event(), list[str]()

    def follow(address: str) -> None:
        while not over.is_set():
            states.extend(read(address + name) for name in ("", "live.json"))

    with serve_page(served) as address:
        reader = threading.Thread(target=follow, args=(address,))
        reader.start()
        read(address)  # the server has loaded
        fedsim.run(scenario, out=served)
        over.set()
        reader.join()
    assert files(served) == files(without)
    assert any("Runs in progress" in state for state in states)
    with pytest.raises(OSError, match="refused"):
        read(address)


def begin(tmp_path: Path) -> "tuple[subprocess.Popen[str], str]":
    """Start a run of hours; return its process and the address of its page."""
    scenario = tmp_path / "long.yaml"
    scenario.write_text(json.dumps(LONG), encoding="utf-8")
    words = ["run", str(scenario), "--out", str(tmp_path / "out"), "--browser"]
    process = subprocess.Popen(
        [sys.executable, "-m", "fedsim", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=hearing,  # noqa: PLW1509 - no threads here
    )
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(r"http://\S+", line):
            return process, found[0]
    raise AssertionError("the command printed no address")


@pytest.mark.slow
def test_a_page_ends_with_a_command_that_is_killed(tmp_path: Path) -> None:
    process, address = begin(tmp_path)
    with process:
        process.kill()
        process.wait()
        served = True
        while served:
            served = False
            with suppress(OSError):
                served = bool(read(address))


@pytest.mark.slow
@pytest.mark.parametrize(("way", "group"), [(signal.SIGINT, True), (signal.SIGTERM, False)])
def test_a_page_ends_with_a_command_that_is_interrupted(
    tmp_path: Path, way: signal.Signals, group: bool
) -> None:
    process, address = begin(tmp_path)
    with process:
        (os.killpg if group else os.kill)(process.pid, way)
        _, said = process.communicate()
    assert process.returncode == 128 + way
    assert "Traceback" not in said
    with pytest.raises(OSError, match="refused"):
        read(address)


@pytest.mark.slow
@pytest.mark.parametrize("after", [0.0, 1.0])
def test_an_interrupt_while_the_server_starts_leaves_no_process(
    tmp_path: Path, after: float
) -> None:
    scenario, aside = tmp_path / "long.yaml", tmp_path / "aside"
    scenario.write_text(json.dumps(LONG), encoding="utf-8")
    aside.mkdir()
    words = ["run", str(scenario), "--out", str(tmp_path / "out"), "--browser"]
    ended = interrupted(words, signal.SIGINT, after, aside, group=True)
    assert ended.faults(signal.SIGINT) == []
