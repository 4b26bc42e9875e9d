"""A test of whether a loss is additive: whether its value on rows follows from each row's loss.

A federated objective consists of sums over a client's rows, over parts of them that pass through a
module together, and over minibatches. Some losses divide by something else than the number of rows,
such as cross entropy with class weights. Their value would change with every partition of the rows.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from fedsim.core.blocks.wording import describe_passed, first_line
from fedsim.core.errors import DataError
from fedsim.problems.architectures import Architecture

PROBED = 12
"""The number of rows on which a loss is tried."""

_CLOSE = 1e-4
"""The largest relative difference allowed between sums in float32."""

_BY_ROW = "let it return each row's loss, shape (rows,), as reduction='none' does"


def check_loss(architecture: Architecture, criterion: str, outputs: Tensor) -> Tensor:
    """Check that the loss of several rows follows from the loss of each row.

    Args:
        architecture: an architecture with a user-defined loss.
        criterion: the loss to compute.
        outputs: the outputs of a module for any rows, shape (PROBED, outputs) or (PROBED,).

    Returns:
        Targets for which the loss is defined, shape (PROBED,).

    Raises:
        DataError: it does not follow, or the loss cannot be computed.
    """
    failure: Exception | None = None
    for targets in _targets(architecture, criterion, outputs):
        try:
            with torch.no_grad():
                whole = _check_result(
                    architecture.row_losses(outputs, targets, criterion), len(targets)
                )
                mean = architecture.mean_loss(outputs, targets, criterion)
        except DataError:
            raise
        except Exception as error:  # noqa: BLE001 - the code of a user's loss may raise anything
            failure = failure or error
            continue
        if whole.isfinite().all():
            _check_split(architecture, criterion, outputs, targets, whole)
            _check_mean(whole, mean)
            return targets
    if failure is None:
        raise _unfit("is infinite or not a number on every row that it was tried on")
    raise _unfit(f"fails on {len(outputs)} outputs of the module: {first_line(failure)}")


def _targets(architecture: Architecture, criterion: str, outputs: Tensor) -> Iterator[Tensor]:
    """Yield possible targets of rows: classes, or numbers (shares, bits, signs, counts)."""
    count = len(outputs)
    if criterion != "squared":
        classes = outputs.shape[1]
        first = list(dict.fromkeys(architecture.singled_out(classes)))[: count // 2]
        rest = torch.linspace(0, classes - 1, count - len(first), dtype=torch.float32).round()
        yield torch.cat([torch.tensor(first, dtype=torch.int64), rest.long()])
        return
    numbers = torch.arange(count, dtype=torch.float32)
    yield torch.linspace(0.05, 0.95, count, dtype=torch.float32)
    yield numbers % 2
    yield numbers % 2 * 2 - 1
    yield numbers + 1


def _check_result(found: object, rows: int) -> Tensor:
    """Return the loss's result after checking that it is one number per row, or one for all rows.

    Raises:
        DataError: the result is something else.
    """
    if not isinstance(found, Tensor):
        raise _unfit(f"is to return a tensor; got {describe_passed(found)}")
    if tuple(found.shape) not in {(), (rows,)}:
        shape = tuple(found.shape)
        text = f"is to be of the shape ({rows},) or () for {rows} rows; got {shape}"
        raise _unfit(f"{text}: {_BY_ROW}")
    if not found.dtype.is_floating_point:
        raise _unfit(f"is to be a real number; got {found.dtype}")
    return found


def _check_split(
    architecture: Architecture, criterion: str, outputs: Tensor, targets: Tensor, whole: Tensor
) -> None:
    """Check that the losses of parts of the rows combine to the loss of all rows.

    Raises:
        DataError: they do not.
    """
    rows = len(targets)
    # Two partitions: a third of the rows, and all but one, since a loss may treat one row
    # specially.
    for at in (rows // 3, rows - 1):
        parts = []
        for part in (slice(0, at), slice(at, rows)):
            count = len(targets[part])
            with torch.no_grad():
                try:
                    losses = architecture.row_losses(outputs[part], targets[part], criterion)
                except Exception as error:
                    raise _unfit(f"fails on {count} rows: {first_line(error)}") from error
            losses = _check_result(losses, count)
            parts.append(losses if losses.ndim else losses.expand(count))
        together = torch.cat(parts)
        apart = (together - whole) if whole.ndim else (together.mean() - whole)
        if not _is_close(apart, together):
            raise _unfit(
                f"of {rows} rows is not that of {at} of them and of the {rows - at} others put"
                f" together: it is no mean of rows; {_BY_ROW}"
            )


def _check_mean(whole: Tensor, mean: Tensor | None) -> None:
    """Check that the mean that the loss computes itself is the mean of its rows.

    Raises:
        DataError: it is not.
    """
    if mean is not None and not _is_close(mean - whole.mean(), whole):
        raise _unfit(
            "divides by something else than the number of rows (class weights or ignore_index):"
            " give it reduction='none', and each row's loss, weighted, counts alike"
        )


def _is_close(difference: Tensor, of: Tensor) -> bool:
    return bool(difference.abs().max() <= _CLOSE * of.abs().max())


def _unfit(text: str) -> DataError:
    return DataError("loss.model", f"the loss {text}")
