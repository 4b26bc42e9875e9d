"""A block for every method, and a problem that suits it."""

from typing import Any

from fedsim.algorithms import ALGORITHMS, Algorithm
from fedsim.core.blocks.registry import kinds_of

LOGISTIC: dict[str, Any] = {
    "loss": {"kind": "logistic", "scale": "mean", "l2": 0.1, "labels": "plus-minus"},
    "data": {"kind": "sklearn", "name": "breast-cancer", "preprocess": ["standardise"]},
    "split": {"kind": "iid"},
}
PENALISED = LOGISTIC | {"penalty": {"kind": "l1", "weight": 0.01}}
CONSTRAINED = LOGISTIC | {
    "loss": {"kind": "neyman-pearson"},
    "split": {"kind": "iid", "remainder": "drop"},  # the theory is of clients with as many rows
}
LOCAL: dict[str, Any] = {"step_size": 0.05, "local_steps": 3, "batch": 20}
DUAL: dict[str, Any] = {"mu": 0.1, "gamma": 50, "local_steps": 3, "batch": 20}
ARRIVALS = {"participation": {"kind": "asynchronous", "buffer": 2}}

METHODS: dict[str, dict[str, Any]] = {
    "chb": {"step_size": "0.5/L"},
    "hb": {"step_size": "0.5/L"},
    "lag": {"step_size": "0.5/L"},
    "gd": {"step_size": "0.5/L"},
    "lag-wk": {"step_size": "0.5/L"},
    "lag-ps": {"step_size": "0.5/L"},
    "chb-charge": {"step_size": "0.5/L"},
    "dcgd": {"step_size": "0.2/L"},
    "distributed-iht": {"step_size": 0.05, "sparsity": 10},
    "fed-ht": {"sparsity": 10, **LOCAL},
    "fediter-ht": {"sparsity": 10, **LOCAL},
    "fedgradmp": {"sparsity": 10, "local_steps": 2, "solver": {"kind": "newton"}},
    "fedavg": LOCAL,
    "fedprox": {"mu": 0.1, **LOCAL},
    "fedexprox": {"mu": 0.1, **LOCAL},
    "fednova": LOCAL,
    "ditto": {"mu": 0.1, "personal_steps": 2, **LOCAL},
    "pfedme": {"mu": 0.1, "personal_steps": 2, **LOCAL},
    "apfl": LOCAL,
    "scaffold": LOCAL,
    "scaffnew": {"step_size": 0.05, "probability": 0.3, "batch": 20},
    "fedopt": LOCAL,
    "fedavgm": LOCAL,
    "fedadagrad": LOCAL,
    "fedadam": LOCAL,
    "fedyogi": LOCAL,
    "diloco": {**LOCAL, "step_size": 0.002},
    "streaming-diloco": {"fragments": 3, "overlap": 2, **LOCAL, "step_size": 0.002},
    "fedasync": LOCAL,
    "fedbuff": LOCAL,
    "fedmid": LOCAL,
    "fed-dual-avg": LOCAL,
    "fast-fedda": DUAL,
    "c-fedda": {"ball": {"kind": "l1-ball", "radius": 100}, **DUAL},
    "mc-fedda": {
        "stages": [
            {"weight": 0.02, "radius": 100, "rounds": 3},
            {"weight": 0.01, "radius": 50, "rounds": 3},
        ],
        **DUAL,
    },
    "fedsgm": {"step_size": 0.05, "tolerance": 0.3, "local_steps": 3},
    "fedsgm-stale": {"step_size": 0.05, "tolerance": 0.3, "local_steps": 3},
    "fedcom": LOCAL,
    "fedcomgate": LOCAL,
    "ef21": {"step_size": "0.2/L"},
    "diana": {"step_size": "0.2/L"},
    "marina": {"step_size": "0.2/L"},
    "pp-marina": {"step_size": "0.2/L"},
    "marina-p": {"step_size": "0.2/L"},
    "signsgd": {"step_size": 0.01},
}
"""A block for every method with a server."""
PEERS: dict[str, dict[str, Any]] = {
    "d-psgd": {"step_size": "0.5/L_max"},
    "dfedavg": LOCAL,
    "extra": {"step_size": "0.3/L_max"},
    "nids": {"step_size": "0.5/L_max"},
    "diging": {"step_size": "0.1/L_max"},
    "choco-sgd": {"step_size": "0.5/L_max", "gamma": 0.5},
    "sparq-sgd": {"gamma": 0.5, "threshold": 1.0, **LOCAL},
    "cola": {"penalty": 0.5, "rho": 10.0, "threshold": 0.1},
    "coke": {"penalty": 0.2, "threshold": 0.1, "solver": {"kind": "newton"}},
    "sgp": {"step_size": "0.5/L_max"},
    "gossip": {},
    "choco-gossip": {"gamma": 0.5},
    "push-sum": {},
    "pairwise-gossip": {"every": "1 ms"},
    "ad-psgd": {"step_size": "0.5/L_max"},
}
"""A block for every method of peers."""
FAMILIES = (
    "chb", "lag-ps", "dcgd", "fedgradmp", "fedavg", "ditto", "scaffold", "fedadam", "fedasync",
    "fast-fedda", "fedsgm", "fedcomgate", "pp-marina", "signsgd",
)  # fmt: skip
"""Of each family of methods one or two: on these the default tier tries what holds for all."""
AVERAGES = {"gossip", "choco-gossip", "push-sum", "pairwise-gossip"}
"""Methods of peers that average drawn vectors: they compute nothing, and see no objective."""
PROBLEMS = {
    **dict.fromkeys(("fedmid", "fed-dual-avg", "fast-fedda", "c-fedda", "mc-fedda"), PENALISED),
    "fedsgm": CONSTRAINED,
    "fedsgm-stale": CONSTRAINED,
}


def the_class(kind: str) -> type[Algorithm]:
    (model,) = (model for model in ALGORITHMS if kind in kinds_of(model))
    return model


def scenario(kind: str) -> dict[str, Any]:
    """Return a problem and the method, and for some the participation that they need."""
    return {
        "problem": PROBLEMS.get(kind, LOGISTIC),
        "algorithm": {"kind": kind, **(METHODS | PEERS)[kind]},
        **({"network": {"peers": {"kind": "ring"}}} if kind in PEERS else {}),
        **(ARRIVALS if the_class(kind).asynchronous else {}),
    }
