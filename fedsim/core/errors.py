"""Errors and warnings, by what has failed and the exit code of the commands.

`ScenarioError`, `DataError` and `BlockError`: the user's input; exit code 2.
`OccupiedError`: another process writes into the folder, so nothing has begun; exit code 2.
`RunError` and its subclasses: a run; exit code 1.
`PeerError` and its subclasses: a connection of a live run; exit code 1.
`OutputError`: the disk; exit code 1, or 2 if a file can never be written there.
All exit with 1 once a command has done part of its work; see `fedsim.cli.app.Work`.
"""

import errno
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


class FedsimError(Exception):
    """The base of all errors that fedsim raises on purpose.

    Attributes:
        variant, seed: the variant and the seed of the failed run, if one run of a study has failed;
            else empty and None. The text begins with them.
    """

    variant: str = ""
    seed: int | None = None

    def __str__(self) -> str:
        return self._with_run_name(super().__str__())

    def _with_run_name(self, text: str) -> str:
        """Return the text after the name of the run, unless it begins with that already."""
        name = f"{self.variant}, seed {self.seed}"
        return text if self.seed is None or text.startswith(name) else f"{name}: {text}"


@dataclass(frozen=True, slots=True)
class Fault:
    """One error in a scenario.

    Attributes:
        where: file and line, or the option that it came from ("scenario.yaml:12", "--set seed").
        key: the path of the key ("fleet.0.radio.up"); empty for the whole file.
        message: the error, the value found, and the accepted values.
        excerpt: the line with the error and a mark below it, if the file is not YAML; else empty.
        unknown_key: whether the key is not accepted in its place.
    """

    where: str
    key: str
    message: str
    excerpt: str = ""
    unknown_key: bool = False

    def __str__(self) -> str:
        line = ": ".join(part for part in (self.where, self.key, self.message) if part)
        return "\n".join(filter(None, (line, self.excerpt)))


_MOST_FAULTS = 100  # a file of a megabyte can be wrong in tens of thousands of places


class ScenarioError(FedsimError):
    """The scenario is invalid; `faults` holds every error found, in file order."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(self.describe_faults()))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.faults,)  # for unpickling in another process

    def describe_faults(self) -> list[str]:
        """Return a line for each fault; of very many, only the first, and a count of the rest."""
        more = len(self.faults) - _MOST_FAULTS
        lines = [str(fault) for fault in self.faults[:_MOST_FAULTS]]
        return [*lines, f"and {more} more errors"] if more > 0 else lines

    @property
    def title(self) -> str:
        """The line above the faults."""
        count = len(self.faults)
        return f"The scenario has {count} error{'s' if count > 1 else ''}:"


class RepricingError(ScenarioError):
    """A log cannot be re-priced under another scenario; `faults` hold the reasons.

    A new run is needed: it would decide otherwise, or the log lacks information.
    """

    title = "These changes need a new run; a log cannot be re-priced for them:"


class DataError(FedsimError):
    """A data source, a split or a loss cannot meet the scenario's settings.

    Attributes:
        key: the key at fault, within the `problem` block ("data.path", "split.clients").
    """

    def __init__(self, key: str, message: str) -> None:
        self.key = key
        super().__init__(message)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.key, *self.args)  # for unpickling in another process


class BlockError(FedsimError):
    """A class cannot be used as a block, or a file of such classes cannot be read."""


class FrozenError(FedsimError, AttributeError):
    """A value of a block is set after the block was made; the text names the ways to set it."""


_BEFORE = range(6)
_CHANGED = ", which counts rounds and objectives otherwise, so that the figures cannot be compared"


class VersionError(DataError):
    """A run has another version of the log's schema than this fedsim reads.

    Attributes:
        folder: the folder of the run.
        seen, read: the version of the run, and the version that this fedsim reads.
        helps: the remedy.
    """

    def __init__(self, folder: Path, seen: object, read: int, helps: str) -> None:
        self.folder, self.seen, self.read, self.helps = folder, seen, read, helps
        super().__init__("run", f"the log in {folder} {self.describe_version()}; {helps}")

    def describe_version(self) -> str:
        """Return both versions, as a clause."""
        text = f"has schema version {self.seen}, and this fedsim reads version {self.read}"
        return f"{text}{_CHANGED}" if self.seen in _BEFORE else text

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.folder, self.seen, self.read, self.helps)


class RoundTableError(VersionError):
    """A run has another version of round tables than this fedsim reads."""

    def describe_version(self) -> str:
        """Return both versions, as a clause."""
        return (
            f"has a round table of version {self.seen}, and this fedsim reads version {self.read},"
            " with the energy until radios sleep"
        )


class ParameterError(DataError):
    """A parameter of the algorithm is invalid for this problem.

    Attributes:
        key: the key at fault, within the `algorithm` block ("sparsity"), or empty.
    """


class InfeasibleError(FedsimError):
    """No model meets the constraint of a problem; the text is a clause about it."""


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
_REPEAT = "and repeat the command: it keeps the complete runs"


class OutputError(FedsimError, OSError):
    """A file cannot be written: a full disk, a limit, missing permissions.

    Like any `OSError` it is created with the error number, the system's reason, and the file.
    """

    @property
    def misplaced(self) -> bool:
        """Whether the path can never be written, however much space there is."""
        return self.errno in _NO_PLACE

    def __str__(self) -> str:
        remedy = _REMEDIES.get(self.errno or 0)
        reason = _REASONS.get(self.errno or 0, self.strerror)
        text = f"cannot write {self.filename}: {reason}"
        return self._with_run_name(text if remedy is None else f"{text}; {remedy} {_REPEAT}")


class TheoryWarning(UserWarning):
    """A condition of the paper's theory does not hold; the run may converge nevertheless."""


