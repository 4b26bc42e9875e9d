"""Runs of one scenario on the CPU and on a GPU."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import fedsim
from fedsim.results.result import Result


def on_both(scenario: dict[str, Any], folder: Path) -> tuple[Result, Result]:
    """Return the results of a scenario whose loss is computed on the CPU, and on a GPU."""
    problem = scenario["problem"]
    cpu, gpu = (
        fedsim.run(
            scenario | {"problem": {**problem, "loss": {**problem["loss"], "device": device}}},
            out=folder / device,
        )
        for device in ("cpu", "cuda")
    )
    return cpu, gpu


def state_of_streams() -> tuple[Tensor, Tensor]:
    """Return the states of PyTorch's streams of the CPU and of the GPU."""
    return torch.random.get_rng_state(), torch.cuda.get_rng_state().cpu()
