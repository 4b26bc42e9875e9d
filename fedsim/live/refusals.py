"""Which settings of a scenario a live run does not have."""

from collections.abc import Iterator, Mapping

from fedsim.building import Job
from fedsim.errors import Fault, LiveError
from fedsim.problems import ProgramLoss
from fedsim.protocol.participation import Informed
from fedsim.protocol.transport import ByteTransport


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
    yield from _of_clients(job)
    if not isinstance(job.transport, ByteTransport):
        yield "algorithm.kind", "its messages cannot be encoded as bytes"
    for number, group in enumerate(job.groups):
        if group.battery is not None:
            yield f"fleet.{number}.battery", "batteries are simulated only; a live client has none"
        law = job.deployment.groups[number].availability
        if isinstance(law, Mapping) or not law.always or law.chance < 1:
            text = "availability is simulated only; a live client is there while it is connected"
            yield f"fleet.{number}.availability", text
    for rule in scenario.stop.rules:
        if rule.key in {"energy", "batteries"}:
            yield (
                f"stop.{rule.key}",
                "a live run has no such limit: meters alone know energy",
            )


def _of_clients(job: Job) -> Iterator[tuple[str, str]]:
    """Yield what of the clients a live run does not have."""
    policy = job.participation
    if isinstance(policy, Informed) and policy.sees_all:
        yield "participation.oracle", "a live server does not see the state of its clients"
    if isinstance(policy, Informed) and {"charge", "harvest"} & {*policy.reports}:
        yield "participation.kind", "a live client has no battery whose charge it could report"
    if job.personal:
        text = "models of clients' own stay with them, where a live server cannot look at them"
        yield f"algorithm.{'kind' if job.local is None else 'local'}", text
    if job.algorithm.goes_on:
        text = f"{job.algorithm.kind}: its clients compute after their replies, which a live"
        yield "algorithm.kind", f"{text} run does not do yet"
