"""What clients wait for: a log by hand, sums that are the whole run, and a plain walk."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from fedsim.results.analysis import (
    CAUSES,
    Log,
    example_log,
    spans,
    time_in_states,
    waiting_by_cause,
)
from tests.results.analysis.lively import lively
from tests.results.analysis.lively import log as by_hand
from tests.results.analysis.logs import random_logs, rows, runs

WORLDS = range(1, 21)


@pytest.fixture(scope="module")
def logs() -> list[Log]:
    found = lively()
    return [example_log(), Log(found.events, found.rounds, found.clients), *random_logs(WORLDS)]


@pytest.mark.slow
def test_waits_work_and_absence_are_the_whole_run(logs: list[Log]) -> None:
    for log in logs:
        found, states = waiting_by_cause(log.events), time_in_states(log.events)
        assert found["client"].tolist() == states["node"].tolist()
        parts = found[[*CAUSES, "busy", "away"]].to_numpy(np.float64)
        length = states.select_dtypes("float").sum(axis=1)
        assert (parts >= 0).all()
        assert np.allclose(parts.sum(axis=1), length, rtol=1e-9, atol=1e-9)
        assert found["radio"].tolist() == states["promotion"].tolist()
        assert found["away"].tolist() == (states["empty"] + states["offline"]).tolist()


def test_a_client_waits_for_what_comes_next() -> None:
    end = {"node": "server", "peer": None}
    bits = {"payload_bits": 60}
    up = {"peer": "server", "message": "news", **bits}
    down = {"event": "receive", "peer": "server", **bits}
    sent = {"event": "send", "node": "server", "peer": "client-0", **bits}
    events = by_hand(
        {"event": "exchange", **end, "t": 1.0},  # 1 s for the server
        {"event": "promotion", "t": 3.0, "duration": 2.0},  # 2 s for the radio
        {**sent, "t": 5.0, "duration": 1.0},
        {**down, "t": 5.0, "duration": 1.0},  # 1 s for the link, after the promotion
        {"event": "compute", "t": 7.0, "duration": 2.0},
        {"event": "tail", "t": 7.5, "duration": 2.5},  # 0.5 s for the link, in a tail
        {"event": "send", **up, "t": 9.5, "duration": 2.0},  # 30 bit/s, its highest rate
        {"event": "receive", "node": "server", "peer": "client-0", **bits, "t": 9.5},
        {"event": "round", **end, "t": 13.0},  # 3.5 s for the close
        {"event": "exchange", **end, "t": 14.0},  # that does not ask this client
        {"event": "round", **end, "t": 16.0},
        {"event": "exchange", **end, "t": 17.0},  # 4 s for the server
        {**sent, "t": 20.5, "duration": 3.0},  # 0.5 s for the link, 2 s more than at 60 bit/s
        {**down, "t": 20.5, "duration": 3.0},
        {"event": "send", **up, "t": 23.5, "duration": 3.0},  # 1 s more than at 30 bit/s
        {"event": "round", **end, "t": 24.0},  # 0.5 s for the close
        {"event": "stop", **end, "t": 24.5},  # 0.5 s for a server that asks no more
    )
    (found,) = rows(waiting_by_cause(events))
    assert found == {
        "client": "client-0", "server": 5.5, "radio": 2.0, "link": 2.0, "share": 3.0, "close": 4.0,
        "busy": 8.0, "away": 0.0,
    }  # fmt: skip


@pytest.mark.slow
def test_waits_are_those_of_a_plain_walk_over_the_log(logs: list[Log]) -> None:
    """From border to border of a client's spans, one after the other; times alone decide."""
    for log in logs:
        found = {
            (row["variant"], row["seed"], row["client"]): row
            for row in rows(waiting_by_cause(log.events))
        }
        for (variant, seed), own in runs(log.events):
            cuts = {
                name: own.loc[own["event"] == name, "t"].tolist() for name in ("exchange", "round")
            }
            length = float(own["t"].max())
            for client, mine in spans(own).groupby("node", observed=True):
                row, walked = found[variant, seed, client], _walk(rows(mine), cuts, length)
                for cause, seconds in walked.items():
                    assert row[cause] == pytest.approx(seconds, rel=1e-9, abs=1e-9)


def _walk(
    mine: list[dict[str, Any]], cuts: dict[str, list[float]], length: float
) -> dict[str, float]:
    """Return the seconds of one client by cause.

    Args:
        mine: the client's spans.
        cuts: the times at which exchanges were opened and rounds committed.
        length: of the run, s.
    """
    seconds = dict.fromkeys(("server", "radio", "link", "close"), 0.0)
    transfers = [row for row in mine if row["state"] in {"upload", "retransmit", "download"}]
    times = {0.0, length, *cuts["exchange"], *cuts["round"]}
    times |= {row[name] for row in mine for name in ("begin", "end")}
    for begin, end in pairwise(sorted(times)):
        there = {row["state"] for row in mine if row["begin"] <= begin and row["end"] >= end}
        if not there - {"promotion", "tail"}:
            cause = "radio" if "promotion" in there else _cause(begin, end, transfers, cuts)
            seconds[cause] += end - begin
    return seconds


def _cause(
    begin: float, end: float, transfers: list[dict[str, Any]], cuts: dict[str, list[float]]
) -> str:
    """Return what a client waits for that does nothing from `begin` to `end`."""
    later = [row for row in transfers if row["begin"] >= end]
    # What begins in one instant may differ by rounding: of these, what was logged first.
    earliest = min((row["begin"] for row in later), default=0.0) + 1e-9
    following = next((row for row in later if row["begin"] <= earliest), None)
    if following and following["state"] != "download":
        return "link"
    last = max((row["end"] for row in transfers if row["end"] <= begin), default=None)
    if last is not None and not any(last <= time <= begin for own in cuts.values() for time in own):
        return "close"
    if following and not cuts["exchange"]:  # peers wait for no server
        return "link"
    opened = [time for time in cuts["exchange"] if following and time <= following["begin"]]
    return "link" if opened and opened[-1] <= begin else "server"
