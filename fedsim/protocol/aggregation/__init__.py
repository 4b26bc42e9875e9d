"""Aggregation: the rules by which a server combines the vectors of its clients."""

from typing import TYPE_CHECKING, Annotated

from fedsim.core.blocks.choice import OneOf
from fedsim.core.blocks.on_demand import Named, exports
from fedsim.core.blocks.registry import Registry
from fedsim.core.blocks.spec import Block, Given
from fedsim.protocol.aggregation.base import ADDS_UP, Aggregation, Aggregator, Mean
from fedsim.protocol.aggregation.tally import Tally

if TYPE_CHECKING:
    from fedsim.protocol.aggregation.robust import (
        Bulyan,
        CentredClipping,
        ClippedGossip,
        CoordinateMedian,
        GeometricMedian,
        Krum,
        MinimumDiameter,
        MultiKrum,
        RobustRule,
        TrimmedMean,
    )
else:
    __getattr__, __dir__ = exports(__name__)

AGGREGATIONS: Registry[Aggregation] = Registry(
    "aggregation",
    Named(
        __name__,
        {
            "mean": "Mean",
            "median": "CoordinateMedian",
            "trimmed-mean": "TrimmedMean",
            "geometric-median": "GeometricMedian",
            "krum": "Krum",
            "multi-krum": "MultiKrum",
            "bulyan": "Bulyan",
            "centred-clipping": "CentredClipping",
            "mda": "MinimumDiameter",
            "clipped-gossip": "ClippedGossip",
        },
    ),
    Aggregation,
    title="aggregation",
)
"""The kinds of aggregation."""

AnyAggregation = Given[Annotated[Aggregation, OneOf(AGGREGATIONS)], Aggregation | Block]
"""A field that takes one of them."""

__all__ = [
    "ADDS_UP",
    "AGGREGATIONS",
    "Aggregation",
    "Aggregator",
    "AnyAggregation",
    "Bulyan",
    "CentredClipping",
    "ClippedGossip",
    "CoordinateMedian",
    "GeometricMedian",
    "Krum",
    "Mean",
    "MinimumDiameter",
    "MultiKrum",
    "RobustRule",
    "Tally",
    "TrimmedMean",
]
