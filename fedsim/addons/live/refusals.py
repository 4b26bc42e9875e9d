"""Settings of a scenario that live runs do not support."""

from collections.abc import Iterator

from fedsim.core.blocks.declared import reasons
from fedsim.core.blocks.nature import OF_SIMULATION
from fedsim.core.errors import Fault, LiveError
from fedsim.problems import ProgramLoss
from fedsim.protocol.transport import ByteTransport
from fedsim.scenario.building import Job


def check_live(job: Job) -> None:
    """Check that a run can be live.

    Radios, devices, links and their losses have no effect in a live run. A scenario is refused if
    its method or a rule depends on something that a live run lacks.

    Raises:
        LiveError: it cannot; the error lists all reasons.
    """
    if faults := [Fault("", key, text) for key, text in _refusals(job)]:
        raise LiveError(faults)


def _refusals(job: Job) -> Iterator[tuple[str, str]]:
    scenario = job.scenario
    if job.deployment.overlay is not None:
        yield "network.peers", "peers are not supported in live runs yet; use a server"
        return
    if scenario.tiers:
        yield "tiers", "gateways are not supported in live runs yet; use a server"
        return
    if isinstance(scenario.problem.loss, ProgramLoss):
        yield "problem.loss", "client programs are not supported in live runs yet"
    yield from reasons(scenario, OF_SIMULATION)
    if not isinstance(job.transport, ByteTransport):
        yield "algorithm.kind", "its messages cannot be encoded as bytes"
    if job.personal:
        text = "a live server cannot evaluate the clients' own models, which are never sent"
        yield f"algorithm.{'kind' if job.local is None else 'local'}", text
