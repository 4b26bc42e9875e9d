"""The tape: what the log tells of exchanges, tasks and work."""

import asyncio
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim.addons.repricing.history import _check, read_history
from fedsim.addons.repricing.replay import ReplayedMethod
from fedsim.core.errors import DataError
from fedsim.core.ports import ClientId
from fedsim.core.text import quantity
from fedsim.sim.worlds.main_task import ENDED

from .prices import FLEET, small

CLIENTS, ROUNDS = 5, 4


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (run,) = fedsim.run(small("fedsgm", ROUNDS), out=tmp_path_factory.mktemp("made")).runs
    return run


@pytest.fixture(scope="module")
def events(made: Path) -> pd.DataFrame:
    return pd.read_parquet(made / "events.parquet")


@pytest.mark.parametrize("event", ["late", "lost", "skipped", "offline", "depleted", "abandoned"])
def test_a_log_in_which_time_has_decided_something_is_refused(
    event: str, events: pd.DataFrame, tmp_path: Path
) -> None:
    name = events["event"].cat.categories if events["event"].dtype == "category" else None
    assert name is None or event in name
    decided = events.astype({"event": str})
    decided.loc[7, "event"] = event
    row: Any = decided.loc[7]
    who = "a round was abandoned" if event == "abandoned" else f"{row['node']} "
    said = f"cannot re-price: .*{who}.* at {re.escape(quantity(row['t'], 's'))}"
    with pytest.raises(DataError, match=said):
        _check(decided, tmp_path)
    _check(events, tmp_path)


def test_work_is_in_the_rows_of_computing_and_sets_their_time(events: pd.DataFrame) -> None:
    work = events["event"] == "compute"
    assert (events.loc[work, "operations"] > 0).all()
    assert (events.loc[~work, ["operations", "samples"]] == 0).all(axis=None)
    for group, clients in ((0, (0, 1, 2)), (1, (3, 4))):
        rows = events[work & events["node"].isin([f"client-{number}" for number in clients])]
        speeds = rows["operations"] / rows["duration"]
        np.testing.assert_allclose(speeds, speeds.iloc[0], rtol=1e-6)  # of one device
        assert FLEET[group]["count"] == len(clients)


def test_an_exchange_has_a_row_before_those_of_its_messages(events: pd.DataFrame) -> None:
    opened = events[events["event"] == "exchange"]
    assert opened["message"].tolist() == ["model", "meanconstraint"] * ROUNDS
    assert opened["round"].tolist() == [number for number in range(1, ROUNDS + 1) for _ in "ab"]
    assert (opened["node"] == "server").all()
    told = events[(events["event"] == "receive") & (events["peer"] == "server")]
    last = opened["seq"].to_numpy()[np.searchsorted(opened["seq"], told["seq"]) - 1]
    by_seq = opened.set_index("seq")["message"].astype(str)
    assert (by_seq.loc[last].to_numpy() == told["message"].astype(str).to_numpy()).all()


def test_the_tape_has_every_exchange_task_and_round(made: Path, events: pd.DataFrame) -> None:
    tape = read_history(made, CLIENTS)
    assert tape.commits == [2, 4, 6, 8]
    assert tape.exchanges.first == list(range(0, 2 * ROUNDS * CLIENTS + 1, CLIENTS))
    assert tape.exchanges.replies == [CLIENTS] * 2 * ROUNDS
    assert not any(tape.exchanges.sampled)
    assert tape.tasks.client == list(range(CLIENTS)) * 2 * ROUNDS
    counts = np.subtract(tape.tasks.end, tape.tasks.begin).reshape(ROUNDS, -1)
    assert (counts[:, :CLIENTS] == 1).all()  # the constraint
    assert (counts[:, CLIENTS:] >= 3).all()  # local steps
    assert counts.sum() == (events["event"] == "compute").sum()
    rounds = pd.read_parquet(made / "rounds.parquet")
    assert tape.objective == rounds["objective"].tolist()
    assert [row["switch"] for row in tape.measures[1:]] == rounds["switch"].tolist()[1:]
    assert tape.measures[0]["switch"] is None  # nothing has switched before the first round
    assert [tape.exchanges_until(number) for number in range(ROUNDS + 1)] == [0, 2, 4, 6, 8]


def test_a_log_with_a_missing_answer_is_no_tape(made: Path, tmp_path: Path) -> None:
    events = pd.read_parquet(made / "events.parquet")
    heard = np.flatnonzero((events["event"] == "receive") & (events["node"] == "server"))
    events.drop(index=heard[3]).to_parquet(tmp_path / "events.parquet")
    (tmp_path / "rounds.parquet").write_bytes((made / "rounds.parquet").read_bytes())
    with pytest.raises(DataError, match="some client has not replied"):
        read_history(tmp_path, CLIENTS)


def written(made: Path, folder: Path, events: pd.DataFrame) -> Path:
    """Write a log that was changed beside the rounds of the one that it was."""
    events.to_parquet(folder / "events.parquet")
    (folder / "rounds.parquet").write_bytes((made / "rounds.parquet").read_bytes())
    return folder


