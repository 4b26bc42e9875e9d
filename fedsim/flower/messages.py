"""What a server of Flower's and its clients say: a model, and Flower's records beside it."""

from dataclasses import dataclass

from fedsim.ports import Message, Payload


@dataclass(frozen=True, slots=True)
class Train(Message):
    """Server to clients: train on this model, and how."""

    w: Payload
    records: Payload


@dataclass(frozen=True, slots=True)
class Trained(Message):
    """Client to server: where training has led, and what is said of it."""

    w: Payload
    records: Payload


@dataclass(frozen=True, slots=True)
class Changed(Message):
    """Client to server: how far training has led from what was sent, and what is said of it."""

    change: Payload
    records: Payload


@dataclass(frozen=True, slots=True)
class Evaluate(Message):
    """Server to clients: say how good this model is."""

    w: Payload
    records: Payload


@dataclass(frozen=True, slots=True)
class Evaluated(Message):
    """Client to server: how good it is."""

    records: Payload
