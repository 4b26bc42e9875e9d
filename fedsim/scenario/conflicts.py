"""What does not go together in a scenario, one block against another."""

from collections.abc import Iterator

from fedsim.algorithms import ALGORITHMS, Algorithm
from fedsim.blocks.wording import joined
from fedsim.ports import Meaning
from fedsim.problems import LOSSES, ProgramLoss
from fedsim.problems.programs import reports
from fedsim.scenario.closings import Conflict, closings
from fedsim.scenario.feedback import compression
from fedsim.scenario.observing import repeated, targets
from fedsim.scenario.peering import peering
from fedsim.scenario.specs import ScenarioKeys

LAST_SEED = 2**63 - 1
"""The largest seed of a run."""


def conflicts(scenario: ScenarioKeys) -> Iterator[Conflict]:
    """Yield what needs no data to be seen."""
    yield from _seeds(scenario)
    yield from _split(scenario)
    yield from _dropped_replies(scenario)
    yield from closings(scenario)
    yield from _sizes(scenario)
    yield from _empty_batteries(scenario)
    yield from compression(scenario)
    yield from _method(scenario)
    yield from peering(scenario)
    yield from repeated(scenario.measures)
    yield from targets(scenario.stop, scenario.measures, reports(scenario.problem.loss))


def _seeds(scenario: ScenarioKeys) -> Iterator[Conflict]:
    """Yield a seed that no table could hold: they have it as a whole number of 64 bits."""
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
    """A server that keeps a running sum needs every reply, however late."""
    if not scenario.algorithm.late_replies_required:
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
    """Nobody can ask more clients than there are."""
    for key, seen in scenario.participation.counts.items():
        if scenario.clients and seen > scenario.clients:
            yield f"participation.{key}", too_many(seen, scenario.clients), seen


def too_many(seen: int, clients: int) -> str:
    """Say that there are fewer clients."""
    return f"got {seen}, but the fleet has {clients} clients; give {clients} or less"


def _empty_batteries(scenario: ScenarioKeys) -> Iterator[Conflict]:
    count = scenario.stop.batteries
    with_battery = sum(group.count for group in scenario.fleet if group.battery is not None)
    if count is None or count <= with_battery:
        return
    if with_battery:
        text = f"got {count}, but {with_battery} clients have a battery; give that or less"
    else:
        text = f"got {count}, but no client has a battery; give a group of fleet one"
    yield "stop.batteries", text, count


def _method(scenario: ScenarioKeys) -> Iterator[Conflict]:
    """A method is for some problems and worlds, and not for others."""
    method, problem = scenario.algorithm, scenario.problem
    if problem.penalty.kind != "none" and not method.proximal:
        proximal = ", ".join(ALGORITHMS.where(lambda each: each.proximal))
        own = joined([key for key in ("l1", "l2") if key in type(problem.loss).model_fields], "and")
        text = (
            f"got {problem.penalty.kind}, but {method.kind} does not handle a penalty beside the"
            f" loss; take a proximal method ({proximal}), or put {own} into the loss"
        )
        yield "problem.penalty.kind", text, problem.penalty.kind
    if method.constrained and not problem.loss.constrained:
        losses = joined(LOSSES.where(lambda loss: loss.constrained), "or")
        text = (
            f"got {problem.loss.kind}, but {method.kind} is for a loss with a constraint"
            f" g(w) <= 0: take {losses}, or, without a constraint, fedcom"
        )
        yield "problem.loss.kind", text, problem.loss.kind
    yield from _programs(scenario)
    yield from _arrivals(scenario)


def _programs(scenario: ScenarioKeys) -> Iterator[Conflict]:
    """A program of a client's own trains, and a method may ask for more than that, or for it."""
    method, loss = scenario.algorithm, scenario.problem.loss
    if isinstance(loss, ProgramLoss) and method.asks == "loss":
        able = joined(ALGORITHMS.where(lambda each: each.asks != "loss"), "or")
        text = (
            f"got {method.kind}, which asks clients for gradients of their loss; those of"
            f" {loss.kind} train by programs of their own: take flower, {able}"
        )
        yield "algorithm.kind", text, method.kind
    if not isinstance(loss, ProgramLoss) and method.asks == "program":
        text = (
            f"got {loss.kind}, but {method.kind} is for clients with programs of their own,"
            " such as those of a Flower app; take fedavg"
        )
        yield "problem.loss.kind", text, loss.kind


def _arrivals(scenario: ScenarioKeys) -> Iterator[Conflict]:
    """Some methods react to arrivals, some need rounds."""
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
    """Say why a method cannot do without rounds; empty where it can.

    What clients send may have started from an older model than others'. It can be added up, but
    in the place of what is there it would be a step back, unless the method weighs it.
    """
    if method.synchronous or method.asynchronous or Meaning.STATE not in method.up.values():
        return method.synchronous
    reason = "its clients send models, and their mean is of such as started from the same one"
    added = method.adding_up()
    return reason if added is None else f"{reason}; use algorithm.{added.keys}"
