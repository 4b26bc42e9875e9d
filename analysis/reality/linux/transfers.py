"""Equal messages at once over sockets of Linux, timed by the one process that holds both ends."""

import selectors
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Literal

from linux.namespaces import SERVER, Star, address, inside
from packets import Case

PORT = 5001

PATIENCE = 600.0
"""Real seconds after which a message counts as never complete."""

CHUNK = 1 << 20

Control = Literal["cubic", "newreno", "bbr"]
"""A law of congestion."""

CONTROL: Mapping[Control, bytes] = {"cubic": b"cubic", "newreno": b"reno", "bbr": b"bbr"}
"""Linux's names of them."""


def _socket(law: Control, namespace: str) -> socket.socket:
    with inside(namespace):
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, CONTROL[law])
    made.settimeout(0.0)
    return made


def round_trips(star: Star) -> list[float]:
    """Return the round trip of a datagram between each client and the server, s.

    It is the star's check of itself, and the neighbours know each other's addresses after it.
    """
    found = []
    with inside(star.server):
        server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((SERVER, PORT))
    with server:
        for name in star.clients:
            with inside(name):
                client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            with client:
                for end in (client, server):
                    end.settimeout(PATIENCE)
                begun = time.monotonic()
                client.sendto(b"?", (SERVER, PORT))
                _, back = server.recvfrom(CHUNK)
                server.sendto(b"!", back)
                client.recv(CHUNK)
                found.append(time.monotonic() - begun)
    return found


class Transfers:
    """The messages of a case on their way: the sender of each opens its connection.

    Attributes:
        arrived: when each was complete, s from the call to connect; NaN before.
    """

    def __init__(self, case: Case, star: Star, law: Control) -> None:
        self._case = case
        self._selector = selectors.DefaultSelector()
        self._payload = memoryview(bytes(CHUNK))
        self._left = [case.bytes] * case.flows
        self._missing = [case.bytes] * case.flows
        self.arrived = [float("nan")] * case.flows
        up = case.direction == "up"
        self._places = [
            (SERVER if up else address(number), PORT + number) for number in range(case.flows)
        ]
        self._senders, self._listeners = [], list[socket.socket]()
        self._accepted: list[socket.socket] = []
        for client, place in zip(star.clients, self._places, strict=True):
            sender, receiver = (client, star.server) if up else (star.server, client)
            self._senders.append(_socket(law, sender))
            listener = _socket(law, receiver)
            self._listeners.append(listener)
            listener.bind(place)
            listener.listen(1)

    def run(self) -> Sequence[float]:
        """Send every message, and return when each has arrived, s; NaN for those that did not."""
        for number, listener in enumerate(self._listeners):
            self._selector.register(listener, selectors.EVENT_READ, number)
        begun = time.monotonic()
        for number, (sender, place) in enumerate(zip(self._senders, self._places, strict=True)):
            sender.connect_ex(place)
            self._selector.register(sender, selectors.EVENT_WRITE, number)
        while any(self._missing) and time.monotonic() - begun < PATIENCE:
            for key, event in self._selector.select(1.0):
                end = key.fileobj
                assert isinstance(end, socket.socket)
                if event & selectors.EVENT_WRITE:
                    self._send(end, key.data)
                elif end is self._listeners[key.data]:
                    self._accept(end, key.data)
                elif self._receive(end, key.data):
                    self.arrived[key.data] = time.monotonic() - begun
        return self.arrived

    def close(self) -> None:
        """Close every socket."""
        self._selector.close()
        for each in (*self._senders, *self._accepted, *self._listeners):
            each.close()

    def _accept(self, listener: socket.socket, number: int) -> None:
        end, _ = listener.accept()
        end.settimeout(0.0)
        self._accepted.append(end)
        self._selector.unregister(listener)
        self._selector.register(end, selectors.EVENT_READ, number)

    def _send(self, end: socket.socket, number: int) -> None:
        try:
            self._left[number] -= end.send(self._payload[: self._left[number]])
        except BlockingIOError:
            return
        if not self._left[number]:
            self._selector.unregister(end)

    def _receive(self, end: socket.socket, number: int) -> bool:
        """Take what has arrived, and return whether that was the last of a message."""
        try:
            self._missing[number] -= len(end.recv(CHUNK))
        except BlockingIOError:
            return False
        if self._missing[number]:
            return False
        self._selector.unregister(end)
        return True
