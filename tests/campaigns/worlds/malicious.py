"""Draws of malicious clients, and of the rules by which a server or a peer combines vectors."""

from collections.abc import Callable

from fedsim.algorithms import ALGORITHMS, PeerAlgorithm

from .dice import Block, Dice

ALONE: dict[str, Callable[[Dice], Block]] = {
    "sign-flip": lambda dice: dice.options({"scale": dice.size(0.1, 100)}),
    "scaled": lambda dice: {"factor": dice.one([-1, 1]) * dice.size(0.1, 100)},
    "gaussian": lambda dice: dice.options({"deviation": dice.size(0.1, 10), "mean": 0.5}),
    "replay": lambda dice: dice.options({"rounds": dice.whole(1, 4)}, 0.8),
    "nan": lambda dice: {},
    "label-flip": lambda dice: {},
}
OF_SERVERS: dict[str, Callable[[Dice], Block]] = {
    "unreadable": lambda dice: {},
    "silent": lambda dice: {},
    "alie": lambda dice: dice.options({"z": dice.size(0.1, 5)}),
    "ipm": lambda dice: dice.options({"scale": dice.size(0.1, 5)}),
    "mimic": lambda dice: dice.options({"which": dice.whole(0, 4)}),
}


def _steps(dice: Dice) -> Block:
    return {"radius": dice.size(0.01, 10), **dice.options({"steps": dice.whole(1, 3)})}


RULES: dict[str, Callable[[Dice], Block]] = {
    "mean": lambda dice: {},
    "median": lambda dice: {},
    "geometric-median": lambda dice: dice.options(
        {"smoothing": dice.size(1e-3, 1), "steps": dice.whole(1, 5)}
    ),
    "centred-clipping": _steps,
    **dict.fromkeys(("trimmed-mean", "krum", "multi-krum", "mda"), lambda dice: {"byzantine": 1}),
    "bulyan": lambda dice: {"byzantine": 0 if dice.careful else 1},
}
OF_PEERS: dict[str, Callable[[Dice], Block]] = {
    "clipped-gossip": lambda dice: {"radius": dice.size(0.01, 10)},
    "trimmed-mean": lambda dice: {"byzantine": dice.whole(0, 1)},
}
SINGLE = ("fedasync", "fedsgm-stale", "fedexprox", "lag-ps")
"""Methods whose server reads single replies, under some of their settings."""

LEAST = {"trimmed-mean": 3, "mda": 3, "krum": 5, "multi-krum": 5, "bulyan": 3}


def _rule(dice: Dice, clients: int) -> Block:
    kinds = [kind for kind in RULES if LEAST.get(kind, 1) <= clients or not dice.careful]
    kind = dice.one(kinds)
    block: Block = {"kind": kind, **RULES[kind](dice)}
    if kind == "mean":
        return block
    if dice.chance(0.4):
        roomy = 2 * LEAST.get(kind, 1) <= clients or not dice.careful
        steps = dice.some(["nnm", "bucketing"] if roomy else ["nnm"], 2)
        block |= {"before": steps, **dice.options({"bucket": 2})}
        block.setdefault("byzantine", 1)
    return {**dice.options({"byzantine": 1}, 0.2), **block, **_otherwise(dice)}


def _otherwise(dice: Dice) -> Block:
    return dice.options({"otherwise": dice.one(["median", "skip", "end"])}, 0.5)


def _rule_of_peers(dice: Dice) -> Block:
    kind = dice.one(list(OF_PEERS))
    return {"kind": kind, **OF_PEERS[kind](dice)} | (
        _otherwise(dice) if kind == "trimmed-mean" else {}
    )


def malicious_clients(dice: Dice, blocks: Block, clients: int) -> None:
    """Let a group of clients be false at times, and let a rule of aggregation withstand it."""
    false, ruled = dice.chance(0.15), dice.chance(0.15)
    method = ALGORITHMS.own[blocks["algorithm"]["kind"]]
    among_peers = issubclass(method, PeerAlgorithm)
    by_rule = issubclass(method, PeerAlgorithm) and method.mixes_by_rule
    if false and blocks.get("fleet"):
        kinds = ALONE if dice.careful and among_peers else {**ALONE, **OF_SERVERS}
        kind = dice.one(list(kinds))
        dice.one(blocks["fleet"])["attack"] = {"kind": kind, **kinds[kind](dice)}
    if not ruled:
        return
    if among_peers:
        if by_rule or not dice.careful:
            blocks["aggregation"] = _rule_of_peers(dice)
        return
    asked = blocks["participation"].get("count", clients)
    single = blocks["algorithm"]["kind"] in SINGLE
    if not (dice.careful and single):
        blocks["aggregation"] = _rule(dice, asked)
