"""Spans of clients, time in states and the load of the server's link, from the event log."""

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedsim
from fedsim.results.analysis import STATES, link_load, spans, time_in_states
from fedsim.results.analysis.timeline import IDLE
from tests.results.analysis.lively import lively, log
from tests.tiers import examples

UP = {"event": "send", "peer": "server", "message": "news"}
DOWN = {"event": "send", "node": "server", "message": "model"}
STOP = {"event": "stop", "node": "server"}


@pytest.fixture(scope="module")
def result() -> fedsim.Result:
    return lively(variants={"gd": {"algorithm": {"kind": "gd", "step_size": "1/L"}}})


def states(frame: pd.DataFrame) -> list[tuple[str, str, float, float]]:
    return list(frame[["node", "state", "begin", "end"]].itertuples(index=False, name=None))


# -- spans -----------------------------------------------------------------------------


def test_a_span_ends_where_its_row_stands() -> None:
    events = log(
        {"event": "promotion", "t": 2.0, "duration": 0.5, "joules": 1.0},
        {"event": "receive", "peer": "server", "t": 3.0, "duration": 1.0, "payload_bits": 64},
        {"event": "compute", "t": 7.0, "duration": 4.0},
        {"event": "tail", "t": 8.0, "duration": 5.0},
        {**UP, "t": 9.0, "duration": 1.0, "payload_bits": 3, "header_bits": 2},
        {"event": "receive", "node": "server", "peer": "client-0", "t": 9.0, "duration": 1.0},
        {**STOP, "t": 10.0, "duration": 10.0},
    )
    found = spans(events)
    assert states(found) == [
        ("client-0", "promotion", 1.5, 2.0),
        ("client-0", "download", 2.0, 3.0),
        ("client-0", "compute", 3.0, 7.0),
        ("client-0", "tail", 3.0, 8.0),
        ("client-0", "upload", 8.0, 9.0),
    ]
    assert found["lane"].tolist() == ["radio", "down", "processor", "radio", "up"]
    assert found["bits"].tolist() == [0, 64, 0, 0, 5]
    assert found["message"].tolist()[-1] == "news"
    (times,) = time_in_states(events).set_index("node").to_dict("records")
    assert {state: seconds for state, seconds in times.items() if seconds} == {
        "compute": 4, "upload": 1, "download": 1, "promotion": 0.5, "tail": 1, IDLE: 2.5,
    }  # fmt: skip


def test_what_is_sent_again_follows_the_first_transmission() -> None:
    again = {"event": "retransmit", "peer": "server", "t": 8.0, "transport_bits": 20}
    events = log(
        {**UP, "t": 8.0, "duration": 3.0, "payload_bits": 60},
        {**again, "duration": 1.0},
        {**STOP, "t": 8.0},
    )
    assert states(spans(events)) == [
        ("client-0", "upload", 4.0, 7.0),
        ("client-0", "retransmit", 7.0, 8.0),
    ]
    load = link_load(events)
    assert load.to_numpy().tolist() == [[4.0, 20.0, 0.0], [8.0, 0.0, 0.0]]


def test_who_is_away_at_the_end_is_away_until_then() -> None:
    events = log(
        {"event": "online", "t": 2.0, "duration": 2.0, "round": 0},
        {"event": "depleted", "node": "client-1", "t": 3.0, "round": 0},
        {"event": "offline", "t": 4.0, "round": 0},
        {**STOP, "t": 10.0},
    )
    assert sorted(states(spans(events))) == [
        ("client-0", "offline", 0.0, 2.0),
        ("client-0", "offline", 4.0, 10.0),
        ("client-1", "empty", 3.0, 10.0),
    ]
    times = time_in_states(events).set_index("node")
    assert times["offline"].to_dict() == {"client-0": 8.0, "client-1": 0.0}
    assert times["empty"].to_dict() == {"client-0": 0.0, "client-1": 7.0}


