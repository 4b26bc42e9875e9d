"""Draws of methods: a block for every kind, with parameters that mostly suit the problem."""

from collections.abc import Callable
from typing import Any

from .dice import Block, Dice
from .problems import Facts

Draw = Callable[[Dice, Facts], Block]

_ENDS: dict[str, Block] = {
    "newton": {"steps": 3, "accuracy": 1e-3},
    "gradient-descent": {"accuracy": 1e-2},
    "sgd": {"batch": 3},
}
"""What may be said of how far a solver goes."""

_ADAPTIVE = {"beta1": 0.5, "beta2": 0.5, "tau": 0.1}

BALLS = {"l1": "l1-ball", "group-l2": "group-ball", "nuclear": "nuclear-ball"}


def _step(dice: Dice) -> float | str:
    if dice.chance(0.03):
        return dice.one([50.0, 1e60])  # it will not converge, and may say so
    return (
        dice.size(1e-4, 0.3)
        if dice.chance(0.4)
        else f"{dice.whole(1, 20) / 10:g}/{dice.one(['L', 'L_max'])}"
    )


def _batch(dice: Dice) -> Block:
    grown = {"start": dice.size(0.5, 9), "ratio": dice.whole(3, 9) / 10}
    return dice.options({"batch": dice.one([dice.whole(1, 20), grown])}, 0.4)


def _local(dice: Dice, *, steps: int = 3) -> Block:
    return {"step_size": _step(dice), "local_steps": dice.whole(1, steps), **_batch(dice)}


_MOMENTS: Block = {"beta1": 0.5, "beta2": 0.9, "epsilon": 1e-3, "bias_correction": False}
_MEAN: Block = {"initial": 0.1, "weight_decay": 0.01}

OPTIMIZERS: dict[str, Block] = {
    "sgd": {"nesterov": True, "weight_decay": 0.01},
    "adam": _MOMENTS | _MEAN,
    "adamw": _MOMENTS | _MEAN,
    "yogi": _MOMENTS | _MEAN,
    "adagrad": {"epsilon": 1e-3, **_MEAN},
}
"""What may be said of an optimizer of every kind."""

SCHEDULES: dict[str, Block] = {
    "constant": {},
    "step": {"to": 0.5},
    "cosine": {"least": 0.1},
    "inverse-square-root": {"scale": 3},
}
"""What may be said of a schedule of every kind."""


def _average(dice: Dice, **further: Any) -> Block:
    said = _lengths(dice) | dice.options(dict(further))
    return said | _ruled(dice) if dice.chance(0.3) else said


def _lengths(dice: Dice) -> Block:
    """Draw steps, or passes of one sort or the other."""
    if dice.chance(0.35):
        key = dice.one(["epochs", "local_epochs"])
        drop = {"drop_last": True} if key == "local_epochs" and dice.chance(0.5) else {}
        return {"step_size": _step(dice), key: dice.whole(1, 2), "batch": dice.whole(1, 9)} | drop
    return _local(dice)


def _rule(dice: Dice) -> Block:
    kind = dice.one(list(OPTIMIZERS))
    momentum = {"momentum": 0.9} if kind == "sgd" else {}
    return {"kind": kind, **momentum, **dice.options(OPTIMIZERS[kind])}


def _schedule(dice: Dice, *by: str) -> Block:
    kind = dice.one(list(SCHEDULES))
    needed: Block = {"step": {"every": 2}, "cosine": {"over": 5}}.get(kind, {})
    said = SCHEDULES[kind] | {"warm_up": 2} | ({"by": dice.one(by)} if by else {})
    return {"kind": kind, **needed, **dice.options(said, 0.5)}


def _ruled(dice: Dice) -> Block:
    """Draw an optimizer, a schedule and a limit of gradients."""
    schedule = _schedule(dice, "round", "step")
    block = {"optimizer": _rule(dice), "schedule": schedule, "clip_norm": dice.size(1e-2, 10)}
    return dice.options(block) | (
        {"optimizer": {"kind": "adam"}, "optimizer_state": "kept"} if dice.chance(0.3) else {}
    )


def _mean_step(dice: Dice) -> Block:
    """Draw what FedNova takes: nothing that gives its steps other sizes."""
    plain = {"optimizer": {"kind": "sgd"}, "schedule": _schedule(dice), "clip_norm": 1.0}
    return _lengths(dice) | (dice.options(plain) if dice.chance(0.3) else {})


def _served(dice: Dice, **further: Any) -> Block:
    """Draw a method with an optimizer at the server."""
    return _average(dice, server_schedule=_schedule(dice), **further)


def _streaming(dice: Dice) -> Block:
    """Draw fragments, and what overlaps with them."""
    block, steps = _local(dice), dice.whole(1, 3)
    block |= {"local_steps": steps, "fragments": dice.whole(1, 2)}
    further: Block = {
        "overlap": dice.whole(0, steps),
        "blend": dice.whole(0, 4) / 4,
        "schedule": _schedule(dice, "round", "step"),
        "clip_norm": dice.size(1e-2, 10),
        "optimizer": {"kind": "adam", **dice.options(OPTIMIZERS["adam"])},
        "server_rate": 0.5,
        "server_schedule": _schedule(dice),
        "server_optimizer": _rule(dice),
        "optimizer_state": "kept",
    }
    if dice.chance(0.1):
        return block | {"optimizer": "sgd", "optimizer_state": "reset"}
    return block | dice.options(further, 0.5)


