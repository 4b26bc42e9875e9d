"""Errors and warnings of `fedsim.run` after all runs have been made."""

import warnings
from collections.abc import Mapping
from typing import Any

from fedsim.errors import (
    AuditError,
    Clash,
    Deadlock,
    Diverged,
    Failed,
    Misdrawn,
    Mistimed,
    RunError,
    RunWarning,
)
from fedsim.record.ends import DONE, ROSE, Ending, is_whole, status_of
from fedsim.record.scenarios import RISEN
from fedsim.results import Result

_DIVERGED = status_of(Diverged)

_KINDS: Mapping[str, type[RunError]] = {
    status_of(kind): kind for kind in (AuditError, Clash, Deadlock, Failed, Misdrawn, Mistimed)
}
"""The errors that a run alone can end with, by the states that it has then."""


def check_ends(result: Result, stacklevel: int) -> None:
    """Warn of runs that ended, yet not as was hoped; raise where runs have failed.

    Args:
        result: of all runs.
        stacklevel: of the warnings, counted from the caller of this function.

    Raises:
        RunError: a run has the state of an error other than divergence; the text says of which
            variant and seed, and so do the attributes of the error, of the first such run.
    """
    if not result.runs:  # as a shard may have none
        return
    warned: dict[tuple[str, str], list[str]] = {}
    failed: list[Mapping[Any, Any]] = []
    for row in result.summary.to_dict("records"):
        status = row["status"]
        if status == _DIVERGED or is_whole(status):
            if status != DONE:
                warned.setdefault((row["variant"], status), []).append(_describe(row))
        else:
            failed.append(row)
    for first, *more in warned.values():
        alike = f" ({len(more)} more of its seeds alike)" if more else ""
        warnings.warn(first + alike, RunWarning, stacklevel=stacklevel + 1)
    if failed:
        raise _error(failed, len(result.runs))


def _describe(row: Mapping[Any, Any]) -> str:
    """Return how a run has ended, as a sentence that names it."""
    said = str(Ending(row["status"], row["reason"]))
    if row["status"] == ROSE:
        risen = f"{RISEN}: "
        said = next(text.removeprefix(risen) for text in row["notes"] if text.startswith(risen))
    return f"{row['variant']}, seed {row['seed']}: {said}"


def _error(failed: list[Mapping[Any, Any]], count: int) -> RunError:
    """Return the error of runs that have failed."""
    described = [_describe(row) for row in failed]
    if len(failed) > 1:
        described.insert(0, f"{len(failed)} of {count} runs have failed; what they wrote is kept:")
    kind = _KINDS.get(failed[0]["status"], RunError) if len(failed) == 1 else RunError
    error = kind("\n".join(described))
    error.variant, error.seed = failed[0]["variant"], int(failed[0]["seed"])
    return error
