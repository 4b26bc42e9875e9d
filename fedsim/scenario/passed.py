"""The problem of a scenario whose rows and losses are passed from Python."""

from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import ArrayLike
from pydantic import ValidationError

from fedsim.core.blocks.wording import describe_passed, printable
from fedsim.core.errors import DataError
from fedsim.problems import GivenRows, Source
from fedsim.problems.data.files import check_indices, number_rows
from fedsim.scenario.specs import ProblemSpec

Block = Source | Mapping[str, Any]
"""Rows as a block of a scenario; or the block of the share of rows to hold out."""


def passed_problem(
    loss: Mapping[str, Any],
    data: Block,
    test: Any,
    split: Mapping[str, Any] | str | None,
    rows_of: Callable[[Any], Block],
) -> ProblemSpec:
    """Return the problem of a scenario.

    Args:
        loss: the keys of the loss.
        data: the clients' rows.
        test: {"fraction": 0.2}, or rows in any form that `rows_of` accepts; None for no test rows.
        split: by default `groups` if the rows name their clients, otherwise `contiguous`: blocks of
            rows in the order of the fleet.
        rows_of: converts test rows to a block.

    Raises:
        DataError: test rows cannot be used, a key is unknown, or a value is not accepted.
    """
    numbered = isinstance(data, GivenRows) and data.numbered
    keys: dict[str, Any] = {
        "loss": loss,
        "data": data,
        "split": split or ("groups" if numbered else "contiguous"),
    }
    if test is not None:
        fraction = isinstance(test, Mapping) and "fraction" in test
        keys["test"] = test if fraction else rows_of(test)
    try:
        return ProblemSpec.model_validate(keys)
    except ValidationError as error:
        raise DataError("loss", _describe(error)) from None


def passed_rows(data: object, convert: Callable[[Any], ArrayLike], others: str) -> GivenRows:
    """Return (X, y) or (X, y, clients) as a block.

    Args:
        data: the tuple.
        convert: converts one of its items to an array.
        others: a description of the other accepted forms of rows, for errors.

    Raises:
        DataError: `data` has another form, or its arrays cannot be used.
    """
    several = data if isinstance(data, list | tuple) else ()
    if several and all(isinstance(row, list | tuple) and _is_pair(row) for row in several):
        text = f"got {len(several)} pairs (X, y), as of clients"
        remedy = "give all rows one below the other, with the client of each: (X, y, clients)"
        raise DataError("data", f"{text}; {remedy}")
    if len(several) not in (2, 3):
        raise DataError(
            "data", f"rows are (X, y), (X, y, clients), {others}; got {describe_passed(data)}"
        )
    check_indices(*several)
    return number_rows(*(convert(row) for row in several), signs=False)


def _is_pair(items: list[Any] | tuple[Any, ...]) -> bool:
    """Return whether items are the features of several rows and their labels."""
    return len(items) == 2 and getattr(items[0], "ndim", 0) > 1


def _describe(error: ValidationError) -> str:
    """Return pydantic's errors about the keys of a problem in one line."""
    texts = []
    for detail in error.errors(include_url=False):
        place = ".".join(str(key) for key in detail["loc"])
        text = detail["msg"].removeprefix("Value error, ")
        texts.append(f"{place}: {text}; got {printable(repr(detail['input']), 80)}")
    return "; ".join(dict.fromkeys(texts))
