"""The table of radios: rates, latencies and powers, with where they are from.

Latency is half of the round-trip time. A power per rate is an energy per bit: 1 mW/(Mbit/s)
is 1 nJ/bit. Framing is what every packet carries beside the message's own bits.
"""

from collections.abc import Mapping

from fedsim.blocks.presets import Preset

_HUANG = "[lit] Huang et al., A Close Examination of 4G LTE Networks, MobiSys 2012"
_HUANG_3G = f"{_HUANG}: its 3G"
_POWER_2021 = "[est] from a public data set of 2021; the tail, of 10 s, at the base power"
_CHIP = "[est] state powers of a radio chip of its class"
_NARROW = "[est] state powers of a module of its class; packets of 1500 bytes as in LTE"


def _radio(
    mbits: tuple[float, float], latency: str, framing: str, basis: str, **powers: str
) -> Preset:
    """Return a radio by its rates up and down in Mbit/s, "bytes per packet", and its powers."""
    overhead, _, packet = framing.partition(" per ")
    values = {
        "up": f"{mbits[0]:g} Mbit/s",
        "down": f"{mbits[1]:g} Mbit/s",
        "latency": latency,
        "energy_up": "0 J/bit",
        "energy_down": "0 J/bit",
        "base": "0 W",
        "framing": f"{overhead} B",
        "packet": f"{packet} B",
    }
    return Preset(basis, values | powers)


def _linear(up: float, down: float, base: float) -> dict[str, str]:
    """Return power as alpha_u * up + alpha_d * down + beta: mW/(Mbit/s) twice, and mW."""
    return {
        "energy_up": f"{up:g} mW/(Mbit/s)",
        "energy_down": f"{down:g} mW/(Mbit/s)",
        "base": f"{base:g} mW",
    }


def _tail(power: float, seconds: float) -> dict[str, str]:
    return {"tail_power": f"{power:g} mW", "tail_time": f"{seconds:g} s"}


def _promotion(power: float, seconds: float) -> dict[str, str]:
    return {"promotion_power": f"{power:g} mW", "promotion_time": f"{seconds:g} s"}


def _states(send: float, receive: float, idle: float = 0.0) -> dict[str, str]:
    return {"send": f"{send:g} mW", "receive": f"{receive:g} mW", "idle": f"{idle:g} mW"}


RADIOS: Mapping[str, Preset] = {
    "ideal": Preset(
        "sends in no time, for nothing",
        {
            "up": "unlimited",
            "down": "unlimited",
            "latency": "0 s",
            "energy_up": "0 J/bit",
            "energy_down": "0 J/bit",
            "base": "0 W",
        },
    ),
    "ble": _radio((0.7, 0.7), "15 ms", "17 per 244", _CHIP, **_states(14.4, 13.8)),
    "zigbee": _radio((0.1, 0.1), "10 ms", "27 per 127", _CHIP, **_states(52, 56)),
    "nb-iot": _radio((0.03, 0.025), "750 ms", "40 per 1500", _NARROW, **_states(792, 166, 22)),
    "umts": _radio(
        (0.94, 2.0),
        "60 ms",
        "40 per 1500",
        _HUANG_3G,
        **_linear(868.98, 122.12, 817.88),
        **_tail(804, 8.1),
        **_promotion(659, 0.58),
    ),
    "lte": _radio(
        (6, 13),
        "30 ms",
        "60 per 1500",
        _HUANG,
        **_linear(438.39, 51.97, 1288.04),
        **_tail(1060, 11.6),
        **_promotion(1211, 0.26),
    ),
    "lte-2020": _radio(
        (20, 40),
        "25 ms",
        "60 per 1500",
        _POWER_2021,
        **_linear(76.7, 11.5, 1000),
        **_tail(1000, 10),
    ),
    "5g-low": _radio(
        (40, 100),
        "20 ms",
        "60 per 1500",
        _POWER_2021,
        **_linear(32.2, 11.5, 1200),
        **_tail(1200, 10),
    ),
    "5g-mmwave": _radio(
        (130, 800),
        "10 ms",
        "60 per 1500",
        _POWER_2021,
        **_linear(8.9, 1.73, 3000),
        **_tail(3000, 10),
    ),
    "wifi": _radio(
        (20, 30),
        "5 ms",
        "66 per 1514",
        _HUANG,
        **_linear(283.17, 137.01, 132.86),
        **_tail(119, 0.24),
        **_promotion(124, 0.08),
    ),
    "ethernet": _radio(
        (940, 940),
        "0.5 ms",
        "66 per 1514",
        "[est] gigabit; the power does not depend on the rate",
        base="0.5 W",
    ),
}
"""The presets of constant rate. [lit] is the cited paper, [est] good to a factor of about 2."""


def _lora(spreading: int) -> Preset:
    return Preset(
        "[est] state powers of a modem of its class; EU868 payloads and 1 % duty cycle",
        {"spreading": spreading},
    )


LORA: Mapping[str, Preset] = {f"lora-sf{factor}": _lora(factor) for factor in range(7, 13)}
"""The presets of LoRa, by spreading factor."""
