"""TensorBoard: one event file per variant and seed, in the study's folder."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Literal

from fedsim.results.tracking import TrackedRun, Tracker


class TensorBoard(Tracker):
    """Writes OUT/tensorboard/VARIANT/seed-N; the axis "Relative" is the simulated time."""

    library: ClassVar[tuple[str, str, str]] = ("tensorboard", "TensorBoard", "tensorboard")

    kind: Literal["tensorboard"] = "tensorboard"

    def open(self, folder: Path, study: str) -> Callable[[TrackedRun], None]:
        """Import the library."""
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.plugins.hparams.summary_v2 import hparams_pb
        from tensorboard.plugins.text.metadata import create_summary_metadata
        from tensorboard.summary.writer.event_file_writer import EventFileWriter
        from tensorboard.util.tensor_util import make_tensor_proto

        def text(name: str, body: str) -> Summary:
            about = create_summary_metadata(display_name="", description="")
            value = Summary.Value(tag=name, metadata=about, tensor=make_tensor_proto([body]))
            return Summary(value=[value])

        def store(run: TrackedRun) -> None:
            place = folder / run.variant / f"seed-{run.seed}"
            for former in place.glob("events.out.tfevents.*"):  # or TensorBoard shows both runs
                former.unlink()
            writer = EventFileWriter(str(place))
            try:
                heads = (
                    hparams_pb({"seed": run.seed, "variant": run.variant, **run.params}),
                    text("scenario", f"```yaml\n{(run.folder / 'scenario.yaml').read_text()}```"),
                    text("run", f"```json\n{json.dumps(dict(run.tags), indent=2)}\n```"),
                )
                for head in heads:
                    writer.add_event(Event(wall_time=0.0, summary=head))
                for number, values in run.points():
                    numbers = [Summary.Value(tag=n, simple_value=v) for n, v in values.items()]
                    moment, summary = values["seconds"], Summary(value=numbers)
                    writer.add_event(Event(step=number, wall_time=moment, summary=summary))
            finally:
                writer.close()

        return store
