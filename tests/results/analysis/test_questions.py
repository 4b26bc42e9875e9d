"""Questions of the log: laws on random worlds, plain recounts, and errors that name columns."""

import re
from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedsim
from fedsim.core.errors import DataError
from fedsim.results.analysis import (
    Log,
    battery_deaths,
    bits_by_layer,
    bits_by_message,
    client_utilisation,
    cost_to_target,
    critical_path,
    deciding_clients,
    energy_parts,
    example_log,
    fairness,
    gini,
    idle_and_tail,
    jain,
    link_utilisation,
    lost_messages,
    participation,
    round_outcomes,
    server_queue,
    silences,
    speedup,
    staleness,
    stragglers,
)
from fedsim.results.analysis.log.frames import covered
from fedsim.results.analysis.log.rounds import STAGES
from tests.results.analysis.example_log import tables
from tests.results.analysis.lively import lively
from tests.results.analysis.lively import log as by_hand
from tests.results.analysis.logs import random_logs, rows, runs

WORLDS = range(1, 16)
BITS = ["payload_bits", "header_bits", "transport_bits"]
AMOUNTS = st.lists(st.floats(0, 1e12), min_size=1, max_size=30)


@pytest.fixture(scope="module")
def logs() -> list[Log]:
    found = lively()
    return [example_log(), Log(found.events, found.rounds, found.clients), *random_logs(WORLDS)]


@pytest.mark.slow
def test_the_example_is_what_its_scenario_gives() -> None:
    for name, made in tables().items():
        both = [made, getattr(example_log(), name)]
        if name == "events":
            both = [table.assign(detail=table["detail"].map(without_optimum)) for table in both]
        pd.testing.assert_frame_equal(both[0], both[1], check_categorical=False, rtol=1e-9)


def without_optimum(detail: Any) -> Any:
    """A row's text but for the optimum's last digits, which hang on the processor's kernels."""
    return re.sub(r"(optimum \S{12})\S* (.*), gradient norm .*", r"\1 \2", str(detail))


@pytest.mark.slow
def test_bits_by_message_and_layer_are_the_bits_that_were_charged(logs: list[Log]) -> None:
    for log in logs:
        own = log.events[log.events["event"].isin(["send", "retransmit"])]
        by_message, by_layer = bits_by_message(log.events), bits_by_layer(log.events)
        whole = int(own[BITS].to_numpy().sum())
        assert by_message["bits"].sum() == by_layer["bits"].sum() == whole
        assert by_message["messages"].sum() == (own["event"] == "send").sum()
        from_clients = by_message[by_message["direction"] != "down"]
        first = from_clients["bits"].sum() - from_clients["retransmitted_bits"].sum()
        assert first == log.clients["bits_up"].sum()
        assert from_clients["retransmitted_bits"].sum() == log.clients["bits_again"].sum()
        shares = by_layer.groupby(["variant", "seed", "direction"], observed=True)["share"].sum()
        assert np.allclose(shares, 1) or not whole


def test_messages_are_counted_as_a_plain_loop_counts_them() -> None:
    events = example_log().events
    counts, again = Counter[Any](), Counter[Any]()
    for row in rows(events):
        down = row["node"] == "server"
        key = row["variant"], row["seed"], row["peer" if down else "node"], "down" if down else "up"
        if row["event"] == "send":
            counts[key] += 1
            counts[*key, row["detail"]] += 1
        if row["event"] == "retransmit":
            again[key] += sum(row[name] for name in BITS)
    table = lost_messages(events)
    assert len(table) == sum(len(key) == 4 for key in counts)
    for row in rows(table):
        key = row["variant"], row["seed"], row["client"], row["direction"]
        assert row["messages"] == counts[key]
        assert row["lost"] == counts[*key, "lost"]
        assert row["retransmitted_bits"] == again[key]
    assert table["lost"].sum() == (events["event"] == "lost").sum() > 0


@pytest.mark.slow
def test_littles_law_holds_and_shares_are_shares(logs: list[Log]) -> None:
    for log in logs:
        found = server_queue(log.events).dropna()
        assert np.allclose(found["mean_in_progress"], found["rate"] * found["mean_s"], rtol=1e-9)
        assert found["busy"].between(0, 1).all()
        assert (found["busy"] <= found["mean_in_progress"] * (1 + 1e-9)).all()
        assert (found["mean_in_progress"] <= found["most_in_progress"] * (1 + 1e-9)).all()
        shares = idle_and_tail(log.events, log.clients).filter(regex="_(time|energy)$").to_numpy()
        assert ((shares >= 0) & (shares <= 1 + 1e-9) | np.isnan(shares)).all()