def test_a_download_that_cost_nothing_and_was_lost_took_its_time() -> None:
    lost = {**DOWN, "peer": "client-0", "t": 5.0, "duration": 2.0, "detail": "lost"}
    tail = {"event": "lost", "node": "server", "peer": "client-0", "t": 5.0, "detail": "lost"}
    paid = {"event": "receive", "peer": "server", "t": 5.0, "duration": 2.0, "detail": "lost"}
    for events in (log(lost, tail), log(lost, paid, tail)):
        found = spans(events)
        assert states(found) == [("client-0", "download", 3.0, 5.0)]
        assert found["bits"].tolist() == [0]


def test_a_download_is_one_span_whatever_follows_its_row() -> None:
    sent = {**DOWN, "peer": "client-0", "t": 5.0, "duration": 2.0, "detail": "lost"}
    again = {"event": "retransmit", "node": "server", "peer": "client-0", "t": 5.0, "duration": 0.5}
    got = {
        "event": "receive", "node": "client-0", "peer": "server", "t": 5.0, "duration": 2.0,
        "detail": "lost",
    }  # fmt: skip
    for rows in ((sent,), (sent, again), (sent, again, again), (sent, got), (sent, again, got)):
        found = spans(log(*rows))
        assert list(found["state"]) == ["download"], rows


def test_a_log_of_nothing_has_no_spans() -> None:
    events = log({**STOP, "t": 1.0})
    assert spans(events).empty
    assert time_in_states(events).empty
    assert link_load(events).empty


def test_spans_are_those_of_the_books(result: fedsim.Result) -> None:
    """The client table comes from the ledger, which sums rows without looking at spans."""
    own = spans(result.events)
    own = own.assign(seconds=own["end"] - own["begin"], node=own["node"].astype(str))
    clients = result.clients.rename(columns={"client": "node"}).set_index(KEY)
    table, joules, bits = (
        own.pivot_table(name, KEY, "state", "sum", observed=True).fillna(0.0).loc[clients.index]
        for name in ("seconds", "joules", "bits")
    )
    names = {"upload": "send", "download": "receive"}
    for state in ("compute", "upload", "download", "tail"):
        column = names.get(state, state)
        assert np.allclose(table[state], clients[f"{column}_s"], rtol=1e-9, atol=1e-12)
    for state in ("compute", "upload", "download", "tail", "promotion", "retransmit"):
        column = names.get(state, state)
        assert np.allclose(joules[state], clients[f"{column}_joules"], rtol=1e-9, atol=1e-12)
    for column, state in (("bits_up", "upload"), ("bits_down", "download")):
        np.testing.assert_array_equal(bits[state], clients[column])
    for state, ended in (("offline", "offline_s"), ("empty", "off_s")):
        rows = own[own["state"] == state]
        until = rows[rows["end"] < rows["variant"].map(ends(result)).astype(float)]
        length = until.groupby(KEY, observed=True)["seconds"].sum()
        assert len(length)
        assert np.allclose(length, clients.loc[length.index, ended], rtol=1e-9)


KEY = ["variant", "seed", "node"]


def ends(result: fedsim.Result) -> Any:
    return result.events.groupby("variant", observed=True)["t"].max().to_dict()


def test_nothing_overlaps_within_a_lane(result: fedsim.Result) -> None:
    own = spans(result.events).sort_values(["begin", "end"], kind="stable")
    assert (own["begin"] >= 0).all()
    assert set(own["state"]) == set(STATES)
    for _, lane in own.groupby([*KEY, "lane"], observed=True):
        assert (lane["begin"].to_numpy()[1:] >= lane["end"].to_numpy()[:-1] - 1e-9).all()


