"""Weights & Biases: one offline run per variant and seed, in the study's folder."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Literal

from fedsim.results.tracking import TrackedRun, Tracker


class WandB(Tracker):
    """Writes OUT/wandb; `WANDB_MODE=online` sends the runs to a server as well."""

    library: ClassVar[tuple[str, str, str]] = ("wandb", "Weights & Biases", "wandb")

    kind: Literal["wandb"] = "wandb"

    def open(self, folder: Path, study: str) -> Callable[[TrackedRun], None]:
        """Import the library; every run is opened and closed on its own."""
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # nothing leaves the machine
        import wandb

        mode: Any = os.environ.get("WANDB_MODE", "offline")
        settings = wandb.Settings(
            silent=True,
            console="off",  # what fedsim prints belongs to no run
            save_code=False,
            disable_git=True,
            x_disable_stats=True,  # the load of this machine says nothing of a simulated fleet
            x_disable_machine_info=True,
        )

        def store(run: TrackedRun) -> None:
            opened = wandb.init(
                project=study,
                name=run.name,
                group=run.variant,
                dir=folder.parent,
                mode=mode,
                config={"tags": dict(run.tags), **run.params},
                tags=[run.variant[:64], f"seed {run.seed}"],
                settings=settings,
                reinit="create_new",
            )
            opened.define_metric("*", step_metric="round")
            for number, values in run.points():
                opened.log({"round": number, **values}, step=number)
            opened.finish(exit_code=0 if run.complete else 1)

        return store
