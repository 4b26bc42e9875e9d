"""One world, assembled from the draws of its blocks."""

from fedsim.algorithms import ALGORITHMS
from fedsim.algorithms.base import Algorithm
from fedsim.core.blocks.registry import kinds_of

from .computing import computing
from .dice import Block, Dice
from .files import MOST_CLIENTS
from .fleets import fleet
from .malicious import malicious_clients
from .methods import METHODS, method
from .networks import cells, gateway, network, shared_air, stacks, windows
from .peers import failures, medium, peers
from .policies import (
    delivered,
    estimate,
    given_up,
    informed,
    marina_p,
    noticed,
    participation,
    silence,
    stop,
)
from .problems import problem
from .radios import covered, staged
from .tiers import tiers
from .trained import trained
from .wires import wire

CLASSES = {kind: model for model in ALGORITHMS for kind in kinds_of(model)}


def world(number: int) -> Block:
    """Return the world of a number, as a scenario's file would say it."""
    dice = Dice(number)
    clients = MOST_CLIENTS if dice.chance(0.2) else dice.whole(1, MOST_CLIENTS)
    kind = dice.one(list(METHODS))
    the_class = CLASSES[kind]
    data, measures, facts = problem(dice, the_class, clients)
    groups = fleet(dice, clients)
    around = participation(dice, the_class, clients)
    blocks: Block = {
        "name": f"world {number}",
        "seed": dice.whole(0, 10**6),
        "problem": data,
        "algorithm": method(dice, kind, facts),
        "wire": wire(dice, the_class),
        "silence": silence(dice, the_class, around),
        "fleet": groups,
        "network": network(dice, clients),
        "participation": around,
        "stop": stop(dice, groups, data),
        "measures": measures,
    }
    delivered(dice, blocks)
    if dice.chance(0.05):  # ideal clients, as many as the split has
        del blocks["fleet"]
        blocks["stop"].pop("batteries", None)
        if data["split"]["kind"] != "groups":
            data["split"]["clients"] = clients
    given_up(dice, blocks)
    noticed(dice, blocks)
    trained(dice, blocks, the_class, clients)
    marina_p(dice, blocks)
    peers(dice, blocks, clients)
    computing(dice, blocks)
    final = CLASSES[blocks["algorithm"]["kind"]]
    weighted = dice.chance(0.1)
    staged(dice, blocks)
    windows(dice, blocks)
    gateway(dice, blocks)
    covered(dice, blocks)
    cells(dice, blocks)
    shared_air(dice, blocks)
    failures(dice, blocks)
    medium(dice, blocks, clients)
    stacks(dice, blocks)
    informed(dice, blocks, final, clients)
    tiers(dice, blocks, clients)
    # Last, so that worlds whose number is known are as they were.
    if weighted and (blocks["problem"].get("data") or not dice.careful):
        blocks["problem"]["weights"] = dice.one(["rows", "equal", "sum"])
    has_own_models = final.own_model is not Algorithm.own_model
    local = "local" in {*blocks["algorithm"], blocks["problem"]["loss"].get("statistics")}
    if dice.chance(0.1) and not (dice.careful and (has_own_models or local)):
        blocks["counting"] = "iterates"
    estimate(dice, blocks)
    malicious_clients(dice, blocks, clients)
    return blocks
