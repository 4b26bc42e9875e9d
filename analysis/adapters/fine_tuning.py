"""What does fine-tuning cost when all of a model travels, and when only low-rank factors do?

    python analysis/adapters/fine_tuning.py [--out DIR]

A perceptron learns five of ten digits in a run of its own; then all ten arrive at twenty clients.
They train the whole model (FedAvg), or adapters by FedIT or FLoRA, which are user-defined blocks
in low_rank.py. Prints what accuracies took, writes it as fine_tuning.csv, and draws the accuracy
against bits as analysis/figures/adapters.png.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from low_rank import FedIT, FLoRA
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from torch import nn

import fedsim
import fedsim.torch
from fedsim.core.ports import Array
from fedsim.results.analysis import cost_to_target, listing, progress, quantity, save

ROOT = Path(__file__).resolve().parents[2]
FIGURE = ROOT / "analysis/figures/adapters.png"
COSTS = Path(__file__).with_suffix(".csv")

METHODS = {
    "base": "all of the model, FedAvg",
    "fedit": "factors, FedIT",
    "flora": "factors, FLoRA",
}
ACCURACIES = (0.8, 0.85, 0.9)
KNOWN = 5
"""So many digits, from 0, the model knows before it is fine-tuned."""

FLEET = [{"count": 20, "device": "phone-mid", "radio": "lte"}]
STEPS = {"fedit": 0.05, "flora": 0.1}
"""FedIT goes on from the factors it has, which grow, and diverges with 0.1."""
LOCAL = {"local_steps": 10, "batch": 16}


def network() -> nn.Module:
    """Return a perceptron for images of 8 x 8, of 26,122 parameters."""
    return nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
    )


def rows() -> tuple[Array, Array, "np.ndarray[Any, np.dtype[np.bool_]]"]:
    """Return the images, (n, 64), their digits, (n,), and which of them are to test on."""
    X, y = load_digits(return_X_y=True)
    return X / 16, y.astype(np.float64), np.random.default_rng(0).random(len(y)) < 0.2


def pretrained(rounds: int = 60) -> nn.Module:
    """Return a network that knows the first digits, from a run in which only they are there."""
    X, y, held_out = rows()
    seen = ~held_out & (y < KNOWN)
    result = fedsim.run(
        {
            "problem": fedsim.torch.problem(network, data=(X[seen], y[seen])),
            "algorithm": {"kind": "fedavg", "step_size": 0.2, **LOCAL},
            "fleet": [{"count": 4}],
            "observe": {"every": rounds},
            "stop": {"rounds": rounds},
        }
    )
    module = network()
    model = torch.tensor(result.model(), dtype=torch.float32)
    nn.utils.vector_to_parameters(model, module.parameters())
    return module


def scenario(module: nn.Module, rounds: int = 80) -> dict[str, Any]:
    """Return the fine-tuning of a network by three methods."""
    X, y, held_out = rows()
    adapters = {"layers": [list(each.shape) for each in module.parameters()], "rank": 4}
    return {
        "name": "adapters",
        "problem": fedsim.torch.problem(
            module,
            data=(X[~held_out], y[~held_out]),
            test=(X[held_out], y[held_out]),
            split={"kind": "dirichlet", "alpha": 0.5},
        ),
        "algorithm": {"kind": "fedavg", "step_size": 0.1, **LOCAL},
        "wire": {"values": "float32"},
        "fleet": FLEET,
        "participation": {"kind": "uniform", "count": 5},
        "measures": ["test_accuracy"],
        "observe": {"every": 1},  # rounds to an accuracy are counted
        "stop": {"rounds": rounds},
        "seeds": 3,
        "variants": {
            kind: {"algorithm": {"kind": kind, "step_size": step, **LOCAL, **adapters}}
            for kind, step in STEPS.items()
        },
    }


def tuned(out: Path | None = None, pretraining: int = 60, rounds: int = 80) -> fedsim.Result:
    """Train a network on half of the digits, and fine-tune it on all."""
    whole = scenario(pretrained(pretraining), rounds)
    return fedsim.run(whole, out=out, blocks=[FedIT, FLoRA])


def costs(rounds: pd.DataFrame, accuracies: Sequence[float] = ACCURACIES) -> pd.DataFrame:
    """Return what each accuracy took, means over the seeds that reached it.

    Returns:
        A row an accuracy and variant: accuracy, variant, seeds (how many reached it), round,
        bits_up, bits_down, t (s), joules.
    """
    seen = ["round", "bits_up", "bits_down", "t", "joules"]
    tables = []
    for accuracy in accuracies:
        spent = cost_to_target(rounds, accuracy, "test_accuracy")
        by = spent.groupby("variant", sort=False, observed=True)
        counted = by["round"].count().rename("seeds")
        tables.append(pd.concat([counted, by[seen].mean()], axis=1).assign(accuracy=accuracy))
    return pd.concat(tables).reset_index()[["accuracy", "variant", "seeds", *seen]]


def table(spent: pd.DataFrame) -> Table:
    """Return what accuracies took as a table for reading."""
    lines = [
        (
            *(f"{row['accuracy']:.0%}", METHODS[row["variant"]], f"{row['seeds']} of 3"),
            quantity(row["round"]),
            *(quantity(row[bits], "bit") for bits in ("bits_up", "bits_down")),
            *(quantity(row["t"], "s"), quantity(row["joules"], "J")),
        )
        for row in spent.to_dict("records")
    ]
    heads = ("accuracy", "what travels", "reached", "rounds", "bits up", "bits down", "time")
    return listing("Five of twenty phones a round", (*heads, "energy"), lines)


def draw(result: fedsim.Result) -> Figure:
    """Draw the accuracy against all bits, those up, those down, and rounds."""
    return progress(
        result.rounds,
        METHODS,
        "test_accuracy",
        ylabel="test accuracy",
        title=f"Fine-tuning from five digits to ten\n{result.setting}",
        log=False,
    )


def main() -> None:
    """Run the study, print its table, and draw its figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="keep the run folders here")
    result = tuned(parser.parse_args().out)
    spent = costs(result.rounds)
    Console(width=None if sys.stdout.isatty() else 150).print(table(spent))
    spent.to_csv(COSTS, index=False, float_format="%.6g")
    save(draw(result), FIGURE)


if __name__ == "__main__":
    main()
