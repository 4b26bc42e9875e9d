"""Stored: prices of runs, kept so that a study that was interrupted goes on where it was."""

import hashlib
from io import BytesIO
from pathlib import Path

import numpy as np

from fedsim.record.folder import SCENARIO
from fedsim.record.manifest import read_manifest
from fedsim.record.writing import check_links, write_whole
from fedsim.robustness.design import Design
from fedsim.robustness.pricing import Costs, Run

FOLDER = "prices"


class Store:
    """Where prices are kept: a file a run or world, named by all that they follow from.

    Args:
        out: the folder of the study's robustness; nowhere if None.
        design: of the worlds.

    Raises:
        OutputError: a symbolic link stands in its place.
    """

    def __init__(self, out: Path | None, design: Design) -> None:
        self._folder = None if out is None else out / FOLDER
        if out is not None:
            check_links(out, out / FOLDER)
        self._worlds = hashlib.sha256(design.values.tobytes())
        for constant in design.constants:
            self._worlds.update(str(constant.key).encode())
        self._seen = set[str]()

    def _path(self, run: Run) -> Path | None:
        if self._folder is None:
            return None
        made, whole = read_manifest(run.folder), self._worlds.copy()
        whole.update(
            f"{made['events']} {made['code']} {run.look} {run.target} {run.world}".encode()
        )
        whole.update((run.folder / SCENARIO).read_bytes())
        name = f"{whole.hexdigest()[:32]}.npy"
        self._seen.add(name)
        return self._folder / name

    def read(self, run: Run) -> Costs | None:
        """Return what a run takes in every world, if it is known."""
        path = self._path(run)
        if path is None or not path.is_file():
            return None
        return Costs(*np.load(path, allow_pickle=False))

    def kept(self, run: Run, costs: Costs) -> Costs:
        """Keep what a run takes, and return it.

        Raises:
            OutputError: it cannot be written.
        """
        path = self._path(run)
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = BytesIO()
            np.save(file, np.array(costs), allow_pickle=False)
            write_whole(path, file.getvalue())
        return costs

    def tidy(self) -> None:
        """Drop prices of other worlds and other logs."""
        for path in [] if self._folder is None else sorted(self._folder.glob("*.npy")):
            if path.name not in self._seen:
                path.unlink(missing_ok=True)
