"""The auditor can fail: whatever is changed in what a run has left, it notices."""

import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import chdir
from functools import cache
from pathlib import Path

import pytest

import fedsim
from fedsim.scenario import load

from . import noticing
from .auditor import audit
from .dice import Block
from .evidence import Evidence, Row, bits
from .files import GRID

pytestmark = pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")  # much is to be silent

BUSY: Block = {
    "problem": {
        "loss": {"kind": "squared", "l2": 0.1},
        "data": {"kind": "tong", "clients": 4, "rows": 6, "features": 3, "informative": 2},
        "split": {"kind": "groups"},
    },
    "algorithm": {"kind": "chb", "step_size": "0.5/L", "censor": 5},
    "fleet": [
        {"count": 2, "device": "phone-mid", "radio": "lte", "battery": {}, "carbon": "IN"},
        {
            "count": 2,
            "device": "cortex-m4",
            "radio": {"kind": "wifi", "loss": {"kind": "independent", "rate": "30 %"}, "tries": 2},
            "availability": {"kind": "markov", "on": "1 s", "off": "300 ms"},
            "carbon": {"kind": "hourly", "path": "grid.csv", "start": "1 s"},
        },
    ],
    "participation": {"kind": "uniform", "count": 3, "deadline": "0.3 s"},
    "stop": {"rounds": 12},
}
CELLS: Block = BUSY | {"network": {"broadcast": "cell"}, "stop": {"time": "4 s"}}

ABANDONED: Block = BUSY | {
    "fleet": [{"count": 4, "device": "cortex-m4", "radio": BUSY["fleet"][1]["radio"]}],
    "participation": {"kind": "full", "quorum": "80 %", "give_up": "2 s"},
    "stop": {"rounds": 30},
}
IDLE: Block = ABANDONED | {
    "participation": {"kind": "asynchronous", "buffer": 1, "concurrency": 1, "give_up": "0.03 s"},
}


SLOW: Block = BUSY | {
    "fleet": [
        {
            "count": 4,
            "device": {"kind": "custom", "speed": "150 flop/s", "active": "1 W", "idle": "0 W"},
            "radio": "wifi",
            "availability": BUSY["fleet"][1]["availability"],
        }
    ]
}
BEATS: Block = SLOW | {
    "participation": {"kind": "full", "noticed": "heartbeat", "heartbeat": "0.7 s"},
    "stop": {"rounds": 30},
}
WITHOUT_ROUNDS: Block = SLOW | {
    "participation": {"kind": "asynchronous", "noticed": "heartbeat", "heartbeat": "0.7 s"},
    "stop": {"rounds": 60},
}

PEERS: Block = BUSY | {
    "algorithm": {"kind": "d-psgd", "step_size": "0.5/L_max"},
    "network": {"peers": {"kind": "complete"}},
    "fleet": [{"count": 4, "device": "cortex-m4", "radio": BUSY["fleet"][1]["radio"]}],
    "participation": {"kind": "full", "deadline": "0.3 s"},
}


@cache
def evidence(name: str) -> Evidence:
    named = {"busy": BUSY, "cells": CELLS, "abandoned": ABANDONED, "idle": IDLE, "peers": PEERS}
    scenario = (named | {"beats": BEATS, "without rounds": WITHOUT_ROUNDS})[name]
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        Path("grid.csv").write_text("".join(f"{hour},{grams}\n" for hour, grams in GRID))
        (made,) = fedsim.run(scenario, out=Path(folder) / "out").runs
        (variant,) = load(scenario).variants
        return Evidence.of(made, variant.scenario)


worlds = pytest.mark.parametrize("name", ["busy", "cells"])


def with_log(run: Evidence, rows: list[Row]) -> Evidence:
    return Evidence(run.scenario, rows, run.rounds, run.clients, run.summary)


def changed(run: Evidence, row: Row, **values: object) -> Evidence:
    """Return the evidence with one row of its log changed."""
    rows = list(run.events)
    rows[row["seq"]] = row | values
    return with_log(run, rows)


