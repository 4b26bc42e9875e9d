"""Kinds of scenarios, each as small as it can be: two or three rounds over a few rows."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from ruamel.yaml import YAML

Scenario = dict[str, Any]

BASE: Mapping[str, Any] = {
    "problem": {
        "loss": {"kind": "logistic", "scale": "sum", "l2": 1, "labels": "plus-minus"},
        "data": {"kind": "csv", "path": "rows.csv", "label": "y"},
        "split": {"kind": "iid", "clients": 3},
    },
    "algorithm": {"kind": "gd", "step_size": "1/L"},
    "stop": {"rounds": 3},
}
FLEET = [
    {"count": 2, "device": "phone-mid", "radio": "lte"},
    {"count": 1, "device": "pi-4", "radio": "wifi"},
]
VARIANTS = {"chb": {"algorithm": {"kind": "chb", "step_size": "1/L", "censor": 0.1}}}


def _with(problem: Mapping[str, Any] | None = None, **keys: Any) -> Scenario:
    """Return the base scenario with other keys, and other keys of its problem."""
    return {**BASE, **keys, "problem": {**BASE["problem"], **(problem or {})}}


def fleet(problem: Mapping[str, Any] | None = None, **keys: Any) -> Scenario:
    """Return two variants with a fleet, and with other keys; see `_with`."""
    split = {"split": {"kind": "iid"}}
    return _with({**split, **(problem or {})}, **{"fleet": FLEET, "variants": VARIANTS, **keys})


def _stopped(variants: Mapping[str, Any] = VARIANTS, **rules: Any) -> Scenario:
    return fleet(stop={"rounds": 3, **rules}, variants=variants)


def _graph() -> Scenario:
    edges = [
        {"source": "server", "target": "router", "rate": "1 Mbit/s", "latency": "5 ms"},
        *({"source": f"client-{m}", "target": "router", "latency": "1 ms"} for m in range(3)),
    ]
    tree = {"network": {"topology": "tree", "gateways": 2}}
    return fleet(network={"topology": "graph", "edges": edges}, variants={"tree": tree})


KINDS: Mapping[str, Scenario] = {
    # the shape of a study
    "no-fleet": _with(),
    "no-fleet-two-variants-two-seeds": _with(variants=VARIANTS, seeds=2),
    "one-client": _with({"split": {"kind": "iid", "clients": 1}}),
    "one-variant-one-seed": fleet(variants={}),
    "two-variants-three-seeds": fleet(seeds=3),
    "a-sweep": fleet(variants={}, sweep={"fleet.0.radio": ["lte", "wifi"]}),
    # who takes part, and when a round closes
    "deadline": fleet(silence={"kind": "deadline", "after": "20 s"}),
    "cohort": fleet(participation={"kind": "uniform", "count": 2}),
    "closes-early": fleet(
        participation={"kind": "uniform", "count": 2, "over": 1, "deadline": "10 s"}
    ),
    "asynchronous": fleet(
        algorithm={"kind": "fedasync", "step_size": 0.1},
        variants={"fedbuff": {"algorithm": {"kind": "fedbuff", "step_size": 0.1}}},
        participation={"kind": "asynchronous", "buffer": 1, "concurrency": 2},
    ),
    "peers": fleet(
        algorithm={"kind": "d-psgd", "step_size": "0.5/L_max"},
        network={"peers": {"kind": "ring"}},
        variants={"complete": {"network": {"peers": {"kind": "complete"}}}},
    ),
    "all-leave": fleet(
        fleet=[
            {**FLEET[0], "count": 3, "battery": {"capacity": "1 mJ", "charge": "21 %"}},
        ]
    ),
    "batteries-and-carbon": fleet(
        fleet=[
            {**FLEET[0], "battery": {}, "carbon": "FR"},
            {**FLEET[1], "battery": {"capacity": "20 J", "charge": "50 %"}},
        ]
    ),
    "lossy": fleet(
        fleet=[
            FLEET[1],
            {
                "count": 2,
                "device": "pi-4",
                "radio": {"kind": "wifi", "loss": {"kind": "independent", "rate": "20 %"}},
            },
        ]
    ),
    # what lies between
    "graph-and-tree": _graph(),
    # what is learned
    "no-optimum": fleet({"optimum": "unknown"}),
    "test-data-and-models": fleet(
        {"test": {"fraction": 0.25}},
        measures=["test_accuracy"],
        models={"every": 1},
        observe={"every": 2},
    ),
    "sparse": _with(
        {
            "data": {"kind": "libsvm", "path": "rows.svm"},
            "loss": {"kind": "squared", "scale": "sum", "l2": 1},
        }
    ),
    "torch": fleet(
        {
            "loss": {"kind": "torch", "model": {"kind": "mlp", "hidden": [2]}},
            "data": {"kind": "csv", "path": "classes.csv", "label": "y"},
        },
        algorithm={"kind": "fedavg", "step_size": 0.1, "local_steps": 1},
        variants={"longer": {"algorithm": {"local_steps": 2}}},
    ),
    "diverging": fleet(algorithm={"kind": "gd", "step_size": 1e6}, stop={"rounds": 400}),
    # each stop rule
    "stop-at-a-value": _stopped(
        bits="100 bit",
        variants={
            "gap": {"stop": {"gap": 1e-1, "bits": None, "rounds": 9}},
            "objective": {"stop": {"objective": 1e3, "bits": None}},
        },
    ),
    "stop-not-reached": _stopped(gap=1e-12),
    "stop-by-the-clock": _stopped(
        energy="1 mJ", variants={"time": {"stop": {"time": "300 ms", "energy": None}}}
    ),
    "stop-at-once": _stopped(time="1 us"),
}
"""Scenarios by what is special about them."""


def write_data(folder: Path) -> None:
    """Write the rows that the scenarios are about: 24 of three features, and two labels."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(24, 3))
    labels = np.where(rows @ [1, -2, 0.5] + rng.normal(size=24) > 0, 1, -1)
    lines, sparse = ["a,b,c,y"], list[str]()
    for number, (row, label) in enumerate(zip(rows, labels, strict=True)):
        cells = [f"{value:.4f}" for value in row]
        lines.append(",".join([*cells, str(label)]))
        there = [f"{j + 1}:{cell}" for j, cell in enumerate(cells) if j != number % 3]
        sparse.append(" ".join([str(label), *there]))
    (folder / "rows.csv").write_text("\n".join(lines) + "\n")
    (folder / "classes.csv").write_text("\n".join(lines).replace(",-1", ",0") + "\n")
    (folder / "rows.svm").write_text("\n".join(sparse) + "\n")


def write_scenario(scenario: Mapping[str, Any], file: Path) -> None:
    """Write a scenario as a user would."""
    yaml = YAML(typ="safe")
    yaml.representer.ignore_aliases = lambda *_: True
    with file.open("w") as stream:
        yaml.dump(scenario, stream)
