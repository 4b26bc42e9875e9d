"""Hops: the configuration of the nodes of each level of a hierarchy, and of their servers."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from fedsim.algorithms import Algorithm, ProblemInfo
from fedsim.core.errors import DataError
from fedsim.protocol.participation import Participation
from fedsim.protocol.transport import Transport
from fedsim.scenario import Scenario
from fedsim.scenario.building.inputs import Findings
from fedsim.scenario.building.packing import Shapes, packer, promise
from fedsim.scenario.compatibility import held_alike
from fedsim.scenario.tiers import hop, place_key
from fedsim.sim.config import Hop, Method


class BuiltTier(NamedTuple):
    """The configuration of the server above a tier and of its gateways.

    Attributes:
        method: the method, configured.
        participation: sampling of the gateways, and when a round closes.
        transport: the transport of messages.
    """

    method: Algorithm
    participation: Participation
    transport: Transport


def configure_tiers(
    scenario: Scenario, info: ProblemInfo, findings: Findings
) -> tuple[Algorithm, ...]:
    """Return the configured methods of the servers above each tier.

    Args:
        scenario: the scenario.
        info: the properties of the problem.
        findings: collects parameters that are invalid for it.
    """
    methods: list[Algorithm] = []
    for number, tier in enumerate(scenario.tiers):
        links = tier.wire.up, tier.wire.down
        up, down = (promise(link, info.dimension) for link in links)
        asked = tier.participation.among(tier.count).wanted
        hop_info = replace(info, clients=tier.count, uplink=up, downlink=down, cohort_size=asked)
        method = tier.outer
        try:
            method = method.configure(hop_info)
        except DataError as error:
            findings.add(f"tiers.{number}.outer.{error.key}", str(error))
        methods.append(method)
    return tuple(methods)


class PlacedFindings(Findings):
    """The faults of a hop of a tier, at their keys in the scenario.

    Args:
        findings: collects the faults.
        number: the number of the tier.
    """

    def __init__(self, findings: Findings, number: int) -> None:
        self.faults = findings.faults
        self._findings, self._number = findings, number

    def add(self, key: str, message: str) -> None:
        """Register a fault of a key, unless it has one already."""
        known = key.startswith("tiers.")
        self._findings.add(key if known else place_key(self._number, key), message)


def build_hops(
    scenario: Scenario,
    clients: BuiltTier,
    tiers: Sequence[BuiltTier],
    runs: Method,
    seed: int,
    layers: Shapes,
) -> tuple[Hop, ...]:
    """Return the configuration of each level and its servers, from the clients up.

    Args:
        scenario: a scenario with tiers.
        clients: the method of the scenario, with the other settings of its servers.
        tiers: the same of the servers above gateways.
        runs: the method of the scenario as the world runs it.
        seed: the seed of the run.
        layers: the shapes of the model's layers.
    """
    views = [scenario, *(hop(scenario, number) for number in range(len(tiers)))]
    rounds = [1, *(tier.rounds for tier in scenario.tiers)]
    hops: list[Hop] = []
    for view, built, count in zip(views, (clients, *tiers), rounds, strict=True):
        method, wire = built.method, view.wire
        up = partial(packer, wire.up, wire.values, seed, meanings=method.up)
        down = partial(packer, wire.down, wire.values, seed, meanings=method.downlink)
        hops.append(
            Hop(
                method=method if hops else runs,
                packer_up=partial(up, unbiased="up" in method.unbiased, layers=layers),
                packer_down=partial(
                    down,
                    unbiased="down" in method.unbiased,
                    layers=layers,
                    by_client=not held_alike(view),
                ),
                participation=built.participation,
                silence=view.silence,
                aggregation=view.aggregation,
                transport=built.transport,
                rounds=count,
            )
        )
    return tuple(hops)
