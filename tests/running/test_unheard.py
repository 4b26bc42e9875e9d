"""A run says whose updates were all in vain, because rounds closed before they arrived."""

from typing import Any

import pytest

import fedsim
from tests.runs import small

FAST = {"count": 3, "device": "phone-mid", "radio": "wifi"}
SLOW = {"count": 2, "device": "phone-mid", "radio": "nb-iot"}
METHOD = {"kind": "fedavg", "step_size": 0.001}


def notes(**blocks: Any) -> list[str]:
    result = fedsim.run(small(algorithm=METHOD, stop={"rounds": 20}, **blocks))
    return [note for note in result.summary["notes"].iloc[0] if "no update of " in note]


@pytest.mark.parametrize(
    ("fleet", "quorum", "count"), [([FAST, SLOW], 0.6, 2), ([FAST, SLOW], 1.0, 0), ([FAST], 0.5, 0)]
)
def test_a_quorum_that_leaves_out_the_same_clients_is_said(
    fleet: list[Any], quorum: float, count: int
) -> None:
    found = notes(fleet=fleet, participation={"kind": "full", "quorum": quorum})
    said = f"no update of {count} of 5 clients was used: rounds closed before it arrived"
    assert len(found) == bool(count)
    assert all(note.startswith("participation.quorum: ") and said in note for note in found)


@pytest.mark.parametrize("late", ["keep", "drop"])
def test_late_replies_are_counted_and_their_clients_named(late: str) -> None:
    policy = {"kind": "full", "deadline": "1 s", "late": late}
    result = fedsim.run(
        small(algorithm=METHOD, stop={"rounds": 20}, fleet=[FAST, SLOW], participation=policy)
    )
    clients = result.clients
    slow = clients[clients["late"] > 0]
    late_, sent = int(clients["late"].sum()), int((clients["transmissions"]).sum())
    assert slow["client"].tolist() == ["client-3", "client-4"]
    (note,) = [each for each in result.summary["notes"].iloc[0] if "participation.deadline" in each]
    fate = "counted in a later one" if late == "keep" else "were discarded"
    assert note.startswith(
        f"participation.deadline: {late_} of {sent} replies came after their round had closed and"
        f" {fate}, in "
    )
    assert "; late clients (2 of 5): client-" in note
    late_rounds = result.events.query("event == 'late'")["round"].unique()
    assert len(late_rounds) < 20  # a slow client is busy with an earlier one in some rounds
    assert f", in {len(late_rounds)} of 20 rounds (1" in note


def test_the_lost_rounds_are_named() -> None:
    """A deadline that only warm radios meet loses the first replies."""
    fleet = [{"count": 3, "device": "phone-mid", "radio": "lte"}]
    (times,) = fedsim.check(small(algorithm=METHOD, fleet=fleet)).replies.values()
    span = f"{(times.shortest.max() + times.first.min()) / 2} s"
    result = fedsim.run(
        small(
            algorithm=METHOD,
            stop={"rounds": 20},
            fleet=fleet,
            participation={"kind": "full", "deadline": span},
        )
    )
    late = result.events.query("event == 'late'")["round"].unique().tolist()
    (note,) = [each for each in result.summary["notes"].iloc[0] if "participation.deadline" in each]
    assert late == [1]
    assert ", in 1 of 20 rounds (1);" in note
