"""Experiment trackers: every run is stored in the files of MLflow, Weights & Biases or TensorBoard.

A run is stored when it has ended, from its own files. So a tracker has every round, wherever the
run was made, and cannot change it. `fedsim.results.tracking` has the base class.
"""

from typing import TYPE_CHECKING

from fedsim.core.blocks.on_demand import exports

if TYPE_CHECKING:
    from fedsim.addons.tracking.mlflow import MLflow
    from fedsim.addons.tracking.tensorboard import TensorBoard
    from fedsim.addons.tracking.wandb import WandB
else:
    __getattr__, __dir__ = exports(__name__)

__all__ = ["MLflow", "TensorBoard", "WandB"]
