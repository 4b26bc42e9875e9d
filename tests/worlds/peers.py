"""Draws of worlds without a server: who speaks to whom, and what among peers is as it is."""

from collections.abc import Callable

from .dice import Block, Dice
from .files import MOST_CLIENTS
from .policies import deadline

_NONE = {"kind": "none"}

ROUGH = ("mlp", "torch")
"""Losses without a constant of smoothness that is known."""


def _random(dice: Dice, clients: int) -> Block:
    if dice.chance(0.5) or not dice.careful or clients < 3:
        return {"probability": dice.whole(3, 10) / 10}
    degree = dice.whole(2, clients - 1)
    return {"degree": degree - degree * clients % 2}


def _edges(dice: Dice, clients: int) -> Block:
    if dice.chance(0.5) and (clients == MOST_CLIENTS or not dice.careful):
        return {"path": "pairs.csv"}
    pairs = [[dice.whole(0, node - 1), node] for node in range(1, clients)]  # a tree, and more
    return {"edges": [*pairs, *dice.some([[node, 0] for node in range(1, clients)], 3)]}


OVERLAYS: dict[str, Callable[[Dice, int], Block]] = {
    "ring": lambda dice, clients: {},
    "complete": lambda dice, clients: {},
    "random": _random,
    "edges": _edges,
}


def peers(dice: Dice, blocks: Block, clients: int) -> None:
    """Let nodes without a server learn at times, where the problem is one for them."""
    problem = blocks["problem"]
    odd = problem.get("penalty", _NONE) != _NONE or problem["loss"]["kind"] == "neyman-pearson"
    if not dice.chance(0.08) or odd or clients < 2:
        return
    blocks["algorithm"] = {
        "kind": "d-psgd",
        "step_size": dice.one(
            [0.01, "0.5/L_max"] if problem["loss"]["kind"] not in {"mlp", "torch"} else [0.01]
        ),
        **dice.options({"batch": dice.whole(1, 20)}, 0.5),
    }
    kind = dice.one(list(OVERLAYS))
    blocks["network"]["peers"] = {"kind": kind, **OVERLAYS[kind](dice, clients)}
    patient = dice.chance(0.5)
    blocks["participation"] = {"kind": "full", **({"deadline": deadline(dice)} if patient else {})}
    blocks["silence"] = {"kind": "beacon"}
    if dice.careful:
        _fitting(blocks, patient=patient)


def _fitting(blocks: Block, *, patient: bool) -> None:
    """Leave out what is known to be refused."""
    network = blocks["network"]
    network.pop("model", None)
    network.pop("broadcast", None)
    blocks["wire"].pop("down", None)
    for link in (network.get("server", {}), network.get("gateway", {}), *network.get("edges", [])):
        if link.get("discipline") == "slotted":
            link["discipline"] = "fair"
    for group in blocks.get("fleet", []):
        group.pop("availability", None)
        if not patient and group["radio"].get("loss", _NONE) != _NONE:
            group["radio"]["tries"] = "unlimited"