def changed(events: pd.DataFrame, row: int, column: str, value: str) -> pd.DataFrame:
    out = events.copy()
    texts = out[column].astype(object)
    texts.iloc[row] = value
    out[column] = texts.astype("category")
    return out


@pytest.mark.parametrize("event", ["late", "lost", "skipped", "offline", "depleted", "abandoned"])
def test_a_row_by_which_time_has_decided_makes_a_log_no_tape(
    event: str, made: Path, events: pd.DataFrame, tmp_path: Path
) -> None:
    row = int(np.flatnonzero(events["event"] == "compute")[3])
    folder = written(made, tmp_path, changed(events, row, "event", event))
    node, time = events["node"].iloc[row], events["t"].iloc[row]
    who = "a round was abandoned" if event == "abandoned" else f"{node} "
    said = f"cannot re-price: .*{who}.* at {re.escape(quantity(time, 's'))}"
    with pytest.raises(DataError, match=said):
        read_history(folder, CLIENTS)


def test_what_comes_after_the_last_round_counts_only_where_the_method_has_ended(
    made: Path, events: pd.DataFrame, tmp_path: Path
) -> None:
    """A run that was stopped is played up to its last round, one whose method ended to its end."""
    last = int(np.flatnonzero(events["event"] == "round")[-1])
    late = events.iloc[[int(np.flatnonzero(events["event"] == "compute")[3])]]
    late = changed(late, 0, "event", "late")
    texts = ["event", "node", "peer", "message", "detail"]
    parts = [each.astype(dict.fromkeys(texts, object)) for each in (events, late)]
    before, after = parts[0].iloc[: last + 1], parts[0].iloc[last + 1 :]
    longer = pd.concat([before, parts[1], after], ignore_index=True)
    longer = longer.astype(dict.fromkeys(texts, "category"))
    stopped, whole = (
        read_history(made, CLIENTS),
        read_history(written(made, tmp_path, longer), CLIENTS),
    )
    assert whole == stopped
    assert stopped.reason != ENDED
    written(made, tmp_path, changed(longer, len(longer) - 1, "detail", ENDED))
    with pytest.raises(DataError, match="cannot re-price: a reply of "):
        read_history(tmp_path, CLIENTS)


def test_a_task_has_what_its_rows_say(made: Path, events: pd.DataFrame) -> None:
    """Bits, labels and work by exchange and client, looked up row by row."""
    tape = read_history(made, CLIENTS)
    opened = np.flatnonzero(events["event"] == "exchange").tolist()
    assert tape.opening == events["detail"].iloc[0]
    for exchange, (begin, end) in enumerate(zip(opened, [*opened[1:], len(events)], strict=True)):
        part = events.iloc[begin:end]
        assert tape.exchanges.shared[exchange]
        for task in range(tape.exchanges.first[exchange], tape.exchanges.first[exchange + 1]):
            name = f"client-{tape.tasks.client[task]}"
            told = part[(part["event"] == "receive") & (part["node"] == name)].iloc[0]
            heard = part[(part["event"] == "receive") & (part["peer"] == name)].iloc[0]
            work = part[(part["event"] == "compute") & (part["node"] == name)]
            span = slice(tape.tasks.begin[task], tape.tasks.end[task])
            assert (tape.tasks.received[task], tape.tasks.received_bits[task]) == (
                told["message"], told["payload_bits"])  # fmt: skip
            assert (tape.tasks.message[task], tape.tasks.bits[task]) == (
                heard["message"], heard["payload_bits"])  # fmt: skip
            assert tape.tasks.operations[span] == work["operations"].tolist()
            assert tape.tasks.samples[span] == work["samples"].tolist()


@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")  # of a sample
def test_an_exchange_is_sampled_where_the_log_has_a_cohort_before_it(tmp_path: Path) -> None:
    cohort = {"kind": "uniform", "count": 3}
    (run,) = fedsim.run(small("fedsgm", 2, participation=cohort), out=tmp_path).runs
    events = pd.read_parquet(run / "events.parquet")
    opened = events.loc[events["event"] == "exchange", "seq"].tolist()
    drawn = events.loc[events["event"] == "sampled", "seq"].to_numpy()
    spans = zip([-1, *opened], opened, strict=False)
    expected = [bool(((begin < drawn) & (drawn < end)).any()) for begin, end in spans]
    assert any(expected)
    assert read_history(run, CLIENTS).exchanges.sampled == expected


def test_a_client_that_is_sampled_and_was_not_is_refused_with_its_round(made: Path) -> None:
    def refuse(text: str, number: int, client: ClientId | None) -> Any:
        return ValueError(f"round {number}, client {client}: it {text}")

    method = ReplayedMethod(read_history(made, CLIENTS), (), refuse)
    client: Any = SimpleNamespace(id=3, round=2)
    words = "^round 2, client 3: it is sampled, but was not in the original$"
    with pytest.raises(ValueError, match=words):
        asyncio.run(method.handle(client, cast("Any", None)))
