"""The energy of LoRa radios recomputed from the log: frames of messages, empty frames, windows.

The laws of `fedsim.addons.lorawan` are implemented a second time, in their simplest form. If ADR
sets spreading factor and power, the log does not contain them, so an energy is an interval.
"""

from collections.abc import Iterator
from dataclasses import replace

from fedsim.addons.conformance.client_traces import ClientTrace, Leg
from fedsim.physics.radios import RadioLaw
from fedsim.physics.radios.lora import LoRa, LoRaRadio
from fedsim.physics.radios.lorawan import LoRaGateway

DETAILS = ("poll", "windows")
"""The details of rows of empty frames and windows."""

_SYMBOLS = 8  # length of a window without a frame
_CLOSE = 1e-9


def seconds_on_air(radio: RadioLaw, leg: Leg) -> list[tuple[float, float]]:
    """Return the bounds of a message's bits and of its time on air, s."""
    if not isinstance(radio, LoRaRadio) or not (leg.up and leg.whole) or radio.end_device.adr:
        return [(leg.bits, 0.0), (leg.bits, leg.seconds)]
    frames = radio.law.span(leg.plain).on_air
    # The log does not say whether full frames or the last, shorter one were sent again.
    ends = [frames] if leg.bits == leg.framed else [frames, leg.seconds]
    return [(leg.bits, seconds) for seconds in ends]


def check_windows(trace: ClientTrace, gateway: LoRaGateway) -> Iterator[str]:
    """Yield empty frames and windows whose energy does not follow from their time on air."""
    radio = trace.body.radio
    if not isinstance(radio, LoRaRadio):
        return
    send, receive = (max(watts - radio.waiting, 0.0) for watts in (radio.send, radio.receive))
    factors = range(7, 13) if radio.end_device.adr else [radio.spreading]
    second = receive * _SYMBOLS * 2**gateway.rx2_spreading / radio.bandwidth
    for row in trace.of("tail"):
        if row["detail"] not in DETAILS:
            continue
        costs = list[float]()
        for factor in factors:
            law = LoRa(spreading=factor, bandwidth=radio.bandwidth, coding=radio.coding)
            frame = send * law.airtime(law.mac) if row["detail"] == "poll" else 0.0
            first = receive * _SYMBOLS * 2**factor / radio.bandwidth
            costs += [frame, frame + first, frame + first + second]
            if gateway.acknowledge:
                late = LoRa(spreading=gateway.rx2_spreading, bandwidth=radio.bandwidth)
                late = replace(late, coding=radio.coding)
                answers = [law.airtime(law.mac), late.airtime(late.mac)]
                costs += [receive * answers[0], first + receive * answers[1]]
        joules = row["joules"]
        # ADR may have lowered the power; an empty battery cuts a frame off.
        less = radio.end_device.adr or row["state_of_charge"] is not None
        exact = any(abs(joules - cost) <= _CLOSE * cost for cost in costs)
        if not (exact or (less and joules <= max(costs) * (1 + _CLOSE))):
            expected = " or ".join(f"{cost:g} J" for cost in costs)
            spent = f"{joules:g} J, and {expected} by its time"
            yield f"{row['detail']} at {row['t']:g} s costs {spent}"
