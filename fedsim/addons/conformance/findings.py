"""Results of a block's checks, as a table."""

import sys
from collections.abc import Iterator
from traceback import extract_tb
from typing import NamedTuple

import pandas as pd

from fedsim.core.errors import DataError

Promises = Iterator[tuple[str, Iterator[str]]]
"""The promises of a kind of block, each with a generator of violations."""


class PromiseCheck(NamedTuple):
    """A promise and its first violation.

    Attributes:
        promise: the promise, as a clause.
        broken: the first violation; empty if the promise is kept.
    """

    promise: str
    broken: str = ""


def table(model: type, promises: Promises) -> pd.DataFrame:
    """Return one row per check: check, outcome (kept or broken), and the reason.

    A check is broken by its first violation, or by any exception of the block.

    Args:
        model: the class of the block.
        promises: the promises, in the order of rows.

    Raises:
        DataError: the block refuses the test case before the first check.
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
    """Describe an exception of a block, with the line in the block or of the exception."""
    files = {getattr(sys.modules.get(part.__module__), "__file__", "") for part in model.__mro__}
    frames = extract_tb(error.__traceback__)
    last = next((part for part in reversed(frames) if part.filename in files), frames[-1])
    what = f"{type(error).__name__}: {error}".strip(": ")
    return f"{what} ({last.filename}, line {last.lineno}, in {last.name})"
