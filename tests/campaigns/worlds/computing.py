"""Draws of how a world is computed and looked at: precision, evaluator, rounds that are seen."""

from .dice import Block, Dice

COMPILED = ("squared", "trace-regression", "logistic", "softmax", "mlp")
"""Losses that there are compiled kernels for."""


def computing(dice: Dice, blocks: Block) -> None:
    """Draw keys that most scenarios leave out."""
    blocks |= dice.options({"precision": dice.one(["float32", "float64"])}, 0.15)
    compiled = blocks["problem"]["loss"]["kind"] in COMPILED or not dice.careful
    if dice.chance(0.1) and compiled:
        blocks["evaluator"] = "compiled"
    elif not dice.careful and dice.chance(0.1):
        blocks["evaluator"] = "vmap"
    if dice.chance(0.15):
        blocks["observe"] = {"every": dice.whole(1, 4)}
    if dice.chance(0.1):
        every = dice.whole(1, 3)
        blocks["models"] = {"every": every} if every < 3 else {"best": "objective"}
        if "peers" in blocks["network"]:
            blocks["models"]["clients"] = True
    if {"kind": "gradient_norm"} in blocks["measures"] and dice.chance(0.2):
        blocks["stop"]["gradient_norm"] = dice.size(1e-3, 10)
