"""A star of LoRa radios that share the air around one gateway.

A message is sent frame by frame. Between two frames a device observes its duty cycle. A device of
class A also opens two receive windows after each uplink frame: a downlink frame is sent in one of
them, or waits for the next uplink frame. A device of class A without data sends an empty frame from
time to time (`poll`), and immediately if the gateway has more frames for it.

A lost frame is sent again, after the silence of the duty cycle and a random delay of 1 s to 3 s or
ten frames, until it is received or its tries are used up. ADR commands are part of headers, and
take no airtime of the gateway. Acknowledgements do, with `acknowledge`: a frame then counts as
received only if its acknowledgement fits into a window.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from fedsim.addons.lorawan.air import Air
from fedsim.addons.lorawan.device import FrameMeter, FrameTransfer, Modem
from fedsim.addons.lorawan.gateway import Transmitter
from fedsim.core.ports import ClientId
from fedsim.physics.radios.lora import EU868_PAYLOAD, LoRaRadio
from fedsim.physics.radios.lorawan import LoRaGateway
from fedsim.physics.run_length import RunLengthSequence
from fedsim.protocol.transport import Envelope
from fedsim.results.record.schema import NO_PEER, Event
from fedsim.sim.lazy import LazyTable
from fedsim.sim.members import ClientConfig
from fedsim.sim.network.lane_states import LaneEvent
from fedsim.sim.network.lanes import Lane
from fedsim.sim.network.transport import NetworkParts, ServerLanes
from fedsim.sim.power.radio import RadioMeter
from fedsim.sim.power.supply import state_of_charge

POLL, WINDOWS = "poll", "windows"
"""The details of `tail` rows: an empty frame with its windows, or the windows of another frame."""

BACKOFF = (1.0, 3.0)
"""Range of the uniform random delay before a frame is sent again, s: LoRaWAN's ACK_TIMEOUT."""

BACKOFF_FRAMES = 10.0
"""The same in durations of the frame, if longer: otherwise slow frames would overlap again."""

Draw = Callable[[ClientId], np.random.Generator]


class FrameAnswer(NamedTuple):
    """The answer to an uplink frame.

    Attributes:
        number: of the window, 1 or 2; 0 for no answer.
        seconds: the answer's time on air.
        bare: whether it is only an acknowledgement.
    """

    number: int = 0
    seconds: float = 0.0
    bare: bool = False


NO_ANSWER = FrameAnswer()


