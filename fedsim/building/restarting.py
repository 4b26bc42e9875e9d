"""Restarting: whether a client that was charged again can take part before it is empty again.

A client that shut down starts again at its battery's restart level. Between that level and the
cut-off lies the hysteresis. Where it holds less than one round takes, the client would start, be
asked, run empty in the middle of its work, charge for an instant and start again, round after
round: a run would see little else, and none of its work.
"""

from collections.abc import Sequence
from math import ceil

from fedsim.algorithms import Algorithm
from fedsim.building.fleet import BuiltGroup
from fedsim.building.inputs import Findings
from fedsim.physics.batteries import Battery, percent
from fedsim.physics.radios import RadioStage, powers_of
from fedsim.physics.radios.rates import over
from fedsim.problems import LocalLoss
from fedsim.protocol.participation import Participation
from fedsim.scenario import Scenario
from fedsim.wire import HEADER_BITS


def check_restarts(
    scenario: Scenario,
    groups: Sequence[BuiltGroup],
    members: Sequence[int],
    losses: Sequence[LocalLoss],
    algorithm: Algorithm,
    policy: Participation,
    findings: Findings,
) -> None:
    """Find batteries that are charged, and restart with less than one round takes.

    Args:
        scenario: what was written.
        groups: of the fleet's groups.
        members: the group of each client.
        losses: of each client.
        algorithm: configured.
        policy: may ask for a charge above the restart level.
        findings: takes what is wrong.
    """
    least = dict[int, LocalLoss]()  # of each group, that of the fewest samples
    for number, loss in zip(members, losses, strict=True):
        if number not in least or loss.rows < least[number].rows:
            least[number] = loss
    for number, loss in least.items():
        group, battery = groups[number], groups[number].spec.battery
        if battery is None or group.source.peak <= 0:
            continue
        capacity, level = group.spec.capacity, max(battery.restarts_at, policy.least_charge)
        taken = _round_drain(group, battery, loss, algorithm, scenario)
        if taken <= (level - battery.cutoff) * capacity:
            continue
        needed = battery.cutoff + taken / capacity
        if needed <= 1:
            remedy = f"give {percent(ceil(1000 * needed) / 1000)} or more"
        else:
            remedy = "give the battery more capacity"
        text = (
            f"got {percent(battery.restarts_at)}: {group.name} would start again with"
            f" {(level - battery.cutoff) * capacity:.3g} J above its cut-off"
            f" ({percent(battery.cutoff)}), and a round takes {taken:.3g} J more than its charging"
            f" gives meanwhile, so that it would run empty in every round; {remedy}"
        )
        findings.add(f"fleet.{number}.battery.restart", text)


def _round_drain(
    group: BuiltGroup, battery: Battery, loss: LocalLoss, algorithm: Algorithm, scenario: Scenario
) -> float:
    """Return what one round takes out of a battery at the very least, less what charges it, J.

    The client receives a message, computes on the fewest samples of its group at the fastest, and
    replies. Its radio was off: it wakes, and while the client computes, it goes through its tail.
    Messages that are compressed count with their headers alone; framing and waiting for other
    clients do not count, nor what a radio wakes for or waits through among peers, which compute
    before they communicate.
    """
    samples = algorithm.samples_per_round(loss.rows)
    busy = group.least_compute(loss.gradient_operations * samples / loss.rows, samples)
    rates, wire, powers = group.rates, scenario.wire, powers_of(group.radio)
    model = loss.dimension * 8 * wire.values.size
    down = HEADER_BITS + (model if wire.down.compressor.kind == "identity" else 0)
    up = HEADER_BITS + (model if wire.up.compressor.kind == "identity" else 0)
    received, sent = over(rates.down.peak, down), over(rates.up.peak, up)
    joules = (group.device.working() - group.device.idle) * busy
    joules += (powers.held + powers.on_air[0]) * received + powers.per_bit[0] * down
    joules += (powers.held + powers.on_air[1]) * sent + powers.per_bit[1] * up
    span = busy + received + sent
    if scenario.network.peers is None:
        *passing, rest = group.radio.states.stages
        joules += rest.wake_power * rest.wake_time
        span += rest.wake_time
        joules += _tail_joules(passing, busy)
    joules += (group.device.idle + group.radio.resting) * span
    return (
        joules / battery.discharge_efficiency
        - (battery.charge_efficiency * group.source.peak - battery.leak(group.spec.capacity)) * span
    )


def _tail_joules(stages: Sequence[RadioStage], seconds: float) -> float:
    """Return what a radio draws in its stages before rest, in so long from its last bit on, J."""
    joules = 0.0
    for stage in stages:
        spent = min(stage.time, seconds)
        joules += stage.power * spent
        seconds -= spent
    return joules