@pytest.mark.slow
def test_parts_of_energy_are_the_joules_of_the_ledger(logs: list[Log]) -> None:
    for log in logs:
        for by in (["variant", "seed"], ["variant", "seed", "device"], ["variant", "client"]):
            parts = energy_parts(log.clients, by).to_numpy().sum()
            assert parts == pytest.approx(log.events["joules"].sum(), rel=1e-9)


@pytest.mark.slow
def test_outcomes_and_participation_count_every_round_once(logs: list[Log]) -> None:
    for log in logs:
        ended = {key: own["round"].max() for key, own in runs(log.rounds)}
        found = round_outcomes(log.events)
        assert not found.duplicated(["variant", "seed", "round", "client"]).any()
        for row in rows(participation(log.events)):
            names = ("no_message", "replied", "silent", "late", "lost", "skipped")
            assert sum(row[name] for name in names) == ended.get((row["variant"], row["seed"]), 0)
            assert row["no_message"] >= 0


def test_spells_of_silence_have_the_silent_rounds() -> None:
    events = lively(stop={"rounds": 12}).events
    found = silences(events)
    spells = {
        (row["client"], number)
        for row in rows(found)
        for number in range(row["first"], row["last"] + 1)
    }
    own = events[events["event"] == "silent"]
    assert spells == set(zip(own["node"], own["round"], strict=True))
    assert spells
    assert not {(row["client"], row["last"] + 1) for row in rows(found)} & spells  # none goes on


@pytest.mark.slow
def test_staleness_counts_the_rounds_in_between(logs: list[Log]) -> None:
    stale = 0
    for log in logs:
        ages = defaultdict[Any, list[int]](list)
        for key, own in runs(log.events):
            committed = 0
            for row in rows(own):
                committed += row["event"] == "round"
                if row["event"] == "receive" and row["node"] == "server":
                    ages[*key, row["peer"]].append(max(committed - row["round"] + 1, 0))
        table = staleness(log.events)
        assert len(table) == len(ages)
        for row in rows(table):
            own_ages = ages[row["variant"], row["seed"], row["client"]]
            assert (row["replies"], row["most"]) == (len(own_ages), max(own_ages))
            assert row["fresh"] == own_ages.count(0)
            assert row["mean"] == pytest.approx(np.mean(own_ages))
            stale += row["most"] > 0
    assert stale  # some of these servers are asynchronous


@pytest.mark.slow
def test_deaths_of_batteries_are_their_depletions(logs: list[Log]) -> None:
    for log in logs:
        found = battery_deaths(log.events)
        assert len(found) == log.clients["depletions"].sum()
        off = found[found["recovered"]]["off_s"].sum()
        assert off == pytest.approx(log.clients["off_s"].sum(), rel=1e-9, abs=1e-9)


@given(AMOUNTS)
def test_jain_and_gini_are_what_their_definitions_say(amounts: list[float]) -> None:
    count, whole = len(amounts), sum(amounts)
    assert 1 / count - 1e-12 <= jain(amounts) <= 1 + 1e-12
    assert 0 <= gini(amounts) <= (count - 1) / count + 1e-12
    if whole > 1e-100:
        differences = sum(abs(one - other) for one in amounts for other in amounts)
        assert gini(amounts) == pytest.approx(differences / (2 * count * whole), abs=1e-9)
        shares = [amount / whole for amount in amounts]
        assert jain(amounts) == pytest.approx(1 / (count * sum(each**2 for each in shares)))


def test_fairness_is_of_each_run() -> None:
    clients = example_log().clients
    found = fairness(clients)
    for row, (_, own) in zip(rows(found), runs(clients), strict=True):
        assert row["jain"] == jain(own["joules"])
        assert row["most"] == row["top_tenth"] * own["joules"].sum() == own["joules"].max()
    with pytest.raises(ValueError, match="below 0"):
        jain([1.0, -1.0])


