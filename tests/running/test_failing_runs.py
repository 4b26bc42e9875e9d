"""What `fedsim.run` raises and warns of: the error names its run, and what ended badly is said."""

import errno
import json
import os
import re
import subprocess
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import pytest
from typer.testing import CliRunner

import fedsim
from fedsim.algorithms import GradientDescent
from fedsim.cli import app
from fedsim.core.errors import DuplicateColumnError, FedsimError
from fedsim.core.ports import Client, Server
from fedsim.running.campaign import check_ends
from fedsim.running.main_guard import mark_workers
from tests.runs import small
from tests.tiers import every

GD = {"kind": "gd", "step_size": "1/L"}
STEEP = {"algorithm": {"kind": "gd", "step_size": "3/L"}}
ENDS = {  # variant -> its status, and what the warning says
    "steep": ("rose", "it ended at .* above its initial value .*; step_size is"),
    "wild": ("diverged", "diverged in round .* step_size is"),
}


class Twice(GradientDescent):
    """A method that calls a figure of its rounds as the observer does: the run fails."""

    kind: Literal["twice"] = "twice"  # type: ignore[assignment]

    async def serve(self, server: Server) -> None:
        server.commit(server.initial, gap=1.0)


class Broken(GradientDescent):
    """A method with a defect of its own."""

    kind: Literal["broken"] = "broken"  # type: ignore[assignment]

    async def handle(self, client: Client[Any], message: Any) -> Any:
        raise ZeroDivisionError("a defect")


def study(**blocks: Any) -> dict[str, Any]:
    return small(algorithm=GD, stop={"rounds": 3}, **blocks)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")
def test_what_diverges_or_rises_is_a_warning_each_and_the_result_is_there() -> None:
    wild = {**STEEP, "stop": {"rounds": 5000}}
    scenario = study(seeds=2, variants={"steep": STEEP, "wild": wild, "calm": {}})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", fedsim.RunWarning)
        result = fedsim.run(scenario)
    said = {str(each.message).split(",")[0]: each for each in caught}
    assert set(said) == set(ENDS)
    status = result.summary.set_index(["variant", "seed"])["status"]
    for variant, (ended, words) in ENDS.items():
        text = str(said[variant].message)
        assert text.startswith(f"{variant}, seed 1: ")
        assert text.endswith("(likewise in 1 more seed)")
        assert re.search(words, text)
        assert said[variant].filename == __file__, "it points at the line that called run"
        assert status[variant].tolist() == [ended] * 2
    assert status["calm"].tolist() == ["done"] * 2
    with warnings.catch_warnings():
        warnings.simplefilter("error", fedsim.RunWarning)
        result = fedsim.run(study(variants={"steep": STEEP}), check=False)
    assert result.summary["status"].tolist() == ["done", "rose"]


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [1, 3])
def test_a_failed_run_is_raised_with_its_variant_and_seed(seeds: int, tmp_path: Path) -> None:
    """Once the others are complete; `check=False` leaves it to the summary."""
    twice = {"algorithm": {"kind": "twice"}}
    scenario = study(seeds=seeds, variants={"fine": {}, "twice": twice})
    with pytest.raises(fedsim.RunError) as caught:
        fedsim.run(scenario, blocks=[Twice], out=tmp_path)
    assert type(caught.value) is (DuplicateColumnError if seeds == 1 else fedsim.RunError)
    lines = str(caught.value).splitlines()
    assert [line.split(":")[0] for line in lines[-seeds:]] == [
        f"twice, seed {seed}" for seed in range(1, seeds + 1)
    ]
    assert (len(lines) == 1) == (seeds == 1)
    assert (caught.value.variant, caught.value.seed) == ("twice", 1)
    result = fedsim.run(scenario, blocks=[Twice], out=tmp_path, check=False)
    assert result.summary["status"].tolist() == ["done"] * seeds + ["duplicate-column"] * seeds


