"""What a client remembers has one type, in `memory` and wherever its method looks at it."""

from typing import get_args, get_type_hints

from fedsim.algorithms import ALGORITHMS, Algorithm, StaleFedSGM
from fedsim.core.ports import Client
from tests.tiers import every

REMEMBERING = [method for method in ALGORITHMS if method.memory is not Algorithm.memory]


@every("method", REMEMBERING)
def test_a_method_looks_at_what_its_memory_returns(method: type[Algorithm]) -> None:
    hooks = [
        hook for hook in (method.handle, method.undelivered) if hook is not Algorithm.undelivered
    ]
    clients = [get_type_hints(hook)["client"] for hook in hooks]
    looking = [client for client in clients if client is not Client]
    assert looking or method is StaleFedSGM  # which needs no memory, and inherits one
    for client in looking:
        assert get_args(client) == (get_type_hints(method.memory)["return"],)
