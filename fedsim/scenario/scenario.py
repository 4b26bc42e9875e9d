"""The class of a scenario, and checks that its blocks are compatible."""

import json
from collections.abc import Callable, Container, Iterator
from math import inf
from typing import Any, Self, TypeVar

from pydantic import ValidationError, model_validator

from fedsim.algorithms import ALGORITHMS, Algorithm, PeerAlgorithm
from fedsim.core.blocks.choice import failure
from fedsim.core.blocks.spec import Spec
from fedsim.core.blocks.wording import join_names
from fedsim.core.ports import Meaning
from fedsim.physics.graphs_in_time import NeighboursByExchange, NeighboursInTime
from fedsim.physics.network_models import FluidFlows
from fedsim.problems import LOSSES, ProgramLoss
from fedsim.problems.programs import reports
from fedsim.protocol.participation import Participation
from fedsim.protocol.silence import SilencePolicy
from fedsim.scenario.aggregating import unfit_aggregation, unfit_attacks
from fedsim.scenario.compatibility import compression, unmet_above, unmet_participation
from fedsim.scenario.confidential import unfit_privacy
from fedsim.scenario.figures import find_repeated, find_unmeasured, missing_test_rows, targets
from fedsim.scenario.located import Located
from fedsim.scenario.secret import unfit_secrecy
from fedsim.scenario.specs import ProblemSpec, ScenarioKeys, model_of
from fedsim.scenario.tiers import tiering
from fedsim.wire import Identity

_Block = TypeVar("_Block", bound=Spec)

# Rules that close a round: conflicts between them, and rules without effect.

Conflict = tuple[str, str, object]
"""Key, message, and the value in the scenario."""


def check_round_closing(scenario: ScenarioKeys) -> Iterator[Conflict]:
    """Yield conflicts between rules that close a round."""
    silence, policy = scenario.silence, scenario.participation
    if silence.closes_after < inf:
        yield from _check_two_deadlines(silence, policy)
    else:
        yield from _check_giving_up(policy)
    if policy.over_selects and policy.quorum is not None and policy.closes_after == inf:
        text = (
            "got over above 1, which already closes a round with its first replies; leave"
            " one of the two out, or add a deadline that the quorum holds up"
        )
        yield "participation.quorum", text, policy.quorum


def _check_giving_up(policy: Participation) -> Iterator[Conflict]:
    """Yield conflicts between the timeout of a round and its deadline and quorum."""
    give_up, deadline = policy.round_timeout, policy.closes_after
    # With only one of the two, there is nothing to contradict it.
    if max(give_up, deadline) == inf:
        return
    if policy.quorum is None:
        text = "a deadline without a quorum closes every round; drop one of them, or add a quorum"
        yield "participation.give_up", text, give_up
    elif give_up <= deadline:
        text = f"got {give_up:g} s, but no round closes before {deadline:g} s; give more"
        yield "participation.give_up", text, give_up


def _check_two_deadlines(silence: SilencePolicy, policy: Participation) -> Iterator[Conflict]:
    """Yield conflicts between a deadline for silent clients and other rules that close a round."""
    beacon = "or use silence: {kind: beacon}"
    if policy.asynchronous:
        text = (
            f'got "{silence.kind}", but an asynchronous server has no rounds that could end: it'
            " would never sample a silent client again; use beacon"
        )
        yield "silence.kind", text, silence.kind
        return
    if policy.closes_after < inf:
        text = f"a round has one deadline, and silence.after is one; leave this out, {beacon}"
        yield "participation.deadline", text, policy.closes_after
    if policy.round_timeout < inf:
        text = f"silence.after closes every round, so none is abandoned; leave this out, {beacon}"
        yield "participation.give_up", text, policy.round_timeout
    if not policy.keep_late:
        text = f'got "drop", but silence.late decides that; leave this out, {beacon}'
        yield "participation.late", text, "drop"
    if policy.quorum is not None:
        text = f"a silent client reports nothing, so a quorum may fail; leave this out, {beacon}"
        yield "participation.quorum", text, policy.quorum


