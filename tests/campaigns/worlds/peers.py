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
    if clients > 2 and dice.chance(0.3):
        return {"edges": [[n, (n + 1) % clients] for n in range(clients)], "directed": True}
    if dice.chance(0.5) and (clients == MOST_CLIENTS or not dice.careful):
        return {"path": "pairs.csv"}
    pairs = [[dice.whole(0, node - 1), node] for node in range(1, clients)]  # a tree, and more
    return {"edges": [*pairs, *dice.some([[node, 0] for node in range(1, clients)], 3)]}


def _regular(dice: Dice, clients: int) -> Block:
    degree = dice.whole(1, max(clients - 1, 1))
    if dice.careful and degree * clients % 2:
        degree = degree - 1 or 2
    return {"degree": degree}


def _small_world(dice: Dice, clients: int) -> Block:
    degree = dice.whole(2, max(clients - 1, 2))
    return {
        "degree": degree - degree % 2 if dice.careful else degree,
        **dice.options({"rewiring": dice.whole(0, 10) / 10}, 0.5),
    }


def _rows(dice: Dice, clients: int) -> Block:
    return dice.options({"rows": dice.one([n for n in range(1, clients + 1) if clients % n == 0])})


def _places(dice: Dice, clients: int) -> Block:
    if dice.chance(0.5):
        return {"range": dice.whole(10, 14) / 10}
    places = [[dice.whole(0, 100) / 100, dice.whole(0, 100) / 100] for _ in range(clients)]
    return {"range": 1.5, "positions": places}


def _contacts(dice: Dice, clients: int) -> Block:
    """Return contacts, some of which overlap, at whole seconds."""
    drawn = []
    for _ in range(dice.whole(1, 8)):
        one = dice.whole(1, clients - 1)
        begin = dice.whole(0, 20)
        drawn.append([dice.whole(0, one - 1), one, begin, begin + dice.whole(1, 9)])
    return {"contacts": drawn, **dice.options({"repeat": "30 s", "every": "4 s"}, 0.5)}


OVERLAYS: dict[str, Callable[[Dice, int], Block]] = {
    "ring": lambda dice, clients: {},
    "complete": lambda dice, clients: {},
    "random": _random,
    "edges": _edges,
    "star": lambda dice, clients: {},
    "tree": lambda dice, clients: dice.options({"branching": dice.whole(1, 3)}),
    "grid": _rows,
    "torus": _rows,
    "hypercube": lambda dice, clients: {},
    "exponential": lambda dice, clients: dice.options({"directed": dice.chance(0.5)}, 0.8),
    "regular": _regular,
    "small-world": _small_world,
    "scale-free": lambda dice, clients: {"links": dice.whole(1, max(clients - 1, 1))},
    "geometric": _places,
    "one-peer": lambda dice, clients: {},
    "random-matching": lambda dice, clients: {},
    "contacts": _contacts,
    "random-waypoint": lambda dice, clients: {
        "range": f"{dice.whole(20, 90)} m",
        "width": "80 m",
        **dice.options({"height": "60 m", "pause": "3 s", "max_speed": "2 m/s", "every": "5 s"}),
        **dice.options({"min_speed": "1 m/s"}),
    },
    "levy-walk": lambda dice, clients: {
        "range": f"{dice.whole(20, 90)} m",
        "width": "80 m",
        **dice.options({"height": "60 m", "min_flight": "3 m", "max_flight": "50 m"}),
        **dice.options({"min_pause": "0 s", "max_pause": "30 s", "speed": "2 m/s", "every": "5 s"}),
        **dice.options({"alpha": 1.0, "beta": 0.5, "speed_exponent": 0.6}, 0.7),
    },
    "positions": lambda dice, clients: {
        "range": "30 m",
        **dice.options({"every": "5 s"}),
        "points": [
            [node, 10 * turn, dice.whole(0, 50), dice.whole(0, 50)]
            for node in range(clients)
            for turn in range(3)
        ],
    },
}

CHANGING = ("one-peer", "random-matching", "contacts", "random-waypoint", "levy-walk", "positions")
"""Graphs that change."""

IN_TIME = ("contacts", "random-waypoint", "levy-walk", "positions")
"""Those that change in time."""

ON_CHANGING = ("gossip", "d-psgd", "dfedavg", "diging", "push-sum", "sgp")
"""Methods that may have such a graph."""

MIXING: dict[str, Callable[[Dice, int], Block]] = {
    "metropolis": lambda dice, clients: {},
    "maximum-degree": lambda dice, clients: {},
    "laplacian": lambda dice, clients: dice.options({"tau": float(clients)}),
    "best-constant": lambda dice, clients: {},
    "fastest": lambda dice, clients: {},
    "out-degree": lambda dice, clients: {},
    "matrix": lambda dice, clients: _matrix(clients, whole=dice.chance(0.5)),
}


