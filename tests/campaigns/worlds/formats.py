"""Draws of data in files, of every format that is read."""

from collections.abc import Callable
from dataclasses import dataclass

from .dice import Block, Dice
from .files import CHARACTERS, DEGENERATE, FEATURES, MOST_CLIENTS, PIXELS

BUNDLED = {
    "iris": "classes",
    "wine": "classes",
    "digits": "classes",
    "diabetes": "regression",
    "breast-cancer": "binary",
}


@dataclass(frozen=True)
class Drawn:
    """A source, and what other blocks should know of it to go with it.

    Attributes:
        block: its block.
        task: what its labels are for.
        features: how many.
        numbered: the clients that its rows are numbered with; 0 where they are not.
    """

    block: Block
    task: str
    features: int
    numbered: int = 0

    @property
    def rows(self) -> int:
        """A client's rows, where the source says so; enough, where it does not."""
        return int(self.block.get("rows", 4))

    @property
    def planted(self) -> bool:
        """Whether the truth is known that the labels were made from."""
        return self.block["kind"] in {"tong", "shifted-mean", "sparse-linear", "low-rank"}


def archive(dice: Dice, clients: int) -> Drawn:
    if dice.chance(0.25):
        return Drawn({"path": f"{dice.one(DEGENERATE)}.npz"}, "binary", FEATURES)
    task = dice.one(["regression", "binary", "classes"])
    return Drawn({"path": f"{task}.npz"}, task, FEATURES, MOST_CLIENTS)


def table(dice: Dice, clients: int) -> Drawn:
    task = dice.one(["regression", "binary", "classes"])
    block: Block = {"path": f"{task}.csv", "label": "y"}
    client: str | int = "client"
    if dice.chance(0.3):
        block = {"path": f"{task}.txt", "label": FEATURES + 1, "header": False, "separator": ";"}
        client = FEATURES + 2
    if dice.chance(0.7):
        return Drawn(block | {"client": client}, task, FEATURES, MOST_CLIENTS)
    return Drawn(block, task, FEATURES + 1)


def libsvm(dice: Dice, clients: int) -> Drawn:
    task = dice.one(["regression", "binary", "classes"])
    features, layout = dice.whole(FEATURES, 9), dice.one(["auto", "dense", "sparse"])
    return Drawn({"path": f"{task}.svm", "features": features, "layout": layout}, task, features)


def images(dice: Dice, clients: int) -> Drawn:
    return Drawn({"images": "images.idx", "labels": "labels.idx"}, "classes", 4)


def bundled(dice: Dice, clients: int) -> Drawn:
    name = dice.one(list(BUNDLED))
    block = {"name": name, "preprocess": [{"first": 4}, "standardise"]}
    return Drawn(block, BUNDLED[name], 4)


def _pictures(dice: Dice) -> tuple[Block, int]:
    """Draw what is made of images, and how many numbers a row then has."""
    block: Block = dice.options({"size": [dice.whole(4, 6), 4], "channels": dice.one([1, 3])}, 0.3)
    height, width = block.get("size", PIXELS)
    return block, height * width * block.get("channels", 1)


def image_folder(dice: Dice, clients: int) -> Drawn:
    made, features = _pictures(dice)
    if dice.chance(0.5):
        block = {"path": "albums", "clients": True, **made}
        return Drawn(block, "classes", features, MOST_CLIENTS)
    return Drawn({"path": "pictures", **made}, "classes", features)


def saved(dice: Dice, clients: int) -> Drawn:
    block: Block = {"path": "saved.parquet", "label": "y"}
    if dice.chance(0.5):
        made, features = _pictures(dice)
        block |= {"features": ["picture"], **made}
    else:
        block, features = block | {"features": ["x"]}, FEATURES
    if dice.chance(0.7):
        return Drawn(block | {"client": "client"}, "classes", features, MOST_CLIENTS)
    return Drawn(block, "classes", features)


def text(dice: Dice, clients: int) -> Drawn:
    block = {"path": "letters.txt", "context": FEATURES, "stride": dice.whole(1, 3)}
    return Drawn(block, "classes", FEATURES)


def leaf(dice: Dice, clients: int) -> Drawn:
    if dice.chance(0.5):
        block = {"path": "texts.json", "characters": CHARACTERS}
        return Drawn(block, "classes", FEATURES, MOST_CLIENTS)
    return Drawn({"path": "numbers.json"}, "classes", FEATURES, MOST_CLIENTS)


def fedscale(dice: Dice, clients: int) -> Drawn:
    if dice.chance(0.5):
        made, features = _pictures(dice)
        block = {"mapping": "images.csv", "samples": "pictures", **made}
        return Drawn(block, "classes", features, MOST_CLIENTS)
    block = {"mapping": "rows.csv", "samples": "classes.npz"}
    return Drawn(block, "classes", FEATURES, MOST_CLIENTS)


FORMATS: dict[str, Callable[[Dice, int], Drawn]] = {
    "npz": archive,
    "csv": table,
    "libsvm": libsvm,
    "idx": images,
    "sklearn": bundled,
    "image-folder": image_folder,
    "hugging-face": saved,
    "text": text,
    "leaf": leaf,
    "fedscale": fedscale,
}
