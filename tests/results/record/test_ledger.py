"""The ledger finds what does not add up, and passes what does."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedsim.core.errors import AuditError
from fedsim.results.record.client_table import client_table
from fedsim.results.record.ledger import Ledger, Meters, Stores
from fedsim.results.record.log import Rows
from fedsim.results.record.schema import ROW_DTYPE, Event
from tests.tiers import every

# t, duration, event, node, peer, round, message, payload, header, transport, joules, charge, detail
ROWS: list[tuple[Any, ...]] = [
    (1.0, 0.5, Event.SEND, -1, 0, 1, 0, 100, 20, 0, 0.0, np.nan, -1),
    (1.0, 0.5, Event.RECEIVE, 0, -1, 1, 0, 100, 20, 0, 0.25, np.nan, -1),
    (2.0, 1.0, Event.COMPUTE, 0, -2, 1, -1, 0, 0, 0, 2.0, np.nan, -1),
    (2.5, 0.5, Event.SEND, 0, -1, 1, 1, 0, 20, 0, 0.5, np.nan, -1),
    (2.5, 0.5, Event.RECEIVE, -1, 0, 1, 1, 0, 20, 0, 0.0, np.nan, -1),
    (2.5, 2.5, Event.ROUND, -1, -2, 1, -1, 0, 0, 0, 7.5, np.nan, -1),
    (3.0, 0.0, Event.SEND, 1, -1, 1, 1, 64, 20, 0, 0.125, np.nan, 0),
    (3.0, 0.5, Event.STOP, -1, -2, 1, -1, 0, 0, 0, 1.5, np.nan, 1),
]
METERS = Meters(
    bits_sent=224,
    bits_delivered=140,
    bits_heard=140,
    bits_lost=0,
    bits_in_flight=84,
    joules=np.array([2.75, 0.125]),
    idle_joules=np.array([6.0, 3.0]),
)


NOTHING_HERE = (
    *("lost", "skipped", "bits_again", "tail_s", "offline_s", "off_s", "left_s"),
    *("retransmit_joules", "promotion_joules", "tail_joules"),
    *("initial_joules", "charged_joules", "drained_joules", "final_joules", "depletions"),
)
"""The columns of what does not happen in these rows."""


def rows(content: list[tuple[Any, ...]] = ROWS) -> Rows:
    table = np.zeros(len(content), dtype=ROW_DTYPE)
    unread = {"peer_joules", "operations", "samples"}
    names = [name for name in ROW_DTYPE.names or () if name not in unread]
    for name, column in zip(names, zip(*content, strict=True), strict=True):
        table[name] = column
    return table


def ledger(*chunks: Rows) -> Ledger:
    filled = Ledger(2)
    for chunk in chunks:
        filled.absorb(chunk)
    return filled


def test_books_that_add_up_pass() -> None:
    ledger(rows()).audit(METERS)


def test_chunks_do_not_matter() -> None:
    ledger(rows(ROWS[:1]), rows(ROWS[1:5]), rows(ROWS[5:])).audit(METERS)


@pytest.mark.parametrize("alike", [False, True])
def test_sums_are_those_of_a_loop_over_rows(alike: bool) -> None:
    """Bit by bit, where clients follow each other with one row each, and in any order.

    Sums of a chunk are taken in the order of its rows, and then added to those before it.
    """
    rng, clients, events = np.random.default_rng(3), 9, [Event.SEND, Event.COMPUTE, Event.TAIL]
    filled = Ledger(clients)
    expected: dict[tuple[Event, int], list[float]] = {}
    for chunk in range(4):
        every = list(range(-1, clients))
        nodes = [*every, -1, -1] if alike else rng.choice(every, 60).tolist() + every
        told = [
            (
                *(chunk, rng.uniform(), event, node, -2, 1, 0),
                *(int(rng.integers(3)), 7, 1, rng.uniform(), np.nan, -1),
            )
            for event in events
            for node in nodes
        ]
        filled.absorb(rows(told))
        own: dict[tuple[Event, int], list[float]] = {}
        for _, seconds, event, node, _, _, _, payload, header, transport, joules, _, _ in told:
            sums = own.setdefault((event, node), [0.0] * 5)
            for at, value in enumerate((joules, seconds, payload + header + transport, 1)):
                sums[at] += value
            sums[4] += payload > 0
        for key, added in own.items():
            kept = expected.setdefault(key, [0.0] * 5)
            expected[key] = [one + other for one, other in zip(kept, added, strict=True)]
    for event in events:
        spent = [expected[event, node][0] for node in range(-1, clients)]
        assert filled.joules[event].tolist() == spent
    for at, what in ((1, "seconds"), (2, "bits"), (3, "count"), (4, "payload_count")):
        sums = [expected[Event.SEND, node][at] for node in range(clients)]
        assert filled.of(what, Event.SEND).tolist() == sums


def test_there_is_room_for_nodes_that_come_later() -> None:
    """Each client spends its number of joules twice, and most are not in the first chunk."""
    clients = 100
    once = [
        (1.0, 1.0, Event.COMPUTE, n, -2, 1, -1, 0, 0, 0, float(n), np.nan, -1)
        for n in range(clients)
    ]
    filled = Ledger(clients)
    for first in range(0, clients, 10):
        filled.absorb(rows(once[first : first + 10]))
    filled.absorb(rows(once))
    spent = 2 * np.arange(clients, dtype=np.float64)
    filled.audit(Meters(0, 0, 0, 0, 0, spent, np.zeros(clients)))


@every(
    ("meters", "named"),
    [
        (replace(METERS, bits_sent=225), "bits sent"),
        (replace(METERS, bits_in_flight=83), "in flight"),
        (replace(METERS, bits_delivered=139), "delivered"),
        (replace(METERS, bits_heard=139), "receive rows"),
        (replace(METERS, bits_lost=1), "lost rows"),
        (replace(METERS, joules=np.array([2.75, 0.126])), "joules of client-1"),
        (replace(METERS, joules=np.array([2.75 * (1 + 1e-8), 0.125])), "joules of client-0"),
        (replace(METERS, idle_joules=np.array([6.0, 2.0])), "idle joules"),
    ],
)
def test_every_meter_that_disagrees_is_named(meters: Meters, named: str) -> None:
    with pytest.raises(AuditError, match=named):
        ledger(rows()).audit(meters)


@every("missing", [0, 1, 2, 3, 4, 5, 6, 7])
def test_every_missing_row_is_found(missing: int) -> None:
    with pytest.raises(AuditError):
        ledger(rows(ROWS[:missing] + ROWS[missing + 1 :])).audit(METERS)


@pytest.mark.parametrize("cut", [None, 4])
def test_time_that_runs_back_is_found_within_a_chunk_and_between_two(cut: int | None) -> None:
    shuffled = [*ROWS[4:], *ROWS[:4]]
    chunks = [rows(shuffled)] if cut is None else [rows(shuffled[:cut]), rows(shuffled[cut:])]
    with pytest.raises(AuditError, match=r"time runs back from 3\.0 to 1\.0"):
        ledger(*chunks).audit(METERS)


def test_no_row_is_from_before_the_start() -> None:
    early = [(-0.5, *ROWS[0][1:]), *ROWS[1:]]
    with pytest.raises(AuditError, match=r"time runs back from 0\.0 to -0\.5"):
        ledger(rows(early)).audit(METERS)


def test_the_client_table_says_who_did_and_spent_what() -> None:
    table = client_table(ledger(rows()), {"device": ["a", "b"]}, METERS)
    first, second = table.to_dict("records")
    assert all(not first[name] or pd.isna(first[name]) for name in NOTHING_HERE)
    assert {name: first[name] for name in first if name not in NOTHING_HERE} == {
        "client": "client-0", "device": "a", "transmissions": 0, "beacons": 1, "silent": 0,
        "late": 0, "bits_up": 20, "bits_down": 120, "compute_s": 1.0, "send_s": 0.5,
        "receive_s": 0.5, "compute_joules": 2.0, "send_joules": 0.5, "receive_joules": 0.25,
        "idle_joules": 6.0, "joules": 8.75,
    }  # fmt: skip
    assert (second["transmissions"], second["beacons"], second["joules"]) == (1, 0, 3.125)
    assert table["joules"].sum() == pytest.approx(METERS.joules.sum() + METERS.idle_joules.sum())


def store(**changes: Any) -> Meters:
    """The meters of these rows, where client 1 has a battery that has given what it spent."""
    one = {
        "initial": 9.0,
        "final": 6.5,
        "charged": 1.5,
        "drained": 4.0,
        "delivered": 3.125,
        "settled": 0.0,
        "resolution": 0.0,
    } | changes
    arrays = {name: np.array([value]) for name, value in one.items()}
    return replace(METERS, stores=Stores(np.array([1]), depletions=np.array([0]), **arrays))


def differences(meters: Meters) -> list[str]:
    try:
        ledger(rows()).audit(meters)
    except AuditError as error:
        return str(error).removeprefix("the ledger does not add up: ").split("; ")
    return []


@every(
    ("changes", "named"),
    [
        ({}, ""),
        ({"final": 6.4}, "initial + charged - drained against what is in store"),
        ({"charged": 1.4}, "initial + charged - drained against what is in store"),
        ({"drained": 3.9, "final": 6.5}, "initial + charged - drained against what is in store"),
        ({"delivered": 3.0}, "joules of the battery against the log"),
        ({"settled": 0.5}, "joules of meters against powers and the clock"),
        ({"settled": 0.5, "resolution": 0.4}, "joules of meters against powers and the clock"),
        ({"settled": 0.5, "resolution": 0.5}, ""),  # the clock explains all of it
        ({"resolution": 0.5}, ""),  # and may explain more than there is
    ],
)
def test_the_books_of_a_battery_are_held_against_the_log_and_the_clock(
    changes: dict[str, float], named: str
) -> None:
    found = differences(store(**changes))
    assert len(found) == (1 if named else 0)
    assert not named or found[0].startswith(f"{named}, client-1: ")


@every("share", [0.5, 2.0])
@every("joules", [1e-6, 1.0, 1e6])
def test_rounding_is_relative_to_what_was_in_store_came_in_and_went_out(
    share: float, joules: float
) -> None:
    """Far more may pass through a battery than it holds: that sets what rounding may cost."""
    slack = share * 1e-9 * (joules + joules + 4.0)
    through = {"initial": joules, "charged": joules, "drained": 4.0}
    final = joules + joules - 4.0 - slack
    found = differences(store(**through, final=final))
    assert bool(found) == (share > 1)
