"""With --json a command prints one JSON document on standard output, and nothing else there."""

import json
from collections.abc import Mapping
from math import nan
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

import fedsim
from fedsim.cli import app
from fedsim.cli.json_output import of_table, print_json, rows_of
from fedsim.core.tables import listing
from fedsim.scenario.examples import examples
from tests.runs import small
from tests.tiers import every

VARIANTS: Mapping[str, Any] = {"gd": {"algorithm": {"kind": "gd", "step_size": "1/L"}}}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory, own_cache: Path) -> Path:
    """Return a scenario, beside which its runs are in `out`."""
    file = tmp_path_factory.mktemp("json") / "study.yaml"
    fleet = [{"count": 5, "device": "pi-4", "radio": "lte"}]
    scenario = small(stop={"rounds": 30}, variants=VARIANTS, seeds=2, fleet=fleet)
    file.write_text(json.dumps(scenario), encoding="utf-8")
    fedsim.run(file, out=file.parent / "out")
    return file


BROKEN = '''
from typing import Literal

from fedsim.algorithms import GradientDescent


class Broken(GradientDescent):
    """Fails in its first round."""

    kind: Literal["broken"] = "broken"

    async def serve(self, server):
        raise ValueError("a defect")
'''


def document(*words: str | Path, code: int = 0) -> Any:
    ended = CliRunner().invoke(app, [*map(str, words), "--json"])
    assert ended.exit_code == code, ended.stderr
    return json.loads(ended.stdout)


def test_run_prints_the_summaries_of_its_runs(study: Path) -> None:
    out = study.parent / "out"
    found = document("run", study, "--out", out)
    assert (found["kept"], found["made"], found["shard"]) == (4, 0, None)
    assert [(row["variant"], row["seed"]) for row in found["runs"]] == [
        *(("base", seed) for seed in (1, 2)),
        *(("gd", seed) for seed in (1, 2)),
    ]
    assert Path(found["figure"]).is_file()
    for row, folder in zip(found["runs"], found["folders"], strict=True):
        summary = json.loads((Path(folder) / "summary.json").read_text(encoding="utf-8"))
        assert {key: row[key] for key in ("objective", "joules", "t", "bits_up")} == {
            key: summary[key] for key in ("objective", "joules", "t", "bits_up")
        }


def test_a_shard_has_its_share(study: Path, tmp_path: Path) -> None:
    found = document("run", study, "--out", tmp_path / "out", "--shard", "2/4")
    assert (found["shard"], found["made"], found["figure"]) == ("2/4", 1, None)


def test_check_prints_the_costs_of_rounds(study: Path) -> None:
    found = document("check", study)
    known = fedsim.check(study)
    assert found["runs"] == 4
    assert found["seeds"] == {"base": [1, 2], "gd": [1, 2]}
    assert [row["joules"] for row in found["costs"]] == known.costs["joules"].tolist()
    assert [row["bits_up"] for row in found["variants"]] == known.variants["bits_up"].tolist()


def test_a_command_that_fails_prints_the_error(study: Path, tmp_path: Path) -> None:
    wrong = document("check", study, "--set", "stop.ronds=3", code=2)["error"]
    assert wrong["type"] == "ScenarioError"
    assert wrong["faults"] == [wrong["text"]]
    assert "stop.ronds" in wrong["text"]
    missing = document("compare", tmp_path / "none", code=2)["error"]
    assert missing["type"] == "DataError"
    assert missing["faults"] == []
    assert missing["text"] == f"there is no folder {tmp_path / 'none'}"


def test_a_run_that_fails_prints_the_error(study: Path, tmp_path: Path) -> None:
    plugin = tmp_path / "broken.py"
    plugin.write_text(BROKEN)
    method = "algorithm={kind: broken, step_size: 1/L}"
    words = ("--set", method, "--set", "variants={}", "--plugin", plugin, "--out", tmp_path / "out")
    error = document("run", study, *words, code=1)["error"]
    assert "2 of 2 runs have failed" in error["text"]
    assert [f"base, seed {seed}: " in error["text"] for seed in (1, 2)] == [True, True]
    assert "a defect" in error["text"]


def test_status_prints_the_states_of_runs(study: Path) -> None:
    found = document("status", study.parent / "out")
    assert (found["name"], found["held"], found["over"]) == ("small", False, True)
    assert {each["variant"]: each["done"] for each in found["variants"]} == {
        "base": [1, 2],
        "gd": [1, 2],
    }
    assert found["running"] == []


@pytest.mark.slow
def test_list_and_examples_print_names(study: Path) -> None:
    tables = document("list")["tables"]
    assert {"chb", "fedavg"} <= set(tables["algorithms"])
    rows = document("list", "compressors")["compressors"]
    assert {row["kind"] for row in rows} == set(tables["compressors"])
    assert document("list", "compressors", "top-k")["tables"][0]["rows"]
    names = [row["name"] for row in document("examples")["examples"]]
    assert names == list(examples())
    assert document("examples", "quickstart")["scenario"]["name"] == "quickstart"


@pytest.mark.slow
def test_robust_prints_its_verdicts(study: Path, tmp_path: Path) -> None:
    out = study.parent / "out"
    ends = document("run", study, "--out", out)["runs"]
    target = f"objective={1.01 * max(row['objective'] for row in ends)}"
    words = ("--target", target, "--worlds", "16", "--out", tmp_path / "robust")
    found = document("robust", out, *words)
    verdicts = pd.read_csv(tmp_path / "robust" / "verdicts.csv")
    assert [row["typical"] for row in found["verdicts"]] == pytest.approx(
        verdicts["typical"].tolist(), nan_ok=True
    )
    assert found["target"].startswith("objective=")


@every(
    "words",
    [
        ("run", "nowhere.yaml"),
        ("check", "nowhere.yaml"),
        ("status", "nowhere"),
        ("list", "nothing"),
        ("examples", "nothing"),
        ("robust", "nowhere"),
    ],
)
def test_what_is_wrong_is_the_document_and_is_said_on_standard_error(
    words: tuple[str, str],
) -> None:
    ended = CliRunner().invoke(app, [*words, "--json"])
    assert ended.exit_code == 2
    name = words[1].partition(".")[0]
    assert name in json.loads(ended.stdout)["error"]["text"]
    assert name in ended.stderr


def test_numbers_that_json_lacks_are_null(capsys: pytest.CaptureFixture[str]) -> None:
    frame = pd.DataFrame({"a": [1.5, nan], "b": [pd.NaT, pd.Timestamp("2024-01-01")]})
    print_json({"rows": rows_of(frame), "path": Path("a/b"), "inf": float("inf"), "seeds": {1: 2}})
    assert json.loads(capsys.readouterr().out) == {
        "rows": [{"a": 1.5, "b": None}, {"a": None, "b": "2024-01-01 00:00:00"}],
        "path": "a/b",
        "inf": None,
        "seeds": {"1": 2},
    }
    table = listing("a [b]", ("x", "y"), [("[red]", "2")])
    assert of_table(table) == {"title": "a [b]", "rows": [{"x": "[red]", "y": "2"}]}