def _matrix(clients: int, *, whole: bool) -> Block:
    """Return the matrix of equal weights, which is for a complete graph."""
    if whole:
        return {"rows": [[1 / clients] * clients] * clients}
    pairs = [(n, m) for n in range(clients) for m in range(clients) if n != m]
    return {"weights": [[n, m, 1 / clients] for n, m in pairs]}


def _fits(kind: str, clients: int) -> bool:
    """Return whether a kind of graph can have so many nodes."""
    if kind == "hypercube":
        return not clients & (clients - 1)
    return clients > 2 or kind not in {"small-world", "regular"}


def _mixes(law: str, kind: str) -> bool:
    """Return whether the weights of a law are doubly stochastic on a kind of graph."""
    if law == "out-degree":
        return kind in {"ring", "complete", "hypercube"}
    return law != "matrix" or kind == "complete"


DESCENDS: dict[str, Callable[[Dice], Block]] = {
    "d-psgd": lambda dice: {},
    "dfedavg": lambda dice: dice.options({"local_steps": dice.whole(1, 4)}),
    "extra": lambda dice: {},
    "nids": lambda dice: {},
    "diging": lambda dice: {},
    "choco-sgd": lambda dice: {"gamma": dice.whole(1, 10) / 10},
    "sparq-sgd": lambda dice: {
        "gamma": dice.whole(1, 10) / 10,
        "threshold": dice.whole(0, 3) / 2,
        **dice.options({"growth": 0.5, "local_steps": dice.whole(1, 4)}),
    },
    "sgp": lambda dice: {},
    "ad-psgd": lambda dice: {},
}
"""Methods of peers with a step size, and their other parameters."""

AVERAGES: dict[str, Callable[[Dice], Block]] = {
    "gossip": lambda dice: dice.options({"spread": dice.whole(0, 3) / 2}),
    "choco-gossip": lambda dice: {
        "gamma": dice.whole(1, 10) / 10,
        **dice.options({"spread": dice.whole(0, 3) / 2}),
    },
    "push-sum": lambda dice: dice.options({"spread": dice.whole(0, 3) / 2}),
    "cola": lambda dice: {
        "penalty": 0.1,
        "rho": 50.0,
        **dice.options({"threshold": dice.whole(0, 3) / 2, "decay": 0.9}),
    },
    "pairwise-gossip": lambda dice: dice.options({"every": "2 s", "spread": 0.5}),
    "coke": lambda dice: {
        "penalty": 0.1,
        "solver": {"kind": "gradient-descent", "step_size": 0.01, "steps": dice.whole(1, 4)},
        **dice.options({"threshold": dice.whole(0, 3) / 2, "decay": 0.9}),
    },
}
"""Methods of peers without a step size."""

PAIRS = ("pairwise-gossip", "ad-psgd")
"""Methods whose nodes meet in pairs: they have no weights."""

AS_IS = ("push-sum", "sgp", *PAIRS)
"""Methods whose nodes send their vectors uncompressed."""

NEED = {
    **dict.fromkeys(
        ("extra", "nids", "choco-sgd", "sparq-sgd", "choco-gossip", "cola", "coke", *PAIRS),
        "symmetric",
    ),
    **dict.fromkeys(("sgp", "push-sum"), "columns"),
}
"""What methods need of a graph beside doubly stochastic weights."""


def _method(dice: Dice, problem: Block) -> Block:
    if dice.chance(0.25):
        kind = dice.one(list(AVERAGES))
        return {"kind": kind, **AVERAGES[kind](dice)}
    kind = dice.one(list(DESCENDS))
    rough = problem["loss"]["kind"] in {"mlp", "torch"}
    return {
        "kind": kind,
        "step_size": dice.one([0.01] if rough else [0.01, "0.2/L_max"]),
        **dice.options({"batch": dice.whole(1, 20)}, 0.5),
        **DESCENDS[kind](dice),
    }


def peers(dice: Dice, blocks: Block, clients: int) -> None:
    """Let nodes without a server learn at times, where the problem is one for them."""
    problem = blocks["problem"]
    odd = problem.get("penalty", _NONE) != _NONE or problem["loss"]["kind"] == "neyman-pearson"
    if not dice.chance(0.16) or odd or clients < 2:
        return
    blocks["algorithm"] = _method(dice, problem)
    kinds = [kind for kind in OVERLAYS if not dice.careful or _fits(kind, clients)]
    if dice.careful and blocks["algorithm"]["kind"] not in ON_CHANGING:
        kinds = [kind for kind in kinds if kind not in CHANGING]
    kind = dice.one(kinds)
    blocks["network"]["peers"] = {"kind": kind, **OVERLAYS[kind](dice, clients)}
    directed = blocks["network"]["peers"].get("directed", False)
    changes = dice.careful and kind in CHANGING
    if dice.chance(0.4) and not (directed and dice.careful) and not changes:
        laws = [law for law in MIXING if not dice.careful or _mixes(law, kind)]
        law = "matrix" if kind == "complete" and dice.chance(0.5) else dice.one(laws)
        blocks["network"]["mixing"] = {"kind": law, **MIXING[law](dice, clients)}
    if dice.careful:
        _undirected(blocks)
    patient = dice.chance(0.5) and "gamma" not in blocks["algorithm"]
    blocks["participation"] = {"kind": "full", **({"deadline": deadline(dice)} if patient else {})}
    blocks["silence"] = {"kind": "beacon"}
    if dice.careful:
        _fitting(blocks, patient=patient)


