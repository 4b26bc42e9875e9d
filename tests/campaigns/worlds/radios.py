"""Draws of radios: every preset, and all that can be written instead of one."""

from collections.abc import Callable

from fedsim.physics.radios.presets import CELLULAR, LORA, NB_IOT, RADIOS

from .dice import Block, Dice

UNITS = ("kbit/s", "Mbit/s", "Gbit/s")
LATENCIES = ((1e-6, 1e-2), (1e-3, 1.0))
LONG = ((1.0, 1e3), (1e3, 1e6))
"""s; these take clocks to 1e7 s."""


def rate(dice: Dice) -> str:
    """Draw a rate, from a bit in minutes, in slow worlds, to 1 Tbit/s."""
    if dice.chance(0.1):
        return "unlimited"
    if dice.slow and dice.chance(0.3):
        return dice.quantity(0.01, 1000, "bit/s")
    return dice.quantity(0.1, 1000, dice.one(UNITS))


def latency(dice: Dice) -> str:
    regimes = (*LATENCIES, *LONG) if dice.slow else LATENCIES
    return "0 s" if dice.chance(0.2) else dice.quantity(*dice.one(regimes), "s")


def _power(dice: Dice) -> str:
    return "0 W" if dice.chance(0.4) else dice.quantity(1e-6, 30, "W")


def _per_bit(dice: Dice) -> str:
    return "0 J/bit" if dice.chance(0.3) else dice.quantity(1e-3, 1e5, "nJ/bit")


def listening(dice: Dice) -> Block:
    """Draw what a receiver draws between messages, in a third of all radios."""
    if not dice.chance(0.35):
        return {}
    return dice.options(
        {"listen": _power(dice), "sleep": _power(dice), "listening": dice.percent(0, 100)}, 0.7
    )


def custom(dice: Dice) -> Block:
    """Draw a radio of which every value is given."""
    needed = {"up": rate(dice), "down": rate(dice), "latency": latency(dice)}
    costs = {"energy_up": _per_bit(dice), "energy_down": _per_bit(dice), "base": _power(dice)}
    waking = {"promotion_power": _power(dice), "promotion_time": dice.quantity(1e-3, 10, "s")}
    tail = {"tail_power": _power(dice), "tail_time": dice.quantity(1e-3, 100, "s")}
    block: Block = {**needed, **costs}
    block |= dice.options({"send": _power(dice), "receive": _power(dice), "idle": _power(dice)})
    block |= listening(dice)
    return block | (waking if dice.chance(0.4) else {}) | (tail if dice.chance(0.4) else {})


def _packets(dice: Dice) -> Block:
    framing = dice.whole(0, 80)
    return {"framing": f"{framing} B", "packet": f"{framing + dice.whole(1, 1500)} B"}


def _way(dice: Dice) -> Block:
    return {"direction": dice.one(["up", "up", "down"])}


RATE_FILES: dict[str, Callable[[Dice], Block]] = {
    "csv": lambda dice: {"path": "rate.csv"},
    "ucc-5g": lambda dice: {"path": "ucc.csv", **_way(dice)},
    "lumos5g": lambda dice: {"path": "lumos.csv", "run": dice.one([1, 2])},
    "pensieve": lambda dice: {"path": "pensieve.txt"},
    "monroe": lambda dice: {"path": "flows.json", **_way(dice)},
}


def _trace(dice: Dice) -> Block:
    block: Block = dice.options({"shift": "random"}, 0.5)
    if dice.slow:
        return {"kind": "csv", "path": "slow.csv"} | block
    if dice.chance(0.2):
        return {"kind": "mahimahi", "path": "rate.up"} | block
    again: Block = {"repeat": False} if dice.chance(0.4) else block
    kind = dice.one(list(RATE_FILES))
    return {"kind": kind, **RATE_FILES[kind](dice)} | again