@given(st.lists(st.tuples(st.integers(0, 2), st.floats(0, 9), st.floats(0, 5)), max_size=12))
def test_covered_time_is_that_of_the_union(spans: list[tuple[int, float, float]]) -> None:
    owners = np.array([owner for owner, _, _ in spans], dtype=np.intp)
    begins = np.array([begin for _, begin, _ in spans])
    ends = np.array([begin + length for _, begin, length in spans])
    found = covered(owners, begins, ends, 3)
    for owner in range(3):
        times = np.unique(np.concatenate([begins, ends]))
        seconds = 0.0
        for begin, end in pairwise(times):
            inside = (owners == owner) & (begins <= begin) & (ends >= end)
            seconds += (end - begin) * bool(inside.any())
        assert found[owner] == pytest.approx(seconds, abs=1e-9)


def test_a_variant_is_as_fast_as_itself_and_a_speed_up_is_the_ratio_of_its_costs() -> None:
    seeds, fast, slow = range(1, 7), "fast", "slow"
    table = [
        {"variant": name, "seed": seed, "round": 1, "t": time * seed, "gap": 0.5}
        for name, time in ((slow, 6.0), (fast, 2.0))
        for seed in seeds
    ]
    costs = dict.fromkeys(("transmissions", "beacons", "bits_up", "bits_down", "joules"), 1)
    rounds = pd.DataFrame(table).assign(**costs)
    found = speedup(rounds, 1.0, against=slow).set_index("variant")
    assert found["speedup"].tolist() == pytest.approx([1, 3])
    assert found["seeds"].tolist() == [6, 6]
    rounds["t"] *= np.linspace(1, 1.5, len(rounds))
    (own, other) = rows(speedup(rounds, 1.0, against=slow))
    assert own["speedup"] == 1
    assert other["low"] < other["speedup"] < other["high"]
    with pytest.raises(DataError, match="got 'none'; expected one of slow, fast"):
        speedup(rounds, 1.0, against="none")


def test_a_missing_column_is_named_with_the_source_of_such_a_table() -> None:
    log = example_log()
    with pytest.raises(DataError) as caught:
        bits_by_message(log.events.drop(columns=["peer", "message"]))
    assert str(caught.value) == (
        "the table has no columns peer, message; expected the event log of runs: `Result.events`,"
        " or events.parquet of a run's folder"
    )
    with pytest.raises(DataError, match="no column joules; expected the client table of runs"):
        fairness(log.clients.drop(columns="joules"))
    with pytest.raises(DataError, match="expected the round table of runs"):
        speedup(log.clients, 1.0, against="gd")
    with pytest.raises(DataError, match="no columns seed, joules; expected the round table"):
        cost_to_target(log.rounds.drop(columns=["seed", "joules"]), 1.0)
    with pytest.raises(DataError, match="no columns radius, tail_joules; expected the client"):
        energy_parts(log.clients.drop(columns="tail_joules"), ["radius"])


def test_one_run_alone_needs_no_columns_of_runs() -> None:
    events = example_log().events
    own = events[(events["variant"] == "gd") & (events["seed"] == 1)]
    alone = bits_by_message(own.drop(columns=["variant", "seed"]))
    assert "variant" not in alone
    assert alone["bits"].tolist() == bits_by_message(own)["bits"].tolist()


@pytest.mark.slow
def test_the_parts_of_a_critical_path_are_the_duration_of_the_round(logs: list[Log]) -> None:
    for log in logs:
        found = critical_path(log.events)
        stages = found[list(STAGES)].to_numpy(np.float64)
        durations = found["duration"].to_numpy(np.float64)
        assert (stages >= 0).all()
        assert np.allclose(stages.sum(axis=1), durations, rtol=1e-9, atol=1e-12)
        assert found["round"].tolist() == log.rounds.query("round > 0")["round"].tolist()
        decided = deciding_clients(log.events)
        assert decided["decided"].sum() <= len(found)
        assert decided["seconds"].sum() <= durations.sum() * (1 + 1e-9)


