"""The commands live, serve and join, and what they refuse."""

import asyncio
import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pandas.testing import assert_frame_equal
from ruamel.yaml import YAML
from typer.testing import CliRunner

import fedsim
from fedsim.addons.calibration.readers import read_recording
from fedsim.addons.live import run_live
from fedsim.cli import app
from fedsim.core.errors import LiveError
from tests import methods

from .peers import SMALL


def write(folder: Path, **changes: Any) -> Path:
    file = folder / "study.yaml"
    with file.open("w") as stream:
        YAML(typ="safe").dump({**SMALL, "name": "study", **changes}, stream)
    return file


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "battery": (
        {"fleet": [{"count": 3, "battery": {"capacity": "9 Wh"}}]},
        "fleet.0.battery: batt",
    ),
    "availability": (
        {"fleet": [{"count": 3, "availability": {"kind": "bernoulli", "share": "50 %"}}]},
        "fleet.0.availability.kind: got bernoulli: availability is simulated only",
    ),
    "peers": (
        methods.scenario("d-psgd") | {"fleet": [{"count": 3}]},
        "network.peers: peers are not supported in live runs yet",
    ),
    "energy": ({"stop": {"energy": "5 J"}}, "stop.energy: a live run has no such limit"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_does_not_run_live_is_refused_by_name(kind: str, tmp_path: Path) -> None:
    changes, said = REFUSED[kind]
    with pytest.raises(LiveError) as refused:
        run_live({**SMALL, **changes}, out=tmp_path / "out")
    assert said in str(refused.value)
    assert not (tmp_path / "out").exists()
    done = CliRunner().invoke(app, ["live", str(write(tmp_path, **changes)), "--quiet"])
    assert done.exit_code == 2
    assert done.stderr.startswith("These settings cannot run live:")


@pytest.mark.slow
def test_live_runs_all_variants_and_seeds(tmp_path: Path) -> None:
    file = write(tmp_path, variants={"two": {"algorithm": {"step_size": "0.2/L"}}}, seeds=2)
    out = tmp_path / "out"
    done = CliRunner().invoke(app, ["live", str(file), "--out", str(out), "--quiet"])
    assert done.exit_code == 0, done.output
    runs = fedsim.open(out).summary
    assert sorted(zip(runs["variant"], runs["seed"], strict=True)) == [
        ("base", 1),
        ("base", 2),
        ("two", 1),
        ("two", 2),
    ]
    again = CliRunner().invoke(app, ["live", str(file), "--out", str(out), "--quiet"])
    assert again.exit_code == 0, again.output


def test_a_recording_is_one_file_that_calibrate_reads(tmp_path: Path) -> None:
    """It has what the folder of the runs has."""
    file, out, record = write(tmp_path), tmp_path / "out", tmp_path / "run.csv"
    words = ["live", str(file), "--out", str(out), "--record", str(record)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    read, own = read_recording(record), read_recording(out)
    assert (own["kind"].value_counts() == 12).all()  # 4 rounds of 3 clients
    assert_frame_equal(read, own, rtol=1e-12)
    again = CliRunner().invoke(app, [*words[:3], str(tmp_path / "other"), *words[4:], "--quiet"])
    assert again.exit_code == 2
    assert f"--record: {record} exists; expected the name of a new file" in again.stderr
    assert not (tmp_path / "other").exists()
    words[-1] = str(tmp_path)
    assert "it is a folder; expected a file" in CliRunner().invoke(app, words).stderr


def test_wrong_options_are_named(tmp_path: Path) -> None:
    file, token = str(write(tmp_path)), tmp_path / "token"
    token.write_text("short")
    for words, said in (
        (["serve", file, "--listen", "0.0.0.0:0"], "give a token file, or certificates"),
        (["serve", file, "--listen", "somewhere"], "expected HOST:PORT"),
        (["serve", file, "--listen", "127.0.0.1:0", "--key", "k"], "--certificate, --authority"),
        (["serve", file, "--listen", "127.0.0.1:0", "--token", str(token)], "at least 16"),
        (["join", "127.0.0.1:1"], "expected --client N"),
        (["join", "127.0.0.1:1", "--client", "x"], "expected a number, or 0-9"),
        (["live", file, "--meter", "rapl", "--processes", "2"], "expected at most one of them"),
        (["live", file, "--meter", "no-such-program-of-a-meter"], "cannot be started"),
    ):
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 2, words
        assert said in " ".join(done.stderr.split()), words


@pytest.mark.slow
def test_a_client_names_a_server_that_is_not_there() -> None:
    done = CliRunner().invoke(app, ["join", "127.0.0.1:1", "--client", "0", "--wait", "1"])
    assert done.exit_code == 1
    first, last = done.stderr.splitlines()
    why = "nothing listens there yet (connection refused)"
    assert first == f"127.0.0.1:1: {why}; trying for 1 s (--wait)"
    assert last == f"the server at 127.0.0.1:1 cannot be reached: {why} (tried for 1 s)"


def test_an_unknown_host_is_told_from_one_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def resolve(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(asyncio.BaseEventLoop, "create_connection", resolve)
    done = CliRunner().invoke(app, ["join", "nowhere.invalid:7000", "--client", "0"])
    assert done.exit_code == 1
    assert done.stderr == "the host nowhere.invalid is unknown: Name or service not known\n"


def test_a_live_run_has_a_history_and_is_watched_as_others(tmp_path: Path) -> None:
    file, out = write(tmp_path), str(tmp_path / "out")
    done = CliRunner().invoke(app, ["live", str(file), "--out", out, "--watch", "--json"])
    assert done.exit_code == 0, done.output
    told = CliRunner().invoke(app, ["history", out, "--json"])
    (call,) = json.loads(told.stdout)
    assert (call["name"], call["ended"], call["runs"], call["made"]) == ("study", "done", 1, 1)
    for command in ("live", "serve"):
        words = [command, str(file), "--watch", "--quiet"]
        words += ["--listen", "127.0.0.1:0"] * (command == "serve")
        refused = CliRunner().invoke(app, words)
        assert refused.exit_code == 2
        assert "got --watch and --quiet; expected at most one of them" in refused.stderr


@pytest.mark.slow
def test_serve_and_join_in_processes_of_their_own(tmp_path: Path) -> None:
    file, token = write(tmp_path, seeds=2), tmp_path / "token"
    token.write_text("a token of sixteen bytes")
    fedsim_, shared = [sys.executable, "-m", "fedsim"], ["--token", str(token)]
    serve = [*fedsim_, "serve", str(file), "--listen", "127.0.0.1:0", *shared, "--quiet"]
    server = subprocess.Popen(
        [*serve, "--out", str(tmp_path / "out")], stderr=subprocess.PIPE, text=True
    )
    assert server.stderr is not None
    first = server.stderr.readline().split()
    assert first[:2] == ["listening", "at"]
    other = ["join", first[2], str(file), "--set", "stop.rounds=9", "--client", "1", *shared]
    wrong = CliRunner().invoke(app, other)
    assert wrong.exit_code == 1
    assert "the client's scenario has the digest" in wrong.stderr
    join = [*fedsim_, "join", first[2]]
    ours = subprocess.Popen([*join, str(file), "--client", "0-1", *shared, "--quiet"])
    theirs = subprocess.Popen([*join, "--client", "2", *shared, "--quiet"], cwd=tmp_path)
    assert [each.wait() for each in (ours, theirs, server)] == [0, 0, 0]
    server.stderr.close()
    made = fedsim.open(tmp_path / "out")
    due = fedsim.run(file, out=tmp_path / "simulated")
    assert made.rounds["objective"].equals(due.rounds["objective"])
    assert made.rounds["bits_up"].equals(due.rounds["bits_up"])
