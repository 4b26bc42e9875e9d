"""Replies whose vectors have another size than those of the other clients.

A method would fail on them, or add them up wrongly. Which size is right is not known in advance: it
follows from the method. So it is that of most of the replies of an exchange, of the message's class
and field; without a majority that of former exchanges, else that of what the server has sent.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from fedsim.ports import ClientId, Message, Payload, Reply, node_name

Place = tuple[type[Message], str]
"""The class of a message, and one of its fields."""

Size = tuple[int, ...]
"""The shape of a vector."""


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
        """Return the clients whose replies do not fit, each with the reason."""
        found: dict[ClientId, str] = {}
        for place, sizes in _by_place(replies).items():
            due = self._due(place, [size for _, size in sizes])
            for client, size in sizes:
                if due is not None and size != due:
                    name, field = node_name(client), f"{place[0].label}.{place[1]}"
                    text = f"{name} has sent a vector of another size ({field}): {size}"
                    found.setdefault(client, f"{text}, and most send {due}")
        return found

    def _due(self, place: Place, sizes: Sequence[Size]) -> Size | None:
        """Return the size that all of a place are to have; None if that is not known."""
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


def _by_place(replies: Iterable[Reply]) -> Mapping[Place, list[tuple[ClientId, Size]]]:
    """Return which clients have sent which sizes, by class and field."""
    found: dict[Place, list[tuple[ClientId, Size]]] = {}
    for client, _, message in replies:
        kind = type(message)
        for name in message.__dataclass_fields__:
            found.setdefault((kind, name), []).append((client, _size(getattr(message, name))))
    return found


def _size(payload: Payload) -> Size:
    """Return the shape of a vector, without filling one that was sent as a sparse one."""
    length: int | None = getattr(payload, "dimension", None)
    return payload.values.shape if length is None else (length,)
