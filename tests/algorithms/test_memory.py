"""What a client remembers has one type, in `memory` and wherever its method looks at it."""

from typing import get_type_hints

import pytest

from fedsim.algorithms import ALGORITHMS, Algorithm
from fedsim.ports import Client

REMEMBERING = [method for method in ALGORITHMS if method.memory is not Algorithm.memory]


@pytest.mark.parametrize("method", REMEMBERING, ids=lambda method: method.__name__)
def test_a_method_looks_at_what_its_memory_returns(method: type[Algorithm]) -> None:
    remembered = get_type_hints(method.memory)["return"]
    seen = [get_type_hints(one)["client"] for one in (method.handle, method.undelivered)]
    of_any_method = get_type_hints(Algorithm.undelivered)["client"]
    assert all(client in (Client[remembered], Client, of_any_method) for client in seen)
    assert Client[remembered] in seen or Client in seen
