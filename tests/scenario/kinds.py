"""The types of quantities, and how the tests read them."""

from typing import Any, get_args

import pytest
from pydantic import TypeAdapter, ValidationError

from fedsim.scenario.quantities import (
    Bits,
    Duration,
    Fraction,
    Joules,
    JoulesPerBit,
    Quantity,
    Rate,
    Seconds,
    Speed,
    Watts,
)

TYPES: dict[str, Any] = {
    "Rate": Rate,
    "Seconds": Seconds,
    "Duration": Duration,
    "Joules": Joules,
    "Watts": Watts,
    "JoulesPerBit": JoulesPerBit,
    "Speed": Speed,
    "Bits": Bits,
    "Fraction": Fraction,
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
