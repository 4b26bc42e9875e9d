"""What closes a round: rules that do not go together, or leave one another nothing to do."""

from collections.abc import Iterator

from fedsim.protocol.participation import AsynchronousParticipation, Rounds, Sample
from fedsim.protocol.silence import DeadlineSilence
from fedsim.scenario.specs import ScenarioKeys

Conflict = tuple[str, str, object]
"""Key, message, value seen."""


def closings(scenario: ScenarioKeys) -> Iterator[Conflict]:
    """A round has one rule that closes it."""
    silence, participation = scenario.silence, scenario.participation
    if isinstance(silence, DeadlineSilence):
        yield from _two_deadlines(participation)
    elif isinstance(participation, Rounds):
        yield from _giving_up(participation)
    if not isinstance(participation, Sample) or participation.over == 1:
        return
    if participation.quorum is not None and participation.deadline is None:
        text = (
            "seen with over above 1, which closes a round with its first replies already; leave"
            " one of the two out, or add a deadline that the quorum holds up"
        )
        yield "participation.quorum", text, participation.quorum


def _giving_up(participation: Rounds) -> Iterator[Conflict]:
    """A round is given up where too few have reported by its deadline, and some time later."""
    give_up, deadline = participation.give_up, participation.deadline
    if give_up is None or deadline is None:
        return
    if participation.quorum is None:
        text = "a deadline without a quorum closes every round; drop one of them, or add a quorum"
        yield "participation.give_up", text, give_up
    elif give_up <= deadline:
        text = f"seen {give_up:g} s, but no round closes before {deadline:g} s; give more"
        yield "participation.give_up", text, give_up


def _two_deadlines(participation: object) -> Iterator[Conflict]:
    """Silence that is waited for has a deadline of its own."""
    beacon = "or let silence be said: silence: {kind: beacon}"
    if isinstance(participation, AsynchronousParticipation):
        text = (
            'seen "deadline", but an asynchronous server has no rounds that could end: it would'
            " never ask a silent client again; use beacon"
        )
        yield "silence.kind", text, "deadline"
    if not isinstance(participation, Rounds):
        return
    if participation.deadline is not None:
        text = f"a round has one deadline, and silence.after is one; drop this one, {beacon}"
        yield "participation.deadline", text, participation.deadline
    if participation.give_up is not None:
        text = f"silence.after closes every round, so none is given up; drop this one, {beacon}"
        yield "participation.give_up", text, participation.give_up
    if participation.late == "drop":
        text = f'seen "drop", but silence.late says what becomes of it; drop this one, {beacon}'
        yield "participation.late", text, "drop"
    if participation.quorum is not None:
        text = f"who is silent reports nothing, so no quorum is sure; drop this one, {beacon}"
        yield "participation.quorum", text, participation.quorum