# Scenarios with peers, without a server.


def check_peers(scenario: ScenarioKeys) -> Iterator[Conflict]:
    """Yield conflicts between the method, of peers or of a server, and the other settings."""
    method, neighbours = scenario.algorithm, scenario.network.peers
    if not isinstance(method, PeerAlgorithm):
        if neighbours is not None:
            kinds = ALGORITHMS.where(lambda method_class: issubclass(method_class, PeerAlgorithm))
            text = (
                f"got {neighbours.kind}, but {method.kind} has a server that all clients answer;"
                f" leave peers out, or take a decentralised method ({', '.join(kinds)})"
            )
            yield "network.peers", text, neighbours.kind
        elif scenario.network.mixing is not None:
            text = f"got a mixing matrix, but {method.kind} has a server; leave it out"
            yield "network.mixing", text, scenario.network.mixing.kind
        return
    if neighbours is None:
        text = (
            f"missing: {method.kind} is a decentralised method, which send to their neighbours;"
            " give these, such as network: {peers: {kind: ring}}"
        )
        yield "network.peers", text, None
    if scenario.network.mixing is not None and not method.weighs:
        seen = scenario.network.mixing.kind
        text = f"got {seen}, but {method.kind} weighs no neighbours; leave it out"
        yield "network.mixing", text, seen
    if scenario.infrastructure is not None:
        kind = scenario.infrastructure.kind
        yield "infrastructure", f"got {kind}, but {method.kind} has no server; leave it out", kind
    yield from _check_links(scenario)
    yield from _check_uncompressed(scenario)
    yield from _check_missed_differences(scenario)
    yield from _check_participation(scenario)
    for number, group in enumerate(scenario.fleet):
        if not group.availability.always:
            kind = group.availability.kind
            text = f"got {kind}, but a node that leaves is gone for good among peers; use always"
            yield f"fleet.{number}.availability.kind", text, kind


def _check_links(scenario: ScenarioKeys) -> Iterator[Conflict]:
    """Yield network settings that peers do not support."""
    network, kind = scenario.network, scenario.algorithm.kind
    if not isinstance(network.model, FluidFlows):
        model = network.model.kind
        yield "network.model", f"got {model}, but peers only support fluid", model
    if network.broadcast != "unicast":
        text = f"got {network.broadcast}, but a peer sends to each neighbour; use unicast"
        yield "network.broadcast", text, network.broadcast
    for key, discipline in network.disciplines.items():
        if discipline == "slotted":
            text = (
                "got slotted, but the senders on a link are not fixed among peers; use fair or fifo"
            )
            yield f"network.{key}", text, discipline
    if scenario.wire.down != type(scenario.wire.down)():
        seen = scenario.wire.down.compressor.kind
        text = f"got {seen}, but messages between nodes of {kind} use wire.up; leave it out"
        yield "wire.down", text, seen


def _check_uncompressed(scenario: ScenarioKeys) -> Iterator[Conflict]:
    """Yield a compressor if the method sends its vectors uncompressed."""
    method, compressor = scenario.algorithm, scenario.wire.up.compressor
    if set(method.up.values()) == {Meaning.EXACT} and not isinstance(compressor, Identity):
        text = f"got {compressor.kind}, but the nodes of {method.kind} send their vectors"
        yield "wire.up.compressor.kind", f"{text} uncompressed; leave it out", compressor.kind


def _check_missed_differences(scenario: ScenarioKeys) -> Iterator[Conflict]:
    """Yield EF21 among peers if a neighbour may miss a message.

    Under EF21 a sender keeps one copy of its state for all neighbours, so each of them needs every
    message.
    """
    network, ends = scenario.network, (scenario.participation, scenario.silence)
    changing = isinstance(network.peers, NeighboursByExchange | NeighboursInTime)
    if scenario.wire.up.error_feedback != "ef21":
        return
    if changing or network.failures is not None:
        why = "in a graph that changes a node does not send to all neighbours"
    elif min(end.closes_after for end in ends) < inf:
        why = "a node that misses one, since a deadline has dropped it, would be wrong for ever"
    else:
        return
    text = f"got ef21, under which neighbours add up all messages of a node, but {why}; use ef"
    text += " or none"
    yield "wire.up.error_feedback", text, "ef21"


