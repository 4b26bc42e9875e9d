"""Checks of `aggregation` and `attack`: whether a method and its rounds go with them."""

from collections.abc import Iterator

from fedsim.algorithms import ALGORITHMS, PeerAlgorithm
from fedsim.core.blocks.declared import reasons
from fedsim.core.blocks.nature import OF_SINGLE_REPLIES
from fedsim.core.blocks.wording import join_names
from fedsim.problems import ProgramLoss
from fedsim.protocol.aggregation import AGGREGATIONS, Aggregation
from fedsim.scenario.compatibility import Conflict
from fedsim.scenario.specs import ScenarioKeys


def unfit_attacks(scenario: ScenarioKeys) -> Iterator[Conflict]:
    """Yield attacks that the nodes of a scenario cannot make."""
    peers, problem = isinstance(scenario.algorithm, PeerAlgorithm), scenario.problem.loss
    for number, group in enumerate(scenario.fleet):
        attack = group.attack
        if attack is not None and peers and (attack.colludes or attack.silent or attack.unreadable):
            text = f"got {attack.kind}, which needs a server; take sign-flip, scaled or gaussian"
            yield f"fleet.{number}.attack.kind", text, attack.kind
        if attack is not None and attack.mislabels and isinstance(problem, ProgramLoss):
            text = f"got {attack.kind}, but clients that train with their own programs hold labels"
            text += " that fedsim does not see; take sign-flip, or flip them in the program"
            yield f"fleet.{number}.attack.kind", text, attack.kind
    for number, tier in enumerate(scenario.tiers):
        if tier.attack is not None:
            text = f"got {tier.attack.kind}, but gateways are true; give it to a group of fleet"
            yield f"tiers.{number}.attack.kind", text, tier.attack.kind


def unfit_aggregation(scenario: ScenarioKeys) -> Iterator[Conflict]:
    """Yield why replies cannot be combined by the scenario's rule."""
    rule = scenario.aggregation
    if rule.adds_up:
        return
    kind, method = rule.kind, scenario.algorithm
    if isinstance(method, PeerAlgorithm):
        yield from _unfit_mixing(rule, method)
        return
    if not rule.at_servers:
        rules = join_names(AGGREGATIONS.where(lambda one: one.at_servers), "or")
        yield "aggregation.kind", f"got {kind}, a rule of peers; a server has {rules}", kind
        return
    for key, why in reasons(method, OF_SINGLE_REPLIES):
        text = f"{why}, so aggregation: {kind} has no sum to combine; use mean"
        yield f"algorithm.{key}", text, getattr(method, key)
    asked = scenario.participation.wanted or scenario.participation.asked or scenario.clients
    if asked and asked < rule.least():
        text = f"got {kind}, which needs {rule.least()} replies, but a round has {asked} at most"
        key = "byzantine" if "byzantine" in type(rule).model_fields else "kind"
        yield f"aggregation.{key}", f"{text}; ask more clients", getattr(rule, key)


def _unfit_mixing(rule: Aggregation, method: PeerAlgorithm) -> Iterator[Conflict]:
    """Yield why peers cannot mix their vectors by a rule."""
    kind = rule.kind
    if not method.mixes_by_rule:
        others = join_names(
            ALGORITHMS.where(lambda one: getattr(one, "mixes_by_rule", False)), "or"
        )
        text = f"got {kind}, but the nodes of {method.kind} have no server, and mix by weights"
        yield "aggregation.kind", f"{text} alone; use mean, or one of the methods {others}", kind
    elif not rule.among_peers:
        rules = join_names(AGGREGATIONS.where(lambda one: one.among_peers), "or")
        text = f"got {kind}, but the nodes of {method.kind} have no server; use mean or {rules}"
        yield "aggregation.kind", text, kind
    elif before := getattr(rule, "before", ()):
        text = f"got {', '.join(before)}, but peers mix the vectors as they are; leave it out"
        yield "aggregation.before", text, before
