"""When a server notices that a client has gone is a policy: rounds end by hand."""

from math import inf
from pathlib import Path
from typing import Any

import pytest

import fedsim
from fedsim.protocol.participation import FullParticipation
from fedsim.protocol.participation.asynchronous import AsynchronousParticipation
from fedsim.protocol.stopping import Stop
from tests.runs import small
from tests.tiers import every

from .physical import gathered, member, online, tired, told

LEAVES = 3.0  # s, when the first client goes; the second answers after 1 s


def ends(seconds: float = inf, **policy: Any) -> list[float]:
    """Return when the first round ends, and which clients have answered in it."""
    members = [member(None, online(0.0, LEAVES)), member()]
    participation = FullParticipation.in_si(deadline=None if seconds == inf else seconds, **policy)
    _, seen = gathered(tired(9.0, 1.0), members, 1, participation=participation)
    assert seen[0][1] == [(1, 1)]
    return [t for t, _ in seen]


@every(("beat", "when"), [(2.0, 4.0), (3.0, 6.0), (2.5, 5.0), (10.0, 10.0)])
def test_with_a_heartbeat_it_is_the_first_beat_after_that(beat: float, when: float) -> None:
    assert ends(noticed="heartbeat", heartbeat=beat) == [when]


def test_at_once_and_at_the_deadline_are_the_two_ends_of_it() -> None:
    assert ends() == ends(7.0) == [LEAVES]
    assert ends(7.0, noticed="deadline") == [7.0]
    assert ends(7.0, noticed="heartbeat", heartbeat=100.0) == [7.0]


def test_a_client_that_is_back_before_the_beat_is_not_taken_for_gone() -> None:
    """It is asked again in the second round, which a beat for the first one must not end."""
    members = [member(None, online(0.0, 1.0, 2.0, inf)), member()]
    policy = FullParticipation.in_si(deadline=3.0, noticed="heartbeat", heartbeat=4.0)
    run, seen = gathered(tired(2.5, 0.5), members, 2, participation=policy, stop=Stop(rounds=2))
    # The first round waits in vain until 3 s, the beat is at 4 s, and the answer comes at 5.5 s.
    assert seen == [(3.0, [(1, 1)]), (5.5, [(0, 2), (1, 2)])]
    assert told(run, "abandoned", "t") == []


def test_a_server_without_rounds_asks_again_who_is_noticed_to_be_gone() -> None:
    members = [member(None, online(0.0, 1.0, 2.0, inf)), member()]
    policy = AsynchronousParticipation.in_si(buffer=1, noticed="heartbeat", heartbeat=4.0)
    run, _ = gathered(tired(1.5, 1.0), members, 6, participation=policy)
    asked = [t for (t,) in told(run, "receive", "t", node="client-0")]
    assert asked[0] == 0.0
    assert asked[1] >= 4.0, "until the beat it counts as at work"


def test_a_beat_frees_no_client_that_was_asked_again_since_it_went() -> None:
    """It left at 1 s, the server gave up at 3 s and asked it anew: it is at work at the beat."""
    members = [member(None, online(0.0, 1.0, 2.0, inf)), member(None, online(2.5, inf))]
    policy = AsynchronousParticipation.in_si(
        buffer=1, give_up=3.0, noticed="heartbeat", heartbeat=4.0
    )
    run, _ = gathered(tired(6.0, 1.0), members, 9, participation=policy)
    asked = [t for (t,) in told(run, "receive", "t", node="client-0")]
    answers = [t for (t,) in told(run, "receive", "t", node="server", peer="client-0")]
    assert asked == [0.0, 3.0, 9.0]
    assert answers == [9.0]


def test_a_late_reply_frees_no_client_that_was_asked_anew() -> None:
    """Given up while it works, it is asked once for each answer; its queue does not grow."""
    policy = AsynchronousParticipation.in_si(buffer=1, give_up=3.0)
    run, _ = gathered(tired(5.0, 100.0), [member(), member()], 6, participation=policy)
    asked = [t for (t,) in told(run, "receive", "t", node="client-0")]
    answers = [t for (t,) in told(run, "receive", "t", node="server", peer="client-0")]
    assert answers == [5.0, 10.0, 15.0, 20.0, 25.0, 30.0]
    assert asked == [0.0, 3.0, 8.0, 13.0, 18.0, 23.0, 28.0], "when the server gives up, no sooner"


@pytest.mark.parametrize(
    ("participation", "key", "words"),
    [
        ({"kind": "full", "noticed": "heartbeat"}, "heartbeat", "give the time between two beats"),
        ({"kind": "full", "heartbeat": "3 s"}, "heartbeat", "given beside noticed: at-once"),
        ({"kind": "full", "noticed": "deadline"}, "noticed", "would wait for it for ever"),
        (
            {"kind": "full", "noticed": "deadline", "deadline": "5 s", "quorum": "50 %"},
            "noticed",
            "without a quorum",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(
    participation: dict[str, str], key: str, words: str, tmp_path: Path
) -> None:
    fleet = [{"count": 5, "device": "pi-4", "radio": "wifi", "battery": {"capacity": "1 Wh"}}]
    with pytest.raises(fedsim.ScenarioError, match=words) as caught:
        fedsim.run(small(fleet=fleet, participation=participation), out=tmp_path)
    assert [fault.key for fault in caught.value.faults] == [f"participation.{key}"]