def _check_participation(scenario: ScenarioKeys) -> Iterator[Conflict]:
    """Yield participation settings that have no meaning among peers."""
    policy, kind = scenario.participation, scenario.algorithm.kind
    if scenario.algorithm.late_replies_required:
        text = (
            f"neighbours under {kind} add up differences, and a difference that a deadline drops"
            " would be missing for ever; leave it out"
        )
        if policy.closes_after < inf:
            message = f"got {policy.closes_after:g} s, but {text}"
            yield "participation.deadline", message, policy.closes_after
        if scenario.silence.closes_after < inf:
            message = f"got {scenario.silence.closes_after:g} s, but {text}"
            yield "silence.after", message, scenario.silence.closes_after
    yield from _check_late(scenario)
    if not policy.asks_all:
        text = f"got {policy.kind}, but no server samples the nodes of {kind}; use full"
        yield "participation.kind", text, policy.kind
        return
    if policy.noticed != "at-once":
        text = (
            f"got {policy.noticed}, but neighbours notice at once that a node has left; leave it"
            " out"
        )
        yield "participation.noticed", text, policy.noticed
    for key in ("quorum", "give_up", "least_charge"):
        if seen := getattr(policy, key):
            text = f"got {seen:g}, but among peers only a deadline ends an exchange; leave it out"
            yield f"participation.{key}", text, seen


def _check_late(scenario: ScenarioKeys) -> Iterator[Conflict]:
    """Yield redundant settings to drop late messages, which peers always drop."""
    if scenario.algorithm.late_replies_required:  # see `_dropped_replies`
        return
    text = f"got drop, but nodes of {scenario.algorithm.kind} drop late messages in any case"
    if not scenario.silence.keep_late:
        yield "silence.late", f"{text}; leave it out", "drop"
    if not scenario.participation.keep_late:
        yield "participation.late", f"{text}; leave it out", "drop"


# Conflicts between the blocks of a scenario.

LAST_SEED = 2**63 - 1
"""The largest seed of a run: seeds are 64-bit integers in tables."""


def conflicts(scenario: ScenarioKeys, missing: Container[str] = ()) -> Iterator[Conflict]:
    """Yield all conflicts between settings that can be detected without data.

    Args:
        scenario: the keys of a scenario.
        missing: keys that it lacks, since their values are invalid. A check ends where it reads
            one of them.
    """
    for check in _CHECKS:
        try:
            yield from check(scenario)
        except AttributeError as error:
            if error.name not in missing:
                raise


def _seeds(scenario: ScenarioKeys) -> Iterator[Conflict]:
    """Yield the seed if the last seed of the runs exceeds `LAST_SEED`."""
    last = scenario.seed + scenario.seeds - 1
    if last > LAST_SEED:
        text = f"got {scenario.seed}, so that the last seed is {last}"
        yield "seed", f"{text}; seeds up to 2^63 - 1 are accepted", scenario.seed


def _split(scenario: ScenarioKeys) -> Iterator[Conflict]:
    split, fleet = getattr(scenario.problem.split, "clients", None), scenario.clients
    if fleet and split not in (None, fleet):
        text = (
            f"got {split}, but the counts of fleet add up to {fleet}; leave clients out, or"
            " make the two agree"
        )
        yield "problem.split.clients", text, split


def _dropped_replies(scenario: ScenarioKeys) -> Iterator[Conflict]:
    """Yield settings that drop late replies, if the method's server keeps a running sum."""
    # Under secrecy clients take back what was not counted.
    if not scenario.algorithm.late_replies_required or scenario.secrecy is not None:
        return
    text = (
        f'got "drop", but the server of {scenario.algorithm.kind} keeps a running sum of what'
        " clients send: without one late reply it is wrong for ever; use keep"
    )
    silence, participation = scenario.silence, scenario.participation
    if not silence.keep_late:
        yield "silence.late", text, "drop"
    elif not participation.keep_late:
        yield "participation.late", text, "drop"


