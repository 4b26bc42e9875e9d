"""An end device: its messages frame by frame, its duty cycle and its receive windows."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np

from fedsim.addons.lorawan.air import LoRaFrame
from fedsim.core.ports import ClientId
from fedsim.physics.radios.lora import LoRa, LoRaRadio
from fedsim.physics.radios.lorawan import (
    REQUIRED_SNR,
    LoRaGateway,
    adapt,
    dbm,
    noise_dbm,
    supply_current,
)
from fedsim.protocol.transport import Envelope
from fedsim.sim.network.lanes import Lane
from fedsim.sim.power.radio import RadioMeter
from fedsim.sim.power.radio_kind import RadioKind
from fedsim.sim.power.supply import Part, Supply

WINDOW = 8
"""Length of a receive window without a frame, symbols (LoRaMac's default)."""


class FrameTransfer:
    """A message in progress, frame by frame.

    Args:
        lane: its lane.
        envelope: the message.
        law: the modem; its `frame_payload` is the payload of a frame.
    """

    __slots__ = ("_passed", "lane", "law", "left", "stopped", "tries")

    def __init__(self, lane: Lane, envelope: Envelope, law: LoRa) -> None:
        self.lane = lane
        self.law = law
        self.left = -(-envelope.bits // 8)  # bytes, rounded up
        self.tries = 0  # of the present frame
        self.stopped = False
        self._passed = 0

    @property
    def payload(self) -> int:
        """The bytes of the message in the present frame."""
        return min(self.left, self.law.frame_payload)

    @property
    def bits(self) -> int:
        """The bits of the present frame, its MAC included."""
        return 8 * (self.payload + self.law.mac)

    @property
    def confirmed(self) -> bool:
        """Whether frames are acknowledged, so that a lost one can be sent again."""
        return self.lane.radio.law.most_tries != 1

    @property
    def tries_left(self) -> bool:
        """Whether the present frame may be sent once more."""
        most = self.lane.radio.law.most_tries
        return most is None or self.tries < most

    def advance(self) -> None:
        """Move on to the next frame."""
        self._passed += self.bits
        self.left -= self.payload
        self.tries = 0

    def passed(self, now: float) -> float:
        """Return the bits of ended frames."""
        return self._passed

    def stop(self) -> None:
        """Abort the message."""
        self.stopped = True


class FrameMeter(RadioMeter):
    """Meters a half-duplex radio that is on for frames, not for whole messages.

    A message pays for its own frames. Energy of other frames is paid as it is spent.
    """

    __slots__ = ("_spent", "_watts", "since")

    def __init__(self, kind: RadioKind, supply: Supply | None = None) -> None:
        super().__init__(kind, supply)
        self._watts = 0.0  # power of the frame on the air, if any, W
        self.since = 0.0
        self._spent = [0.0, 0.0]  # joules of messages in progress, down and up

    def watts(self, up: bool) -> float:
        """Return the power of a frame in one direction beyond rest, W."""
        return self._kind.powers.on_air[up]

    def begin_frame(self, now: float, watts: float) -> None:
        """Draw this power from now on, W."""
        self.since, self._watts = now, watts
        self.update_load()

    def end_frame(self, now: float) -> float:
        """End the frame on the air, if any; return its energy, which no message has paid, J."""
        joules = self._watts * (now - self.since)
        self._watts = 0.0
        self.joules += joules
        self.update_load()
        self.book()
        return joules

    def pay(self, up: bool, joules: float) -> None:
        """Charge a frame to the message in progress in one direction."""
        self._spent[up] += joules

    def spend(self, joules: float) -> float:
        """Spend energy at once; return what the battery, if any, supplied of it, J."""
        if self.supply is not None:
            joules = self.supply.spend(Part.RADIO, joules)
        self.joules += joules
        return joules

    def end(self, now: float, bits: float, up: int) -> float:
        """Return the energy of a completed message, J."""
        joules, self._spent[up] = self._spent[up], 0.0
        self.began[up] = inf
        return joules

    def unsettled(self, now: float, passed: Sequence[float]) -> float:
        """Return the energy of ended frames of messages in progress, J."""
        return sum(self._spent)

    def on_air(self, now: float) -> float:
        """Return the energy so far of the frame on the air, J; 0 without one."""
        return self._watts * (now - self.since)

    @property
    def power(self) -> float:
        """The present power beyond idle power, W."""
        return self._watts


@dataclass(slots=True)
class Modem:
    """The state of a client's modem.

    Attributes:
        client: the number of the client.
        radio: its radio block.
        meter: its energy meter.
        law: the modem at its present spreading factor.
        power: its transmit power, dBm.
        loss: the path loss to the gateway, dB.
        rng: draws channels and delays.
        gateway: the gateway's parameters.
        free_at: the earliest time of its next frame, s, after duty cycle and windows.
        last: the end of its last frame, s.
        up, down: its messages in progress.
        frame: its frame on the air.
        receiving: whether a frame for it is on the air.
        scheduled: whether a call to send is scheduled.
        asked: whether it sends an empty frame as soon as possible.
        snrs: signal-to-noise ratios of its frames since the last decision of ADR, dB.
        command: spreading factor and power set by ADR, until the device receives the command.
        round: the round of its last message.
    """

    client: ClientId
    radio: LoRaRadio
    meter: FrameMeter
    law: LoRa
    power: float
    loss: float
    rng: np.random.Generator
    gateway: LoRaGateway
    free_at: float = 0.0
    last: float = 0.0
    up: FrameTransfer | None = None
    down: FrameTransfer | None = None
    frame: LoRaFrame | None = None
    receiving: bool = False
    scheduled: bool = False
    asked: bool = False
    snrs: list[float] = field(default_factory=list)
    command: tuple[int, float] | None = None
    round: int = 0

    @classmethod
    def of(
        cls,
        client: ClientId,
        radio: LoRaRadio,
        meter: FrameMeter,
        rng: np.random.Generator,
        gateway: LoRaGateway,
    ) -> "Modem":
        """Return a device in its initial state; its shadowing is drawn once, here."""
        spec = radio.end_device
        loss = spec.path_loss + spec.shadowing * float(rng.standard_normal())
        return cls(client, radio, meter, radio.law, dbm(spec.power), loss, rng, gateway)

    @property
    def windowed(self) -> bool:
        """Whether it is of class A, which listens only after it has sent."""
        return self.radio.end_device.device_class == "a"

    @property
    def snr(self) -> float:
        """The signal-to-noise ratio of its frames at the gateway, dB."""
        noise = noise_dbm(self.law.bandwidth, self.gateway.noise_figure)
        return self.power - self.loss - noise

    @property
    def send_watts(self) -> float:
        """The power while it sends, beyond rest, W; less if ADR has lowered its transmit power."""
        full = dbm(self.radio.end_device.power)
        share = supply_current(self.power) / supply_current(full)
        whole = (self.meter.watts(up=True) + self.radio.waiting) * share
        return max(whole - self.radio.waiting, 0.0)

    def draw_frame(self, until: float) -> LoRaFrame:
        """Return the device's next frame, on a random channel; one too weak to receive is lost.

        Args:
            until: the end of the frame, s.
        """
        channel = int(self.rng.integers(self.gateway.channels))
        faint = self.snr < REQUIRED_SNR[self.law.spreading]
        return LoRaFrame(self.power - self.loss, channel, self.law.spreading, until, faint)

    def window_joules(self, *, second: bool) -> float:
        """Return the energy of a receive window without a frame, J."""
        factor = self.gateway.rx2_spreading if second else self.law.spreading
        return self.meter.watts(up=False) * WINDOW * 2.0**factor / self.law.bandwidth

    def note_snr(self) -> None:
        """Pass the signal-to-noise ratio of a received frame to ADR."""
        if not self.radio.end_device.adr:
            return
        self.snrs.append(self.snr)
        if len(self.snrs) >= self.gateway.adr_frames:
            most, margin = dbm(self.radio.end_device.power), self.gateway.adr_margin
            best = adapt(self.law.spreading, self.power, max(self.snrs), margin, most)
            self.command = None if best == (self.law.spreading, self.power) else best
            self.snrs.clear()

    def obey(self) -> None:
        """Apply a received ADR command."""
        if self.command is not None:
            spreading, self.power = self.command
            self.law = self.radio.law_at(spreading)
            self.command = None
            self.snrs.clear()
