"""Draws of problems: losses, penalties, starts, rows to test on, and what is measured."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass

from fedsim.algorithms import Algorithm

from .data import source, split
from .dice import Block, Dice
from .formats import Drawn

_SCALES = ("sum", "mean", "share")
_SQUARES = (*_SCALES, "mean-square")


def _weights(dice: Dice) -> Block:
    return dice.options({"l2": dice.size(1e-4, 2)}, 0.6) | dice.options({"l1": 0.02}, 0.15)


def _mlp(dice: Dice, data: Drawn) -> Block:
    output = {"classes": "softmax", "binary": "sigmoid"}.get(data.task, "squared")
    return {
        "scale": dice.one(_SCALES),
        "hidden": dice.whole(1, 4),
        "output": output if dice.chance(0.8) else dice.one(["squared", "sigmoid", "softmax"]),
        **dice.options({"l2": dice.size(1e-4, 2), "spread": dice.size(1e-3, 30)}),
    }


def _labels(dice: Dice, data: Drawn) -> Block | str:
    if data.task == "classes" and dice.careful:
        return {"positive": 1}
    readings: list[Block | str] = ["plus-minus", "signs", "as-given", {"positive": 1}]
    return "plus-minus" if dice.chance(0.4) else dice.one(readings)


def _rows(data: Drawn) -> int:
    shape = data.block.get("shape")
    return shape[0] if shape else next(n for n in (2, 3, 5, 1) if data.features % n == 0)


LOSSES: dict[str, Callable[[Dice, Drawn], Block]] = {
    "squared": lambda dice, data: {"scale": dice.one(_SQUARES), **_weights(dice)},
    "logistic": lambda dice, data: {
        "scale": dice.one(_SCALES),
        "labels": _labels(dice, data),
        **_weights(dice),
    },
    "softmax": lambda dice, data: {
        "scale": dice.one(_SCALES),
        **dice.options({"l2": dice.size(1e-4, 2)}, 0.6),
    },
    "neyman-pearson": lambda dice, data: {
        **_weights(dice),
        **dice.options({"scale": "mean"}, 0.2),
        **dice.options({"bounded": dice.one(("minority", "majority"))}, 0.3),
    },
    "trace-regression": lambda dice, data: {
        "scale": dice.one(_SQUARES),
        **_weights(dice),
        **({} if "shape" in data.block and dice.chance(0.5) else {"rows": _rows(data)}),
    },
    "mlp": _mlp,
}
FITTING = {
    "regression": ("squared", "trace-regression", "mlp"),
    "binary": ("logistic", "neyman-pearson", "squared", "softmax", "mlp"),
    "classes": ("softmax", "mlp", "squared", "logistic"),
    "matrix": ("trace-regression", "squared"),
}
"""The losses for what labels are for."""

PENALTIES: dict[str, Callable[[Dice], Block]] = {
    "none": lambda dice: {},
    "l1": lambda dice: {"weight": dice.size(1e-4, 1)},
    "l2": lambda dice: {"weight": dice.size(1e-4, 1)},
    "elastic-net": lambda dice: {"weight": dice.size(1e-4, 1), "ratio": dice.whole(0, 10) / 10},
    "group-l2": lambda dice: {"weight": dice.size(1e-4, 1), "size": dice.whole(1, 3)},
    "nuclear": lambda dice: {"weight": dice.size(1e-4, 1)},
}
MEASURES: dict[str, Callable[[Dice], Block]] = {
    "gradient_norm": lambda dice: {},
    "distance": lambda dice: {},
    "relative_distance": lambda dice: {},
    "l1_distance": lambda dice: {},
    "max_distance": lambda dice: {},
    "operator_distance": lambda dice: {},
    "support": lambda dice: dice.options({"threshold": dice.size(1e-9, 1)}),
    "sparsity": lambda dice: dice.options({"threshold": dice.size(1e-9, 1)}),
    "rank": lambda dice: dice.options({"tolerance": 0.01}),
    "constraint": lambda dice: dice.options({"tolerance": 0.1}),
    "train_loss": lambda dice: {},
    "train_accuracy": lambda dice: {},
    "test_accuracy": lambda dice: {},
    "test_loss": lambda dice: {},
    "test_f1": lambda dice: dice.options({"average": dice.one(["micro", "weighted"])}),
    "test_auc": lambda dice: {},
    "test_top_accuracy": lambda dice: {"k": dice.whole(1, 2)},
    "test_perplexity": lambda dice: {},
    "generation": lambda dice: {"length": dice.whole(1, 2), "prompts": dice.whole(1, 3)},
    "test_mae": lambda dice: {},
    "client_accuracy": lambda dice: {},
}
_ALWAYS = ("gradient_norm", "sparsity", "train_loss")


@dataclass(frozen=True)
class Facts:
    """What a method's block should know of its problem to go with it.

    Attributes:
        features: of the data.
        loss: its kind.
        penalty: its kind.
        clients: how many.
        quadratic, hessian: what the loss is and has.
    """

    features: int
    loss: str
    penalty: str
    clients: int

    @property
    def quadratic(self) -> bool:
        return self.loss in {"squared", "trace-regression"}

    @property
    def hessian(self) -> bool:
        return self.loss in {"squared", "trace-regression", "logistic", "softmax"}


def problem(dice: Dice, method: type[Algorithm], clients: int) -> tuple[Block, list[Block], Facts]:
    """Draw a problem that mostly suits a method, what is measured, and the facts of it."""
    fitting = dice.careful
    needs_constraint = method.constraint_tolerance is not Algorithm.constraint_tolerance
    constrained = needs_constraint and fitting
    data = source(dice, clients, ("binary",) if constrained else ())
    losses = FITTING[data.task] if fitting else tuple(LOSSES)
    loss = "neyman-pearson" if constrained else dice.one(losses)
    penalty = "none"
    in_balls = method.model_fields["kind"].default in {"c-fedda", "mc-fedda"}
    if (method.proximal and (in_balls or dice.chance(0.75))) or dice.chance(0.01):
        penalty = dice.one(_penalties(loss, in_balls=in_balls) if fitting else list(PENALTIES))
    block: Block = {
        "loss": {"kind": loss, **LOSSES[loss](dice, data)},
        "data": data.block,
        "split": split(dice, data, clients),
    }
    if constrained:  # every client needs rows of both labels
        block["split"] = {"kind": "iid", "stratify": True}
    if penalty != "none" or dice.chance(0.1):
        block["penalty"] = {"kind": penalty, **PENALTIES[penalty](dice)}
    if dice.chance(0.2):
        block["start"] = dice.one([{"kind": "own"}, {"kind": "normal", "scale": dice.size(0.1, 9)}])
    if dice.chance(0.2):
        block["optimum"] = "unknown"
    if dice.chance(0.2) and (data.rows >= 4 or not fitting):
        block["test"] = {"fraction": dice.whole(2, 5) / 10}
    elif dice.chance(0.05):
        plain = {key: value for key, value in data.block.items() if key != "preprocess"}
        block["test"] = deepcopy(plain)  # as no alias of the other in a file
    return block, _measures(dice, block, data), Facts(data.features, loss, penalty, clients)


def _penalties(loss: str, *, in_balls: bool) -> list[str]:
    """Return the penalties that go with a loss: nuclear ones with matrices, balls with norms."""
    kinds = ["l1", "group-l2"] if in_balls else [kind for kind in PENALTIES if kind != "nuclear"]
    return kinds + (["nuclear"] if loss in {"softmax", "trace-regression"} else [])


def _measures(dice: Dice, block: Block, data: Drawn) -> list[Block]:
    known = list(_ALWAYS)
    if data.planted and block["loss"]["kind"] in {"squared", "logistic", "trace-regression"}:
        known += ["support", "distance", "relative_distance", "l1_distance", "max_distance"]
    if block["loss"]["kind"] in {"softmax", "trace-regression"}:
        known += ["rank"]
    if data.planted and block["loss"]["kind"] == "trace-regression":
        known += ["operator_distance"]
    if "test" in block:
        known += ["test_loss"]
        known += ["test_mae"] if block["loss"]["kind"] in {"squared", "trace-regression"} else []
    if block["loss"]["kind"] in {"logistic", "softmax", "neyman-pearson"}:
        known += ["train_accuracy", "client_accuracy"]
    if block["loss"]["kind"] == "neyman-pearson":
        known += ["constraint"]
    kinds = dice.some(known if dice.careful else list(MEASURES), 3)
    return [{"kind": kind, **MEASURES[kind](dice)} for kind in kinds]
