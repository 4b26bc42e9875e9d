"""Reconnection policy: whether clients that have left a live run may rejoin.

A client that reconnects takes part from the next exchange on, like a simulated client that was
offline. Messages in transit are lost, and the client undoes those that it knows to be lost. Two
rules apply:

- Some servers send changes to a state that clients hold, relative to what was sent before. A client
  that was away has missed some of them, and its state would stay wrong. So no client may rejoin.
- A client's memory of the method is lost with its process, so another process cannot take over. The
  same process can rejoin after a broken connection, as it still has the memory.
"""

from dataclasses import dataclass
from typing import Self

from fedsim.core.ports import Meaning
from fedsim.scenario.building import Job
from fedsim.sim.config import Remembers


@dataclass(frozen=True)
class ReturnRule:
    """The reconnection policy of a run.

    Attributes:
        never: why no client may rejoin; empty if clients may.
        remembers: a client's state between messages, as text; empty if none.
    """

    never: str = ""
    remembers: str = ""

    @classmethod
    def of(cls, job: Job) -> Self:
        """Return the policy of a job."""
        return cls(_why_never(job), _what_is_remembered(job))


def _why_never(job: Job) -> str:
    feedback, method = job.scenario.wire.down.error_feedback, job.scenario.algorithm
    key = ""
    if feedback == "ef21":
        key = "wire.down.error_feedback: ef21"
    elif {Meaning.DIFFERENCE, Meaning.INCREMENT} & set(method.downlink.values()):
        key = f"algorithm.kind: {method.kind}"
    return f"the server sends changes of what clients hold ({key})" if key else ""


def _what_is_remembered(job: Job) -> str:
    method: Remembers = job.setup.algorithm
    if method.memory(job.setup.initial) is not None:
        return f"algorithm.kind: {job.scenario.algorithm.kind}"
    feedback = job.scenario.wire.up.error_feedback
    return "" if feedback == "none" else f"wire.up.error_feedback: {feedback}"