class RunWarning(UserWarning):
    """A run diverged, lost all its clients, or ended above its initial objective; it is kept."""


class DecodeError(FedsimError):
    """Bytes that are not the encoding of any message."""


class RunError(FedsimError):
    """The base of the errors that end a run that has started."""


class Diverged(RunError):
    """A client's result, the model or its objective is not finite; earlier rounds are kept.

    Attributes:
        round: the round in which it was detected.
        seen: the quantity that is not finite, as a clause.
    """

    def __init__(self, round: int, seen: str) -> None:  # noqa: A002 - as the log calls it
        self.round, self.seen = round, seen
        super().__init__(f"diverged in round {round}: {seen}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.round, self.seen)  # for unpickling in another process


class DuplicateColumnError(RunError):
    """Two figures of a round have the same name, that of one column of the round table."""


class ClientOrderError(RunError):
    """A policy's client order is invalid: a client is repeated or missing."""


class WorkDurationError(RunError):
    """A user-defined device or slowdown returned a non-finite or negative duration."""


class Failed(RunError):
    """User-defined code of a client or strategy has failed; the text gives its name and reason."""


class Deadlock(RunError):
    """No event is scheduled, but an actor waits; the text names it and what it waits for."""


class Unfinished(RunError):
    """Several runs of a study have failed; the others are complete.

    Attributes:
        count: the number of runs of the study.
        failures: a line for each failed run, with its name and the reason.
    """

    def __init__(self, count: int, failures: Sequence[str]) -> None:
        self.count, self.failures = count, tuple(failures)
        head = f"{len(failures)} of {count} runs have failed; the others are complete"
        lines = [f"{head}, and the same command makes the failed ones:", *self.failures]
        super().__init__("\n".join(lines))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.count, self.failures)  # for unpickling in another process


class AuditError(RunError):
    """Log and meters disagree: a defect of the simulator, never of the scenario."""


class LiveError(ScenarioError):
    """A live run does not support some settings of the scenario; `faults` hold the reasons."""

    title = "These settings cannot run live:"


class PeerError(FedsimError):
    """The base of the errors of a connection: the peer has broken the protocol, or is gone."""


class FrameError(PeerError):
    """Bytes that are no frame, or a frame that is not allowed at this point."""


class AdmissionError(PeerError):
    """A server refuses a client, or a client refuses the server.

    Attributes:
        code: the reason: "version", "token", "scenario", "client", "connected", "data", "full",
            or "broken" if the server admitted the client, which then broke the protocol.
    """

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.code, *self.args)  # for unpickling in another process


class PeerTimeoutError(PeerError):
    """A peer has neither sent nor received anything for too long."""


class ClientsMissingError(RunError):
    """A live run cannot begin: clients have not joined in time."""