def some(run: Evidence, wanted: Callable[[Row], object], most: int = 30) -> list[Row]:
    """Return rows of the log from its beginning to its end, some of every event."""
    found: list[Row] = []
    for event in {row["event"]: None for row in run.events}:
        rows = [row for row in run.of_kind(event) if wanted(row)]
        found += rows[:: len(rows) * 6 // most + 1]
    assert found
    return found


@worlds
def test_the_evidence_as_it_is_passes(name: str) -> None:
    run = evidence(name)
    assert audit(run) == []
    seen = {row["event"] for row in run.events}
    assert seen >= {"compute", "send", "receive", "lost", "silent", "sampled", "offline", "online"}
    assert seen >= {"round", "exchange", "stop", "promotion", "tail"}


@worlds
def test_no_row_can_be_dropped_even_if_the_others_are_numbered_anew(name: str) -> None:
    matter = {"send", "receive", "lost", "retransmit", "silent", "late", "round", "stop", "compute"}
    run = evidence(name)
    for row in some(run, lambda row: row["event"] in matter):
        rows = run.events[: row["seq"]]
        rows += [later | {"seq": later["seq"] - 1} for later in run.events[row["seq"] + 1 :]]
        assert audit(with_log(run, rows)), row


def test_no_message_among_peers_can_be_dropped_or_made_up() -> None:
    run = evidence("peers")
    assert audit(run) == []
    assert {"send", "receive", "lost", "retransmit", "round"} <= {
        row["event"] for row in run.events
    }
    matter = {"send", "receive", "lost"}
    for row in some(run, lambda row: row["event"] in matter):
        rest = [later | {"seq": later["seq"] - 1} for later in run.events[row["seq"] + 1 :]]
        assert audit(with_log(run, run.events[: row["seq"]] + rest)), row
        rest = [later | {"seq": later["seq"] + 1} for later in run.events[row["seq"] :]]
        assert audit(with_log(run, [*run.events[: row["seq"]], row, *rest])), row


@worlds
@pytest.mark.parametrize("column", ["payload_bits", "header_bits", "transport_bits"])
def test_no_count_of_bits_can_be_changed(name: str, column: str) -> None:
    run = evidence(name)
    for row in some(run, bits):
        assert audit(changed(run, row, **{column: row[column] + 1})), row


@worlds
def test_no_message_and_no_round_can_come_at_another_time(name: str) -> None:
    run = evidence(name)
    moments = {"receive", "round", "late", "stop"}
    for row in some(run, lambda row: row["event"] in moments and row["t"] and not row["detail"]):
        assert audit(changed(run, row, t=row["t"] * (1 - 1e-9))), row


@worlds
def test_no_joule_can_be_added_or_taken(name: str) -> None:
    run = evidence(name)
    for row in some(run, lambda row: row["joules"]):
        assert audit(changed(run, row, joules=1.001 * row["joules"])), row


@worlds
def test_no_gram_can_be_added_or_taken(name: str) -> None:
    run = evidence(name)
    for row in some(run, lambda row: row["grams"]):
        assert audit(changed(run, row, grams=1.001 * row["grams"])), row


@worlds
def test_nobody_who_is_away_can_act(name: str) -> None:
    """Clients come back later than they did, and what they do after that they do while away."""
    run = evidence(name)
    back = [
        row
        for row in run.of_kind("online")
        if any(
            each["node"] == row["node"] for each in run.of_kind("compute") if each["t"] > row["t"]
        )
    ]
    assert back
    for row in back:
        found = audit(changed(run, row, event="evaluate"))
        assert any(text.startswith("presence") for text in found), row


def test_tables_and_summary_cannot_be_changed() -> None:
    run = evidence("busy")
    for column in (
        "cohort",
        "transmissions",
        "beacons",
        "bits_up",
        "bits_down",
        "joules",
        "grams",
        "t",
    ):
        summary = run.summary | {column: run.summary[column] + 1}
        assert audit(Evidence(run.scenario, run.events, run.rounds, run.clients, summary)), column
        rounds = list(run.rounds)
        rounds[3] = rounds[3] | {column: rounds[3][column] + 1}
        assert audit(Evidence(run.scenario, run.events, rounds, run.clients, run.summary)), column
    told = {"client", "group", "device", "radio", "samples", "left_s"}  # the last from no row
    for column in set(run.clients[0]) - told:
        clients = list(run.clients)
        clients[0] = clients[0] | {column: (clients[0][column] or 0) + 1}
        assert audit(Evidence(run.scenario, run.events, run.rounds, clients, run.summary)), column


@pytest.mark.parametrize(
    ("block", "key", "value"),
    [
        ("stop", "rounds", 11),
        ("stop", "time", "1 s"),
        ("stop", "energy", "1 J"),
        ("stop", "bits", "1 kB"),
        ("participation", "deadline", "0.2 s"),
        ("participation", "count", 2),
    ],
)
def test_a_run_of_another_scenario_is_noticed(block: str, key: str, value: object) -> None:
    """The promises are the scenario's: what another one promises, this run does not keep."""
    run = evidence("busy")
    (variant,) = load(BUSY | {block: BUSY[block] | {key: value}}).variants
    assert audit(Evidence(variant.scenario, run.events, run.rounds, run.clients, run.summary))


def test_a_round_that_is_given_up_can_be_nothing_else() -> None:
    run = evidence("abandoned")
    assert audit(run) == []
    given_up = [row for row in run.of_kind("abandoned") if row["round"] > 1]
    assert 1 < len(given_up) < len(run.rounds) - 2
    for row in given_up:
        assert audit(changed(run, row, duration=1.5 * row["duration"]))
        assert audit(changed(run, row, round=row["round"] + 1))
        rounds = [dict(each) for each in run.rounds]
        rounds[row["round"]]["objective"] *= 1.01
        rounds[row["round"]]["gap"] += 0.01 * rounds[row["round"]]["objective"] / 1.01
        found = audit(Evidence(run.scenario, run.events, rounds, run.clients, run.summary))
        assert any(text.startswith("abandoned") for text in found)
        for late in run.of_kind("late"):
            if late["t"] == row["t"]:
                found = audit(changed(run, late, event="evaluate"))
                assert any(text.startswith("abandoned") for text in found)
    (variant,) = load(ABANDONED | {"participation": {"kind": "full", "give_up": "1 s"}}).variants
    assert audit(Evidence(variant.scenario, run.events, run.rounds, run.clients, run.summary))


def test_a_round_in_which_nobody_is_asked_begins_where_the_last_one_ended() -> None:
    run = evidence("idle")
    assert audit(run) == []
    asked = {row["round"] for row in run.of_kind("exchange")}
    alone = [row for row in run.of_kind("abandoned") if row["round"] not in asked]
    assert alone
    for row in alone:
        assert audit(changed(run, row, duration=1.5 * row["duration"]))


@pytest.mark.parametrize(
    ("name", "check", "beats"),
    [("beats", "closings", (0.1, 0.65, 0.9, 30.0)), ("without rounds", "at_work", (0.65, 30.0))],
)
def test_a_server_that_notices_at_another_time_is_found(
    name: str, check: str, beats: tuple[float, ...]
) -> None:
    """The promise is the policy's: this run keeps that of no other beat."""
    run = evidence(name)
    assert audit(run) == []
    for seconds in beats:
        policy = run.scenario.participation.model_copy(update={"heartbeat": seconds})
        scenario = run.scenario.model_copy(update={"participation": policy})
        found = audit(Evidence(scenario, run.events, run.rounds, run.clients, run.summary))
        assert [text for text in found if text.startswith(f"{check}: ")], seconds


def test_no_round_can_end_later_than_the_last_reply_that_it_waits_for() -> None:
    run = evidence("beats")
    closing = {(row["round"], row["t"]) for row in run.of_kind("round")}
    arrived = [row for row in run.of_kind("receive") if row["node"] == "server"]
    alone = Counter(row["t"] for row in arrived)
    last = [row for row in arrived if (row["round"], row["t"]) in closing and alone[row["t"]] == 1]
    assert last
    for row in last:
        found = noticing.closings(changed(run, row, t=row["t"] * (1 - 1e-6)))
        assert any(f"round {row['round']}," in text for text in found)
