"""FedScale's and FLASH's traces: clients are there when the files say, again and again."""

import json
import pickle
from datetime import datetime, timedelta
from functools import partial
from itertools import takewhile
from operator import gt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedsim
from fedsim.core.errors import DataError
from fedsim.physics.formats.availability import Cycle, Users, read_states
from fedsim.physics.formats.fleets import Capacity, read_capacities, read_presence
from tests.tiers import every

RNG = np.random.default_rng(0)


def there(law: Any, t: float) -> bool:
    """Return whether a client is there, by its timeline."""
    online, toggles = law.timeline(RNG)
    count = sum(1 for _ in takewhile(lambda each: each <= t, toggles))
    return bool(online) ^ (count % 2 == 1)


def dumped(folder: Path, tree: Any) -> Path:
    path = folder / "trace"
    path.write_bytes(pickle.dumps(tree))
    return path


@given(
    st.lists(st.integers(0, 40), min_size=2, max_size=12, unique=True),
    st.integers(1, 20),
    st.integers(0, 100),
    st.integers(0, 400),
)
def test_a_cycle_is_there_when_its_place_in_the_period_is(
    edges: list[int], more: int, offset: int, half_seconds: int
) -> None:
    edges = sorted(edges)[: len(edges) // 2 * 2]
    period = max(edges) + more - 1 or 1
    if max(edges) > period:
        return
    cycle = Cycle(tuple(edges[::2]), tuple(edges[1::2]), period, offset)
    t = half_seconds / 2
    place = (t + offset) % period
    due = any(begin <= place < end for begin, end in zip(edges[::2], edges[1::2], strict=True))
    assert there(cycle, t) == due
    assert cycle.signal(3.0).at(t) == (3.0 if due else 0.0)
    assert cycle.signal(1.0).average == pytest.approx(cycle.share)


@every(
    ("begins", "ends", "period", "words"),
    [
        ((1,), (1,), 5, "must end after it begins"),
        ((2,), (1,), 5, "must end after it begins"),
        ((1, 2), (3, 4), 5, "not overlap"),
        ((3, 1), (4, 2), 5, "not overlap"),
        ((1,), (6,), 5, "within a cycle"),
        ((-1,), (1,), 5, "within a cycle"),
        ((), (), 0, "within a cycle"),
        ((), (), -5, "within a cycle"),
        ((1,), (2,), float("inf"), "within a cycle"),
    ],
)
def test_intervals_that_are_no_cycle_are_refused(
    begins: tuple[float, ...], ends: tuple[float, ...], period: float, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        Cycle(begins, ends, period)
    assert Cycle((0, 2), (2, 5), 5).share == 1  # what touches does not overlap


def test_what_lasts_for_the_whole_cycle_never_toggles() -> None:
    for cycle in (Cycle((0,), (5,), 5, 2), Cycle((0, 3), (3, 5), 5), Cycle((), (), 5)):
        online, toggles = cycle.timeline(RNG)
        assert (online, list(toggles)) == (bool(cycle.begins), [])


def test_fedscales_clients_are_there_from_active_to_inactive(tmp_path: Path) -> None:
    trace = {"duration": 3, "model": "phone", "active": [1, 3, 6, 9], "finish_time": 10}
    tree = {7: trace | {"inactive": [1, 4, 7, 12]}, "b": trace | {"inactive": [2, 3, 6, 9]}}
    users = read_presence(dumped(tmp_path, tree))
    # The first interval lasts no time, and the last goes on to the finish.
    told = [there(users[0], t) for t in (0, 1, 3, 3.9, 4, 6.5, 8, 9.5, 10, 13, 14, 99.5)]
    assert told == [False, False, True, True, False, True, False, True, False, True, False, True]
    assert [there(users[1], t) for t in (1.5, 3.5, 11.5)] == [True, False, True]
    assert users[2] is users[0]
    assert users.get(4) is users[0]


def test_fedscales_capacities_are_in_ms_and_kbit(tmp_path: Path) -> None:
    tree = {
        1: {"computation": 162.0, "communication": 5000},
        2: {"computation": 4, "communication": 2.5},
    }
    users = read_capacities(dumped(tmp_path, tree))
    assert list(users.users) == [Capacity(0.162, 5e6), Capacity(0.004, 2500.0)]


GOOD = {"active": [1], "inactive": [2], "finish_time": 9}


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ([], ["a list of 0", "'active', 'inactive', 'finish_time'"]),
        ({}, ["a dictionary of 0"]),
        ({3: [1]}, ["client 3", "a list of 1"]),
        ({"u": {"active": [1]}}, ["client 'u'", "a dictionary of 1"]),
        ({3: GOOD | {"active": 1}}, ["client 3: active is 1", "list of seconds"]),
        ({3: GOOD | {"active": ["1"]}}, ["active has '1'", "0 or more"]),
        ({3: GOOD | {"active": [-1]}}, ["active has -1"]),
        ({3: GOOD | {"active": [float("nan")]}}, ["active has nan"]),
        ({3: GOOD | {"active": [True]}}, ["active has True"]),
        ({3: GOOD | {"active": [1, 3]}}, ["2 times of active and 1 of inactive"]),
        ({3: GOOD | {"active": [5]}}, ["active[0] = 5 and inactive[0] = 2"]),
        ({3: GOOD | {"active": [1, 1], "inactive": [5, 8]}}, ["not overlap"]),
        ({3: GOOD | {"finish_time": 0}}, ["finish_time is 0", "above 0"]),
        ({"x" * 500: GOOD | {"finish_time": None}}, ["x ...", "finish_time is None"]),
    ],
)
def test_a_fault_in_fedscales_trace_names_the_client(
    tree: Any, words: list[str], tmp_path: Path
) -> None:
    with pytest.raises(DataError) as caught:
        read_presence(dumped(tmp_path, tree))
    told = str(caught.value)
    assert [word for word in words if word not in told] == [], told
    assert len(told) < 500


