"""The malicious clients of a scenario, and the packers in their world that send something else."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from fedsim.core.ports import ClientId, Packer
from fedsim.core.streams import Streams
from fedsim.protocol.attacks import Attack, FalsePacker
from fedsim.scenario import Scenario
from fedsim.sim.config import WorldConfig

MakePacker = Callable[[ClientId, str, int], Packer]


def attacks_of(scenario: Scenario) -> dict[ClientId, Attack]:
    """Return the attack of each malicious client."""
    attacks: dict[ClientId, Attack] = {}
    first = 0
    for group in scenario.fleet:
        if group.attack is not None:
            attacks |= dict.fromkeys(range(first, first + group.count), group.attack)
        first += group.count
    return attacks


def under_attack(config: WorldConfig, attacks: Mapping[ClientId, Attack]) -> WorldConfig:
    """Return a world's configuration with malicious clients; the same one if there are none."""
    if not attacks:
        return config
    config = replace(config, attacks=attacks)
    if all(attack.mislabels for attack in attacks.values()):
        return config  # what they send is what they have computed
    hops = config.hops
    if hops:  # the first level has the clients
        below = replace(hops[0], packer_up=_false(hops[0].packer_up, attacks, config.rng))
        hops = (below, *hops[1:])
    packers = _false(config.packer_up, attacks, config.rng)
    # Packers now differ between clients in more than their memory.
    return replace(config, packer_up=packers, hops=hops, alike=False)


def _false(make: MakePacker, attacks: Mapping[ClientId, Attack], rng: Streams) -> MakePacker:
    def packer_up(client: ClientId, field: str, number: int) -> Packer:
        packer = make(client, field, number)
        if (attack := attacks.get(client)) is None:
            return packer
        return FalsePacker(packer, attack, rng(f"attack {field}".strip(), client))

    return packer_up
