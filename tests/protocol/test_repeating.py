"""A message that is sent again: a client that has received it already holds what it held."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedsim.core.ports import Array, Message, Packer, Payload
from fedsim.protocol.transport import Unpacking
from fedsim.wire import TopK, ValueFormat
from fedsim.wire.feedback import PACKERS, Feedback
from fedsim.wire.packers import Packing
from tests.tiers import every


@dataclass(frozen=True, slots=True)
class Two(Message):
    """Two vectors."""

    a: Payload
    b: Payload


def packing(feedback: Feedback) -> Packing:
    def make(field: str, number: int, to: int | None = None) -> Packer:
        rng = np.random.default_rng(number)
        return PACKERS[feedback](TopK(count=2), ValueFormat.FLOAT64, rng, number=number)

    return Packing(make)


@every("feedback", ["none", "ef", "ef21"])
@every("one_each", [False, True])
def test_a_receiver_holds_the_same_once_it_has_received_a_message_twice(
    feedback: Feedback, one_each: bool
) -> None:
    """And so from then on: what is packed next finds it where its sender takes it to be."""
    server, receivers = packing(feedback), [Unpacking() for _ in range(3)]
    rng = np.random.default_rng(7)
    for number in range(6):
        a, b = rng.standard_normal((2, 5))

        def said(to: int | None, a: Array = a, b: Array = b) -> Two:
            return Two(server.pack(a, field="a", to=to), server.pack(b, field="b", to=to))

        first: Any = {to: said(to) for to in range(3)} if one_each else said(None)
        again: Any = server.repeat(first) if number in {2, 3} else None
        for client, receiver in enumerate(receivers):
            sent = first[client] if isinstance(first, dict) else first
            once = sent.a.values.tobytes()
            received: Any = receiver.read(-1, sent)
            assert received.a.values.tobytes() == once
            if again is None:
                continue
            twice = again[client] if isinstance(again, dict) else again
            held: Any = receiver.read(-1, twice)
            assert held.a.values.tobytes() == twice.a.values.tobytes() == once
            assert held.b.values.tobytes() == twice.b.values.tobytes() == sent.b.values.tobytes()
