"""What closes a round: rules that do not go together, or leave one another nothing to do."""

from collections.abc import Iterator
from math import inf

from fedsim.protocol.participation import Participation
from fedsim.protocol.silence import SilencePolicy
from fedsim.scenario.specs import ScenarioKeys

Conflict = tuple[str, str, object]
"""Key, message, value seen."""


def closings(scenario: ScenarioKeys) -> Iterator[Conflict]:
    """A round has one rule that closes it."""
    silence, policy = scenario.silence, scenario.participation
    if silence.closes_after < inf:
        yield from _two_deadlines(silence, policy)
    else:
        yield from _giving_up(policy)
    if policy.over_selects and policy.quorum is not None and policy.closes_after == inf:
        text = (
            "got over above 1, which closes a round with its first replies already; leave"
            " one of the two out, or add a deadline that the quorum holds up"
        )
        yield "participation.quorum", text, policy.quorum


def _giving_up(policy: Participation) -> Iterator[Conflict]:
    """A round is given up where too few have reported by its deadline, and some time later."""
    give_up, deadline = policy.patience, policy.closes_after
    if max(give_up, deadline) == inf:
        return
    if policy.quorum is None:
        text = "a deadline without a quorum closes every round; drop one of them, or add a quorum"
        yield "participation.give_up", text, give_up
    elif give_up <= deadline:
        text = f"got {give_up:g} s, but no round closes before {deadline:g} s; give more"
        yield "participation.give_up", text, give_up


def _two_deadlines(silence: SilencePolicy, policy: Participation) -> Iterator[Conflict]:
    """Silence that is waited for has a deadline of its own."""
    beacon = "or let silence be said: silence: {kind: beacon}"
    if policy.asynchronous:
        text = (
            f'got "{silence.kind}", but an asynchronous server has no rounds that could end: it'
            " would never ask a silent client again; use beacon"
        )
        yield "silence.kind", text, silence.kind
        return
    if policy.closes_after < inf:
        text = f"a round has one deadline, and silence.after is one; drop this one, {beacon}"
        yield "participation.deadline", text, policy.closes_after
    if policy.patience < inf:
        text = f"silence.after closes every round, so none is given up; drop this one, {beacon}"
        yield "participation.give_up", text, policy.patience
    if not policy.keep_late:
        text = f'got "drop", but silence.late says what becomes of it; drop this one, {beacon}'
        yield "participation.late", text, "drop"
    if policy.quorum is not None:
        text = f"who is silent reports nothing, so no quorum is sure; drop this one, {beacon}"
        yield "participation.quorum", text, policy.quorum
