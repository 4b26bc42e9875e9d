"""Data: where samples come from."""

from fedsim.problems.data.base import Source
from fedsim.problems.data.bundled import Bundled
from fedsim.problems.data.catalogue import ENTRIES, Catalogue, Entry, fetch, find
from fedsim.problems.data.generators import PlantedSmoothness
from fedsim.problems.data.libsvm import LibSVM
from fedsim.problems.data.npz import NpzArchive
from fedsim.problems.data.preprocess import First, Step

SOURCES: tuple[type[Source], ...] = (LibSVM, NpzArchive, Bundled, Catalogue, PlantedSmoothness)
"""Every data source that a scenario can name."""

__all__ = [
    "ENTRIES",
    "SOURCES",
    "Bundled",
    "Catalogue",
    "Entry",
    "First",
    "LibSVM",
    "NpzArchive",
    "PlantedSmoothness",
    "Source",
    "Step",
    "fetch",
    "find",
]
