"""Table of the methods that train a network: each is tried on a small one."""

from collections.abc import Iterator
from typing import Any

from making.blocks import code, inline, table

from fedsim.algorithms import ALGORITHMS, Algorithm
from fedsim.algorithms.peer_mixing import PeerAlgorithm
from fedsim.core.blocks.registry import kinds_of
from fedsim.core.errors import ScenarioError
from fedsim.scenario import load
from fedsim.scenario.building import Builder

PARAMETERS = {
    "step_size": 0.1,
    "sparsity": 100,
    "tolerance": 0.1,
    "probability": 0.3,
    "mu": 0.01,
    "gamma": 50,
    "ball": {"kind": "l1-ball", "radius": 100},
    "stages": [{"weight": 0.01, "radius": 100, "rounds": 3}],
    "solver": {"kind": "gradient-descent", "step_size": 0.1},
}
"""Parameters of methods that require one, or whose default is relative to L."""

AMONG_PEERS = PARAMETERS | {"gamma": 0.5, "threshold": 1.0, "penalty": 0.1, "rho": 10.0}
"""Those of methods of peers, whose gamma is a share."""

NETWORK: dict[str, Any] = {
    "loss": {"kind": "torch", "model": {"kind": "cnn", "channels": [2], "hidden": 4}},
    "data": {"kind": "sklearn", "name": "digits"},
    "test": {"fraction": 0.8},
}


def networks() -> str:
    """Return a table of all methods that ask clients for gradients: accepted, or refused and why.

    The outcomes are those of `fedsim check` for a scenario of each.
    """
    rows = [
        (code(kind), *_tried(model, kind))
        for model in ALGORITHMS
        if model.asks != "program"
        for kind in kinds_of(model)
    ]
    return table(("method", "a network", "what `fedsim check` says of it"), rows)


def _tried(model: type[Algorithm], kind: str) -> tuple[str, str]:
    """Return the outcome of a scenario, and the message about it."""
    try:
        (job,) = Builder(load(_scenario(model, kind))).check()
    except ScenarioError as error:
        return "refused", "<br>".join(inline(each.message) for each in error.faults)
    said = [*_asks(model), *(f"theory: {concern.text}" for concern in job.concerns)]
    return "accepted", "<br>".join(map(inline, said))


def _scenario(model: type[Algorithm], kind: str) -> dict[str, Any]:
    fields = {
        key: value
        for key, value in (AMONG_PEERS if _of_peers(model) else PARAMETERS).items()
        if key in model.model_fields and (key == "solver" or model.model_fields[key].is_required())
    }
    return {
        "problem": {**NETWORK, **({"penalty": _PENALTY} if model.proximal else {})},
        "algorithm": {"kind": kind, **fields},
        "fleet": [{"count": 4}],
        **({"participation": {"kind": "asynchronous"}} if model.asynchronous else {}),
        **({"network": {"peers": {"kind": "ring"}}} if _of_peers(model) else {}),
    }


_PENALTY = {"kind": "l1", "weight": 0.01}


def _of_peers(model: type[Algorithm]) -> bool:
    return issubclass(model, PeerAlgorithm)


def _asks(model: type[Algorithm]) -> Iterator[str]:
    """Yield the keys that a method needs in a scenario beside the problem."""
    if model.asynchronous:
        yield "with `participation: {kind: asynchronous}`"
    if _of_peers(model):
        yield "with `network: {peers: ...}`"
    if "solver" in model.model_fields:
        yield "with the solver `gradient-descent`, `svrg` or `sgd`"
    if model.proximal:
        yield "with a `penalty` or without"