def test_a_path_runs_back_from_the_last_reply() -> None:
    end = {"node": "server", "peer": None}
    reply = {"message": "news", "duration": 2.0}
    events = by_hand(
        {"event": "exchange", **end},
        {"event": "receive", "node": "client-0", "peer": "server", "t": 3.0, "duration": 1.0},
        {"event": "compute", "t": 7.0, "duration": 4.0},
        {"event": "send", "peer": "server", "t": 10.0, **reply},
        {"event": "receive", "node": "server", "peer": "client-0", "t": 10.0, **reply},
        {"event": "round", **end, "t": 12.0},
        {"event": "round", **end, "t": 13.0, "round": 2},
    )
    one, two = rows(critical_path(events))
    assert one == {
        "round": 1, "client": "client-0", "tied": 1, "duration": 12.0, "before_download": 2.0,
        "download": 1.0, "work": 5.0, "upload": 2.0, "transit": 0.0, "after": 2.0,
    }  # fmt: skip
    assert (two["client"], two["tied"], two["after"], two["duration"]) == (None, 0, 1.0, 1.0)
    assert deciding_clients(events)["decided"].tolist() == [0]  # a deadline decided both rounds


def test_clients_that_tie_share_what_they_decided() -> None:
    """The order of rows of one instant gives no client the whole round."""
    end = {"node": "server", "peer": None}

    def arrives(client: int, t: float, number: int = 1) -> dict[str, Any]:
        name = f"client-{client}"
        return {"event": "receive", "node": "server", "peer": name, "t": t, "round": number}

    events = by_hand(
        *(arrives(client, 2.0) for client in (2, 0, 1)),
        {"event": "round", **end, "t": 2.0},
        arrives(0, 4.0, 2),
        arrives(1, 5.0, 2),
        {"event": "round", **end, "t": 5.0, "round": 2},
        *(arrives(client, 6.0, 3) for client in (0, 1)),
        {"event": "round", **end, "t": 9.0, "round": 3},  # a deadline
    )
    decided = deciding_clients(events).set_index("client")
    assert decided["decided"].tolist() == pytest.approx([1 / 3, 4 / 3, 1 / 3])
    assert decided["seconds"].tolist() == pytest.approx([2 / 3, 2 / 3 + 3, 2 / 3])
    assert decided["tied"].tolist() == [1, 1, 1]
    assert decided["share"].sum() == pytest.approx(2 / 3)
    assert critical_path(events)["tied"].tolist() == [3, 1, 2]
    assert stragglers(events).set_index("client")["last"].to_dict() == {
        "client-0": 2, "client-1": 3, "client-2": 1,
    }  # fmt: skip


@pytest.mark.slow
def test_the_six_phones_of_the_censoring_study_share_every_round_of_gradient_descent() -> None:
    result = fedsim.run(
        "censoring", overrides=["variants={}", "algorithm={kind: gd, step_size: 1/L}"]
    )
    decided = deciding_clients(result.events).set_index("client")
    number = result.summary["rounds"].item()
    assert decided["decided"].tolist() == pytest.approx([number / 6] * 6 + [0] * 4)
    assert decided["tied"].tolist() == [number] * 6 + [0] * 4


def test_stragglers_are_counted_as_a_plain_loop_counts_them() -> None:
    events = example_log().events
    seconds = defaultdict[Any, list[float]](list)
    for key, own in runs(events):
        waiting, begin = list[tuple[Any, float]](), 0.0
        for row in rows(own):
            if row["event"] == "receive" and row["node"] == "server":
                waiting.append((row["peer"], row["t"] - begin))
            if row["event"] == "round":
                for client, time in waiting:
                    seconds[*key, client].append(time)
                waiting, begin = [], row["t"]
    found = rows(stragglers(events))
    assert len(found) == len(seconds)
    for row in found:
        own_seconds = seconds[row["variant"], row["seed"], row["client"]]
        assert row["replies"] == len(own_seconds)
        assert row["mean_s"] == pytest.approx(np.mean(own_seconds))
        assert row["longest_s"] == max(own_seconds)


@pytest.mark.slow
def test_utilisation_is_a_share_and_links_carry_all_bits(logs: list[Log]) -> None:
    for log in logs:
        links, clients = link_utilisation(log.events), client_utilisation(log.events)
        assert links["busy"].dropna().between(0, 1).all()
        assert clients["busy"].dropna().between(0, 1).all()
        sent = log.events[log.events["event"].isin(["send", "retransmit"])]
        carried = links.loc[links["direction"] == "out", "bits"].sum()
        assert carried == sent[BITS].to_numpy().sum()
