"""What has become of the options by which classes of one's own were handed over once."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_GONE = ("algorithms", "losses")


def renamed(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function that takes `blocks` say so where it is given what it took before."""

    @wraps(function)
    def checked(*arguments: P.args, **options: P.kwargs) -> R:
        for name in _GONE:
            if name in options:
                text = f"has no {name}=[...] any more; write blocks=[...], for classes of any kind"
                raise TypeError(f"{function.__name__}() {text}")
        return function(*arguments, **options)

    return checked
