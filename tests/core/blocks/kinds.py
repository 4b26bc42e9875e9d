"""The types of quantities, and how the tests read them."""

from typing import Any, get_args

import pytest
from pydantic import TypeAdapter, ValidationError

from fedsim.core.blocks.quantities import (
    Bits,
    Bytes,
    Decibels,
    Duration,
    Efficiency,
    Fraction,
    GramsPerKilowattHour,
    Hertz,
    Hours,
    Joules,
    JoulesPerBit,
    JoulesPerBitArea,
    Leak,
    Level,
    Metres,
    MetresPerSecond,
    NoiseDensity,
    PathLoss,
    Period,
    Power,
    Quantity,
    Rate,
    Seconds,
    Share,
    Speed,
    Stored,
    TimeOfDay,
    WattHours,
    Watts,
)

TYPES: dict[str, Any] = {
    "Rate": Rate,
    "Seconds": Seconds,
    "Duration": Duration,
    "Hours": Hours,
    "Period": Period,
    "TimeOfDay": TimeOfDay,
    "Joules": Joules,
    "WattHours": WattHours,
    "Stored": Stored,
    "Watts": Watts,
    "Power": Power,
    "JoulesPerBit": JoulesPerBit,
    "JoulesPerBitArea": JoulesPerBitArea,
    "Speed": Speed,
    "Bits": Bits,
    "Bytes": Bytes,
    "Fraction": Fraction,
    "Share": Share,
    "Leak": Leak,
    "GramsPerKilowattHour": GramsPerKilowattHour,
    "Hertz": Hertz,
    "Metres": Metres,
    "MetresPerSecond": MetresPerSecond,
    "Decibels": Decibels,
    "PathLoss": PathLoss,
    "Level": Level,
    "NoiseDensity": NoiseDensity,
    "Efficiency": Efficiency,
}

everyone = pytest.mark.parametrize("kind", TYPES.values(), ids=TYPES)


def quantity(kind: Any) -> Quantity:
    found = get_args(kind)[1]
    assert isinstance(found, Quantity)
    return found


def read(kind: Any, value: object) -> Any:
    return TypeAdapter(kind).validate_python(value)


def refusal(kind: Any, value: object) -> str:
    with pytest.raises(ValidationError) as caught:
        read(kind, value)
    (error,) = caught.value.errors()
    return error["msg"]