def test_an_error_of_a_user_s_own_code_says_in_which_run() -> None:
    scenario = study(variants={"fine": {}, "broken": {"algorithm": {"kind": "broken"}}})
    with pytest.raises(ZeroDivisionError, match="a defect") as caught:
        fedsim.run(scenario, blocks=[Broken])
    assert caught.value.__notes__ == ["in the run broken, seed 1"]
    source = 'raise ZeroDivisionError("a defect")'
    number = Path(__file__).read_text().split(source)[0].count("\n") + 1
    assert str(caught.value) == f"test_failing_runs.py:{number} `{source}`: a defect"
    assert [each.name for each in caught.traceback][-1] == "handle", "its chain is whole"


@every(
    "error",
    [
        fedsim.RunError("it is gone"),
        fedsim.DataError("data.path", "it is gone"),
        fedsim.OutputError(errno.ENOSPC, "it is gone", "a file"),
        fedsim.Diverged(3, "it is gone"),
    ],
)
def test_an_error_names_its_run_once_it_has_one(error: FedsimError) -> None:
    assert not str(error).startswith("fine")
    error.variant, error.seed = "fine", 0
    assert str(error).startswith("fine, seed 0: ")
    assert "it is gone" in str(error)


UNGUARDED = """
import fedsim, json, sys
fedsim.run(json.loads({scenario!r}), out={out!r}, jobs=2)
print("made")
"""


