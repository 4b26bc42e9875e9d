"""What is read from a log by client: each message has the bits of the row that is about it."""

from typing import Any

import pytest

from fedsim.addons.conformance.client_traces import Body, read_traces
from tests.sim.devices import device_of
from tests.sim.radios import RadioModel


def row(event: str, node: str, peer: str | None, bits: int, **more: Any) -> dict[str, Any]:
    """Return a row of the log at 5 s, of a message whose bits flowed for 2 s."""
    return {
        "t": 5.0, "duration": 2.0, "event": event, "node": node, "peer": peer, "round": 1,
        "payload_bits": bits, "header_bits": 0, "transport_bits": 0, "detail": None, **more,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("sender", "event", "to"), [("client-1", "lost", "client-0"), ("server", "send", None)]
)
def test_each_of_two_messages_that_are_lost_at_once_has_its_own_bits(
    sender: str, event: str, to: str | None
) -> None:
    """The row that has them follows that of the receiver, and the other one precedes it."""
    rows = [
        each
        for bits in (100, 700)
        for each in (
            row("receive", "client-0", sender, 0, detail="lost"),
            row(event, sender, to, bits),
        )
    ]
    body = Body("client-0", device_of(), RadioModel(1.0, 1.0))
    legs = read_traces([body], rows)["client-0"].legs
    if sender == "server":  # a broadcast ends for a client once
        assert [leg.plain for leg in legs] == [100]
    else:
        assert [leg.plain for leg in legs] == [100, 700]
    assert {(leg.up, leg.begin, leg.end, leg.whole) for leg in legs} == {(False, 3.0, 5.0, True)}
