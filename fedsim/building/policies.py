"""Policies: silence, participation and the end of a run."""

from collections.abc import Sequence
from functools import partial
from math import floor, inf

import numpy as np

from fedsim.building.findings import Findings
from fedsim.protocol.participation import Participation
from fedsim.protocol.silence import SilencePolicy
from fedsim.protocol.stopping import StopRules
from fedsim.scenario import (
    AsynchronousParticipation,
    BeaconSilence,
    Silence,
    Stop,
)
from fedsim.scenario import Participation as ParticipationSpec
from fedsim.scenario.conflicts import too_many, wanted
from fedsim.scenario.participation import Sample


def silence_policy(spec: Silence) -> SilencePolicy:
    """Return how the server learns of silence."""
    if isinstance(spec, BeaconSilence):
        return SilencePolicy()
    return SilencePolicy(beacon=False, after=spec.after, keep_late=spec.late == "keep")


def participation(spec: ParticipationSpec, rows: Sequence[int]) -> Participation:
    """Return who is asked, and when a round closes.

    A share of the fleet is the nearest whole number of clients, and at least one.

    Args:
        spec: what was written.
        rows: how many samples each client has.
    """
    if isinstance(spec, AsynchronousParticipation):
        return Participation(
            least_charge=spec.least_charge,
            buffer=spec.buffer,
            concurrency=spec.concurrency,
            give_up=inf if spec.give_up is None else spec.give_up,
        )
    count, over, order = None, 1.0, None
    if isinstance(spec, Sample):
        order = partial(spec.order, np.array(rows, float))
        count = spec.count or max(1, floor((spec.share or 1.0) * len(rows) + 0.5))
        over = spec.over
    return Participation(
        count=count,
        order=order,
        over=over,
        deadline=inf if spec.deadline is None else spec.deadline,
        quorum=spec.quorum,
        give_up=inf if spec.give_up is None else spec.give_up,
        keep_late=spec.late == "keep",
        least_charge=spec.least_charge,
    )


def check_sizes(spec: ParticipationSpec, clients: int, findings: Findings) -> None:
    """Find where more clients are asked for than a split has made."""
    for key, seen in wanted(spec):
        if seen > clients:
            findings.add(f"participation.{key}", too_many(seen, clients))


def stop_rules(spec: Stop) -> StopRules:
    """Return when a run ends."""
    return StopRules(
        rounds=spec.rounds,
        gap=-inf if spec.gap is None else spec.gap,
        time=inf if spec.time is None else spec.time,
        bits=inf if spec.bits is None else spec.bits,
        energy=inf if spec.energy is None else spec.energy,
        batteries=inf if spec.batteries is None else spec.batteries,
    )
