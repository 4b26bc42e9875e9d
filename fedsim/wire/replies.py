"""Replies in columns: of senders whose handlers were run at once, in rounds of many clients."""

from collections.abc import Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from fedsim.core.ports import Message, Payload, Reply
from fedsim.wire.payloads.rows import DenseRow, DenseRows, RowPayloads


class ReplyColumns(Sequence[Reply]):
    """The replies of many clients; the object of one is made as it is looked up.

    Args:
        clients: the senders, ascending, shape (n,).
        number: the round that all belong to.
        messages: of groups of clients; a `DenseRows` in one has a row for each of its group.
        which: the message that stands for each reply, shape (n,).
        places: its row there, shape (n,).
    """

    def __init__(
        self,
        clients: NDArray[np.integer],
        number: int,
        messages: Sequence[Message],
        which: NDArray[np.integer],
        places: NDArray[np.integer],
    ) -> None:
        self.clients = clients
        self.round = number
        self._messages = messages
        self._which = which
        self._places = places

    def __len__(self) -> int:
        return len(self.clients)

    @overload
    def __getitem__(self, index: int) -> Reply: ...
    @overload
    def __getitem__(self, index: slice) -> list[Reply]: ...
    def __getitem__(self, index: int | slice) -> Reply | list[Reply]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        message = one_of(self._messages[self._which[index]], int(self._places[index]))
        return Reply(int(self.clients[index]), self.round, message)

    def payloads(self, field: str) -> RowPayloads:
        """Return a field of all messages."""
        sources = [getattr(message, field) for message in self._messages]
        return RowPayloads(sources, self._which, self._places)


def one_of(message: Message, place: int) -> Message:
    """Return the message of one client, given that which stands for its group, and its row."""
    payloads: list[Any] = list(message.payloads())
    if not any(isinstance(payload, DenseRows) for payload in payloads):
        return message
    kind: Any = type(message)
    own: Message = kind(
        *(
            DenseRow(payload, place) if isinstance(payload, DenseRows) else payload
            for payload in payloads
        )
    )
    return own


def senders(replies: Sequence[Reply]) -> NDArray[np.integer]:
    """Return the client of each of some replies, shape (n,)."""
    if isinstance(replies, ReplyColumns):
        return replies.clients
    return np.array([reply.client for reply in replies], np.intp)


def field_payloads(replies: Sequence[Reply], field: str) -> Sequence[Payload]:
    """Return a field of the message of each of some replies."""
    if isinstance(replies, ReplyColumns):
        return replies.payloads(field)
    return [getattr(reply.message, field) for reply in replies]


def of_round(replies: Sequence[Reply], number: int) -> Sequence[Reply]:
    """Return those of some replies that belong to a round."""
    if isinstance(replies, ReplyColumns):
        return replies if replies.round == number else ()
    return [reply for reply in replies if reply.round == number]