def _sizes(scenario: ScenarioKeys) -> Iterator[Conflict]:
    """Yield a number of clients per round that exceeds the fleet."""
    if scenario.tiers:  # each server samples from the nodes below it; see `tiering`
        return
    for key, seen in scenario.participation.counts.items():
        if scenario.clients and seen > scenario.clients:
            yield f"participation.{key}", too_many(seen, scenario.clients), seen


def too_many(seen: int, clients: int) -> str:
    """Return the message for a number above the number of clients."""
    return f"got {seen}, but the fleet has {clients} clients; give {clients} or less"


def _empty_batteries(scenario: ScenarioKeys) -> Iterator[Conflict]:
    count = scenario.stop.batteries
    groups = (*scenario.fleet, *scenario.tiers)
    with_battery = sum(group.count for group in groups if group.battery is not None)
    if count is None or count <= with_battery:
        return
    if with_battery:
        text = f"got {count}, but {with_battery} clients have a battery; give that or less"
    else:
        text = f"got {count}, but no client has a battery; give a group of fleet one"
    yield "stop.batteries", text, count


def _method(scenario: ScenarioKeys) -> Iterator[Conflict]:
    """Yield conflicts of the method with the problem and the network."""
    method, problem = scenario.algorithm, scenario.problem
    if problem.penalty.kind != "none" and not method.proximal:
        proximal = ", ".join(ALGORITHMS.where(lambda method_class: method_class.proximal))
        keys = join_names(
            [key for key in ("l1", "l2") if key in type(problem.loss).model_fields], "and"
        )
        text = (
            f"got {problem.penalty.kind}, but {method.kind} does not handle a penalty beside the"
            f" loss; take a proximal method ({proximal}), or put {keys} into the loss"
        )
        yield "problem.penalty.kind", text, problem.penalty.kind
    if method.constrained and not problem.loss.constrained:
        losses = join_names(LOSSES.where(lambda loss: loss.constrained), "or")
        text = (
            f"got {problem.loss.kind}, but {method.kind} is for a loss with a constraint"
            f" g(w) <= 0: take {losses}, or, without a constraint, fedcom"
        )
        yield "problem.loss.kind", text, problem.loss.kind
    data = problem.data
    if data is not None and data.exchanges_fit:
        without_rounds = isinstance(method, PeerAlgorithm) or scenario.participation.asynchronous
        if without_rounds:
            text = "got exchange, but here no round waits for all clients of a server; use all"
            yield "problem.data.fit", text, "exchange"
    yield from _programs(scenario)
    yield from _arrivals(scenario)


def _programs(scenario: ScenarioKeys) -> Iterator[Conflict]:
    """Yield conflicts between the method and clients' own programs, which return no gradients."""
    method, loss = scenario.algorithm, scenario.problem.loss
    if isinstance(loss, ProgramLoss) and method.asks == "loss":
        able = join_names(ALGORITHMS.where(lambda method_class: method_class.asks != "loss"), "or")
        text = (
            f"got {method.kind}, which asks clients for gradients of their loss; those of"
            f" {loss.kind} train with their own programs: take flower, {able}"
        )
        yield "algorithm.kind", text, method.kind
    if not isinstance(loss, ProgramLoss) and method.asks == "program":
        text = (
            f"got {loss.kind}, but {method.kind} is for clients with their own programs,"
            " such as those of a Flower app; take fedavg"
        )
        yield "problem.loss.kind", text, loss.kind


def _arrivals(scenario: ScenarioKeys) -> Iterator[Conflict]:
    """Yield conflicts between synchronous or asynchronous methods and participation."""
    method, policy = scenario.algorithm, scenario.participation
    kind = policy.kind
    if method.asynchronous and not policy.asynchronous:
        text = (
            f"got {kind}, but the server of {method.kind} reacts to arrivals; give"
            " {kind: asynchronous}"
        )
        yield "participation.kind", text, kind
    elif policy.asynchronous and (reason := _needs_rounds(method)):
        text = f"got {kind}, but {method.kind} needs rounds: {reason}"
        yield "participation.kind", text, kind


