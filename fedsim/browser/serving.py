"""Serving the page of a study while its runs are made: to this machine alone.

Another process serves it, at a low priority, so that the runs do not wait for it. It listens on the
loopback interface, answers GET and HEAD for three pages, and ends with the process that started it.
Two things keep others out. The address contains a secret, since other users of the machine can
connect to the port. And the header Host must name the loopback interface: a page of the web whose
name has come to mean 127.0.0.1 (DNS rebinding) is refused.
"""

import os
import secrets
import socket
import sys
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fedsim.errors import DataError
from fedsim.signals import defer_signals, end_with_parent, postpone_signals

if TYPE_CHECKING:
    from fedsim.browser.pages import Answer, StudyPages

_LOOPBACK = "127.0.0.1"

_NICE = 5  # by which the priority of the process is lower

_PATIENCE = 10.0  # seconds of real time that a connection may be idle

_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@contextmanager
def serve_page(out: Path) -> Iterator[str]:
    """Serve the page of a study within the block; yield its address.

    Args:
        out: the folder of its runs, which need not exist yet.

    Raises:
        DataError: this machine does not let a process listen, or start.
    """
    secret = secrets.token_urlsafe(12)
    try:
        listener = socket.create_server((_LOOPBACK, 0))
    except OSError as error:
        raise _serving_error(error) from None
    with listener:
        given = listener, secret, out.absolute()
        process = get_context("spawn").Process(target=_serve, args=given, daemon=True)
        try:
            with postpone_signals():
                process.start()
        except OSError as error:
            raise _serving_error(error) from None
        try:
            yield f"http://{_LOOPBACK}:{listener.getsockname()[1]}/{secret}/"
        finally:
            with defer_signals():
                process.kill()  # it has no state, and may still be loading with signals blocked
                process.join()


def _serving_error(error: OSError) -> DataError:
    return DataError("browser", f"--browser: no page can be served here: {error.strerror or error}")


def open_browser(address: str) -> None:
    """Open an address in a browser with windows, if there is one; the caller does not wait.

    A browser that draws in the terminal is left closed: it would cover the progress.
    """
    windows = sys.platform == "darwin" or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
    with suppress(webbrowser.Error):
        if windows and type(webbrowser.get()) is not webbrowser.GenericBrowser:
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()


def _serve(listener: socket.socket, secret: str, out: Path) -> None:
    """Serve in this process, until its parent ends."""
    end_with_parent()
    with suppress(OSError):
        os.nice(_NICE)
    server(listener, secret, _LazyPages(out)).serve_forever()


class _LazyPages:
    """The pages of a study, loaded with the first request: that takes seconds of a processor."""

    def __init__(self, out: Path) -> None:
        self._out, self._one = out, threading.Lock()
        self._pages: StudyPages | None = None

    def find(self, name: str) -> "Answer | None":
        """Return a page by its name; None if there is no such page."""
        with self._one:
            if self._pages is None:
                from fedsim.browser.pages import StudyPages  # noqa: PLC0415 - see above

                self._pages = StudyPages(self._out)
        return self._pages.find(name)


def server(
    listener: socket.socket, secret: str, pages: "StudyPages | _LazyPages"
) -> ThreadingHTTPServer:
    """Return a server of pages, which answers from a listening socket."""
    address = listener.getsockname()
    handler = partial(_Handler, f"/{secret}/", address[1], pages)
    own = _Server(address, handler, bind_and_activate=False)
    own.socket.close()
    own.socket = listener
    return own


class _Server(ThreadingHTTPServer):
    """Answers each connection in a thread."""

    def handle_error(self, *connection: object) -> None:
        """Print nothing of a connection that broke: standard error is the run's."""


class _Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    timeout = _PATIENCE

    def __init__(
        self, home: str, port: int, pages: "StudyPages | _LazyPages", *connection: object
    ) -> None:
        self._home, self._pages = home, pages
        self._hosts = {f"{name}:{port}" for name in (_LOOPBACK, "localhost")}
        super().__init__(*connection)  # type: ignore[arg-type] # it answers within

    def do_GET(self) -> None:
        """Answer with a page."""
        self._answer(body=True)

    def do_HEAD(self) -> None:
        """Answer with the headers of a page."""
        self._answer(body=False)

    def _answer(self, *, body: bool) -> None:
        if self.headers.get_all("Host", []) not in [[host] for host in self._hosts]:
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST, "expected the address that was printed")
            return
        path = urlsplit(self.path).path
        inside = secrets.compare_digest(path[: len(self._home)].encode(), self._home.encode())
        found = self._pages.find(path[len(self._home) :]) if inside else None
        if found is None:
            self.send_error(HTTPStatus.NOT_FOUND)
        else:
            self._send(found, body=body)

    def _send(self, found: "Answer", *, body: bool) -> None:
        content = found.content.encode()
        self.send_response(HTTPStatus.OK)
        length = {"Content-Length": str(len(content))}
        policy = {"Content-Security-Policy": found.policy} if found.policy else {}
        for name, value in {"Content-Type": found.kind, **length, **policy, **_HEADERS}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            with suppress(ConnectionError, TimeoutError):
                self.wfile.write(content)

    def version_string(self) -> str:
        """Return the name of the server, without versions."""
        return "fedsim"

    def log_message(self, *words: object) -> None:
        """Print nothing: standard error is the run's."""
