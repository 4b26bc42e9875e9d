"""Which compressors and kinds of error feedback suit the messages of a method.

The rule follows from `fedsim.core.ports.Meaning`. EF keeps the compression error of a message and
adds it to the next one. This corrects increments, which the receiver adds up. It corrupts states,
which the receiver replaces. EF21 sends the compressed change of the receiver's state. This is
correct for both, as long as the receiver gets every message; if clients receive different messages,
the server stores one state per client. A message that is a difference to the receiver's state
contains earlier errors already, so feedback would count them twice.
"""

from collections.abc import Iterator
from math import inf

from fedsim.algorithms import ALGORITHMS
from fedsim.core.blocks.wording import join_names
from fedsim.core.ports import Meaning
from fedsim.problems import ProgramLoss
from fedsim.protocol.participation import (
    CarbonAwareParticipation,
    ImportanceParticipation,
    Informed,
)
from fedsim.scenario.specs import Compression, ScenarioKeys
from fedsim.wire import COMPRESSORS, Feedback, refusal

Conflict = tuple[str, str, object]
"""Key, message, and the value in the scenario."""

WAYS = ("up", "down")

_ESTIMATES = ("mean", "sum")
"""Ways of combining replies that account for the sampling probabilities; see
`Algorithm.combines`."""


def compression(scenario: ScenarioKeys) -> Iterator[Conflict]:
    """Yield conflicts of compressors and error feedback with the method."""
    for way in WAYS:
        feedback = _link(scenario, way).error_feedback
        if reason := why_not(scenario, way, feedback):
            text = f'got "{feedback}", but {reason}; use {" or ".join(_remedies(scenario, way))}'
            yield f"wire.{way}.error_feedback", text, feedback
    for way in WAYS:
        yield from _is_biased(scenario, way)


def why_not(scenario: ScenarioKeys, way: str, feedback: Feedback) -> str:
    """Return why a link cannot have a kind of error feedback; empty if it can."""
    if feedback == "none":
        return ""
    method = scenario.algorithm
    # Exact vectors are never compressed, so they have no errors to feed back.
    meanings = set((method.up if way == "up" else method.downlink).values()) - {Meaning.EXACT}
    if not meanings:
        return f"messages of {_sender(scenario, way)} are not compressed, so there is no error"
    if _requires_unbiased(scenario, way) and meanings & {Meaning.DIFFERENCE, Meaning.ESTIMATE}:
        return f"the theory of {method.kind} needs unbiased messages, and feedback adds a bias"
    if meanings == {Meaning.DIFFERENCE}:
        return (
            f"{_sender(scenario, way)} sends the difference to the receiver's state, errors"
            " included, which is error feedback by itself"
        )
    if feedback == "ef":
        return _added_to_states(scenario, way) if Meaning.STATE in meanings else ""
    return refusal(_link(scenario, way).compressor, feedback) or _may_miss(scenario, way)


def _added_to_states(scenario: ScenarioKeys, way: str) -> str:
    other = "the server holds" if way == "up" else "clients hold"
    return (
        f"{_sender(scenario, way)} sends models, which replace what {other}, and stored errors"
        " would be added to every later model"
    )


def _sender(scenario: ScenarioKeys, way: str) -> str:
    sender = "a client" if way == "up" else "the server"
    return f"{sender} of {scenario.algorithm.kind}"


def _link(scenario: ScenarioKeys, way: str) -> Compression:
    return scenario.wire.up if way == "up" else scenario.wire.down


def _remedies(scenario: ScenarioKeys, way: str) -> list[str]:
    """Return the accepted values that could replace a link's error feedback, best first."""
    accepted = _list_accepted(scenario, way)
    method, seen = scenario.algorithm, _link(scenario, way).error_feedback
    added = method.increment_variant() if way == "up" else None
    if added is not None:
        # Adding up increments is suggested only if the method then accepts this feedback.
        other = scenario.model_copy(update={"algorithm": added.method})
        if not why_not(other, way, seen):
            accepted.append(f"algorithm.{added.keys}")
    if not accepted or not _needs_unbiased(scenario, way):
        accepted.append("error_feedback: none")
    return accepted


