"""The log of a live run: of the schema of a simulated one, in order of time, at the wall clock."""

import asyncio
import json
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import fedsim
from fedsim.addons.live import run_live
from fedsim.addons.live.clock import OrderedLog
from fedsim.addons.live.meters import CommandMeter, RaplMeter
from fedsim.addons.live.network import ClientConnection, _Peer
from fedsim.cli import app
from fedsim.core.errors import DataError
from fedsim.results.record.ledger import Ledger
from fedsim.results.record.log import EventLog
from fedsim.results.record.schema import Event
from fedsim.results.result import Result

from .peers import SMALL

ROUNDS = {"stop": {"rounds": 3}}


class CountingMeter:
    """A meter that measures a joule more at each reading."""

    known = True

    def __init__(self) -> None:
        self.readings = 0

    def joules(self) -> float:
        self.readings += 1
        return float(self.readings)

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return run_live({**SMALL, **ROUNDS}, out=tmp_path_factory.mktemp("live"))


def test_times_are_in_order_and_within_the_run(made: Result) -> None:
    events = made.events
    assert events["t"].is_monotonic_increasing
    assert (events["duration"] >= 0).all()
    assert (events["t"] - events["duration"] >= -1e-9).all()
    assert events["t"].max() == made.summary["t"][0] > 0
    for _, rows in events.groupby("round"):
        computed = rows[rows["event"] == "compute"].set_index("node")["t"]
        arrived = rows[(rows["event"] == "receive") & (rows["node"] == "server")]
        assert (arrived.set_index("peer")["t"] >= computed.reindex(arrived["peer"])).all()


def test_work_begins_once_its_message_is_there(made: Result) -> None:
    """Both are times of the client, so the offset of its clock is the same for them."""
    events = made.events
    work = events[events["event"] == "compute"].set_index(["round", "node"])
    down = events[(events["event"] == "receive") & (events["peer"] == "server")]
    arrived = down.set_index(["round", "node"])["t"].reindex(work.index)
    assert (work["t"] - work["duration"] >= arrived - 1e-9).all()
    assert (down["duration"] > 0).all()


def test_columns_and_types_are_those_of_a_simulated_run(made: Result, tmp_path: Path) -> None:
    simulated = fedsim.run({**SMALL, **ROUNDS}, out=tmp_path)
    for table in ("events", "rounds", "clients"):
        ours, theirs = getattr(made, table), getattr(simulated, table)
        assert ours.dtypes.to_dict() == theirs.dtypes.to_dict(), table


def test_without_a_meter_no_energy_is_stated(made: Result) -> None:
    assert made.events["joules"].isna().all()
    assert made.rounds["joules"].isna().all()
    energies = [name for name in made.clients.columns if name.endswith("joules")]
    assert made.clients[energies].isna().to_numpy().all()
    assert pd.isna(made.summary["joules"][0])


def test_the_manifest_says_that_it_was_live(made: Result, tmp_path: Path) -> None:
    live = json.loads((made.runs[0] / "manifest.json").read_text())["live"]
    assert live["left"] == {}
    events = made.events
    bits = events[["payload_bits", "header_bits"]].sum(axis=1)
    up = bits[(events["event"] == "send") & (events["node"] != "server")].sum()
    down = bits[(events["event"] == "send") & (events["node"] == "server")].sum()
    assert live["received_bytes"] > up / 8
    assert live["sent_bytes"] > down / 8
    simulated = fedsim.run({**SMALL, **ROUNDS}, out=tmp_path)
    assert "live" not in json.loads((simulated.runs[0] / "manifest.json").read_text())


@pytest.mark.slow
def test_commands_read_it(made: Result) -> None:
    for words in (["compare"], ["report"], ["status"], ["trace"], ["diff", made.folder]):
        done = CliRunner().invoke(app, [*map(str, words), str(made.folder)])
        assert done.exit_code == 0, done.output


def test_with_a_meter_each_joule_is_stated_once(tmp_path: Path) -> None:
    meter = CountingMeter()
    made = run_live({**SMALL, **ROUNDS}, out=tmp_path, meter=meter)
    works = (made.events["event"] == "compute").sum()
    assert works == 9
    assert meter.readings == 2 * works
    assert made.events["joules"].sum() == works
    assert made.rounds["joules"].sum() == made.clients["joules"].sum() == works


def test_it_runs_where_a_loop_is_running(tmp_path: Path) -> None:
    async def notebook() -> Result:
        return run_live({**SMALL, **ROUNDS}, out=tmp_path)

    assert asyncio.run(notebook()).summary["rounds"].tolist() == [3]


def test_neither_a_model_nor_a_busy_server_moves_a_client_s_clock() -> None:
    """The true offset is 5 s, and each way takes 10 ms.

    The server was busy for 0.3 s when the handshake's second frame came; later a model takes 1 s.
    """
    peer = _Peer(cast("ClientConnection", None), down=0.01 - 5.0, up=5.0 + 0.31)
    assert peer.offset == pytest.approx(5.15)
    peer.meet(sent=10.0, received=6.0, answered=6.5, now=11.51)
    assert peer.offset == pytest.approx(5.0)
    peer.meet(sent=20.0, received=15.03, answered=15.5, now=20.6)
    assert peer.offset == pytest.approx(5.0)


def test_rows_that_are_reported_late_are_put_in_order(tmp_path: Path) -> None:
    ledger = Ledger(2)
    log = EventLog(tmp_path, 2, ledger.absorb)
    ordered = OrderedLog(log)
    ordered.append(0.0, 0.0, Event.EXCHANGE, -1)
    ordered.append(2.0, 0.5, Event.COMPUTE, 0)
    ordered.append(1.0, 0.5, Event.COMPUTE, 1)
    assert log.pending().size == 0
    ordered.append(3.0, 0.0, Event.ROUND, -1)
    ordered.append(2.5, 0.5, Event.COMPUTE, 1)  # of the round that is over
    ordered.release()
    assert log.pending()["t"].tolist() == [0.0, 1.0, 2.0, 3.0, 3.0]
    assert log.pending()["duration"].tolist() == [0.0, 0.5, 0.5, 0.0, 0.5]
    log.close()
    assert ledger.t == 3.0


def counters(folder: Path, **microjoules: int) -> None:
    for name, value in microjoules.items():
        place = folder / name.replace("_", ":").replace("rapl", "intel-rapl")
        place.mkdir(exist_ok=True)
        (place / "energy_uj").write_text(f"{value}\n")
        (place / "max_energy_range_uj").write_text("999999\n")


def test_counters_of_all_packages_count_and_begin_anew(tmp_path: Path) -> None:
    counters(tmp_path, rapl_0=900_000, rapl_1=5, rapl_0_0=7)
    meter = RaplMeter(tmp_path)
    assert meter.joules() == 0.0
    counters(tmp_path, rapl_0=100_000, rapl_1=300_005, rapl_0_0=900_000)
    assert meter.joules() == pytest.approx(0.5)
    with pytest.raises(DataError, match="there are no counters of energy"):
        RaplMeter(tmp_path / "none")


def test_watts_of_a_command_are_integrated() -> None:
    times = iter(np.arange(0.0, 100.0, 1.0).tolist())
    meter = CommandMeter("sleep 60", clock=lambda: next(times))
    try:
        assert np.isnan(meter.joules())
        meter.note(10.0)
        first = meter.joules()
        meter.note(4.0)
        assert meter.joules() == first + 10.0 + 4.0
    finally:
        meter.close()
    with pytest.raises(DataError, match="cannot be started"):
        CommandMeter("no-such-program-of-a-meter")
