"""Draws of what becomes of a vector on the wire: formats, compressors, feedback."""

from collections.abc import Callable

from fedsim.algorithms import Algorithm
from fedsim.core.ports import Meaning
from fedsim.wire import ValueFormat

from .dice import Block, Dice


def _kept(dice: Dice) -> Block:
    return dice.one([{"fraction": dice.size(0.01, 1)}, {"count": dice.whole(1, 3)}])


COMPRESSORS: dict[str, Callable[[Dice], Block]] = {
    "identity": lambda dice: {},
    "rand-k": lambda dice: _kept(dice) | dice.options({"indices": "explicit"}),
    "top-k": _kept,
    "threshold": lambda dice: {"threshold": dice.size(1e-6, 1)},
    "qsgd": lambda dice: dice.options({"levels": dice.whole(1, 300)}),
    "natural": lambda dice: {},
    "terngrad": lambda dice: {},
    "scaled-sign": lambda dice: {},
    "e3m0": lambda dice: {},
    "dithered": lambda dice: {"bits": dice.whole(2, 24)},
    "low-rank": lambda dice: {"rank": dice.whole(1, 2), **dice.options({"rows": 2})},
}
UNBIASED = ("rand-k", "qsgd", "natural", "terngrad", "dithered")
FEEDBACK = ("none", "ef", "ef21")


def _link(dice: Dice, kinds: tuple[str, ...], feedback: tuple[str, ...]) -> Block:
    kind = dice.one(kinds)
    block: Block = {"compressor": {"kind": kind, **COMPRESSORS[kind](dice)}}
    if dice.chance(0.5):
        block["error_feedback"] = dice.one(feedback)
    if dice.chance(0.2):
        block["if_longer"] = "compressed"
    if dice.chance(0.15):
        block["by_layer"] = True
    return block


def wire(dice: Dice, method: type[Algorithm]) -> Block:
    """Draw a wire; what a method is known to refuse, seldom."""
    block: Block = {"values": dice.one(list(ValueFormat)).value}
    every, careful, kind = tuple(COMPRESSORS), dice.careful, method.model_fields["kind"].default
    meanings = set(method.uplink.values())
    plain = bool(Meaning.DIFFERENCE in meanings or "up" in method.unbiased) and careful
    feedback = ("none", "ef21") if careful and Meaning.STATE in meanings else FEEDBACK
    if dice.chance(0.5) and not (kind == "signsgd" and careful):
        kinds = UNBIASED if "up" in method.unbiased and careful else every
        block["up"] = _link(dice, kinds, ("none",) if plain else feedback)
    if dice.chance(0.3) and not (kind == "fedcomgate" and careful):
        block["down"] = _link(dice, every, ("none", "none", "ef21") if careful else FEEDBACK)
    return block