def test_a_capacity_of_nothing_is_refused(tmp_path: Path) -> None:
    for value in (0, -1, float("inf"), "5"):
        tree = {1: {"computation": 5.0, "communication": value}}
        with pytest.raises(DataError, match=r"client 1: communication is .*above 0") as caught:
            read_capacities(dumped(tmp_path, tree))
        assert caught.value.key == "capacities"


BASE = datetime(2020, 2, 1)  # noqa: DTZ001 - the traces have no time zone


def user(*messages: tuple[float, str]) -> dict[str, str]:
    """Return a user of FLASH's, of messages at seconds after the first of February."""
    lines = [f"{BASE + timedelta(seconds=at):%Y-%m-%d %H:%M:%S}\t{state}" for at, state in messages]
    return {"guid": "1", "model": "phone", "messages": "\n".join(lines) + "\n"}


FLASH = {
    "a": user(
        (100, "wifi"), (110, "battery_charged_on"), (115, "80.0%"), (120, "screen_lock"),
        (150, "screen_on"), (160, "4G"), (165, "WIFI"), (170, "screen_unlock"), (200, "wifi"),
    ),
    "b": user((300, "screen_lock"), (310, "battery_charged_on"), (330, "battery_charged_off"),
              (340, "wifi"), (400, "unknown")),
    "c": user((500, "wifi"), (510, "screen_lock"), (520, "battery_charged_on"), (550, "wifi")),
}  # fmt: skip


def stored(folder: Path, tree: Any) -> Path:
    path = folder / "state_traces.json"
    path.write_text(json.dumps(tree), encoding="utf-8")
    return path


def test_phones_are_there_while_idle_charging_and_in_a_network(tmp_path: Path) -> None:
    users = read_states(stored(tmp_path, FLASH), when="idle,charging,wifi")
    # b is never all three at once. Of a's 100 s from 100 on, 20 to 60 and 65 to 70 are; of c's
    # 50 s from 500 on, 20 to the end. Time 0 is midnight: a is then at 0, as 100 s are a cycle.
    assert len(users) == 2
    assert (users[0].begins, users[0].ends, users[0].period) == ((20, 65), (60, 70), 100)
    assert (users[1].begins, users[1].ends, users[1].period) == ((20,), (50,), 50)
    assert [there(users[0], t) for t in (110, 120, 159.9, 160, 165, 170, 220)] == [
        False, True, True, False, True, False, True,
    ]  # fmt: skip
    assert [there(users[1], 500 + t) for t in (10, 20, 49, 50, 75)] == [
        False, True, True, False, True,
    ]  # fmt: skip


def test_other_states_may_be_asked_for(tmp_path: Path) -> None:
    users = read_states(stored(tmp_path, FLASH), when="charging")
    assert [(each.begins, each.ends) for each in users.users] == [
        ((10,), (100,)), ((10,), (30,)), ((20,), (50,)),
    ]  # fmt: skip


def test_time_begins_at_midnight_before_the_first_message_of_all(tmp_path: Path) -> None:
    """Whichever user it is of. No cycle goes into a day without a rest."""
    day = 86400
    late = user(
        (2 * day + 50, "screen_lock"), (2 * day + 80, "screen_unlock"), (2 * day + 87, "2g")
    )
    early = user((7, "screen_lock"), (17, "screen_unlock"), (50, "wifi"))
    for tree in ({"late": late, "early": early}, {"early": early, "late": late}):
        users = dict(zip(tree, read_states(stored(tmp_path, tree), when="idle").users, strict=True))
        told = [there(users["late"], 2 * day + at) for at in (49.9, 50, 79.9, 80, 87, 116.9, 117)]
        assert told == [False, True, True, False, True, True, False]
        assert [there(users["early"], at) for at in (7, 16.9, 17, 50, 60)] == [
            True, True, False, True, False,
        ]  # fmt: skip


SAYS = {
    "idle": ({"screen_lock"}, {"screen_unlock"}),
    "charging": ({"battery_charged_on"}, {"battery_charged_off"}),
    "wifi": ({"wifi"}, {"unknown", "2g", "3g", "4g", "5g"}),
}
"""What says that a phone is in a state, and that it is not."""

