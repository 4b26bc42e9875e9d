"""Equal messages at once over sockets of Linux, timed by the one process that holds both ends."""

import selectors
import socket
import time
from collections.abc import Sequence

from linux.namespaces import SERVER, Star, inside
from packets import Case

PORT = 5001

PATIENCE = 600.0
"""Real seconds after which a message counts as never complete."""

CHUNK = 1 << 20

CONTROL = {"cubic": b"cubic", "newreno": b"reno"}
"""Linux's names of the laws of congestion."""


def _socket(case: Case, namespace: str) -> socket.socket:
    with inside(namespace):
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, CONTROL[case.variant])
    made.settimeout(0.0)
    return made


class Transfers:
    """The messages of a case on their way.

    Attributes:
        arrived: when each was complete, s from the call to connect; NaN before.
    """

    def __init__(self, case: Case, star: Star) -> None:
        self._case = case
        self._selector = selectors.DefaultSelector()
        self._payload = memoryview(bytes(CHUNK))
        self._ports: dict[int, int] = {}
        self._left = [case.bytes] * case.flows
        self._missing = [case.bytes] * case.flows
        self.arrived = [float("nan")] * case.flows
        self._listener = _socket(case, star.server)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind((SERVER, PORT))
        self._listener.listen(case.flows)
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        self._clients = [_socket(case, name) for name in star.clients]
        self._accepted: list[socket.socket] = []
        self._begun = 0.0

    def run(self) -> Sequence[float]:
        """Send every message, and return when each has arrived, s; NaN for those that did not."""
        self._begun = time.monotonic()
        for number, client in enumerate(self._clients):
            client.connect_ex((SERVER, PORT))
            self._watch(client, number, sends=self._case.direction == "up")
        while any(self._missing) and time.monotonic() - self._begun < PATIENCE:
            for key, _ in self._selector.select(1.0):
                if key.data is None:
                    self._accept()
                elif key.events & selectors.EVENT_WRITE:
                    self._send(key.fileobj, key.data)
                else:
                    self._receive(key.fileobj, key.data)
        return self.arrived

    def close(self) -> None:
        """Close every socket."""
        self._selector.close()
        for each in (*self._clients, *self._accepted, self._listener):
            each.close()

    def _watch(self, end: socket.socket, number: int, *, sends: bool) -> None:
        event = selectors.EVENT_WRITE if sends else selectors.EVENT_READ
        self._selector.register(end, event, number)

    def _accept(self) -> None:
        end, (host, _) = self._listener.accept()
        end.settimeout(0.0)
        self._accepted.append(end)
        _, second, third, _ = map(int, host.split("."))
        number = 200 * (second - 1) + third
        self._watch(end, number, sends=self._case.direction == "down")

    def _send(self, end: object, number: int) -> None:
        assert isinstance(end, socket.socket)  # noqa: S101 - the selector's own type is wider
        try:
            self._left[number] -= end.send(self._payload[: self._left[number]])
        except BlockingIOError:
            return
        if not self._left[number]:
            self._selector.unregister(end)

    def _receive(self, end: object, number: int) -> None:
        assert isinstance(end, socket.socket)  # noqa: S101
        try:
            self._missing[number] -= len(end.recv(CHUNK))
        except BlockingIOError:
            return
        if not self._missing[number]:
            self.arrived[number] = time.monotonic() - self._begun
            self._selector.unregister(end)
