"""Which settings of a scenario a live run does not have."""

from collections.abc import Iterator

from fedsim.core.blocks.declared import reasons
from fedsim.core.blocks.nature import OF_SIMULATION
from fedsim.core.errors import Fault, LiveError
from fedsim.problems import ProgramLoss
from fedsim.protocol.transport import ByteTransport
from fedsim.scenario.building import Job


def check_live(job: Job) -> None:
    """Check that a run can be made live.

    Radios, devices, links and their losses have no effect in a live run; what a method or a rule of
    the scenario depends on, and a live run cannot have, is refused.

    Raises:
        LiveError: it cannot; every reason is named.
    """
    if faults := [Fault("", key, text) for key, text in _refusals(job)]:
        raise LiveError(faults)


def _refusals(job: Job) -> Iterator[tuple[str, str]]:
    scenario = job.scenario
    if job.deployment.overlay is not None:
        yield "network.peers", "peers do not run live yet, only a server with its clients"
        return
    if scenario.tiers:
        yield "tiers", "gateways do not run live yet, only a server with its clients"
        return
    if isinstance(scenario.problem.loss, ProgramLoss):
        yield "problem.loss", "clients with programs of their own do not run live yet"
    yield from reasons(scenario, OF_SIMULATION)
    if not isinstance(job.transport, ByteTransport):
        yield "algorithm.kind", "its messages cannot be encoded as bytes"
    if job.personal:
        text = "models of clients' own stay with them, where a live server cannot look at them"
        yield f"algorithm.{'kind' if job.local is None else 'local'}", text
