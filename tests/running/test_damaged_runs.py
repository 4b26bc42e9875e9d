"""A run that is damaged does not count as made: it is found out, said to be so, and made again."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import fedsim
from fedsim.cli import app
from fedsim.core.errors import DataError
from fedsim.results.record.folder import RESULTS, tidy
from fedsim.results.record.manifest import MANIFEST
from fedsim.results.record.parts import read_table
from fedsim.results.record.scenarios import parse
from fedsim.running.run import Match, finished_in, match
from fedsim.scenario.building import Builder, Job
from tests.runs import files, small

SOURCE = small(stop={"rounds": 3})
UNREAD = "models.parquet"  # by commands
FLIPS = 60  # a file


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fedsim.run(SOURCE, out=tmp_path_factory.mktemp("whole") / "out").folder


@pytest.fixture(scope="module")
def job() -> Job:
    return Builder(fedsim.load(SOURCE)).check()[0]


@pytest.fixture
def out(whole: Path, tmp_path: Path) -> Path:
    """Return a copy that a test may damage."""
    return Path(shutil.copytree(whole, tmp_path / "out"))


def is_finished(job: Job, out: Path) -> bool:
    return match(job, finished_in(out / "base/seed-1")) is Match.SAME


def flipped(content: bytes, name: str) -> Iterator[bytes]:
    """Yield a file with one bit of it flipped, at places all over it."""
    rng = np.random.default_rng(list(name.encode()))
    for bit in rng.integers(8 * len(content), size=FLIPS):
        own = bytearray(content)
        own[bit // 8] ^= 1 << (bit % 8)
        yield bytes(own)


@pytest.mark.parametrize("name", [*RESULTS, MANIFEST])
def test_a_flipped_bit_anywhere_makes_a_run_that_is_not_there(
    name: str, out: Path, job: Job
) -> None:
    path = out / "base/seed-1" / name
    content = path.read_bytes()
    assert is_finished(job, out)
    for damaged in flipped(content, name):
        path.write_bytes(damaged)
        assert not is_finished(job, out)
    for damaged in (b"", content[:-2], content + b"x"):
        path.write_bytes(damaged)
        assert not is_finished(job, out)
    path.unlink()
    assert not is_finished(job, out)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in (*RESULTS, MANIFEST) if name != UNREAD])
def test_the_advice_to_make_it_again_helps(name: str, whole: Path, out: Path) -> None:
    path = out / "base/seed-1" / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    scenario = out.parent / "scenario.yaml"
    scenario.write_text(json.dumps(SOURCE), encoding="utf-8")  # which is YAML
    command = "trace" if name == "events.parquet" else "compare"
    said = CliRunner().invoke(app, [command, str(out)])
    assert said.exit_code == 2, said.output
    assert f"{path} is damaged" in said.stderr
    assert "repeat the run with fedsim run" in said.stderr
    fedsim.run(scenario, out=out)
    assert files(out / "base") == files(whole / "base")
    assert CliRunner().invoke(app, [command, str(out)]).exit_code == 0


@pytest.mark.parametrize("table", ["events", "rounds", "clients", "models"])
def test_a_table_with_a_flipped_bit_is_no_frame(table: str, out: Path) -> None:
    path = out / f"base/seed-1/{table}.parquet"
    for damaged in flipped(path.read_bytes(), table):
        path.write_bytes(damaged)
        result = fedsim.Result(out, (path.parent,))
        with pytest.raises(DataError, match=rf"{table}\.parquet is damaged"):
            getattr(result, table)


def test_a_file_of_another_run_is_no_file_of_this_one(whole: Path, out: Path, job: Job) -> None:
    longer = fedsim.run(SOURCE | {"stop": {"rounds": 4}}, out=out.parent / "longer").folder
    for name in RESULTS:
        shutil.copy(longer / "base/seed-1" / name, out / "base/seed-1" / name)
        assert not is_finished(job, out)
        shutil.copy(whole / "base/seed-1" / name, out / "base/seed-1" / name)
    assert is_finished(job, out)


def test_a_manifest_of_another_variant_is_damage_and_no_earlier_state(tmp_path: Path) -> None:
    both = small(stop={"rounds": 3}, variants={"slow": {"algorithm": {"step_size": "0.1/L"}}})
    out = fedsim.run(both, out=tmp_path / "out").folder
    shutil.copy(out / "slow/seed-1" / MANIFEST, out / "base/seed-1" / MANIFEST)
    with pytest.raises(DataError, match=r"base/seed-1/\S+ is damaged"):
        fedsim.reprice(out, ["network.latency=0.1"], out=tmp_path / "priced")


FULL = {
    "events": (
        "seq t duration event node round payload_bits header_bits transport_bits"
        " joules operations samples"
    ),
    "rounds": "round cohort transmissions beacons bits_up bits_down joules t",
    "clients": "client group device radio samples",
    "models": "round model",
}


@pytest.mark.parametrize(
    ("table", "column"), [(table, name) for table, all_ in FULL.items() for name in all_.split()]
)
def test_a_table_in_which_a_value_is_missing_is_named(
    table: str, column: str, whole: Path, tmp_path: Path
) -> None:
    """Its manifest is gone, so that no hash tells; columns may be null, as of another program."""
    path = whole / f"base/seed-1/{table}.parquet"
    content = pq.read_table(path)
    place = content.schema.get_field_index(column)
    values = content[column].combine_chunks()
    mask = pa.array([row == len(values) - 1 for row in range(len(values))])
    missing = pc.if_else(mask, pa.scalar(None, values.type), values)
    field = content.schema.field(place).with_nullable(True)
    pq.write_table(content.set_column(place, field, missing), tmp_path / path.name)
    with pytest.raises(DataError, match=f"column {column} lacks values"):
        read_table(tmp_path, table)


@pytest.mark.parametrize("text", ["", "7", "[fleet, network]", "fleet: []", "network: {}"])
def test_what_is_no_scenario_is_named(text: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"scenario\.yaml is damaged \(it has no fleet"):
        parse(text, tmp_path / "scenario.yaml")


def test_parts_that_lie_beside_the_whole_are_removed(out: Path) -> None:
    run = out / "base/seed-1"
    before = files(run)
    parts = run / "events.parquet.parts"
    parts.mkdir()
    (parts / "part-0").write_bytes(b"left over")
    tidy(run)
    assert files(run) == before
    assert not parts.exists()