@pytest.mark.slow
def test_a_script_without_a_guard_is_told_of_it_and_nothing_is_made_twice(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    scenario, out = json.dumps(study(seeds=2)), tmp_path / "out"
    text = UNGUARDED.format(scenario=scenario, out=str(out))
    script.write_text(text)
    done = subprocess.run([sys.executable, script], check=False, capture_output=True, text=True)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("fedsim.core.errors.RunError: a script")
    assert 'below `if __name__ == "__main__":`' in last
    assert done.stderr.count("Traceback") == 1, "of the script, and of none of its workers"
    assert not list(out.glob("*/seed-*/summary.json"))
    guarded = text.replace("fedsim.run", 'if __name__ == "__main__": fedsim.run')
    script.write_text(guarded)
    subprocess.run([sys.executable, script], check=True, capture_output=True)
    assert len(list(out.glob("*/seed-*/summary.json"))) == 2


OWN = """
from typing import Literal
class Never(fedsim.extend.StopRule):
    kind: Literal["never"] = "never"
    def watch(self):
        return lambda end: ""
"""


@pytest.mark.slow
def test_a_script_from_standard_input_makes_runs_in_processes(tmp_path: Path) -> None:
    out = tmp_path / "out"
    text = UNGUARDED.format(scenario=json.dumps(study(seeds=2)), out=str(out))
    text = text.replace("fedsim.run", 'if __name__ == "__main__": fedsim.run')
    subprocess.run([sys.executable, "-"], input=text, text=True, check=True, capture_output=True)
    assert len(list(out.glob("*/seed-*/summary.json"))) == 2
    own = (
        "import fedsim.extend\n"
        + OWN
        + text.replace(
            "jobs=2", ("jobs=2, fresh=True, blocks=[Never], overrides=['stop.never={}']")
        )
    )
    done = subprocess.run([sys.executable, "-"], input=own, text=True, check=False,
                          capture_output=True)  # fmt: skip
    last = done.stderr.strip().splitlines()[-1]
    assert "Never is of the script or was typed in" in last
    assert "jobs=1" in last


@pytest.mark.parametrize("note", [None, Path("a note")])
def test_workers_are_marked_within_the_block_alone(
    note: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FEDSIM_PARENT", raising=False)
    monkeypatch.setenv("FEDSIM_LOADING", "as before")
    with mark_workers(note):
        assert os.environ["FEDSIM_PARENT"] == str(os.getpid())
        assert os.environ["FEDSIM_LOADING"] == ("" if note is None else "a note")
    assert "FEDSIM_PARENT" not in os.environ
    assert os.environ["FEDSIM_LOADING"] == "as before"


@dataclass
class Ended:
    """The result of runs that ended like this."""

    rows: list[dict[str, Any]]

    @property
    def runs(self) -> list[dict[str, Any]]:
        return self.rows

    @property
    def summary(self) -> pd.DataFrame:
        return pd.DataFrame(self.rows)


def test_runs_that_ended_badly_are_a_warning_for_each_variant_and_state() -> None:
    ends = [("a", 1, "done"), ("a", 2, "diverged"), ("a", 3, "diverged"), ("b", 1, "diverged")]
    rows: list[dict[str, Any]] = [
        {"variant": variant, "seed": seed, "status": status, "reason": f"{status} so", "notes": []}
        for variant, seed, status in ends
    ]
    result: Any = Ended(rows)
    with pytest.warns(fedsim.RunWarning) as caught:
        check_ends(result, 0)
    one, other = sorted(str(each.message) for each in caught)
    assert one.startswith("a, seed 2: ")
    assert one.endswith("diverged so (likewise in 1 more seed)")
    assert other.startswith("b, seed 1: ")
    assert other.endswith("diverged so")
    result = Ended(rows[:1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_ends(result, 0)


PLUGIN = '''from typing import Literal

from fedsim.algorithms import GradientDescent


class Broken(GradientDescent):
    """A method with a defect."""

    kind: Literal["broken"] = "broken"

    async def handle(self, client, message):
        raise ZeroDivisionError("a defect")
'''


@pytest.mark.parametrize(
    ("jobs", "seeds"), [(1, 1), (1, 2), pytest.param(2, 1, marks=pytest.mark.slow)]
)
def test_the_command_shows_complete_variants_beside_a_failed_one(
    jobs: int, seeds: int, tmp_path: Path
) -> None:
    """Answer and tables are printed, marked as incomplete; the failure and its exit code stay."""
    (tmp_path / "plugin.py").write_text(PLUGIN)
    variants = {"slow": {"algorithm": {"step_size": "0.2/L"}}, "fast": {}}
    broken = {"broken": {"algorithm": {"kind": "broken"}}}
    file = tmp_path / "study.yaml"
    file.write_text(
        json.dumps(
            small(
                name="mixed",
                algorithm=GD,
                seeds=seeds,
                stop={"rounds": 200, "gap": 2000},
                variants={**broken, **variants},
            )
        )
    )
    command = ["run", str(file), "--plugin", str(tmp_path / "plugin.py"), "--jobs", str(jobs)]
    done = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "runs")])
    assert done.exit_code == 1
    words = " ".join(done.stdout.split())
    assert "fast reaches a gap below 2000 with " in words
    assert f"mixed (incomplete, {2 * seeds} of {3 * seeds} runs): " in words
    assert "a defect" in done.stderr
    reasons, answer = words.split("fast reaches", 1)  # why runs failed comes first
    assert reasons.count("broken, seed") == seeds
    assert "a defect" in reasons
    assert "broken" not in answer


REFUSING = '''import fedsim
from typing import Literal

from fedsim.algorithms import GradientDescent


class Refusing(GradientDescent):
    """A method that refuses its data when it starts."""

    kind: Literal["refusing"] = "refusing"

    async def serve(self, server):
        raise fedsim.DataError("data", "too few samples")
'''


@pytest.mark.parametrize("others", [0, 1])
def test_an_error_in_the_input_exits_with_1_once_another_run_is_complete(
    others: int, tmp_path: Path
) -> None:
    """docs/commands.md: 2 if nothing began, 1 if something was done, but not everything."""
    (tmp_path / "plugin.py").write_text(REFUSING)
    refused = {"algorithm": {"kind": "refusing", "step_size": "1/L"}}
    scenario = study(variants={"refused": refused, "fine": {}}) if others else small(**refused)
    file = tmp_path / "study.yaml"
    file.write_text(json.dumps(scenario))
    command = ["run", str(file), "--plugin", str(tmp_path / "plugin.py")]
    done = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "runs")])
    assert "too few samples" in done.stderr
    assert done.exit_code == (1 if others else 2), done.output


def test_a_figure_that_cannot_be_written_leaves_runs_so_that_something_was_done(
    tmp_path: Path,
) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(json.dumps(study()))
    (tmp_path / "runs/convergence.png").mkdir(parents=True)
    done = CliRunner().invoke(app, ["run", str(file), "--out", str(tmp_path / "runs")])
    assert len(list(tmp_path.glob("runs/*/seed-*/summary.json"))) == 1
    assert done.exit_code == 1, done.output
