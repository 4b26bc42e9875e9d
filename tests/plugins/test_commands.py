"""Blocks from one file outside the repository, named by a scenario on the command line."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

import fedsim
from fedsim.cli import app
from fedsim.core.blocks.plugins import Plugin
from fedsim.problems import Split
from fedsim.results.record.manifest import read_manifest
from fedsim.scenario.registries import blocks_in

from .files import COMPRESSOR, DEVICE, LOSSES, NAMED, SCENARIO, SELECTION, SPLIT

ADDED = "\n\n".join(text for text, _ in NAMED.values())


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SCENARIO)
    return path


def written(folder: Path, text: str, name: str = "mine.py") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def summary(out: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((out / "base/seed-1/summary.json").read_text())
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", NAMED)
def test_one_file_adds_a_block_that_a_scenario_names(
    kind: str, scenario: Path, tmp_path: Path
) -> None:
    text, override = NAMED[kind]
    mine, out = written(tmp_path, text), tmp_path / "out"
    assert invoke("check", scenario, "--set", override).exit_code == 2
    commands: tuple[tuple[str | Path, ...], ...] = (("check",), ("run", "--out", out))
    for command in commands:
        result = invoke(*command, scenario, "--set", override, "--plugin", mine)
        assert result.exit_code == 0, result.output
    assert summary(out)["status"] == "done"
    key, _, _ = override.partition("=")
    assert key.split(".")[-1] in (out / "base/seed-1/scenario.yaml").read_text()


def test_a_dealt_split_is_what_the_file_says(scenario: Path, tmp_path: Path) -> None:
    mine, out = written(tmp_path, SPLIT), tmp_path / "out"
    invoke("run", scenario, "--out", out, "--set", NAMED["split"][1], "--plugin", mine)
    clients = pd.read_parquet(out / "base/seed-1/clients.parquet")
    assert clients["samples"].tolist() == [148, 147, 147]


def test_those_who_are_asked_are_those_that_the_file_says(scenario: Path, tmp_path: Path) -> None:
    mine, out = written(tmp_path, SELECTION), tmp_path / "out"
    invoke("run", scenario, "--out", out, "--set", NAMED["selection"][1], "--plugin", mine)
    events = pd.read_parquet(out / "base/seed-1/events.parquet")
    asked = events[events["event"] == "sampled"].groupby("round")["node"].agg(set).tolist()
    turns = [{f"client-{(2 * number + one) % 3}" for one in (0, 1)} for number in range(10)]
    assert asked == turns


def test_work_takes_as_long_and_costs_as_much_as_the_file_says(
    scenario: Path, tmp_path: Path
) -> None:
    mine, out = written(tmp_path, DEVICE), tmp_path / "out"
    _, override = NAMED["device"]
    result = invoke("run", scenario, "--out", out, "--set", override, "--plugin", mine)
    assert result.exit_code == 0, result.output
    events = pd.read_parquet(out / "base/seed-1/events.parquet")
    work = events[events["event"] == "compute"]
    operations, samples = work["operations"].to_numpy(), work["samples"].to_numpy()
    seconds = np.maximum(operations / 1e6, samples * 640 / 1e6)
    assert (seconds > operations / 1e6).all()  # it is the memory that binds
    assert work["duration"].to_numpy() == pytest.approx(seconds, rel=1e-12)
    assert work["joules"].to_numpy() == pytest.approx(2 * seconds, rel=1e-12)
    clients = pd.read_parquet(out / "base/seed-1/clients.parquet")
    assert set(clients["device"]) == {"roofline"}


def test_as_many_packets_are_lost_as_the_file_says(scenario: Path, tmp_path: Path) -> None:
    mine, out = written(tmp_path, LOSSES), tmp_path / "out"
    invoke("run", scenario, "--out", out, "--set", NAMED["losses"][1], "--plugin", mine)
    events = pd.read_parquet(out / "base/seed-1/events.parquet")
    again = events[events["event"] == "retransmit"].groupby(["node", "peer"], observed=True).size()
    # Of ten messages of one packet, the fifth is lost, and the ninth, which is sent as the tenth.
    assert again.tolist() == [2] * 6


def test_several_files_and_several_blocks_a_file(scenario: Path, tmp_path: Path) -> None:
    one = written(tmp_path, COMPRESSOR, "one.py")
    others = [text for text, _ in NAMED.values() if text is not COMPRESSOR]
    two = written(tmp_path, "\n\n".join(others), "two.py")
    sets = [word for _, override in NAMED.values() for word in ("--set", override)]
    result = invoke("check", scenario, *sets, "--plugin", one, "--plugin", two)
    assert result.exit_code == 0, result.output


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")  # one block samples clients for gd
def test_workers_have_the_blocks_even_where_the_file_is_gone(
    scenario: Path, tmp_path: Path
) -> None:
    mine = written(tmp_path, ADDED)
    blocks = blocks_in([mine])
    mine.unlink()
    sets = [override for _, override in NAMED.values()]
    at_once, in_turn = tmp_path / "at-once", tmp_path / "in-turn"
    common: Any = {"overrides": [*sets, "seeds=2"], "blocks": blocks}
    fedsim.run(scenario, out=at_once, jobs=2, **common)
    fedsim.run(scenario, out=in_turn, **common)
    for seed in (1, 2):
        runs = [read_manifest(out / f"base/seed-{seed}") for out in (at_once, in_turn)]
        assert runs[0]["events"] == runs[1]["events"]


@pytest.mark.slow
def test_a_run_is_kept_until_the_file_changes(scenario: Path, tmp_path: Path) -> None:
    mine, out = written(tmp_path, COMPRESSOR), tmp_path / "out"
    command: list[str | Path] = [
        "run",
        scenario,
        "--out",
        out,
        "--set",
        NAMED["compressor"][1],
        "--plugin",
        mine,
    ]
    events = out / "base/seed-1/events.parquet"
    invoke(*command)
    first = events.stat().st_mtime_ns
    invoke(*command)
    assert events.stat().st_mtime_ns == first
    mine.write_text(COMPRESSOR.replace("rng.integers(self.stride)", "0"))
    assert invoke(*command).exit_code == 0
    assert events.stat().st_mtime_ns > first


def test_a_file_beside_does_not_make_a_run_again(scenario: Path, tmp_path: Path) -> None:
    out, mine = tmp_path / "out", written(tmp_path, SPLIT)
    events = out / "base/seed-1/events.parquet"
    invoke("run", scenario, "--out", out)
    first = events.stat().st_mtime_ns
    assert invoke("run", scenario, "--out", out, "--plugin", mine).exit_code == 0
    assert events.stat().st_mtime_ns == first


@pytest.mark.slow
def test_list_and_schema_show_what_is_in_the_file(tmp_path: Path) -> None:
    mine = written(tmp_path, ADDED)
    for table, kind in (
        ("compressors", "every-other"),
        ("splits", "round-robin"),
        ("losses", "huber"),
    ):
        assert kind not in invoke("list", table).stdout
        assert kind in invoke("list", table, "--plugin", mine).stdout
    assert "every-other" not in invoke("schema").stdout
    document = json.loads(invoke("schema", "--plugin", mine).stdout)
    link = document["$defs"]["Compression"]["properties"]["compressor"]["anyOf"]
    (name,) = (each["$ref"] for each in link if each.get("$ref", "").endswith("/every-other"))
    block = document["$defs"][name.rpartition("/")[2]]
    assert block["properties"]["stride"]["default"] == 2


def test_a_run_is_priced_again_with_the_file(scenario: Path, tmp_path: Path) -> None:
    mine, out = written(tmp_path, COMPRESSOR), tmp_path / "out"
    invoke("run", scenario, "--out", out, "--set", NAMED["compressor"][1], "--plugin", mine)
    command: list[str | Path] = ["reprice", out, "--set", "fleet.0.radio=wifi"]
    assert invoke(*command).exit_code == 2
    result = invoke(*command, "--plugin", mine)
    assert result.exit_code == 0, result.output


def test_the_same_file_twice_is_one(tmp_path: Path) -> None:
    mine = written(tmp_path, SPLIT)
    once, again = blocks_in([mine, mine])
    assert once is again
    assert issubclass(once, Split)
    assert Plugin.at(mine).module().__name__ == once.__module__


def test_what_a_file_prints_is_no_part_of_what_is_piped(
    tmp_path: Path,
) -> None:
    mine = written(tmp_path, f"print('hello')\n{COMPRESSOR}")
    result = invoke("schema", "--plugin", mine)
    assert "every-other" in json.dumps(json.loads(result.stdout))
    assert "hello" in result.stderr


@pytest.mark.slow
def test_the_list_says_which_file_a_block_is_from(tmp_path: Path) -> None:
    mine = written(tmp_path, COMPRESSOR, "strided.py")
    rows = invoke("list", "compressors", "--plugin", mine).stdout.splitlines()
    assert [row.split()[-1] for row in rows if "strided.py" in row] == ["strided.py"]
    assert "strided.py" not in invoke("list", "losses", "--plugin", mine).stdout