def _momentum(dice: Dice) -> Block:
    return {"step_size": _step(dice), **dice.options({"momentum": dice.whole(0, 9) / 10}, 0.6)}


def _censored(dice: Dice) -> Block:
    threshold: Block = {"censor": dice.size(1e-3, 10)}
    return dice.one([{}, threshold, {"eps1": dice.size(1e-6, 10)}, {"censor": 0}])


def _sparse(dice: Dice, facts: Facts) -> Block:
    block = {"sparsity": dice.whole(1, facts.features if dice.careful else 20)}
    return block | dice.options({"sends": "differences"})


def _signals(dice: Dice) -> Block:
    return dice.options({"signals": dice.whole(1, 9), "path": "signals.npz"}, 0.6)


def _matching_pursuit(dice: Dice, facts: Facts) -> Block:
    kinds = ["gradient-descent", "sgd"]
    kinds += ["newton"] if facts.hessian or dice.chance(0.1) else []
    kinds += ["exact"] if facts.quadratic or dice.chance(0.1) else []
    kind = dice.one(kinds)
    solver: Block = {"kind": kind}
    if kind in {"gradient-descent", "sgd"}:
        solver |= {"step_size": dice.size(1e-3, 0.2), "steps": dice.whole(1, 20)}
    solver |= dice.options(_ENDS.get(kind, {}), 0.3)
    block = {**_sparse(dice, facts), "local_steps": dice.whole(1, 2), **_batch(dice)}
    atoms = {"columns": dice.whole(1, 9)}
    further = {
        "solver": solver,
        "ball": dice.size(0.1, 100),
        "dictionary": dice.one([
            {"kind": "identity"},
            {"kind": "gaussian", **atoms},
            {"kind": "k-svd", **atoms, "iterations": 2, "sparsity": 1, **_signals(dice)},
        ]),
    }  # fmt: skip
    return block | {"solver": further["solver"]} | dice.options(further, 0.3)


def _dual(dice: Dice) -> Block:
    rates = {"mu": dice.size(0.01, 1), "gamma": dice.size(1, 100)}
    output = dice.options({"output": dice.one(["last", "average"])})
    return {**rates, "local_steps": dice.whole(1, 3), **_batch(dice), **output}


def _ball(dice: Dice, facts: Facts) -> Block:
    kind = BALLS.get(facts.penalty) or dice.one(list(BALLS.values()))
    return {"kind": kind, "radius": dice.size(0.1, 1e3)}


def _stages(dice: Dice) -> list[Block]:
    return [
        {"weight": dice.size(1e-3, 0.1), "radius": dice.size(1, 100), "rounds": dice.whole(1, 3)}
        for _ in range(dice.whole(1, 3))
    ]


def _switching(dice: Dice, facts: Facts) -> Block:
    block = {"local_steps": dice.whole(1, 3), **dice.options({"output": "average"})}
    if dice.chance(0.3):
        theory = {"diameter": dice.size(0.1, 9), "lipschitz": dice.size(0.1, 9), "rounds": 4}
        block |= {"step_size": "theory", "tolerance": "theory", "theory": theory}
    else:
        block |= {"step_size": _step(dice), "tolerance": dice.size(1e-3, 1)}
    soft: Block = {"switching": "soft", **dice.options({"sharpness": dice.size(0.1, 100)})}
    return block | (soft if dice.chance(0.4) else {})


def _asynchronous(dice: Dice, facts: Facts) -> Block:
    kind = dice.one(["constant", "polynomial", "hinge"])
    shape = {"constant": {}, "polynomial": {"a": 0.5}, "hinge": {"a": 1.0, "b": 2.0}}[kind]
    further = dice.options({"alpha": dice.whole(1, 10) / 10, "rho": dice.size(1e-3, 1)})
    return _average(dice) | {"staleness": kind, **shape} | further


