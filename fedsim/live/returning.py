"""Whether clients that have left a live run may take their place again.

As a simulated client that was offline, one that returns is asked from the next exchange on; what it
had in transit is lost, and it takes back what it knows to be lost. Two things decide by rule:

- A server that sends changes of what its clients hold goes on from what it has sent. A client that
  was away has missed some, so that its vector would be wrong from then on: no client returns.
- What a client remembers of the method is lost with its process. Then another process cannot take
  its place; the same one can, after a broken connection, since it still has it.
"""

from dataclasses import dataclass
from typing import Self

from fedsim.building import Job
from fedsim.ports import Meaning
from fedsim.sim.config import Remembers


@dataclass(frozen=True)
class ReturnRule:
    """The rule of a run.

    Attributes:
        never: why no client may return; empty if one may.
        remembers: what a client remembers from message to message; empty if nothing.
    """

    never: str = ""
    remembers: str = ""

    @classmethod
    def of(cls, job: Job) -> Self:
        """Return the rule of a job."""
        return cls(_why_never(job), _what_is_remembered(job))


def _why_never(job: Job) -> str:
    feedback, method = job.scenario.wire.down.error_feedback, job.scenario.algorithm
    key = ""
    if feedback == "ef21":
        key = "wire.down.error_feedback: ef21"
    elif {Meaning.DIFFERENCE, Meaning.INCREMENT} & set(method.down.values()):
        key = f"algorithm.kind: {method.kind}"
    return f"the server sends changes of what clients hold ({key})" if key else ""


def _what_is_remembered(job: Job) -> str:
    method: Remembers = job.setup.algorithm
    if method.memory(job.setup.initial) is not None:
        return f"algorithm.kind: {job.scenario.algorithm.kind}"
    feedback = job.scenario.wire.up.error_feedback
    return "" if feedback == "none" else f"wire.up.error_feedback: {feedback}"
