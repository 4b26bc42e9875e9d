"""The findings of a block's check, as a table."""

import sys
from collections.abc import Iterator
from traceback import extract_tb
from typing import NamedTuple

import pandas as pd

from fedsim.core.errors import DataError

Promises = Iterator[tuple[str, Iterator[str]]]
"""What a block of a kind has to do, each with how it does not: nothing where it does."""


class PromiseCheck(NamedTuple):
    """A promise, and whether it is kept.

    Attributes:
        promise: what a block of the kind has to do.
        broken: how it does not; empty where it does.
    """

    promise: str
    broken: str = ""


def table(model: type, promises: Promises) -> pd.DataFrame:
    """Return one row per check: check, outcome (kept or broken), and the reason.

    A check is broken by the first of what is wrong, and by whatever the block raises.

    Args:
        model: the class of the block.
        promises: in their order.

    Raises:
        DataError: the block says, before anything is checked, that it is not for what is tried.
    """
    rows = [
        (check.promise, "broken" if check.broken else "kept", check.broken)
        for check in _checks(model, promises)
    ]
    return pd.DataFrame(rows, columns=["check", "outcome", "reason"])


def _checks(model: type, promises: Promises) -> Iterator[PromiseCheck]:
    try:
        for promise, broken in promises:
            yield _first(model, promise, broken)
    except DataError:
        raise
    except Exception as error:  # noqa: BLE001 - blocks are user-defined, and may raise anything
        yield PromiseCheck("it can be set up", describe_error(error, model))


def _first(model: type, promise: str, broken: Iterator[str]) -> PromiseCheck:
    try:
        return PromiseCheck(promise, next(broken, ""))
    except Exception as error:  # noqa: BLE001 - blocks are user-defined, and may raise anything
        return PromiseCheck(promise, describe_error(error, model))


def describe_error(error: BaseException, model: type) -> str:
    """Describe an error raised by a block, with the line in the block, or else where raised."""
    files = {getattr(sys.modules.get(each.__module__), "__file__", "") for each in model.__mro__}
    frames = extract_tb(error.__traceback__)
    last = next((each for each in reversed(frames) if each.filename in files), frames[-1])
    what = f"{type(error).__name__}: {error}".strip(": ")
    return f"{what} ({last.filename}, line {last.lineno}, in {last.name})"
