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
    return [note for note in result.summary["notes"].iloc[0] if "no update was used" in note]


@pytest.mark.parametrize(
    ("fleet", "quorum", "count"), [([FAST, SLOW], 0.6, 2), ([FAST, SLOW], 1.0, 0), ([FAST], 0.5, 0)]
)
def test_a_quorum_that_leaves_out_the_same_clients_is_said(
    fleet: list[Any], quorum: float, count: int
) -> None:
    found = notes(fleet=fleet, participation={"kind": "full", "quorum": quorum})
    said = f"participation.quorum: of {count} of 5 clients no update was used, although they were"
    said += " asked"
    assert [note.partition(": rounds")[0] for note in found] == ([said] if count else [])