SAYS_NOTHING = {
    "screen_on", "screen_off", "battery_low", "battery_okay", "phone_on", "phone_off", "55.5%",
}  # fmt: skip


@pytest.mark.parametrize("when", SAYS)
def test_each_message_says_what_flash_has_it_say(when: str, tmp_path: Path) -> None:
    on, off = SAYS[when]
    every = {word for pair in SAYS.values() for words in pair for word in words} | SAYS_NOTHING
    (begin, *_) = on
    for word in every:
        # In the state from 0 s on, what is said at 10 s, a word that says nothing at 30 s.
        trace = {"a": user((0, begin), (10, word.upper()), (30, "phone_on"))}
        (one,) = read_states(stored(tmp_path, trace), when=when).users
        assert (one.begins, one.ends) == ((0,), (10 if word in off else 30,)), word


def test_messages_of_one_second_count_in_the_order_of_their_lines(tmp_path: Path) -> None:
    for last, ends in (("screen_unlock", 30), ("screen_lock", 40)):
        first = "screen_lock" if last == "screen_unlock" else "screen_unlock"
        trace = {"a": user((0, "screen_lock"), (30, first), (30, last), (40, "phone_on"))}
        (one,) = read_states(stored(tmp_path, trace), when="idle").users
        assert (one.begins[0], one.ends[-1]) == (0, ends)


def test_messages_may_be_in_any_order(tmp_path: Path) -> None:
    lines = FLASH["a"]["messages"].splitlines()[::-1]
    tree = {"a": {"messages": "\n\n".join(lines)}}
    (one,) = read_states(stored(tmp_path, tree), when="idle,charging,wifi").users
    assert (one.begins, one.ends) == ((20, 65), (60, 70))


def test_a_user_of_whom_nothing_can_be_said_is_left_out(tmp_path: Path) -> None:
    odd = [user((1, "dancing"), (2, "wifi")), user((1, "wifi")), {"messages": "yesterday\twifi"}]
    tree = {**{f"odd {i}": each for i, each in enumerate(odd)}, "a": FLASH["a"]}
    assert len(read_states(stored(tmp_path, tree), when="wifi")) == 1


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ([], ["at the top", "an object", "got []"]),
        ({}, ["no user whose messages can be used"]),
        ({"a": {}}, ["['a']", "'messages'"]),
        ({"a": {"messages": 3}}, ["['a']['messages']", "a text", "got 3"]),
        ({"a": user((1, "wifi"), (2, "dancing"))}, ["['a']", "dancing", "a tab, and a state"]),
        ({"a": user((1, "wifi"), (2, "x%"))}, ["['a']", "x%"]),
        ({"a": {"messages": "2020-02-01 10:20:30 wifi"}}, ["['a']", "10:20:30 wifi"]),
        ({"a": user((1, "wifi"))}, ["['a']", "1 messages that span no time"]),
        ({"b": FLASH["b"]}, ["none is ever charging and idle and wifi at once"]),
    ],
)
def test_a_fault_in_flashs_traces_names_the_user(
    tree: Any, words: list[str], tmp_path: Path
) -> None:
    with pytest.raises(DataError) as caught:
        read_states(stored(tmp_path, tree), when="idle,charging,wifi")
    told = str(caught.value)
    assert [word for word in words if word not in told] == [], told


def scenario(availability: dict[str, Any]) -> dict[str, Any]:
    return {
        "problem": {"loss": {"kind": "logistic", "labels": "plus-minus", "l2": 0.1},
                    "data": {"kind": "sklearn", "name": "breast-cancer",
                             "preprocess": ["standardise"]}},
        "algorithm": {"kind": "gd", "step_size": "1/L"},
        "fleet": [{"count": 3, "device": "pi-4", "radio": {"kind": "wifi", "up": "1 kbit/s"},
                   "availability": availability}],
        "stop": {"time": "10 min"},
        "seeds": 1,
    }  # fmt: skip


def test_a_run_has_clients_come_and_go_as_the_files_say(tmp_path: Path) -> None:
    flash = stored(tmp_path, FLASH)
    trace = {"active": [10, 50], "inactive": [30, 70], "finish_time": 100}
    fedscale = dumped(tmp_path, {1: trace, 2: GOOD})
    blocks = {
        "flash": ({"path": str(flash)}, read_states(flash, when="idle,charging,wifi")),
        "fedscale": ({"path": str(fedscale)}, read_presence(fedscale)),
    }
    for kind, (block, users) in blocks.items():
        events = fedsim.run(scenario({"kind": kind, **block})).events
        for client in range(3):
            own = events[events["node"] == f"client-{client}"]
            seen = own[own["event"].isin(["online", "offline"])]
            _, toggles = users[client].timeline(RNG)
            due = list(takewhile(partial(gt, 600), toggles))
            assert seen.loc[(seen["t"] > 0) & (seen["t"] < 600), "t"].tolist() == due
            assert len(due) > 4


def test_users_are_as_many_as_the_file_has() -> None:
    users = Users(["a", "b"])
    assert (len(users), list(users), users[5], dict(users)) == (2, [0, 1], "b", {0: "a", 1: "b"})
