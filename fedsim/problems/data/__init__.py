"""Data sources."""

from typing import TYPE_CHECKING

from fedsim.core.blocks.on_demand import Named, exports
from fedsim.core.blocks.registry import Registry
from fedsim.problems.data.base import Source

if TYPE_CHECKING:
    from fedsim.problems.data.catalogue import ENTRIES, Catalogue, Entry, fetch, find
    from fedsim.problems.data.csv import Csv
    from fedsim.problems.data.fedscale import FedScale
    from fedsim.problems.data.files import Bundled, GivenRows, Idx, NpzArchive, arrays
    from fedsim.problems.data.hugging_face import HuggingFace
    from fedsim.problems.data.images import ImageFolder
    from fedsim.problems.data.leaf import Leaf
    from fedsim.problems.data.libsvm import LibSVM
    from fedsim.problems.data.preprocess import Divide, First, Step, Transform, fit
    from fedsim.problems.data.smoothness import PlantedDirections, PlantedSmoothness
    from fedsim.problems.data.synthetic import (
        LowRankData,
        ShiftedMean,
        SparseLinear,
        Tong,
    )
    from fedsim.problems.data.table import (
        Database,
        FrameTable,
        Hub,
        OpenML,
        Table,
        TableSource,
    )
    from fedsim.problems.data.text import Text
else:
    __getattr__, __dir__ = exports(__name__)

SOURCES: Registry[Source] = Registry(
    "source",
    Named(
        __name__,
        {
            "libsvm": "LibSVM",
            "npz": "NpzArchive",
            "csv": "Csv",
            "table": "Table",
            "sql": "Database",
            "openml": "OpenML",
            "hub": "Hub",
            "frame": "FrameTable",
            "idx": "Idx",
            "image-folder": "ImageFolder",
            "hugging-face": "HuggingFace",
            "text": "Text",
            "leaf": "Leaf",
            "fedscale": "FedScale",
            "sklearn": "Bundled",
            "catalogue": "Catalogue",
            "given": "GivenRows",
            "smoothness": "PlantedSmoothness",
            "directions": "PlantedDirections",
            "tong": "Tong",
            "shifted-mean": "ShiftedMean",
            "sparse-linear": "SparseLinear",
            "low-rank": "LowRankData",
        },
    ),
    Source,
    title="data",
)
"""The data sources that a scenario can name."""

__all__ = [
    "ENTRIES",
    "SOURCES",
    "Bundled",
    "Catalogue",
    "Csv",
    "Database",
    "Divide",
    "Entry",
    "FedScale",
    "First",
    "FrameTable",
    "GivenRows",
    "Hub",
    "HuggingFace",
    "Idx",
    "ImageFolder",
    "Leaf",
    "LibSVM",
    "LowRankData",
    "NpzArchive",
    "OpenML",
    "PlantedDirections",
    "PlantedSmoothness",
    "ShiftedMean",
    "Source",
    "SparseLinear",
    "Step",
    "Table",
    "TableSource",
    "Text",
    "Tong",
    "Transform",
    "arrays",
    "fetch",
    "find",
    "fit",
]