METHODS: dict[str, Draw] = {
    "chb": lambda dice, facts: _momentum(dice) | _censored(dice),
    "hb": lambda dice, facts: _momentum(dice),
    "lag": lambda dice, facts: {"step_size": _step(dice), **_censored(dice)},
    "gd": lambda dice, facts: {"step_size": _step(dice)},
    "lag-wk": lambda dice, facts: {"step_size": _step(dice), **dice.options({"xi": 0.5})},
    "lag-ps": lambda dice, facts: {"step_size": _step(dice), **dice.options({"xi": 5.0})},
    "chb-charge": lambda dice, facts: {
        **_momentum(dice),
        **_censored(dice),
        **dice.options({"caution": dice.whole(0, 4) / 2}),
    },
    "dcgd": lambda dice, facts: _momentum(dice),
    "distributed-iht": lambda dice, facts: {
        **_local(dice, steps=1),
        **_sparse(dice, facts),
    },
    "fed-ht": lambda dice, facts: _local(dice) | _sparse(dice, facts),
    "fediter-ht": lambda dice, facts: _local(dice) | _sparse(dice, facts),
    "fedgradmp": _matching_pursuit,
    "fedavg": lambda dice, facts: _average(dice),
    "fedprox": lambda dice, facts: _average(dice, mu=dice.size(1e-3, 9)),
    "fedexprox": lambda dice, facts: _average(dice, mu=dice.size(1e-3, 9), extrapolation=1.5),
    "fednova": lambda dice, facts: _mean_step(dice),
    "ditto": lambda dice, facts: _average(
        dice, mu=dice.size(1e-3, 9), personal_steps=2, personal_rate=dice.size(1e-3, 0.3)
    ),
    "pfedme": lambda dice, facts: {
        **_local(dice),
        **dice.options({"mu": dice.size(1e-3, 9), "server_rate": 0.5, "personal_steps": 2}),
        **dice.options({"model_rate": 0.1, "optimizer": _rule(dice), "clip_norm": 1.0}),
    },
    "apfl": lambda dice, facts: {
        **_lengths(dice),
        **dice.options({"alpha": dice.whole(1, 10) / 10, "alpha_rate": dice.size(1e-3, 9)}),
        **dice.options({"optimizer": {"kind": "sgd"}, "schedule": _schedule(dice)}),
    },
    "scaffold": lambda dice, facts: _local(dice) | dice.options({"server_rate": 0.5}),
    "scaffnew": lambda dice, facts: {
        "step_size": _step(dice),
        "probability": dice.whole(2, 10) / 10,
        **_batch(dice),
    },
    "fedopt": lambda dice, facts: _served(dice, server_rate=0.5, server_optimizer=_rule(dice)),
    "fedavgm": lambda dice, facts: _served(dice, server_rate=0.5, momentum=0.5, nesterov=True),
    "fedadagrad": lambda dice, facts: _served(dice, server_rate=0.01, tau=0.1),
    "fedadam": lambda dice, facts: _served(dice, server_rate=0.01, **_ADAPTIVE),
    "fedyogi": lambda dice, facts: _served(dice, server_rate=0.01, **_ADAPTIVE),
    "diloco": lambda dice, facts: {
        **dice.options({"optimizer_state": "reset"}),
        **_served(dice, server_rate=0.5, server_optimizer=_rule(dice)),
    },
    "streaming-diloco": lambda dice, facts: _streaming(dice),
    "fedasync": _asynchronous,
    "fedbuff": lambda dice, facts: _average(dice, server_rate=0.5),
    "fedmid": lambda dice, facts: {
        **_local(dice),
        **dice.options({"server_prox": False, "server_rate": 0.5}),
    },
    "fed-dual-avg": lambda dice, facts: _local(dice) | dice.options({"server_rate": 0.5}),
    "fast-fedda": lambda dice, facts: _dual(dice) | dice.options({"combined": True}),
    "c-fedda": lambda dice, facts: _dual(dice) | {"ball": _ball(dice, facts)},
    "mc-fedda": lambda dice, facts: _dual(dice) | {"stages": _stages(dice)},
    "fedsgm": _switching,
    "fedsgm-stale": _switching,
    "fedcom": lambda dice, facts: _local(dice) | dice.options({"server_rate": 0.5}),
    "fedcomgate": lambda dice, facts: _local(dice) | dice.options({"server_rate": 0.5}),
    "ef21": lambda dice, facts: {"step_size": _step(dice), **dice.options({"start": "gradient"})},
    "diana": lambda dice, facts: {
        **_momentum(dice),
        **_batch(dice),
        **dice.options({"shift_rate": dice.whole(1, 10) / 10}),
    },
    "marina": lambda dice, facts: {"step_size": _step(dice), **dice.options({"probability": 0.5})},
    "pp-marina": lambda dice, facts: {
        "step_size": _step(dice),
        **dice.options({"probability": 0.5}),
    },
    "signsgd": lambda dice, facts: _momentum(dice) | _batch(dice),
}


PARTED = (
    *("fedavg", "fedprox", "fedexprox", "fednova", "fedopt", "fedavgm", "fedadagrad", "fedadam"),
    *("fedyogi", "diloco", "fedasync", "fedbuff"),
)
"""Methods under which parts of a model may stay with clients."""


def parted(dice: Dice) -> Block:
    """Draw which parts of a network stay with clients, and how these are trained."""
    return {"local": ["*bias*"], **dice.options({"local_first": dice.whole(1, 2)}, 0.6)}


def method(dice: Dice, kind: str, facts: Facts) -> Block:
    """Draw the block of a method."""
    block = {"kind": kind, **METHODS[kind](dice, facts)}
    if kind in PARTED and not dice.careful and dice.chance(0.5):
        block |= parted(dice)  # which models that are no networks do not have
    if facts.loss in {"mlp", "torch"} and "step_size" in block and dice.careful:
        block["step_size"] = dice.size(1e-4, 0.3)  # 1/L takes a loss that has an L
    return block
