"""Aggregation: the rules by which a server combines the vectors of its clients."""

from typing import Annotated

from fedsim.core.blocks.choice import OneOf
from fedsim.core.blocks.registry import Registry
from fedsim.core.blocks.spec import Block, Given
from fedsim.protocol.aggregation.base import ADDS_UP, Aggregation, Aggregator, Mean
from fedsim.protocol.aggregation.robust import (
    Bulyan,
    CentredClipping,
    CoordinateMedian,
    GeometricMedian,
    Krum,
    MinimumDiameter,
    MultiKrum,
    RobustRule,
    TrimmedMean,
)

AGGREGATIONS: Registry[Aggregation] = Registry(
    "aggregation",
    (
        Mean,
        CoordinateMedian,
        TrimmedMean,
        GeometricMedian,
        Krum,
        MultiKrum,
        Bulyan,
        CentredClipping,
        MinimumDiameter,
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
    "CoordinateMedian",
    "GeometricMedian",
    "Krum",
    "Mean",
    "MinimumDiameter",
    "MultiKrum",
    "RobustRule",
    "TrimmedMean",
]
