"""Draws of what clients learn from: sources of every kind, what is made of them, and splits."""

from collections.abc import Callable

from .dice import Block, Dice
from .formats import FORMATS, Drawn

READINGS = ("deviations", "client-noise", "feature-centres", "row-means")


def tong(dice: Dice, clients: int) -> Drawn:
    task = dice.one(["regression", "classification"])
    features = dice.whole(1, 7)
    block: Block = {
        "task": task,
        "clients": clients,
        "rows": dice.whole(2, 12),
        "features": features,
        "informative": dice.whole(1, features),
        **dice.options({
            "alpha": dice.size(0.01, 30),
            "beta": dice.size(0.01, 30),
            "positive_share": dice.whole(1, 9) / 10,
            "reading": dice.some(READINGS, 3),
        }),
    }  # fmt: skip
    return Drawn(block, "binary" if task == "classification" else task, features, clients)


def shifted_mean(dice: Dice, clients: int) -> Drawn:
    features = dice.whole(1, 8)
    block = {
        "clients": clients,
        "rows": dice.whole(1, 12),
        "features": features,
        "sparsity": dice.whole(1, features),
        **dice.options({"alpha": dice.size(0.01, 9), "noise": dice.size(1e-3, 9), "decay": 1}),
    }
    return Drawn(block, "regression", features, clients)


def sparse_linear(dice: Dice, clients: int) -> Drawn:
    features = dice.whole(1, 8)
    rows, ones = dice.whole(1, 12), dice.whole(1, features)
    block: Block = {"clients": clients, "rows": rows, "features": features, "ones": ones}
    block |= dice.options({"correlation": dice.whole(-9, 9) / 10, "noise": dice.size(1e-3, 9)})
    return Drawn(block, "regression", features, clients)


def low_rank(dice: Dice, clients: int) -> Drawn:
    shape = [dice.whole(1, 4), dice.whole(1, 4)]
    block = {"clients": clients, "rows": dice.whole(1, 12), "shape": shape}
    block |= {"rank": dice.whole(1, min(shape)), **dice.options({"noise": dice.size(1e-3, 9)})}
    return Drawn(block, "matrix", shape[0] * shape[1], clients)


def smoothness(dice: Dice, clients: int) -> Drawn:
    form, features = dice.one(["squared", "logistic"]), dice.whole(1, 8)
    block: Block = {"clients": clients, "rows": dice.whole(1, 12), "features": features}
    block |= {"form": form} | dice.options({"l2": dice.size(1e-3, 0.5)})
    planted = [dice.size(0.5, 50) for _ in range(clients)]
    block |= dice.one([{"constants": planted[0]}, {"constants": planted}, {"growth": 1.3}])
    return Drawn(block, "binary" if form == "logistic" else "regression", features, clients)


def directions(dice: Dice, clients: int) -> Drawn:
    features = clients + dice.whole(0, 6)
    block: Block = {"clients": clients, "features": features}
    block |= dice.options({"constant": dice.size(0.1, 50), "labels": dice.one(["shared", "own"])})
    return Drawn(block, "binary", features, clients)


SOURCES: dict[str, Callable[[Dice, int], Drawn]] = {
    "tong": tong,
    "shifted-mean": shifted_mean,
    "sparse-linear": sparse_linear,
    "low-rank": low_rank,
    "smoothness": smoothness,
    "directions": directions,
    **FORMATS,
}
"""Every source; see `test_worlds` for those that cannot be drawn."""

STEPS = ("standardise", "unit-range", "max-abs", "unit-rows", "intercept", {"divide": 3})


def source(dice: Dice, clients: int, tasks: tuple[str, ...] = ()) -> Drawn:
    """Draw a source; where tasks are given, mostly one whose labels are for one of them."""
    for _ in range(12):
        kind = dice.one(list(SOURCES))
        drawn = SOURCES[kind](dice, clients)
        if not tasks or drawn.task in tasks:
            break
    block = {"kind": kind, **drawn.block}
    if "preprocess" not in block and dice.chance(0.3):
        block["preprocess"] = dice.some(STEPS, 2)
    features = drawn.features + ("intercept" in block.get("preprocess", ()))
    return Drawn(block, drawn.task, features, drawn.numbered)


def _remainder(dice: Dice) -> Block:
    return dice.options({"remainder": "drop"}, 0.7)


def _least(dice: Dice) -> Block:
    return dice.options({"least": dice.whole(1, 3)}, 0.2)


def _writers(dice: Dice) -> Block:
    return {} if dice.careful else dice.options({"rows": dice.whole(1, 3)}, 0.5)


SPLITS: dict[str, Callable[[Dice], Block]] = {
    "contiguous": _remainder,
    "iid": lambda dice: _remainder(dice) | dice.options({"stratify": True}, 0.3),
    "labels": lambda dice: {"per_client": dice.whole(1, 2)},
    "dirichlet": lambda dice: {"alpha": dice.size(0.05, 1e3), **_least(dice)},
    "clusters": lambda dice: {"clusters": dice.whole(2, 4), "per_client": dice.whole(1, 2)},
    "groups": _least,
    "shards": lambda dice: {"per_client": dice.whole(1, 2)},
    "label-mix": lambda dice: {"alpha": dice.size(0.05, 1e3)},
    "lognormal": lambda dice: {"sigma": dice.whole(0, 20) / 10, **_least(dice)},
    "writers": _writers,
}


def split(dice: Dice, data: Drawn, clients: int) -> Block:
    """Draw a split: mostly that of the data itself, where it has one."""
    natural = data.numbered == clients
    others = list(SPLITS)
    if dice.careful:
        unfit = {"groups"} if not natural else set()
        unfit |= {"writers"} if data.numbered and data.numbered < clients else set()
        unfit |= {"labels", "label-mix"} if data.task in {"regression", "matrix"} else set()
        others = [kind for kind in SPLITS if kind not in unfit]
    kind = "groups" if natural and dice.chance(0.5) else dice.one(others)
    return {"kind": kind, **SPLITS[kind](dice)}