def _list_accepted(scenario: ScenarioKeys, way: str) -> list[str]:
    """Return the accepted kinds of error feedback of a link, in the notation of a scenario."""
    kinds: tuple[Feedback, ...] = ("ef21", "ef")
    return [f"error_feedback: {kind}" for kind in kinds if not why_not(scenario, way, kind)]


def _requires_unbiased(scenario: ScenarioKeys, way: str) -> bool:
    """Return whether the theory of the method needs unbiased messages in a direction."""
    return way in scenario.algorithm.unbiased


def _needs_unbiased(scenario: ScenarioKeys, way: str) -> bool:
    """Return whether a link's compressor is biased although the theory needs an unbiased one."""
    # The kind of a contract does not depend on the length of the vector: 2 is arbitrary.
    contract = _link(scenario, way).compressor.contract(2)
    return _requires_unbiased(scenario, way) and contract.kind not in ("exact", "unbiased")


def _is_biased(scenario: ScenarioKeys, way: str) -> Iterator[Conflict]:
    """Yield a biased compressor that neither the theory nor error feedback permits."""
    method, link = scenario.algorithm, _link(scenario, way)
    compressor, feedback = link.compressor, link.error_feedback
    good = _list_accepted(scenario, way)
    # Feedback that the link accepts corrects the bias; for any other, `compression` has a conflict.
    if not _needs_unbiased(scenario, way) or (good and feedback != "none"):
        return
    instead = f", or {' or '.join(good)}, which correct increments" if good else ""
    unbiased = join_names(
        COMPRESSORS.where(lambda compressor_class: compressor_class.unbiased()), "or"
    )
    text = (
        f"got {compressor.kind}, which is {compressor.law}; the theory of {method.kind} needs"
        f" an unbiased one: {unbiased}{instead}"
    )
    yield f"wire.{way}.compressor.kind", text, compressor.kind


def _may_miss(scenario: ScenarioKeys, way: str) -> str:
    """Return why a receiver under EF21 may miss a message; empty if it cannot."""
    if way == "down":
        return _clients_may_miss(scenario)
    reason = _server_may_miss(scenario)
    return f"{reason}, and its state would be wrong from then on" if reason else ""


def _server_may_miss(scenario: ScenarioKeys) -> str:
    """Return why the server may miss messages of a client; empty if it cannot.

    A client that leaves is no reason: its aborted messages are rolled back together. A message lost
    on the air is one, because the client may already have sent the next change relative to it.
    """
    if not (scenario.silence.keep_late and scenario.participation.keep_late):
        return "the server drops late replies"
    medium = scenario.network.medium
    if medium is not None and medium.most_tries is not None:
        return "a neighbour may miss a message that the next one builds on (network.medium.tries)"
    if any(group.loses for group in scenario.fleet):
        return "the server may miss a message that the next one builds on (radio.tries)"
    return ""


def _clients_may_miss(scenario: ScenarioKeys) -> str:
    """Return why the server may lose track of the clients' states; empty if it cannot.

    Clients may receive different messages, since the server stores each client's state (see
    `held_alike`). But every message has to arrive, since there are no acknowledgements.
    """
    for number, group in enumerate(scenario.fleet):
        if group.missing:
            # "(radio.tries)" becomes "(fleet.0.radio.tries)".
            return _unsure(f"{group.missing[:-1].replace('(', f'(fleet.{number}.')})")
    if scenario.network.broadcast == "cell":
        if any(group.radio.loss.mean > 0 for group in scenario.fleet):
            return _unsure("is not retransmitted if it is lost (network.broadcast: cell)")
        if not held_alike(scenario):
            return (
                "a cell's broadcast is one message for all its clients, but these hold different"
                " vectors if not all are asked in every round, or if a round may be sent again"
                " (network.broadcast: unicast sends individual messages)"
            )
    if scenario.algorithm.reads_sent:
        return (
            f"{_sender(scenario, 'down')} continues from the vector that it has sent, which would"
            " differ between clients"
        )
    return ""


def unmet_participation(scenario: ScenarioKeys) -> Iterator[Conflict]:
    """Yield reasons why a participation policy that uses clients' reports cannot work."""
    policy = scenario.participation
    if isinstance(policy, Informed) and policy.of_losses:
        yield from _reports_losses(scenario)
    yield from _unmet_by_method(scenario)


