"""MLflow: one MLflow run per variant and seed, in a database file of the study's folder."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from fedsim.results.tracking import TrackedRun, Tracker

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

_PARAMS, _METRICS, _LONGEST = 100, 1000, 6000
"""Most params and metrics of one request, and characters of a param, as MLflow limits them."""


class MLflow(Tracker):
    """Writes OUT/mlflow/mlflow.db, or to the server that `MLFLOW_TRACKING_URI` names.

    A metric's time is the simulated time of its round, after the moment at which it was stored.
    """

    library: ClassVar[tuple[str, str, str]] = ("mlflow", "MLflow", "mlflow")

    kind: Literal["mlflow"] = "mlflow"

    def open(self, folder: Path, study: str) -> Callable[[TrackedRun], None]:
        """Open the experiment, which is named after the study."""
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # nothing leaves the machine
        os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")  # or it reports its new tables
        from mlflow.tracking import MlflowClient

        place = folder.absolute()
        uri = os.environ.get("MLFLOW_TRACKING_URI")
        client = MlflowClient(tracking_uri=uri or f"sqlite:///{place}/mlflow.db")
        there = client.get_experiment_by_name(study)
        artifacts = None if uri else (place / "artifacts").as_uri()
        experiment = (
            client.create_experiment(study, artifact_location=artifacts)
            if there is None
            else there.experiment_id
        )

        def store(run: TrackedRun) -> None:
            _store(client, str(experiment), run)

        return store


def _store(client: "MlflowClient", experiment: str, run: TrackedRun) -> None:
    from mlflow.entities import Metric, Param

    begun = int(time.time() * 1000)
    tags = {f"fedsim.{name}": text for name, text in run.tags.items()}
    opened = client.create_run(experiment, begun, tags, run.name).info.run_id
    params = [Param(key, str(value)[:_LONGEST]) for key, value in run.params.items()]
    for first in range(0, len(params), _PARAMS):
        client.log_batch(opened, params=params[first : first + _PARAMS])
    metrics, moment = list[Metric](), begun
    for number, values in run.points():
        moment = begun + round(1000 * values["seconds"])
        metrics += [Metric(name, value, moment, number) for name, value in values.items()]
    for first in range(0, len(metrics), _METRICS):
        client.log_batch(opened, metrics=metrics[first : first + _METRICS])
    client.log_artifact(opened, str(run.folder / "scenario.yaml"))
    client.set_terminated(opened, "FINISHED" if run.complete else "FAILED", moment)