def _undirected(blocks: Block) -> None:
    """Leave out directions and weights that the method cannot have."""
    network, need = blocks["network"], NEED.get(blocks["algorithm"]["kind"])
    if need == "symmetric":
        network["peers"].pop("directed", None)
        if network.get("mixing", _NONE)["kind"] == "out-degree":
            del network["mixing"]
    if blocks["algorithm"]["kind"] in PAIRS:
        network.pop("mixing", None)


def _fitting(blocks: Block, *, patient: bool) -> None:
    """Leave out what is known to be refused."""
    network = blocks["network"]
    network.pop("model", None)
    network.pop("broadcast", None)
    blocks["wire"].pop("down", None)
    if blocks["algorithm"]["kind"] in AS_IS:
        blocks["wire"].pop("up", None)
    if patient or network["peers"]["kind"] in CHANGING:
        _without_ef21(blocks)
    for link in (network.get("server", {}), network.get("gateway", {}), *network.get("edges", [])):
        if link.get("discipline") == "slotted":
            link["discipline"] = "fair"
    for group in blocks.get("fleet", []):
        group.pop("availability", None)
        if not patient and group["radio"].get("loss", _NONE) != _NONE:
            group["radio"]["tries"] = "unlimited"


def failures(dice: Dice, blocks: Block) -> None:
    """Let the edges between peers fail at times."""
    network, method = blocks["network"], blocks["algorithm"]["kind"]
    if "peers" not in network or not dice.chance(0.3):
        return
    kind = network["peers"]["kind"]
    directed = kind == "one-peer" or network["peers"].get("directed", False)
    by_exchange = directed or kind == "random-matching"
    if dice.careful and (
        method not in ON_CHANGING or (directed and method not in {"push-sum", "sgp"})
    ):
        return
    in_time = {"up": dice.quantity(1, 60, "s"), "down": dice.quantity(1, 60, "s")}
    moves = kind in CHANGING and not by_exchange
    if moves or (not by_exchange and dice.chance(0.5)):
        network["failures"] = in_time | dice.options({"every": "5 s"}, 0.7)
    else:
        network["failures"] = {"probability": dice.percent(1, 60)}
    if dice.careful:
        network.pop("mixing", None)
        _without_ef21(blocks)


def _without_ef21(blocks: Block) -> None:
    """Leave out a feedback whose receivers need every message."""
    up = blocks["wire"].get("up", {})
    if up.get("error_feedback") == "ef21":
        del up["error_feedback"]


def medium(dice: Dice, blocks: Block, clients: int) -> None:
    """Let peers share a medium at times, which takes the place of links."""
    network = blocks["network"]
    if "peers" not in network or not dice.chance(0.4):
        return
    drawn = {
        "access": dice.one(("csma", "tdma", "node-exclusive", "aloha", "slotted-aloha")),
        "slot": dice.quantity(0.001, 1, "s"),
        "broadcast": dice.chance(0.5),
    }
    network["medium"] = dice.options(drawn, 0.7)
    moves = IN_TIME if "deadline" in blocks["participation"] else ()  # what is missed is lost
    follows = network["peers"]["kind"] in moves and dice.chance(0.5)
    changes = network["peers"]["kind"] in CHANGING or "failures" in network
    if not follows and (changes or dice.chance(0.4)):
        kinds = [kind for kind in OVERLAYS if _fits(kind, clients)]
        kind = dice.one([kind for kind in kinds if kind in moves or kind not in CHANGING])
        network["medium"]["graph"] = {"kind": kind, **OVERLAYS[kind](dice, clients)}
        if dice.careful:
            network["medium"]["graph"].pop("directed", None)
            network["medium"]["graph"].pop("every", None)
    if "aloha" in network["medium"].get("access", ""):
        network["medium"] |= dice.options({"window": dice.whole(1, 40)}, 0.6)
        waits = "deadline" in blocks["participation"] and "ef21" not in str(blocks.get("wire"))
        if waits or not dice.careful:
            network["medium"] |= dice.options({"tries": dice.whole(1, 9)}, 0.6)
    if not dice.careful:
        return
    for key in set(network) - {"peers", "mixing", "failures", "medium"}:
        del network[key]
    network["topology"] = "star"
    patient = "deadline" in blocks["participation"]
    for group in blocks.get("fleet", []):
        loss = group["radio"].get("loss", _NONE)
        kind, rates = dice.one(("wifi", "wifi-6", "zigbee")), {}
        if dice.chance(0.5):
            rates = {way: dice.quantity(0.1, 9, "Mbit/s") for way in ("up", "down")}
        group["radio"] = {"kind": kind, **rates, **({"loss": loss} if patient else {})}