def unmet_above(scenario: ScenarioKeys) -> Iterator[Conflict]:
    """Yield the same for a server above gateways; see `fedsim.scenario.tiers.hop`."""
    policy = scenario.participation
    if isinstance(policy, Informed):
        kind = policy.kind
        if policy.sees_all:
            text = "got true, but an oracle knows losses of clients, and gateways (tiers) have none"
            yield "participation.oracle", f"{text}; use false", True
        elif policy.of_losses:
            text = f"got {kind}, for which clients report their loss, and gateways (tiers) have"
            yield "participation.kind", f"{text} none; use age, importance or uniform", kind
    yield from _unmet_by_method(scenario)


def _unmet_by_method(scenario: ScenarioKeys) -> Iterator[Conflict]:
    """Yield requirements of such a policy that the method or the fleet does not meet."""
    policy, method = scenario.participation, scenario.algorithm
    if not isinstance(policy, Informed):
        return
    if "norm" in policy.reported and Meaning.STATE in method.up.values():
        text = f"got {policy.kind}, for which clients report the norm of their update, but those of"
        added = method.increment_variant()
        remedy = "" if added is None else f"; use algorithm.{added.keys}"
        yield "participation.kind", f"{text} {method.kind} send models{remedy}", policy.kind
    if "norm" in policy.reported and method.constrained:
        text = f"got {policy.kind}, for which clients report the norm of their update, but those of"
        text += f" {method.kind} send a constraint first; use by: samples"
        yield "participation.kind", text, policy.kind
    if isinstance(policy, ImportanceParticipation) and method.combines not in _ESTIMATES:
        able = join_names(
            ALGORITHMS.where(lambda method_class: method_class.combines in _ESTIMATES), "or"
        )
        text = f"got {policy.kind}, but {method.kind} does not correct for it; use {able}"
        yield "participation.kind", text, policy.kind
    if isinstance(policy, CarbonAwareParticipation):
        yield from _intensities(scenario)


def _reports_losses(scenario: ScenarioKeys) -> Iterator[Conflict]:
    """Yield reasons why clients cannot report their mean loss at the received model."""
    kind, method, loss = scenario.participation.kind, scenario.algorithm, scenario.problem.loss
    scale = getattr(loss, "scale", "mean")
    if isinstance(loss, ProgramLoss):
        text = f"got {kind}, for which clients report their loss; those of {loss.kind} have none"
        yield "participation.kind", text, kind
    elif scale in {"sum", "share"}:
        text = f"got {scale}, but clients of {kind} report the mean loss of their samples"
        yield "problem.loss.scale", f"{text}; use mean", scale
    if method.downlink.get("", Meaning.STATE) is not Meaning.STATE:
        text = f"got {kind}, for which clients report their loss at the received model; the server"
        yield "participation.kind", f"{text} of {method.kind} sends steps", kind


def _intensities(scenario: ScenarioKeys) -> Iterator[Conflict]:
    """Yield groups of clients that have no carbon intensity."""
    kind = scenario.participation.kind
    for number, group in enumerate(scenario.fleet):
        if group.carbon is None:
            text = f"missing: participation is {kind}; give the intensity, such as DE"
            yield f"fleet.{number}.carbon", text, None
    if not scenario.fleet:
        text = f"got {kind}, but there is no fleet whose electricity has an intensity; give one"
        yield "participation.kind", text, kind


def _unsure(reason: str) -> str:
    return (
        f"what is sent to a client {reason}, so that the server does not know the client's state,"
        " which would be wrong from then on; ef21 down needs messages that surely arrive"
    )


def held_alike(scenario: ScenarioKeys) -> bool:
    """Return whether all clients hold the same copy of the server's vectors.

    They do if every message is sent to every client, once. An abandoned round is sent again, and a
    round is also abandoned if no client meets its deadline. Under secrecy a client that has dropped
    out of a round does not get its message.
    """
    if scenario.secrecy is not None:
        return False
    policy = scenario.participation
    ends = policy.closes_after, policy.round_timeout, scenario.silence.closes_after
    return policy.asks_all and scenario.algorithm.asks_all and min(ends) == inf