class LoRaNetwork(ServerLanes):
    """A star in which LoRa radios share one gateway; radios of other kinds have their lanes.

    Args:
        parts: see `ServerLanes`.
        kinds: the kinds of the clients.
        gateway: the gateway's parameters.
        radio: returns a client's radio.
        rng: returns a client's random stream.
        present: returns whether a client can be reached now.
    """

    def __init__(
        self,
        parts: NetworkParts,
        kinds: RunLengthSequence[ClientConfig],
        gateway: LoRaGateway,
        radio: Callable[[ClientId], RadioMeter],
        rng: Draw,
        present: Callable[[ClientId], bool],
    ) -> None:
        super().__init__(parts)
        self._gateway = gateway
        self._radio, self._rng, self._present = radio, rng, present
        self.air = Air(gateway.capture, gateway.isolation, gateway.demodulators)
        self.transmitter = Transmitter(parts.calendar, self.air, gateway)
        self.devices = LazyTable(self._make_device)
        for client in kinds.where(_polls):
            device = self.devices[client]
            self._await_poll(device, float(device.rng.random()) * _interval(device))

    def _make_device(self, client: ClientId) -> Modem:
        meter = self._radio(client)
        law = meter.law
        if not isinstance(meter, FrameMeter) or not isinstance(law, LoRaRadio):  # pragma: no cover
            raise TypeError(f"client {client} has no LoRa radio")
        return Modem.of(client, law, meter, self._rng(client), self._gateway)

    # -- messages ----------------------------------------------------------------------

    def _start(self, lane: Lane, envelope: Envelope) -> None:
        """Start a message after its latency."""
        if not isinstance(lane.radio, FrameMeter):
            super()._start(lane, envelope)
            return
        device = self.devices[lane.client]
        device.round = envelope.round
        lane.fire(LaneEvent.FLOW)
        lane.silence = 0.0  # the device observes its duty cycle per frame
        lane.transfer = transfer = FrameTransfer(lane, envelope, device.radio.law)
        lane.radio.begin(lane.up, 0.0)
        if not transfer.left:
            self._arrive(lane)
        elif lane.up:
            device.up = transfer
            self._request(device)
        else:
            device.down = transfer
            if device.windowed:
                self._calendar.background_waits += 1  # it waits for the next empty frame
            else:
                self._send_down(device, transfer)

    def _finish(self, device: Modem, transfer: FrameTransfer) -> None:
        """End a message after its last frame."""
        self._forget(device, transfer)
        self._arrive(transfer.lane)

    def _forget(self, device: Modem, transfer: FrameTransfer) -> None:
        if transfer.lane.up:
            device.up = None
        else:
            device.down = None
            self._calendar.background_waits -= device.windowed

    def _pass_frame(self, device: Modem, transfer: FrameTransfer, *, received: bool) -> bool:
        """Count an ended frame of a message; return whether to send it again."""
        transfer.tries += 1
        if not received and transfer.tries_left:
            lane, again = transfer.lane, transfer.bits
            lane.again_bits += again
            if lane.up:
                self._traffic.bits_up += again
            else:
                self._traffic.bits_down += again
            return True
        if not received:
            transfer.lane.fire(LaneEvent.DOOM)
        transfer.advance()
        if not transfer.left:
            self._finish(device, transfer)
        return False

    # -- up ----------------------------------------------------------------------------

    def _request(self, device: Modem) -> None:
        """Schedule the next frame of a device as early as its duty cycle allows, if it has data."""
        if device.scheduled or device.frame is not None or device.receiving:
            return  # the end of the present frame calls this again
        if device.up is None and not device.asked:
            return
        device.scheduled = True
        self._later(max(self._calendar.now, device.free_at), self._send, device)

    def _later(self, when: float, call: Callable[[Modem], None], device: Modem) -> None:
        """Schedule a call; empty frames without data do not keep a run alive."""
        idle = device.up is None and device.down is None
        self._calendar.background += idle

        def happen(_: object) -> None:
            self._calendar.background -= idle
            call(device)

        self._calendar.call(when, happen, None)

    def _send(self, device: Modem) -> None:
        """Send the next frame of a message, or an empty one."""
        device.scheduled = False
        now = self._calendar.now
        if device.frame is not None or device.receiving or now < device.free_at:
            self._request(device)
            return
        if not self._present(device.client) or (device.up is None and not device.asked):
            return
        size = device.law.mac + (0 if device.up is None else device.up.payload)
        end = now + device.law.airtime(size)
        device.asked = False
        device.frame = frame = device.draw_frame(end)
        self.air.begin(frame, now)
        device.meter.begin_frame(now, device.send_watts)
        transfer, idle = device.up, device.up is None and device.down is None
        self._calendar.background += idle
        self._calendar.call(end, self._end_sending, (device, frame, transfer, idle))

    def _end_sending(self, sent: tuple[Modem, object, FrameTransfer | None, bool]) -> None:
        """End an uplink frame: receive it, start the silence, and open the windows."""
        device, frame, transfer, idle = sent
        self._calendar.background -= idle
        if device.frame is not frame or device.frame is None:
            return  # the frame was cut off
        now = self._calendar.now
        seconds = now - device.meter.since
        joules = self._end_frame(device, transfer)
        received = self.air.end(device.frame, now)
        process = self._up[device.client].process
        if process is not None and process.losses(1):
            received = False
        device.frame = None
        device.last = now
        device.free_at = now + seconds * (1 / device.radio.duty - 1)
        if received:
            device.note_snr()
        confirmed = transfer is not None and transfer.confirmed and self._gateway.acknowledge
        if device.windowed or confirmed:
            windows = self._answer(device, confirmed=confirmed) if received else NO_ANSWER
            self._pay_windows(device, joules, windows, empty=transfer is None)
            received = received and (not confirmed or windows.number > 0)
        if transfer is not None and self._pass_frame(device, transfer, received=received):
            # A random delay follows the silence; without it, devices would collide repeatedly.
            least, most = BACKOFF
            most = max(most, least + BACKOFF_FRAMES * seconds)
            device.free_at += float(device.rng.uniform(least, most))
        self._request(device)

    def _end_frame(self, device: Modem, transfer: FrameTransfer | None) -> float:
        """End the frame on the air and charge its message; return energy without a message, J."""
        joules = device.meter.end_frame(self._calendar.now)
        if transfer is None:
            return joules
        device.meter.pay(transfer.lane.up, joules)
        return 0.0

    def _pay_windows(
        self, device: Modem, joules: float, answer: FrameAnswer, *, empty: bool
    ) -> None:
        """Charge the receive windows of a frame, up to the one with the answer."""
        if answer.number != 1:
            joules += device.meter.spend(device.window_joules(second=False))
        if not answer.number:
            joules += device.meter.spend(device.window_joules(second=True))
        if answer.bare:
            joules += device.meter.spend(device.meter.watts(up=False) * answer.seconds)
        second = self._gateway.second_delay
        symbols = 2.0**self._gateway.rx2_spreading / device.law.bandwidth
        device.free_at = max(device.free_at, self._calendar.now + second + 8 * symbols)
        self._write(device, POLL if empty else WINDOWS, joules)

    def _write(self, device: Modem, detail: str, joules: float) -> None:
        """Record energy of a device that belongs to no message.

        The row has no duration, since messages may be in progress at the same time.
        """
        self._traffic.joules += joules
        self._log.append(
            self._calendar.now,
            0.0,
            Event.TAIL,
            device.client,
            NO_PEER,
            device.round,
            joules=joules,
            state_of_charge=state_of_charge(device.meter.supply),
            detail=self._log.word(detail),
        )

    # -- empty frames ------------------------------------------------------------------

    def _await_poll(self, device: Modem, when: float) -> None:
        self._calendar.background += 1
        self._calendar.call(when, self._poll, device)

    def _poll(self, device: Modem) -> None:
        """Send an empty frame if the device has sent nothing for the polling interval."""
        self._calendar.background -= 1
        self._calendar.ensure_alive()
        now, every = self._calendar.now, _interval(device)
        if now >= device.last + every or not device.last:
            device.asked = device.up is None and self._present(device.client)
            self._request(device)
            self._await_poll(device, now + every)
        else:
            self._await_poll(device, device.last + every)

    # -- down --------------------------------------------------------------------------

    def _answer(self, device: Modem, *, confirmed: bool) -> FrameAnswer:
        """Answer a frame in one of its windows, if there is a frame or an acknowledgement to send.

        The next frame of a message to a class A device also serves as an acknowledgement.
        """
        transfer = device.down if device.windowed else None
        if transfer is not None:
            window = self._reserve(device, transfer.payload)
            if window.number:
                begin = self._calendar.now + self._gateway.window_delay(window.number)
                self._expect(device, transfer, begin, window.seconds)
                return window
        return self._reserve(device, 0)._replace(bare=True) if confirmed else NO_ANSWER

    def _reserve(self, device: Modem, payload: int) -> FrameAnswer:
        """Reserve a window for a downlink frame with `payload` bytes, if one is free."""
        now, gateway, size = self._calendar.now, self._gateway, device.law.mac + payload
        seconds = device.law.airtime(size)
        if self.transmitter.reserve(now + gateway.window_delay(1), seconds, "rx1"):
            return FrameAnswer(1, seconds)
        if payload <= EU868_PAYLOAD[gateway.rx2_spreading]:
            seconds = device.radio.law_at(gateway.rx2_spreading).airtime(size)
            if self.transmitter.reserve(now + gateway.window_delay(2), seconds, "rx2"):
                return FrameAnswer(2, seconds)
        return NO_ANSWER

    def _send_down(self, device: Modem, transfer: FrameTransfer) -> None:
        """Send the next frame to an always listening device, as soon as the gateway may send."""
        seconds = device.law.airtime(transfer.law.mac + transfer.payload)
        begin = self.transmitter.earliest("rx2")
        self.transmitter.reserve(begin, seconds, "rx2")
        self._expect(device, transfer, begin, seconds)

    def _expect(self, device: Modem, transfer: FrameTransfer, begin: float, seconds: float) -> None:
        self._calendar.call(begin, self._begin_reception, (device, transfer, seconds))

    def _begin_reception(self, coming: tuple[Modem, FrameTransfer, float]) -> None:
        """Begin to receive a downlink frame, unless the device sends: radios are half-duplex."""
        device, transfer, seconds = coming
        if transfer.stopped:
            return
        now = self._calendar.now
        if listens := device.frame is None:
            device.receiving = True
            device.free_at = max(device.free_at, now + seconds)
            device.meter.begin_frame(now, device.meter.watts(up=False))
        self._calendar.call(now + seconds, self._end_reception, (device, transfer, listens))

    def _end_reception(self, coming: tuple[Modem, FrameTransfer, bool]) -> None:
        """End a downlink frame, and let a class A device poll for the next one."""
        device, transfer, received = coming
        if transfer.stopped:
            return
        if received:
            device.receiving = False
            self._end_frame(device, transfer)
            process = transfer.lane.process
            received = process is None or not process.losses(1)
        if received:
            device.obey()
        self._pass_frame(device, transfer, received=received)
        if device.down is transfer:
            if device.windowed:
                device.asked = device.up is None
            else:
                self._send_down(device, transfer)
        self._request(device)

    # -- ends --------------------------------------------------------------------------

    def abort(self, client: ClientId) -> None:
        """Abort all messages of a client that has left."""
        if client in self.devices:
            self._cut(self.devices[client])
        super().abort(client)

    def close(self) -> None:
        """End the world: log messages in flight, with their energy."""
        for device in self.devices.in_order():
            self._cut(device)
        super().close()

    def _open_messages(self) -> Iterator[tuple[ClientId, float, float]]:
        """See `ServerLanes._open_messages`; frames on the air are added."""
        yield from super()._open_messages()
        for client, device in self.devices.items():
            if joules := device.meter.on_air(self._calendar.now):
                yield client, device.meter.since, joules

    def _cut(self, device: Modem) -> None:
        """Cut off the frame of a device, and its messages."""
        now = self._calendar.now
        if device.frame is not None:
            seconds = now - device.meter.since
            joules = self._end_frame(device, device.up)
            device.frame.lost = True
            self.air.end(device.frame, now)
            device.frame = None
            device.free_at = now + seconds * (1 / device.radio.duty - 1)
            if device.up is None:
                self._write(device, POLL, joules)
        elif device.receiving and device.down is not None:
            self._end_frame(device, device.down)
            device.receiving = False
        device.asked = False
        for transfer in (device.up, device.down):
            if transfer is not None:
                self._forget(device, transfer)


def _interval(device: Modem) -> float:
    return device.radio.end_device.poll


def _polls(kind: ClientConfig) -> bool:
    """Return whether clients of a kind are of class A."""
    radio = kind.radio
    return isinstance(radio, LoRaRadio) and radio.end_device.device_class == "a"