def test_several_runs_are_told_apart(result: fedsim.Result) -> None:
    whole = spans(result.events)
    for variant, events in result.events.groupby("variant", observed=True):
        alone = spans(events.drop(columns=["variant", "seed"]))
        own = whole[whole["variant"] == variant].drop(columns=["variant", "seed"])
        for name in ("begin", "end", "state", "lane", "node", "bits", "joules"):
            assert own[name].tolist() == alone[name].tolist()


# -- time in states --------------------------------------------------------------------


def test_time_in_states_adds_up_to_the_run(result: fedsim.Result) -> None:
    times = time_in_states(result.events)
    assert times.columns.tolist() == [*KEY, *STATES, IDLE]
    assert len(times) == len(result.clients)
    sums = times[[*STATES, IDLE]].sum(axis=1)
    assert np.allclose(sums, times["variant"].map(ends(result)).astype(float), rtol=1e-12)
    assert (times[[*STATES, IDLE]] >= 0).all().all()


SPAN = st.tuples(
    st.sampled_from([*STATES]), st.integers(0, 2), st.integers(0, 9), st.integers(0, 5)
)


@examples(40)
@given(st.lists(SPAN, max_size=12))
def test_of_two_states_at_once_the_first_one_counts(drawn: list[tuple[str, int, int, int]]) -> None:
    """Against a count of unit steps; a row of every client says that it is there."""
    rows = [
        {"event": STATES[state][0], "node": f"client-{client}", "t": begin + length,
         "duration": length}
        for state, client, begin, length in sorted(drawn, key=lambda each: each[2] + each[3])
        if state != "retransmit"
    ]  # fmt: skip
    there = [{"event": "sampled", "node": f"client-{client}"} for client in range(3)]
    times = time_in_states(log(*there, *rows, {**STOP, "t": 14.0})).set_index("node")
    expected = np.zeros(times.shape)
    for client, step in product(range(3), range(14)):
        busy = [
            list(STATES).index(state)
            for state, who, begin, length in drawn
            if who == client and begin <= step < begin + length and state != "retransmit"
        ]
        expected[client, min(busy, default=len(STATES))] += 1
    assert times.columns.tolist() == [*STATES, IDLE]
    assert np.allclose(times.to_numpy(), expected)


# -- the load of the link --------------------------------------------------------------


def test_the_load_is_the_sum_of_what_flows() -> None:
    events = log(
        {**DOWN, "peer": "client-0", "t": 2.0, "duration": 2.0, "payload_bits": 10},
        {**DOWN, "t": 3.0, "duration": 2.0, "header_bits": 8},
        {**UP, "t": 5.0, "duration": 4.0, "payload_bits": 4},
        {**UP, "t": 6.0, "duration": 1.0, "payload_bits": 900, "detail": "aborted"},
        {**UP, "t": 6.0, "payload_bits": 900},
    )
    assert link_load(events).to_numpy().tolist() == [
        [0.0, 0.0, 5.0], [1.0, 1.0, 9.0], [2.0, 1.0, 4.0], [3.0, 1.0, 0.0], [5.0, 0.0, 0.0],
    ]  # fmt: skip


def test_the_integral_of_the_load_is_the_bits(result: fedsim.Result) -> None:
    events = result.events[result.events["variant"] == "base"].reset_index(drop=True)
    load = link_load(events)
    assert (np.diff(load["t"]) > 0).all()
    assert (load.iloc[-1][["up", "down"]] == 0).all()
    assert (load[["up", "down"]] >= 0).all().all()
    lasting = np.diff(load["t"])
    bits = events[["payload_bits", "header_bits", "transport_bits"]].sum(axis=1)
    whole = events["event"].isin(["send", "retransmit"]) & (events["duration"] > 0)
    whole &= ~events["detail"].isin(["aborted", "in flight"])
    for name, own in (("down", events["node"] == "server"), ("up", events["node"] != "server")):
        flowed = (load[name].to_numpy()[:-1] * lasting).sum()
        assert flowed == pytest.approx(bits[whole & own].sum(), rel=1e-9)
