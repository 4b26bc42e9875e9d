"""A gateway's transmitter by brute force, and a device's frames and rate by their definitions."""

from typing import Any, cast

import numpy as np
import pytest

from fedsim.addons.lorawan.air import Air
from fedsim.addons.lorawan.device import FrameTransfer, Modem
from fedsim.addons.lorawan.gateway import Band, Transmitter
from fedsim.physics.radios.lora import LoRaRadio
from fedsim.physics.radios.lorawan import REQUIRED_SNR, LoRaGateway, dbm
from fedsim.sim.engine.calendar import Calendar
from tests.tiers import every

DUTY: dict[Band, float] = {"rx1": 0.25, "rx2": 0.5}
LAW = LoRaGateway.model_validate({"rx1_duty": "25 %", "rx2_duty": "50 %"})


class Jammed:
    """Stands in for the air."""

    def __init__(self) -> None:
        self.spans: list[tuple[float, float]] = []

    def jam(self, now: float, until: float) -> None:
        self.spans.append((now, until))


def transmitter() -> tuple[Calendar, Jammed, Transmitter]:
    calendar, air = Calendar(), Jammed()
    return calendar, air, Transmitter(calendar, cast("Air", air), LAW)


@every("seed", range(6))
def test_a_frame_is_sent_where_no_other_is_and_its_band_may(seed: int) -> None:
    rng = np.random.default_rng(seed)
    calendar, air, sender = transmitter()
    taken: list[tuple[float, float]] = []
    silent = dict.fromkeys(DUTY, 0.0)
    begins = dict.fromkeys(DUTY, 0.0)
    for _ in range(900):  # many more than are kept; whole numbers, of which many touch
        now = float(rng.integers(0, 3)) + calendar.now
        if now > calendar.now:
            calendar.run(until=now)
        band: Band = "rx1" if rng.random() < 0.5 else "rx2"
        begin = max(begins[band], calendar.now + float(rng.integers(0, 6)))
        begins[band], seconds = begin, float(rng.integers(1, 3))
        free = all(begin >= last or begin + seconds <= first for first, last in taken)
        may = free and begin >= silent[band]
        assert sender.reserve(begin, seconds, band) == may
        if may:
            taken.append((begin, begin + seconds))
            silent[band] = begin + seconds / DUTY[band]
        last = max((end for _, end in taken), default=0.0)
        assert sender.earliest(band) == max(calendar.now, last, silent[band])
    calendar.run(until=calendar.now + 100.0)
    assert len(taken) > 150
    assert air.spans == sorted(taken)
    assert sender.on_air == sum(end - begin for begin, end in taken)


def modem(*, adr: bool = True, **gateway: Any) -> Modem:
    given = {"kind": "lora-sf9", "lorawan": {"path_loss": "120 dB", "adr": adr}}
    radio = LoRaRadio.model_validate(given)
    meter: Any = type("Meter", (), {"watts": staticmethod(lambda up: 0.4 if up else 0.03)})()
    rng = np.random.default_rng(0)
    return Modem.of(0, radio, meter, rng, LoRaGateway.model_validate(gateway))


def transfer(bits: int, tries: int | None = None) -> FrameTransfer:
    law: Any = type("Law", (), {"most_tries": tries})
    lane: Any = type("Lane", (), {"radio": type("Radio", (), {"law": law})})
    envelope: Any = type("Envelope", (), {"bits": bits})
    return FrameTransfer(lane, envelope, modem().law)


@every("bits", [1, 8, 9, 8 * 242, 8 * 500, 8 * 500 + 1])
def test_frames_carry_every_byte_of_a_message_once(bits: int) -> None:
    sent = transfer(bits)
    law, payloads, total = sent.law, list[int](), 0
    while sent.left:
        assert sent.passed(0.0) == total
        payloads.append(sent.payload)
        total += sent.bits
        sent.tries = 2
        sent.advance()
        assert sent.tries == 0
    assert sum(payloads) == -(-bits // 8)
    assert len(payloads) == -(-bits // (8 * law.frame_payload))
    assert all(each == law.frame_payload for each in payloads[:-1])
    assert sent.passed(0.0) == 8 * (sum(payloads) + law.mac * len(payloads))


def test_a_frame_is_sent_as_often_as_its_tries() -> None:
    sent = transfer(8, tries=2)
    for _ in range(2):
        assert sent.tries_left
        sent.tries += 1
    assert not sent.tries_left
    assert transfer(8, tries=None).tries_left


def test_adr_decides_by_the_best_of_its_frames_and_begins_anew() -> None:
    device = modem(adr_frames=3)
    begin = device.law.spreading, device.power
    losses = iter((140.0, 100.0, 140.0))  # the second frame is by far the best
    for heard in range(3):
        assert device.command is None, heard
        device.loss = next(losses)
        device.note_snr()
    assert device.snrs == []
    assert device.command is not None
    assert device.command != begin
    decided = device.command
    device.note_snr()
    device.obey()
    assert (device.law.spreading, device.power) == decided
    assert [device.command, *device.snrs] == [None]


def test_without_adr_nothing_is_noted() -> None:
    device = modem(adr=False, adr_frames=1)
    device.note_snr()
    assert not device.snrs
    assert device.command is None


@pytest.mark.parametrize(("above", "faint"), [(0.0, False), (1.0, False), (-1e-9, True)])
def test_a_frame_at_the_required_ratio_is_heard_and_one_below_it_is_faint(
    above: float, monkeypatch: pytest.MonkeyPatch, *, faint: bool
) -> None:
    device = modem()
    monkeypatch.setattr(Modem, "snr", REQUIRED_SNR[device.law.spreading] + above)
    assert device.draw_frame(1.0).lost == faint


def test_at_full_power_it_draws_what_its_radio_states_beyond_rest() -> None:
    device = modem()
    assert device.power == dbm(device.radio.end_device.power)
    assert device.send_watts == pytest.approx(0.4)
    device.power -= 6.0
    assert 0.0 < device.send_watts < 0.4
