"""The proof: a method of a user's own is re-enacted in its own world first.

fedsim's own methods wait for nothing but exchanges and work. Another one may keep time in a way
that no port shows, such as by a timer of asyncio; its re-enactment is then another run.
"""

import tempfile
from pathlib import Path

import numpy as np

from fedsim.errors import DataError
from fedsim.protocol.stopping import Stop
from fedsim.record.read import read_run
from fedsim.repricing.original import Original
from fedsim.repricing.rebuilding import rebuilt
from fedsim.repricing.tape import Tape
from fedsim.running.execution import execute
from fedsim.scenario import Variant

_TELLING = ("t", "duration", "joules")


def prove(original: Original, variant: Variant, tape: Tape, folder: Path) -> None:
    """Re-enact a run as it was, and compare its rows up to its last round.

    Args:
        original: the run.
        variant: its own scenario.
        tape: of the run.
        folder: where the relative paths of the scenario start.

    Raises:
        DataError: they differ.
    """
    if not tape.commits:
        return
    stop = Stop(rounds=len(tape.commits))
    scenario = variant.scenario.model_copy(update={"stop": stop})
    same = Variant(variant.name, scenario)
    with tempfile.TemporaryDirectory(prefix="fedsim-") as aside:
        again = execute(rebuilt(original, same, tape, folder), Path(aside))
        if not _agree(original.folder, again):
            text = (
                f"{original.folder}: the log of {scenario.algorithm.kind} does not come about again"
                " from what it says and does, so it keeps time in a way that the log does not tell"
                " (or fedsim has changed since); it takes another run: fedsim run"
            )
            raise DataError("folder", text)


def _agree(one: Path, other: Path) -> bool:
    """Say whether two logs tell the same up to the last round of the second."""
    first, second = (read_run(path, "events") for path in (one, other))
    count = 1 + np.flatnonzero(second["event"] == "round")[-1]
    return all(
        np.array_equal(first[name].to_numpy()[:count], second[name].to_numpy()[:count])
        for name in _TELLING
    )
