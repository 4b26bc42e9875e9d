"""Packets: every bit has its place, and framing is what the packets add."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.physics.radios.channel import NONE, Framing


@given(st.integers(0, 60), st.integers(61, 2000), st.integers(0, 10**9))
def test_a_message_fits_its_packets_and_no_fewer(overhead: int, packet: int, message: int) -> None:
    framing = Framing(overhead, packet)
    packets = framing.packets(message)
    assert message + framing.bits(message) <= 8 * packet * packets
    if packets:
        assert message > 8 * (packet - overhead) * (packets - 1)
    assert framing.bits(message) == 8 * overhead * packets


def test_lte_frames_60_bytes_of_1500() -> None:
    lte = Framing(60, 1500)
    assert [lte.packets(8 * size) for size in (0, 1, 1440, 1441, 2880)] == [0, 1, 1, 2, 2]
    assert lte.bits(8 * 1440) == 480
    assert lte.bits(0) == 0


def test_without_framing_packets_add_nothing() -> None:
    assert NONE.bits(10**6) == 0
    assert NONE.packets(10**6) == 84


@pytest.mark.parametrize(("overhead", "packet"), [(-1, 100), (100, 100), (1, 0)])
def test_what_leaves_no_room_is_refused(overhead: int, packet: int) -> None:
    with pytest.raises(ValueError, match=f"got an overhead of {overhead} of {packet} bytes"):
        Framing(overhead, packet)
