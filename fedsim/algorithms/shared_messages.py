"""Messages that several families of methods send; what only one sends stands beside it.

The log calls a message by the name of its class.
"""

from dataclasses import dataclass

from fedsim.ports import Message, Payload


@dataclass(frozen=True, slots=True)
class Model(Message):
    """The model w, shape (d,), as the server tells clients, and peers each other."""

    w: Payload


@dataclass(frozen=True, slots=True)
class LocalModel(Message):
    """Client to server: the model that its local steps have led to, shape (d,)."""

    w: Payload


@dataclass(frozen=True, slots=True)
class Progress(Message):
    """Client to server: (w - v)/eta, the sum of its local steps' directions, compressed."""

    delta: Payload