def _needs_rounds(method: Algorithm) -> str:
    """Return why a method needs rounds; empty if it does not.

    Without rounds, clients start from models of different age. An increment from an older model can
    still be added. A model that started from an older one would set the server back, unless the
    method weighs it.
    """
    if method.synchronous or method.asynchronous or Meaning.STATE not in method.up.values():
        return method.synchronous
    reason = "its clients send models, and a mean needs models that started from the same one"
    added = method.increment_variant()
    return reason if added is None else f"{reason}; use algorithm.{added.keys}"


def _tiers(scenario: ScenarioKeys) -> Iterator[Conflict]:
    """Yield conflicts of tiers, also those of each gateway and the nodes below it."""
    hops = (_dropped_replies, check_round_closing, compression, unmet_above)
    yield from tiering(scenario, hops)


def _repeated(scenario: ScenarioKeys) -> Iterator[Conflict]:
    yield from find_repeated(scenario.measures)


def _figures(scenario: ScenarioKeys) -> Iterator[Conflict]:
    """Yield targets and kept models of measures that are unknown.

    Targets are checked without a valid loss or valid measures, too, as far as that is possible.
    """
    loss = getattr(getattr(scenario, "problem", None), "loss", None)
    measures = getattr(scenario, "measures", None)
    if loss is None or measures is None:
        yield from targets(scenario.stop, (), None)
        return
    reported = reports(loss)
    yield from targets(scenario.stop, measures, reported)
    problem = scenario.problem
    # An invalid `test` is missing here, and an error of its own.
    if getattr(problem, "test", ...) is None and getattr(problem, "data", None) is not None:
        yield from missing_test_rows(scenario.stop, measures, reported)
    yield from find_unmeasured(scenario.models.best, measures, reported)


_CHECKS: tuple[Callable[[ScenarioKeys], Iterator[Conflict]], ...] = (
    _seeds,
    _split,
    _dropped_replies,
    check_round_closing,
    unmet_participation,
    _sizes,
    _empty_batteries,
    compression,
    _method,
    check_peers,
    unfit_aggregation,
    unfit_attacks,
    unfit_secrecy,
    unfit_privacy,
    _tiers,
    _repeated,
    _figures,
)


class Scenario(ScenarioKeys):
    """A federated problem, the method that solves it, and the world in which it runs."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        faults = list(conflicts(self))
        if faults:
            raise failure(*faults)
        return self


def conflicts_beside_errors(tree: Located, context: object) -> Iterator[Conflict]:
    """Yield the conflicts between the valid keys of a scenario in which other keys have errors.

    Args:
        tree: the scenario as written.
        context: the context of its validation.
    """
    written: dict[str, Any] = tree.plain()
    scenario, wrong = _valid_keys(ScenarioKeys, written, context)
    if not wrong:
        return  # conflicts are the only errors
    problem = written.get("problem")
    if "problem" in wrong and isinstance(problem, dict):
        scenario.__dict__["problem"], more = _valid_keys(ProblemSpec, problem, context)
        wrong |= more
    yield from conflicts(scenario, wrong)


def _valid_keys(
    model: type[_Block], written: dict[str, Any], context: object
) -> tuple[_Block, set[str]]:
    """Return a block of the valid keys alone, and the names of the invalid ones."""
    wrong = set[str]()
    try:
        model.model_validate_json(json.dumps(written), strict=True, context=context)
    except ValidationError as error:
        wrong = {str(detail["loc"][0]) for detail in error.errors() if detail["loc"]}
    fields = {name: field for name, field in model.model_fields.items() if name not in wrong}
    text = json.dumps({key: value for key, value in written.items() if key in fields})
    valid = model_of(fields).model_validate_json(text, strict=True, context=context)
    block = model.model_construct(**{name: getattr(valid, name) for name in fields})
    for name in wrong:
        block.__dict__.pop(name, None)  # the default would mislead a check that reads it
    return block, wrong