def shannon(dice: Dice) -> Block:
    further = {
        "shadowing": f"{dice.whole(0, 12)} dB",
        "noise": "-150 dBm/Hz",
        "attenuation": dice.percent(1, 100),
        "most": "unlimited",
        "latency": latency(dice),
        "send": _power(dice),
        "receive": _power(dice),
        "idle": _power(dice),
    }
    return {
        "bandwidth": dice.quantity(1e3, 1e7, "Hz"),
        "power": dice.quantity(0.1, 1e3, "mW"),
        "server_power": dice.quantity(0.1, 10, "W"),
        "distance": dice.quantity(1, 900, "m"),
        **dice.options(further),
        **listening(dice),
        **(_packets(dice) if dice.chance(0.3) else {}),
    }


def first_order(dice: Dice) -> Block:
    block: Block = {"up": rate(dice), "down": rate(dice), "distance": dice.quantity(1, 900, "m")}
    further = {"latency": latency(dice), "electronics": _per_bit(dice), "idle": _power(dice)}
    block |= dice.options({**further, "amplifier": dice.quantity(1, 1e3, "pJ/bit/m^2")})
    block |= listening(dice)
    return block | (_packets(dice) if dice.chance(0.3) else {})


def lora(dice: Dice) -> Block:
    further = {"duty": dice.percent(1, 100), "coding": dice.whole(1, 4), "latency": latency(dice)}
    powers = {key: _power(dice) for key in ("send", "receive", "idle")}
    width = {"bandwidth": dice.one(["250 kHz", "500 kHz"])}
    return dice.options({**further, **powers, **width}) | listening(dice)


def end_device(dice: Dice) -> Block:
    """Draw what a LoRa radio is to a gateway, in most of those that have one."""
    every = (1e4, 1e6) if dice.slow else (60, 3600)
    block = dice.options(
        {
            "device_class": dice.one(["a", "b", "c"]),
            "poll": dice.quantity(every[0], every[1], "s"),
            "adr": True,
            "power": dice.quantity(5, 25, "mW"),
            "path_loss": f"{dice.whole(60, 140)} dB",
            "shadowing": f"{dice.whole(1, 8)} dB",
        },
        0.5,
    )
    return {"lorawan": block} if block else {}


def narrowband(dice: Dice) -> Block:
    """Draw an NB-IoT module, with and without PSM; what is on is on for less than its cycle."""
    powers = {key: _power(dice) for key in ("idle", "send", "receive", "doze", "between")}
    waking = {"resume_power": _power(dice), "resume_time": dice.quantity(1e-3, 2, "s")}
    times = {"listen": dice.quantity(1e-3, 1, "s"), "connected": dice.quantity(1e-3, 30, "s")}
    cycles = {
        key: "0 s" if dice.chance(0.2) else dice.quantity(0.6, 10, "s")
        for key in ("drx_cycle", "paging_cycle")
    }
    on = {key: dice.quantity(1e-3, 0.5, "s") for key in ("drx_on", "paging_on")}
    rates = {"up": rate(dice), "down": rate(dice), "latency": latency(dice)}
    every = {**powers, **waking, **times, **cycles, **on, "repetitions": dice.whole(1, 20)}
    block = dice.options({**rates, **every})
    if dice.chance(0.5):
        block |= {"tau": dice.quantity(80, 500, "s"), "paged": dice.quantity(0.1, 30, "s")}
        block["sync_time"] = dice.quantity(1e-3, 5, "s")
    return block | (_packets(dice) if dice.chance(0.1) else {})


def covered(dice: Dice, blocks: Block) -> None:
    """Give NB-IoT modules a place at times, in place of repetitions."""
    for group in blocks.get("fleet", []):
        radio = group["radio"]
        if isinstance(radio, dict) and radio["kind"] in NB_IOT and dice.chance(0.4):
            radio.pop("repetitions", None)
            place: Block = {"level": dice.one(["ce0", "ce1", "ce2"])}
            if dice.chance(0.6):
                place = {"coupling_loss": f"{dice.whole(90, 164)} dB"}
            further = {
                "target": f"-{dice.whole(80, 120)} dBm",
                "compensation": dice.percent(40, 100),
                "efficiency": dice.percent(10, 100),
            }
            radio["coverage"] = place | dice.options(further, 0.3)


