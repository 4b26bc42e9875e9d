"""Links that are shared fairly, in arrays: equal transfers as one, and each leg by itself."""

from math import inf
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

import fedsim
from fedsim.sim.arrays.links import LinkLeg, pass_link
from fedsim.sim.arrays.order import EventOrder, ReactionError
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.processor_sharing import FairLink, PartedError
from fedsim.sim.world import World
from tests.campaigns.worlds.playing import _different

from .test_arrays import LTE, both, scenario

pytestmark = pytest.mark.filterwarnings("ignore::fedsim.core.errors.TheoryWarning")

CLASSES = some.lists(
    some.tuples(
        some.integers(0, 3),  # begins
        some.sampled_from([1.0, 7.0, 40.0, 1e3, 12345.6]),  # bits
        some.sampled_from([0.1, 1.0, 3.3, 10.0, 40.0, 2e6, inf]),  # cap
        some.integers(1, 5),
    ),
    min_size=1,
    max_size=8,
)


def ends(capacity: float, classes: list[tuple[int, float, float, int]], *, whole: bool) -> Any:
    """Let transfers pass a link; return when each has passed, in the order of the ends."""
    calendar, seen = Calendar(), list[tuple[float, int]]()
    link = FairLink(calendar, capacity)

    def end(number: int) -> None:
        count = classes[number][3] if whole else 1
        seen.extend([(calendar.now, number)] * count)

    for number, (begin, bits, cap, count) in enumerate(classes):
        times, size = (1, count) if whole else (count, 1)
        for _ in range(times):
            calendar.at(begin, link.add, bits, cap, end, number, size)
    calendar.run()
    return seen


@given(some.sampled_from([1.0, 10.0, 33.3, 1e6]), CLASSES)
def test_equal_transfers_as_one_are_bit_by_bit_those_one_by_one(
    capacity: float, classes: list[tuple[int, float, float, int]]
) -> None:
    try:
        found = ends(capacity, classes, whole=True)
    except PartedError:
        return
    assert found == ends(capacity, classes, whole=False)


@given(some.sampled_from([1.0, 10.0, 33.3, 1e6]), CLASSES)
def test_a_leg_is_what_its_link_does_on_the_calendar(
    capacity: float, classes: list[tuple[int, float, float, int]]
) -> None:
    ordered = sorted(classes, key=lambda each: each[0])
    rows = [each[:3] for each in ordered for _ in range(each[3])]
    began, bits, caps = np.array(rows).T
    order = EventOrder(len(rows))
    events = order.add(began, np.arange(len(rows)), joined=True)
    try:
        over, arrived = pass_link(capacity, LinkLeg(began, bits, caps, events), order)
    except ReactionError:
        return
    each = [(float(begin), b, c, 1) for begin, b, c in rows]  # caps as they are
    seen = ends(capacity, each, whole=False)  # type: ignore[arg-type]
    places = order.places()[arrived]
    assert [(over[n], n) for n in np.argsort(places).tolist()] == seen


def test_a_million_equal_transfers_are_one() -> None:
    count = 1_000_000
    began, bits, caps = (np.full(count, each) for each in (0.5, 1e4, 1e6))
    leg = LinkLeg(began, bits, caps, np.arange(count))
    over, _ = pass_link(1e9, leg, EventOrder(count))
    assert np.unique(over).tolist() == pytest.approx([0.5 + count * 1e4 / 1e9])


WORKERS: list[Any] = [
    LTE,
    {"count": 3, "device": "pi-4", "radio": "wifi-6"},
    {"count": 2, "device": "pi-4"},
]
WITHOUT_WORK: list[Any] = [{"count": 2, "radio": "wifi-6"}, {"count": 4}]


@pytest.mark.parametrize(
    ("fleet", "server"),
    [
        ([*WORKERS, *WITHOUT_WORK], {"uplink": "30 kbit/s"}),
        (WORKERS, {"downlink": "3 kbit/s", "uplink": "100 Mbit/s", "latency": "3 ms"}),
        (WORKERS, {"uplink": "2 Mbit/s", "downlink": "2 Mbit/s"}),
    ],
)
def test_the_files_are_the_same(fleet: Any, server: dict[str, str], tmp_path: Path) -> None:
    """`FairLink` is the law of both; here each way hands it the messages of whole runs."""
    censored = {"kind": "chb", "step_size": "1/L", "momentum": 0.4, "censor": 0.1}
    block = scenario(fleet=fleet, network={"server": server}, algorithm=censored)
    assert not fedsim.check(block).events
    with patch.object(World, "_start_again", side_effect=AssertionError("made again")):
        one, other = both(tmp_path, block)
    assert not _different(one, other)
