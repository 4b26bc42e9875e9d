"""Draws of tiers: gateways between the clients and the server of a star."""

from fedsim.algorithms.averaging import FedAvg
from fedsim.algorithms.tiers import FOR_CLIENTS

from .dice import Block, Dice
from .fleets import group
from .networks import star
from .policies import participation
from .wires import wire

INNER = (
    *("fedavg", "fedprox", "fedexprox", "fednova", "fedopt", "fedavgm", "fedadagrad", "fedadam"),
    *("fedyogi", "diloco"),
)
"""What gateways run with clients."""

OUTER = tuple(kind for kind in INNER if kind not in {"fedprox", "fedexprox", "fednova"})

_NONE = {"kind": "none"}


def tiers(dice: Dice, blocks: Block, clients: int) -> None:
    """Put gateways between clients and server at times, where a method of averaging runs.

    It is drawn last, so that other worlds stay as they were.
    """
    around = blocks["participation"]
    fits = blocks["algorithm"]["kind"] in INNER and around["kind"] != "asynchronous"
    fits = fits and "peers" not in blocks["network"]
    if not dice.chance(0.4 if fits else 0.01):
        return
    if dice.careful:
        blocks["network"] = {"topology": "star", **star(dice, clients)}
        if (blocks["problem"].get("data") or {}).get("fit") == "exchange":
            del blocks["problem"]["data"]["fit"]
        for key in FOR_CLIENTS & {"local", "local_first"}:
            blocks["algorithm"].pop(key, None)
        _ask_fewer(dice, around)
    counts = sorted((dice.whole(1, clients) for _ in range(dice.whole(1, 3))), reverse=True)
    blocks["tiers"] = [tier(dice, blocks, count) for count in counts]


def tier(dice: Dice, blocks: Block, count: int) -> Block:
    """Draw the gateways of a tier."""
    kind = dice.one(OUTER)
    outer: Block = {"kind": kind, **({"server_optimizer": "adam"} if kind == "fedopt" else {})}
    block = {
        **group(dice, count),
        **dice.options({"rounds": dice.whole(1, 3), "link": star(dice, count)["server"]}, 0.6),
        "outer": outer,
        "wire": wire(dice, FedAvg),
        "participation": participation(dice, FedAvg, count),
    }
    if dice.careful and block["participation"]["kind"] == "asynchronous":
        block["participation"] = {"kind": "full"}
    if dice.careful:
        radio = block["radio"]
        if radio.get("loss", _NONE) != _NONE and radio.get("tries") != "unlimited":
            radio["tries"] = "unlimited"
        _ask_fewer(dice, block["participation"])
        for way in ("up", "down") if "battery" in block or "availability" in block else ():
            block["wire"].get(way, {}).pop("error_feedback", None)
        if "battery" in block:
            block["battery"].setdefault("capacity", "2 kJ")
    return block


def _ask_fewer(dice: Dice, around: Block) -> None:
    """Let a policy ask for a share of those below each server, of whom there are a few."""
    if around.pop("count", None) is not None:
        around["share"] = dice.percent(10, 100)
