"""Rounds of messages over kept sockets of Linux, timed by the one process that holds all ends."""

import heapq
import selectors
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from linux.namespaces import SERVER, Star, inside
from linux.transfers import CHUNK, CONTROL, PATIENCE, PORT
from packets import Case

REST = 1.0
"""Real seconds before the first round: longer than any timeout, so every window is idle."""

TO_SERVER, TO_CLIENT = 0, 1


class Rounds(NamedTuple):
    """Equal rounds over one kept connection a client.

    A round begins when the server sends to all clients. A client that has its message works, and
    replies. The next round begins when the server has all replies.

    Attributes:
        star: the links, and the law of congestion.
        down: of a message to a client, bytes.
        up: of a reply, bytes.
        work: between the two, s.
        rounds: their number.
    """

    star: Case
    down: int
    up: int
    work: float
    rounds: int


def lasting(case: Rounds, built: Star) -> Sequence[float]:
    """Return how long each round lasted, s.

    Args:
        case: the messages.
        built: the star that carries them.

    Raises:
        TimeoutError: a message has not arrived after `PATIENCE`.
    """
    with _connections(case, built) as (servers, clients):
        time.sleep(REST)
        return _Played(case, servers, clients).run()


@contextmanager
def _connections(
    case: Rounds, built: Star
) -> Iterator[tuple[list[socket.socket], list[socket.socket]]]:
    """Open a connection of each client, greet, and yield the ends of the server and of clients."""
    law, servers, clients = CONTROL[case.star.variant], list[socket.socket](), list[socket.socket]()
    with inside(built.server):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, law)
    listener.bind((SERVER, PORT))
    listener.listen(len(built.clients))
    try:
        for name in built.clients:
            with inside(name):
                client = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            clients.append(client)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, law)
            client.settimeout(PATIENCE)
            client.connect((SERVER, PORT))
            servers.append(listener.accept()[0])
            for end in (client, servers[-1]):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as gRPC does
                end.settimeout(PATIENCE)
            # As fedsim's live runs: three messages of the client, two of the server.
            for sender, receiver in 2 * [(client, servers[-1]), (servers[-1], client)]:
                sender.sendall(b"?")
                receiver.recv(1)
            client.sendall(b"!")
            servers[-1].recv(1)
        yield servers, clients
    finally:
        for each in (listener, *servers, *clients):
            each.close()


class _Played:
    """The rounds of a case on their way."""

    def __init__(
        self, case: Rounds, servers: Sequence[socket.socket], clients: Sequence[socket.socket]
    ) -> None:
        self._case, self._ends = case, (servers, clients)
        self._payload = memoryview(bytes(CHUNK))
        self._selector = selectors.DefaultSelector()
        # By direction and client: bytes that are not sent yet, and that have not arrived yet.
        self._unsent = [[0] * len(clients), [0] * len(clients)]
        self._missing = [[0] * len(clients), [0] * len(clients)]
        self._works = list[tuple[float, int]]()
        for direction, ends in enumerate(self._ends):
            for client, end in enumerate(ends):
                end.settimeout(0.0)
                self._selector.register(end, selectors.EVENT_READ, (direction, client))

    def run(self) -> Sequence[float]:
        """Play all rounds, and return how long each lasted, s."""
        lasted = []
        with self._selector:
            for _ in range(self._case.rounds):
                begun = time.monotonic()
                self._replies = len(self._ends[0])
                for client in range(self._replies):
                    self._begin(TO_CLIENT, client, self._case.down)
                while self._replies:
                    if time.monotonic() - begun > PATIENCE:
                        raise TimeoutError("a message has not arrived")
                    self._step()
                lasted.append(time.monotonic() - begun)
        return lasted

    def _step(self) -> None:
        """Wait for a socket or for the end of a client's work, and handle it."""
        wait = max(0.0, self._works[0][0] - time.monotonic()) if self._works else 1.0
        for key, event in self._selector.select(wait):
            direction, client = key.data
            if event & selectors.EVENT_WRITE:
                self._send(1 - direction, client)
            if event & selectors.EVENT_READ:
                self._receive(direction, client)
        while self._works and self._works[0][0] <= time.monotonic():
            _, client = heapq.heappop(self._works)
            self._begin(TO_SERVER, client, self._case.up)

    def _begin(self, direction: int, client: int, size: int) -> None:
        self._unsent[direction][client] = self._missing[direction][client] = size
        self._send(direction, client)

    def _send(self, direction: int, client: int) -> None:
        """Send what the socket takes, and watch it while anything is left."""
        end, left = self._ends[1 - direction][client], self._unsent[direction]
        try:
            while left[client]:
                left[client] -= end.send(self._payload[: left[client]])
        except BlockingIOError:
            pass
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if left[client] else 0)
        self._selector.modify(end, events, (1 - direction, client))

    def _receive(self, direction: int, client: int) -> None:
        """Take what has arrived; a whole message begins a client's work, or is a reply."""
        missing = self._missing[direction]
        try:
            missing[client] -= len(self._ends[direction][client].recv(CHUNK))
        except BlockingIOError:
            return
        if missing[client]:
            return
        if direction == TO_CLIENT:
            heapq.heappush(self._works, (time.monotonic() + self._case.work, client))
        else:
            self._replies -= 1
