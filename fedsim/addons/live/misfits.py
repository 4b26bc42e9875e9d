"""Detection of replies of a wrong kind or length.

A method would fail on them, or aggregate them wrongly. The correct length of a vector depends on
the method, and is not known in advance. It is taken to be the length in most replies of an
exchange, for the same message class and field. Without a majority it is that of earlier exchanges,
otherwise that of the server's message.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from fedsim.core.ports import Beacon, ClientId, Message, Payload, Reply, node_name
from fedsim.protocol.reporting import Reports, is_for_candidates, is_report
from fedsim.scenario.building.fit_messages import FitReceived, FitRequest, FitResult, FitStatistics

Place = tuple[type[Message], str]
"""The class of a message, and one of its fields."""

Size = tuple[int, ...]
"""The shape of a vector."""


class ReplyRule:
    """The kinds of messages that may reply to a message.

    Args:
        classes: the classes of the method's replies; empty if unknown.
    """

    def __init__(self, classes: Sequence[type[Message]] = ()) -> None:
        self._classes = tuple(classes)

    def flaw(self, asked: Message, reply: Message) -> str:
        """Return why a message is not a valid reply to another one; empty if it is valid."""
        if isinstance(reply, Beacon):
            return ""
        due = self._due(asked)
        if due and not isinstance(reply, due):
            return f"replies to a message of the kind {asked.label} with one of {reply.label}"
        for name in reply.__dataclass_fields__:
            values = getattr(reply, name).values
            if is_report(name) and (values.shape or not np.isfinite(values)):
                return f"reports a value that is not a number ({name})"
        return ""

    def _due(self, asked: Message) -> tuple[type[Message], ...]:
        """Return the valid classes of a reply; empty if any class is."""
        if isinstance(asked, FitRequest | FitResult):
            return (FitStatistics,) if isinstance(asked, FitRequest) else (FitReceived,)
        return (Reports,) if is_for_candidates(asked) else self._classes


def overflows(reply: Message) -> str:
    """Return the first field of a reply with numbers that are not finite; empty for none."""
    names = reply.__dataclass_fields__
    return next((name for name in names if not np.isfinite(getattr(reply, name).values).all()), "")


class ReplySizes:
    """The sizes of the vectors in replies, by class and field.

    >>> from dataclasses import dataclass
    >>> from types import SimpleNamespace
    >>> @dataclass(frozen=True)
    ... class Gradient(Message):
    ...     g: object
    >>> def reply(client, length):
    ...     return Reply(client, 1, Gradient(SimpleNamespace(values=np.zeros(length))))
    >>> ReplySizes().misfits([reply(0, 10), reply(1, 3), reply(2, 10)])
    {1: 'client-1 has sent a vector of another size (gradient.g): (3,), and most send (10,)'}
    """

    def __init__(self, sent: Size = ()) -> None:
        self._sent = sent
        self._known: dict[Place, Size] = {}

    def misfits(self, replies: Sequence[Reply]) -> dict[ClientId, str]:
        """Return the clients with invalid replies, and the reasons."""
        found = _of_another_class(replies)
        for place, sizes in _by_place(replies).items():
            due = self._due(place, [size for _, size in sizes])
            for client, size in sizes:
                if due is not None and size != due:
                    name, field = node_name(client), f"{place[0].label}.{place[1]}"
                    text = f"{name} has sent a vector of another size ({field}): {size}"
                    found.setdefault(client, f"{text}, and most send {due}")
        return found

    def _due(self, place: Place, sizes: Sequence[Size]) -> Size | None:
        """Return the expected size for a class and field; None if unknown."""
        # A majority of one exchange decides, and is remembered. The first exchange with a single
        # reply has none, hence the size of the server's message.
        counts = Counter(sizes)
        size, count = counts.most_common(1)[0]
        if len(counts) == 1 and (len(sizes) > 1 or place not in self._known):
            due: Size | None = size
        elif 2 * count > len(sizes) > 1:
            due = size
        elif place in self._known:
            due = self._known[place]
        else:
            due = self._sent if self._sent in counts else None
        if due is not None:
            self._known[place] = due
        return due


def _of_another_class(replies: Sequence[Reply]) -> dict[ClientId, str]:
    """Return the clients whose reply in the newest round has another class than most replies."""
    # Late replies may be of another phase of the method, with another class by right.
    newest = max((reply.round for reply in replies), default=0)
    kinds = {reply.client: type(reply.message) for reply in replies if reply.round == newest}
    (most, count), *others = Counter(kinds.values()).most_common() or [(Message, 0)]
    if not others or 2 * count <= len(kinds):
        return {}
    text = f"and most send one of {most.label}"
    return {
        client: f"{node_name(client)} has sent a message of the kind {kind.label}, {text}"
        for client, kind in kinds.items()
        if kind is not most
    }


def _by_place(replies: Iterable[Reply]) -> Mapping[Place, list[tuple[ClientId, Size]]]:
    """Return sizes and the clients that sent them, by class and field."""
    found: dict[Place, list[tuple[ClientId, Size]]] = {}
    for client, _, message in replies:
        kind = type(message)
        for name in message.__dataclass_fields__:
            found.setdefault((kind, name), []).append((client, _size(getattr(message, name))))
    return found


def _size(payload: Payload) -> Size:
    """Return the shape of a vector; a sparse one is not expanded."""
    length: int | None = getattr(payload, "dimension", None)
    return payload.values.shape if length is None else (length,)
