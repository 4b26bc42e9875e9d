"""LoRa: published times on air, and a duty cycle that is kept."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.physics.radios.lora import EU868_PAYLOAD, LoRa
from tests.tiers import every

MODEMS = st.builds(
    LoRa,
    spreading=st.integers(7, 12),
    bandwidth=st.sampled_from([125e3, 250e3, 500e3]),
    coding=st.integers(1, 4),
    preamble=st.integers(6, 12),
    crc=st.booleans(),
    explicit_header=st.booleans(),
    mac=st.integers(0, 20),
    duty=st.floats(1e-3, 1),
)


@every(
    ("spreading", "size", "milliseconds"),
    [
        (7, 222 + 13, 368.9),
        (12, 51 + 13, 2793.5),
        (7, 5, 30.976),  # by hand: 12.25 + 8 + 2 blocks of 5 symbols, full to the last bit
        (7, 23, 61.7),  # 10 bytes and 13 of MAC: what LoRaWAN's users know by heart
        (8, 23, 113.2),
        (9, 23, 205.8),
        (10, 23, 370.7),
        (11, 23, 823.3),
        (12, 23, 1482.8),
    ],
)
def test_times_on_air_are_the_published_ones(
    spreading: int, size: int, milliseconds: float
) -> None:
    assert 1e3 * LoRa(spreading=spreading).airtime(size) == pytest.approx(milliseconds, abs=0.05)


def test_an_implicit_header_saves_symbols_and_a_checksum_costs_them() -> None:
    sizes = range(1, 100)
    plain, short = LoRa(), LoRa(explicit_header=False, crc=False)
    assert all(short.airtime(size) < plain.airtime(size) for size in sizes)
    # 36 bits at 28 a block: one block or two of them.
    saved = {round((plain.airtime(n) - short.airtime(n)) / plain.symbol) for n in sizes}
    assert saved == {5, 10}


def test_long_symbols_carry_two_bits_less() -> None:
    assert [LoRa(spreading=sf).bits_per_symbol for sf in range(7, 13)] == [7, 8, 9, 10, 9, 10]
    assert LoRa(spreading=12, bandwidth=500e3).bits_per_symbol == 12


@given(MODEMS, st.integers(1, 255))
def test_no_frame_is_faster_than_the_modem(modem: LoRa, size: int) -> None:
    assert 8 * size / modem.airtime(size) <= modem.peak
    assert modem.airtime(size) <= modem.airtime(size + 1)


def test_the_bit_rate_is_the_known_one() -> None:
    assert LoRa().peak == pytest.approx(5468.75)
    assert LoRa(spreading=9, coding=4).peak == pytest.approx(9 / 2 * 125e3 / 512)


@given(MODEMS, st.integers(1, 10**5))
def test_a_message_is_sent_frame_by_frame(modem: LoRa, bits: int) -> None:
    span, left, clock, on_air, frames = modem.span(bits), -(-bits // 8), 0.0, 0.0, 0
    silence = 0.0
    while left:
        size = min(left, EU868_PAYLOAD[modem.spreading])
        time = modem.airtime(size + modem.mac)
        clock += silence + time
        silence = time * (1 / modem.duty - 1)
        on_air, left, frames = on_air + time, left - size, frames + 1
    assert frames == modem.frames(bits)
    assert span.elapsed == pytest.approx(clock)
    assert span.on_air == pytest.approx(on_air)
    assert span.rest == pytest.approx(silence)
    assert span.framing_bits == 8 * modem.mac * frames


@given(MODEMS, st.integers(1, 10**5))
def test_the_duty_cycle_is_kept(modem: LoRa, bits: int) -> None:
    span = modem.span(bits)
    assert span.on_air / (span.elapsed + span.rest) == pytest.approx(modem.duty)


def test_the_region_or_the_user_limits_a_frame() -> None:
    limits = [LoRa(spreading=sf).frame_payload for sf in range(7, 13)]
    assert limits == [222, 222, 115, 51, 51, 51]
    assert LoRa(payload=1).frames(17) == 3
    assert LoRa(spreading=6, payload=10).frame_payload == 10


def test_no_bits_take_no_time() -> None:
    span = LoRa().span(0)
    assert (span.elapsed, span.on_air, span.rest, span.framing_bits) == (0, 0, 0, 0)


@every(
    ("name", "value"),
    [
        ("spreading", 13),
        ("spreading", 6),  # no payload is known
        ("coding", 5),
        ("preamble", -1),
        ("mac", 255),
        ("bandwidth", 0.0),
        ("duty", 0.0),
        ("duty", 1.1),
        ("payload", 0),
        ("payload", 243),
    ],
)
def test_what_no_modem_does_is_refused(name: str, value: float) -> None:
    changed: dict[str, Any] = {name: value}
    with pytest.raises(ValueError, match=f"{value:g}"):
        LoRa(**changed)
