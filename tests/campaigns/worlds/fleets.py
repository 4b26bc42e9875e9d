"""Draws of fleets: devices that slow down, batteries that are charged, clients that come and go."""

from collections.abc import Callable

from fedsim.physics.carbon import COUNTRIES
from fedsim.physics.devices import DEVICES

from .dice import Block, Dice
from .radios import radio

SLOWDOWNS: dict[str, Callable[[Dice], Block]] = {
    "none": lambda dice: {},
    "lognormal": lambda dice: {"sigma": dice.size(0.01, 3)},
    "shifted-exponential": lambda dice: {
        "shift": dice.whole(0, 20) / 10,
        "rate": dice.size(0.05, 20),
    },
}


def _watts(dice: Dice, most: float = 20) -> str:
    return "0 W" if dice.chance(0.3) else dice.quantity(1e-6, most, "W")


def device(dice: Dice) -> Block:
    """Draw a device: a preset, one of either model, or phones of one's own."""
    kind = "custom" if dice.chance(0.4) else dice.one([*DEVICES, "phone"])
    block: Block = {"kind": kind}
    if kind == "phone":
        block |= dice.options(
            {
                "draw": "ai-benchmark",
                "speed": dice.quantity(1, 1e12, "flop/s"),
                "active": dice.quantity(1, 9, "W"),
                "idle": _watts(dice, 1),
                "battery": dice.one(["mains", "12 Wh"]),
            }
        )
    elif kind == "custom" and dice.chance(0.7):
        speed = "unlimited" if dice.chance(0.1) else dice.quantity(1, 1e12, "flop/s")
        idle, more = dice.one([0.0, dice.size(1e-6, 1)]), dice.one([0.0, dice.size(1e-6, 20)])
        block |= {"speed": speed, "active": f"{idle + more:g} W", "idle": f"{idle:g} W"}
    elif kind == "custom":
        cycles = {"cycles_per_sample": dice.size(1e2, 1e9), "frequency": "1 GHz"}
        block |= {"kappa": dice.size(1e-29, 1e-26), **cycles, "idle": _watts(dice, 1)}
    if dice.chance(0.2):
        slowdown = dice.one(list(SLOWDOWNS))
        block["slowdown"] = {"kind": slowdown, **SLOWDOWNS[slowdown](dice)}
    return block


CHARGING: dict[str, Callable[[Dice], Block]] = {
    "none": lambda dice: {},
    "constant": lambda dice: {"power": dice.quantity(1e-6, 20, "W")},
    "daily": lambda dice: {
        "power": dice.quantity(1e-6, 20, "W"),
        **dice.options({"start": f"{dice.whole(7, 21)} h", "end": f"{dice.whole(0, 6)} h"}),
    },
    "flash": lambda dice: {
        "path": "slow-states.json" if dice.slow else "states.json",
        "power": dice.quantity(1e-6, 20, "W"),
        **dice.options({"user": 1, "shift": "random"}, 0.5),
    },
    "harvest": lambda dice: {
        "path": "sun.csv" if dice.slow else dice.one(["sun.csv", "flicker.csv"]),
        **dice.options({"scale": dice.size(1e-3, 10)}),
        **dice.one([{}, {"repeat": False}, {"shift": "random"}]),
    },
}


def battery(dice: Dice) -> Block:
    """Draw a battery, from a capacitor of 1 mJ to one that lasts for ever.

    None dies several times a second where rounds last for days.
    """
    joules = dice.size(1e3 if dice.slow else 1e-3, 1e5)
    capacity = "15 Wh" if dice.chance(0.3) else f"{1e3 * joules:g} mJ"
    cutoff = dice.whole(0, 30)
    threshold = cutoff + dice.whole(1, 20)
    block: Block = {"capacity": capacity} if dice.careful or dice.chance(0.5) else {}
    if dice.chance(0.6):
        block |= {"cutoff": f"{cutoff} %", "threshold": f"{threshold} %"}
        block |= dice.options({"restart": f"{threshold + dice.whole(1, 30)} %"})
        least = threshold if dice.careful else cutoff
        block |= dice.options({"charge": dice.percent(least + 1, 100)}, 0.7)
    further = {
        "charge_efficiency": dice.percent(50, 100),
        "discharge_efficiency": dice.percent(50, 100),
        "self_discharge": f"{dice.size(0.1, 1000):g} %/month",
    }
    block |= dice.options(further, 0.3)
    if dice.chance(0.6):
        kind = dice.one(list(CHARGING))
        block["charging"] = {"kind": kind, **CHARGING[kind](dice)}
    return block


def _coming(dice: Dice) -> Block:
    scale = dice.one([1e4, 1e6]) if dice.slow else dice.one([0.1, 10.0, 1e4])
    stays = {key: dice.quantity(scale / 5, 5 * scale, "s") for key in ("on", "off")}
    swing = {"amplitude": dice.percent(0, 100), "phase": "6 h", "period": "12 h"}
    return stays | (dice.options(swing, 0.6) if dice.chance(0.4) else {})


AVAILABILITY: dict[str, Callable[[Dice], Block]] = {
    "always": lambda dice: {},
    "bernoulli": lambda dice: {"share": dice.percent(5, 100)},
    "markov": _coming,
    "intervals": lambda dice: {"path": "there.csv"},
    "fedscale": lambda dice: {"path": "slow.pickle" if dice.slow else "there.pickle"},
    "flash": lambda dice: {
        "path": "slow-states.json" if dice.slow else "states.json",
        **dice.options({"when": dice.one([["wifi"], ["idle", "charging"]])}),
    },
}


def carbon(dice: Dice) -> Block:
    """Draw what electricity emits: a country, a figure, or a file that may start anywhere."""
    kind = dice.one([dice.one(list(COUNTRIES)), "constant", "hourly"])
    if kind == "constant":
        return {"kind": kind, "intensity": f"{dice.size(1e-3, 1e3):g} g/kWh"}
    if kind == "hourly":
        started = dice.options({"start": f"{dice.size(1e-4, 30):g} h", "scale": dice.size(0.1, 9)})
        return {"kind": kind, "path": "grid.csv", **started, **dice.options({"repeat": False})}
    return {"kind": kind}


def group(dice: Dice, count: int) -> Block:
    """Draw clients of one make."""
    block: Block = {"count": count, "device": device(dice), "radio": radio(dice)}
    if dice.chance(0.35):
        block["battery"] = battery(dice)
        for way in ("up", "down"):  # a battery gives no energy in no time
            if dice.careful and block["radio"].get(way) == "unlimited":
                block["radio"][way] = "1 Gbit/s"
    if dice.chance(0.35):
        kind = dice.one(list(AVAILABILITY))
        block["availability"] = {"kind": kind, **AVAILABILITY[kind](dice)}
    if dice.chance(0.3):
        block["carbon"] = carbon(dice)
    return block


def fleet(dice: Dice, clients: int) -> list[Block]:
    """Draw a fleet of one to three groups."""
    groups = dice.whole(1, min(3, clients))
    return [group(dice, count) for count in dice.composition(clients, groups)]
