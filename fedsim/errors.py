"""Errors and warnings, by the party that has to act.

`ScenarioError`, `DataError` and `BlockError`: the user's input; the commands end with code 2.
`OccupiedError`: another process writes there; nothing has begun, so likewise.
`RunError` and below: the run itself; the commands end with code 1.
`OutputError`: the disk; likewise, or code 2 where a file can never be written there.
"""

import errno
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


class FedsimError(Exception):
    """The base of all errors that fedsim raises on purpose.

    Attributes:
        variant, seed: of the run that has failed, where the error is that of one run of a study;
            else empty and None. The text begins with them.
    """

    variant: str = ""
    seed: int | None = None

    def __str__(self) -> str:
        return self._with_run_name(super().__str__())

    def _with_run_name(self, text: str) -> str:
        """Return the text behind the name of the run, unless it has that already."""
        name = f"{self.variant}, seed {self.seed}"
        return text if self.seed is None or text.startswith(name) else f"{name}: {text}"


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong in a scenario.

    Attributes:
        where: file and line, or the option it came from ("scenario.yaml:12", "--set seed").
        key: the path of the key ("fleet.0.radio.up"); empty for the file as a whole.
        message: what was wrong, the value seen, what would be accepted.
        excerpt: the line at fault with a mark below it, where it is no YAML; else empty.
    """

    where: str
    key: str
    message: str
    excerpt: str = ""

    def __str__(self) -> str:
        told = ": ".join(part for part in (self.where, self.key, self.message) if part)
        return "\n".join(filter(None, (told, self.excerpt)))


_MOST_FAULTS = 100  # a file of a megabyte can be wrong in tens of thousands of places


class ScenarioError(FedsimError):
    """The scenario is wrong; `faults` holds every one found, in file order."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(self.describe_faults()))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.faults,)  # as it comes back from another process

    def describe_faults(self) -> list[str]:
        """Return what is said of each fault; of very many, of the first ones, and how many more."""
        more = len(self.faults) - _MOST_FAULTS
        told = [str(fault) for fault in self.faults[:_MOST_FAULTS]]
        return [*told, f"and {more} more places"] if more > 0 else told

    @property
    def title(self) -> str:
        """What is to be said above the faults."""
        count = len(self.faults)
        return f"The scenario is wrong in {count} place{'s' if count > 1 else ''}:"


class RepricingError(ScenarioError):
    """A log cannot be priced again under another scenario; `faults` hold the reasons.

    It would take another run: with other decisions, or beyond what the log tells.
    """

    title = "That takes another run, not another price:"


class DataError(FedsimError):
    """A data source, a split or a loss cannot do what the scenario asks of it.

    Attributes:
        key: the key within the `problem` block at fault ("data.path", "split.clients").
    """

    def __init__(self, key: str, message: str) -> None:
        self.key = key
        super().__init__(message)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.key, *self.args)  # as it comes back from another process


class BlockError(FedsimError):
    """A class cannot be used as a block, or a file of such classes not be read; says why."""


class VersionError(DataError):
    """A run is of another version of the log's schema than is read.

    Attributes:
        folder: of the run.
        seen, read: the versions.
        helps: what can be done.
    """

    def __init__(self, folder: Path, seen: object, read: int, helps: str) -> None:
        self.folder, self.seen, self.read, self.helps = folder, seen, read, helps
        super().__init__("run", f"the log in {folder} {self.describe_version()}; {helps}")

    def describe_version(self) -> str:
        """Return what it is, and what would be read."""
        return f"is of schema version {self.seen}, and {self.read} is read"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.folder, self.seen, self.read, self.helps)


class ParameterError(DataError):
    """A parameter of the algorithm is outside its meaning for this problem.

    Attributes:
        key: the key within the `algorithm` block at fault ("sparsity"), or empty.
    """


class OccupiedError(FedsimError):
    """Another process writes into the output folder."""


_REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "make room there"),
    errno.EFBIG: "raise the limit of a file's size (ulimit -f)",
}
_NO_PLACE = frozenset(
    {errno.ENOTDIR, errno.EISDIR, errno.ENOENT, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP}
    | {errno.EACCES, errno.EPERM, errno.EROFS}
)
_REASONS = {errno.EEXIST: "it is a file, where a folder is needed"}
_REPEAT = "and give the command again: it keeps the runs that are whole"


class OutputError(FedsimError, OSError):
    """A file cannot be written: a full disk, a limit, a folder that is not one's own.

    It is made as any `OSError` is: of its number, the system's reason, and the file.
    """

    @property
    def misplaced(self) -> bool:
        """Whether nothing can be written in that place, whatever room there is."""
        return self.errno in _NO_PLACE

    def __str__(self) -> str:
        remedy = _REMEDIES.get(self.errno or 0)
        reason = _REASONS.get(self.errno or 0, self.strerror)
        text = f"cannot write {self.filename}: {reason}"
        return self._with_run_name(text if remedy is None else f"{text}; {remedy} {_REPEAT}")


class TheoryWarning(UserWarning):
    """A condition of the paper's theory does not hold; the run may converge all the same."""


class RunWarning(UserWarning):
    """A run has diverged, was left by all clients, or ended above where it began; it is kept."""


class DecodeError(FedsimError):
    """Bytes that are not the encoding of any message."""


class RunError(FedsimError):
    """The base of what can end a run that had started."""


class Diverged(RunError):
    """What a client computes, the model or its objective is not finite; the rounds before are kept.

    Attributes:
        round: in which that was seen.
        seen: what is not finite, as a clause.
    """

    def __init__(self, round: int, seen: str) -> None:  # noqa: A002 - as the log calls it
        self.round, self.seen = round, seen
        super().__init__(f"diverged in round {round}: {seen}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.round, self.seen)  # as it comes back from another process


class Clash(RunError):
    """Two figures of a round have one name, and the round table one column for it."""


class Misdrawn(RunError):
    """A policy's client order is invalid: a client is repeated or missing."""


class Mistimed(RunError):
    """A user-defined device or slowdown returned a non-finite or negative duration."""


class Failed(RunError):
    """User-defined code of a client or strategy has failed; the text names it and the reason."""


class Deadlock(RunError):
    """Nothing is scheduled, but some actor is blocked; the text names it and what it waits for."""


class Unfinished(RunError):
    """Several runs of a study have failed; says which and why. The others are made.

    Attributes:
        count: how many were to be made.
        told: of each that has failed, what it is called and why.
    """

    def __init__(self, count: int, told: Sequence[str]) -> None:
        self.count, self.told = count, tuple(told)
        head = f"{len(told)} of {count} runs have failed; the others are made, and the same command"
        super().__init__("\n".join([f"{head} makes what is missing:", *self.told]))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.count, self.told)  # as it comes back from another process


class AuditError(RunError):
    """The ledger does not add up: a defect of the simulator, never of the scenario."""
