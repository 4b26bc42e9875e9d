"""Draws of networks that PyTorch trains: an architecture, data that go with it, and the loss."""

from collections.abc import Callable

from fedsim.algorithms import Algorithm

from .data import source, split
from .dice import Block, Dice
from .files import CHARACTERS, FEATURES, MOST_CLIENTS
from .formats import FORMATS, Drawn
from .methods import PARTED, method, parted
from .problems import PENALTIES, Facts

UNFIT = ("lag-ps", "fedsgm", "fedsgm-stale")
"""Methods that ask for what no network has: constants of smoothness, or a constraint."""
SHARE = 0.06
MEASURES = ("gradient_norm", "sparsity", "train_accuracy")


def _residual(dice: Dice) -> Block:
    return {"depth": 8, **dice.options({"width": 4, "groups": 1}, 0.8)}


def _tokens(dice: Dice) -> Block:
    return {"vocabulary": len(CHARACTERS)} if dice.careful or dice.chance(0.5) else {}


ARCHITECTURES: dict[str, Callable[[Dice], Block]] = {
    "logistic": lambda dice: {},
    "mlp": lambda dice: {"hidden": [dice.whole(1, 5) for _ in range(dice.whole(1, 2))]},
    "cnn": lambda dice: {
        "channels": [dice.whole(1, 3) for _ in range(dice.whole(1, 2))],
        "hidden": dice.whole(1, 5),
    },
    "cnn-femnist": lambda dice: {},
    "resnet": _residual,
    "char-lstm": lambda dice: {
        **_tokens(dice),
        **dice.options({"embedding": dice.whole(1, 3), "layers": 1}, 0.6),
        "hidden": dice.whole(1, 5),
    },
    "transformer": lambda dice: {
        **_tokens(dice),
        **dice.options({"layers": 1}, 0.6),
        **dice.one([{"width": 4, "heads": 2}, {"width": 8}]),
    },
}
IMAGES = ("cnn", "cnn-femnist", "resnet")
TEXTS = ("char-lstm", "transformer")


def _rows(dice: Dice, kind: str, clients: int) -> Drawn:
    """Draw data that go with an architecture; in worlds without care, any."""
    if kind in TEXTS and dice.careful:
        block = {"kind": "leaf", "path": "texts.json", "characters": CHARACTERS}
        return Drawn(block, "classes", FEATURES, MOST_CLIENTS)
    if kind in IMAGES and dice.careful:
        name = dice.one(["image-folder", "fedscale"])
        drawn = FORMATS[name](dice, clients)
        return Drawn({"kind": name, **drawn.block}, drawn.task, drawn.features, drawn.numbered)
    return source(dice, clients, ("classes", "binary", "regression") if dice.careful else ())


def _augment(dice: Dice, kind: str) -> Block:
    if kind not in IMAGES and dice.careful:
        return {}
    return dice.options({"augment": dice.one([["flip"], [{"crop": 1}], ["flip", {"crop": 1}]])})


def _shape(dice: Dice, kind: str, data: Drawn) -> Block:
    """Draw what is said of the shape of an image; where it is no square, it is said."""
    height, width = data.block.get("size", [4, 4] if data.features % 16 == 0 else [2, 2])
    channels = data.features // (height * width)
    told = height != width or dice.chance(0.5)
    return {"image": [channels, height, width]} if kind in IMAGES and told else {}


def _loss(dice: Dice, kind: str, data: Drawn) -> Block:
    model = {"kind": kind, **ARCHITECTURES[kind](dice), **_shape(dice, kind, data)}
    squares = data.task == "regression" and (dice.careful or dice.chance(0.5))
    more: Block = {"scale": dice.one(["sum", "mean", "share"]), "l2": dice.size(1e-4, 1)}
    more |= {"numbers": dice.one(["float32", "float64", "bfloat16"])}
    if not dice.careful:
        more |= {"statistics": dice.one(["refused", "local", "averaged"])}
    elif squares:  # it has no batch normalisation
        more |= {"statistics": "local"}
    more |= {"device": "cpu" if dice.careful or dice.chance(0.3) else "cuda"}
    if not squares and data.task == "classes":
        more |= {"outputs": 4 if dice.careful else dice.whole(2, 4)}
    return {
        "kind": "torch",
        "model": model,
        **({"criterion": "squared"} if squares else {}),
        **dice.options(more),
        **_augment(dice, kind),
    }


def trained(dice: Dice, blocks: Block, the_class: type[Algorithm], clients: int) -> None:
    """Let clients train a network at times, by a method that can."""
    kind = str(blocks["algorithm"]["kind"])
    if not dice.chance(SHARE) or (dice.careful and kind in UNFIT):
        return
    architecture = dice.one(list(ARCHITECTURES))
    if architecture == "cnn-femnist" and dice.chance(0.8):  # it is large: each takes long
        architecture = "cnn"
    data = _rows(dice, architecture, clients)
    problem: Block = {
        "loss": _loss(dice, architecture, data),
        "data": data.block,
        "split": split(dice, data, clients),
        **dice.options({"test": {"fraction": 0.2}}, 0.2),
    }
    penalty = "l1" if the_class.proximal else "none"
    if penalty != "none":
        problem["penalty"] = {"kind": penalty, **PENALTIES[penalty](dice)}
    measures = [*MEASURES, *(["test_accuracy", "test_loss"] if "test" in problem else [])]
    if problem["loss"].get("criterion"):
        measures = [each for each in measures if not each.endswith("accuracy")]
    facts = Facts(data.features, "torch", penalty, clients)
    blocks["problem"] = problem
    blocks["algorithm"] = method(dice, kind, facts)
    if kind in PARTED and dice.careful and dice.chance(0.6):
        blocks["algorithm"] |= parted(dice)
    blocks["measures"] = [{"kind": each} for each in dice.some(measures, 3)]
    if dice.careful:
        blocks["stop"].pop("gap", None)
    if dice.chance(0.2):
        blocks["evaluator"] = "vmap"
