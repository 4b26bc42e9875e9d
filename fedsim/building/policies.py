"""Participation as a scenario says, with counts for its fleet."""

import numpy as np
from numpy.typing import NDArray

from fedsim.building.findings import Findings
from fedsim.errors import Misdrawn
from fedsim.protocol.participation import PARTICIPATION, Participation
from fedsim.protocol.selection import drawn
from fedsim.scenario import Scenario
from fedsim.scenario.conflicts import too_many


def policy_of(scenario: Scenario, rows: NDArray[np.int64], findings: Findings) -> Participation:
    """Return who is asked, and when a round closes.

    Args:
        scenario: what was written.
        rows: how many samples each client has.
        findings: takes what asks for more clients than there are, and an order that is none.
    """
    policy, clients = scenario.participation.among(len(rows)), len(rows)
    for key, seen in scenario.participation.counts.items():
        if seen > clients:
            findings.add(f"participation.{key}", too_many(seen, clients))
    if type(policy) not in PARTICIPATION.built_in:
        _try_order(policy, rows, findings)
    return policy


def _try_order(policy: Participation, rows: NDArray[np.int64], findings: Findings) -> None:
    """Find out whether a policy of a user's own draws all clients, before anything runs."""
    rng = np.random.default_rng(0)  # of no stream of the run
    try:
        for _ in drawn(policy, rows.astype(float), 0, rng):
            pass
    except Misdrawn as error:
        findings.add("participation.kind", str(error))