def cellular(dice: Dice) -> Block:
    """Draw an LTE or 5G radio with stages; what is on is on for less than its cycle."""
    powers = ("base", "monitor", "doze", "paging", "idle", "resume_power", "promotion_power")
    times = {
        "inactivity": (1e-3, 1), "short_time": (1e-2, 2), "connected": (1e-3, 30),
        "inactive": (0.1, 20), "resume_time": (1e-3, 1), "promotion_time": (1e-3, 2),
    }  # fmt: skip
    cycles = {
        key: "0 s" if dice.chance(0.2) else dice.quantity(0.1, 5, "s")
        for key in ("short_cycle", "long_cycle", "paging_cycle", "inactive_cycle")
    }
    block = dice.options(
        {
            "up": rate(dice),
            "down": rate(dice),
            "latency": latency(dice),
            **{key: _power(dice) for key in powers},
            **{key: _per_bit(dice) for key in ("energy_up", "energy_down")},
            **{key: dice.quantity(*ends, "s") for key, ends in times.items()},
            **cycles,
            **{key: dice.quantity(1e-3, 0.1, "s") for key in ("drx_on", "paging_on")},
        }
    )
    if block.get("short_time") and "short_cycle" not in block:  # else it listens always
        block["short_cycle"] = "100 ms"
    if dice.chance(0.2):
        block[dice.one(["up_trace", "down_trace"])] = _trace(dice)
    return block | (_packets(dice) if dice.chance(0.1) else {})


def staged(dice: Dice, blocks: Block) -> None:
    """Give a group of the fleet a radio of LTE or 5G with stages, in a twelfth of all worlds."""
    if dice.chance(0.08) and blocks.get("fleet"):
        kind = dice.one(list(CELLULAR))
        dice.one(blocks["fleet"])["radio"] = {"kind": kind, **cellular(dice), **losses(dice)}


def preset(dice: Dice) -> Block:
    """Draw what differs from a preset."""
    block = dice.options({"up": rate(dice), "down": rate(dice), "latency": latency(dice)}, 0.15)
    if dice.chance(0.2):
        block[dice.one(["up_trace", "down_trace"])] = _trace(dice)
    return block | listening(dice) | (_packets(dice) if dice.chance(0.1) else {})


RADIO_DRAWS: dict[str, Callable[[Dice], Block]] = {
    **dict.fromkeys(RADIOS, preset),
    **dict.fromkeys(LORA, lora),
    **dict.fromkeys(NB_IOT, narrowband),
    "custom": lambda dice: custom(dice) | (_packets(dice) if dice.chance(0.3) else {}),
    "shannon": shannon,
    "first-order": first_order,
}

LOSS_DRAWS: dict[str, Callable[[Dice], Block]] = {
    "none": lambda dice: {},
    "independent": lambda dice: {"rate": dice.percent(1, 60)},
    "gilbert-elliott": lambda dice: {
        "p": dice.percent(1, 40),
        "r": dice.percent(10, 90),
        **dice.options({"h": dice.percent(1, 50), "k": dice.percent(70, 100)}),
    },
}


def radio(dice: Dice) -> Block:
    """Draw a radio with its losses; custom ones are a third of all."""
    kind = "custom" if dice.chance(0.3) else dice.one(list(RADIO_DRAWS))
    return {"kind": kind, **RADIO_DRAWS[kind](dice), **losses(dice)}


def losses(dice: Dice) -> Block:
    """Draw the losses of a radio, and how often it tries, at times."""
    block: Block = {}
    if dice.chance(0.35):
        loss = dice.one(list(LOSS_DRAWS))
        block["loss"] = {"kind": loss, **LOSS_DRAWS[loss](dice)}
        if dice.chance(0.6):
            block["tries"] = dice.one([1, 1, 2, 5, "unlimited"])
    return block
