"""What is run: every method, random worlds, what ships in a short form, networks."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.methods import METHODS, PEERS, scenario
from tests.runs import small

SHIPPED = (
    "quickstart", "peers", "walkthrough", "studies/censoring-and-tails",
    "studies/compression-and-shared-uplink", "studies/honest-bits", "studies/who-dies-first",
)  # fmt: skip
"""Those whose data comes with the packages, and that take a second or two in a short form."""

SHORT = ("stop.rounds=4", "seeds=2", "problem.optimum=unknown", "stop.gap=null")

FLEET = [
    {
        "count": 4,
        "device": "phone-mid",
        "radio": {"kind": "lte", "loss": {"kind": "independent", "rate": "5 %"}},
    },
    {"count": 2, "device": "pi-4", "radio": "wifi", "battery": {"capacity": "1 Wh"}},
]

NETWORK: dict[str, Any] = {
    "problem": {
        "loss": {"kind": "torch", "model": {"kind": "cnn", "channels": [4, 8], "hidden": 16}},
        "data": {"kind": "sklearn", "name": "digits"},
        "split": {"kind": "dirichlet", "alpha": 1.0},
    },
    "algorithm": {"kind": "fedavg", "local_steps": 3, "batch": 8, "step_size": 0.1},
    "fleet": [{"count": 6, "device": "phone-mid", "radio": "lte"}],
    "participation": {"kind": "uniform", "count": 4},
    "wire": {"up": {"compressor": {"kind": "dithered", "bits": 8}}},
    "stop": {"rounds": 2},
    "seeds": 2,
}


class Study(NamedTuple):
    """Something to run.

    Attributes:
        name: by which its runs are told from those of others.
        source: a scenario, or its file.
        overrides: what makes it short.
        parallel: whether it has several runs, which processes and clusters may share.
    """

    name: str
    source: dict[str, Any] | Path
    overrides: tuple[str, ...] = ()
    parallel: bool = False


def studies(root: Path, few: bool = False) -> Iterator[Study]:
    """Yield what is run.

    Args:
        root: of the checkout.
        few: only some methods, in a few seconds.
    """
    methods = ("chb", "fedbuff", "marina") if few else (*METHODS, *PEERS)
    for kind in methods:
        yield Study(kind, {**scenario(kind), "fleet": FLEET, "stop": {"rounds": 3}})
    for name in () if few else SHIPPED:
        yield Study(name, root / "scenarios" / f"{name}.yaml", SHORT, parallel=True)
    swept = small(sweep={"algorithm.censor": [0.01, 0.1]}, seeds=2, stop={"rounds": 8})
    yield Study("swept", swept, parallel=True)
    if importlib.util.find_spec("numba") and not few:
        yield Study("compiled", {**swept, "evaluator": "compiled"}, parallel=True)
        local = {**scenario("fedavg"), "fleet": FLEET, "stop": {"rounds": 3}}
        yield Study("compiled-local", {**local, "evaluator": "compiled"})
    if importlib.util.find_spec("torch") and not few:
        yield Study("network", NETWORK, parallel=True)
        yield Study("network-vmap", {**NETWORK, "evaluator": "vmap"}, parallel=True)
