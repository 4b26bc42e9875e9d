"""`fedsim compare` as a user meets it: tables, files, and what is no comparison."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from typer.testing import CliRunner, Result

import fedsim
from fedsim.cli import app
from fedsim.core.errors import TheoryWarning
from fedsim.core.tables import as_text
from fedsim.results.analysis import Comparison, Target, cost_to_target, gather, labels_of
from fedsim.results.record.read import read_all, run_folders
from tests.runs import small

GAP = 5000
VARIANTS = {
    "gd": {"algorithm": {"kind": "gd", "step_size": "1/L"}},
    "slow": {"algorithm": {"kind": "gd", "step_size": 1e-9}},
}
LOSSY = [
    {"count": 3, "radio": {"kind": "lte", "loss": {"kind": "independent", "rate": "20 %"}}},
    {"count": 2, "device": "pi-4", "radio": "wifi"},
]
FIGURES = ("convergence", "costs", "trade-offs")


# Seeds differ by the rows that are left out: the objective of all rows is one for all seeds.
PROBLEM = {**small()["problem"], "split": {"kind": "iid", "remainder": "drop"}}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return three variants under three seeds; one of them never gets there."""
    folder = tmp_path_factory.mktemp("runs") / "wide"
    stop = {"rounds": 40, "gap": GAP}
    written = small(seeds=3, problem=PROBLEM, fleet=LOSSY, variants=VARIANTS, stop=stop)
    fedsim.run(written, out=folder)
    return folder


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return two variants under one seed, of the same problem, without a gap to stop at."""
    folder = tmp_path_factory.mktemp("runs") / "narrow"
    variants = {"wifi": {"fleet": [{"count": 5, "device": "pi-4", "radio": "wifi"}]}}
    fedsim.run(small(problem=PROBLEM, variants=variants, stop={"rounds": 5}), out=folder)
    return folder


def test_a_parent_folder_lists_the_studies_below_it(tmp_path: Path) -> None:
    for name in ("lte", "wifi"):
        fedsim.run(small(stop={"rounds": 1}), out=tmp_path / name)
    said = f"but studies below it: give one of {tmp_path / 'lte'}, {tmp_path / 'wifi'}"
    for command in ("compare", "report", "trace", "status", "watch", "reprice", "robust"):
        done = CliRunner().invoke(app, [command, str(tmp_path)])
        assert done.exit_code == 2
        assert said in " ".join(done.stderr.split()), command


def test_marks_stay_beside_names_at_80_columns_and_one_seed_has_no_intervals(
    out: Path, other: Path
) -> None:
    several, single = (Comparison.of([place]).tables() for place in (out, other))
    for table in several[0], single[0]:
        lines = as_text(table, 80).splitlines()
        assert max(map(len, lines)) <= 80
        assert any(line.split()[1:3] == ["(chb)", "*"] for line in lines)
    assert "95 % intervals" in str(several[0].title)
    assert not any("intervals" in str(table.title) for table in single)


@pytest.mark.slow
def test_variants_that_are_equal_in_every_round_are_named(tmp_path: Path) -> None:
    chb = {"kind": "chb", "step_size": "1/L", "momentum": 0.4, "censor": 1e-12}
    hb = {"kind": "hb", "step_size": "1/L", "momentum": 0.4}
    gd = {"kind": "gd", "step_size": "1/L"}
    variants = {"hb": {"algorithm": hb}, "gd": {"algorithm": gd}}
    fedsim.run(small(algorithm=chb, variants=variants, stop={"rounds": 4}), out=tmp_path)
    notes = Comparison.of([tmp_path]).notes
    assert "base (chb) and hb are equal in every round: no client was ever silent" in notes
    assert not any("gd" in note and "equal" in note for note in notes)


def compare(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["compare", *map(str, arguments)])


def check_blame(result: Result, *words: str) -> None:
    """Assert exit code 2 and one message that holds the words."""
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    for word in words:
        assert word in result.stderr


@pytest.mark.slow
def test_the_tables_and_figures_are_those_of_the_runs(out: Path) -> None:
    result = compare(out)
    assert result.exit_code == 0, result.output
    assert "a gap below 5000" in result.stdout
    assert "never reached" in result.stdout
    written = pd.read_csv(out / "comparison/costs.csv").set_index("variant")
    expected = cost_to_target(read_all(run_folders(out), "rounds"), GAP).set_index("variant")
    for variant in ("base", "gd"):
        sample = expected.loc[[variant], "joules"].to_numpy()
        assert written.loc[variant, "joules"] == pytest.approx(sample.mean(), rel=1e-12)
        assert written.loc[variant, "joules_low"] == sample.min()  # of three runs
        assert written.loc[variant, "joules_high"] == sample.max()
    assert written.index.tolist() == ["base", "gd", "slow"]
    assert written["reached"].tolist() == [3, 3, 0]
    assert written["pareto"].tolist()[2] is False
    assert written["bits"].isna().tolist() == [False, False, True]
    assert len(pd.read_csv(out / "comparison/runs.csv")) == 9
    pairs = pd.read_csv(out / "comparison/pairs.csv").set_index(["variant", "cost"])
    wide = expected.pivot_table(index="seed", columns="variant", values="t", observed=True)
    ratio = stats.gmean(wide["gd"] / wide["base"])
    assert pairs.loc[("gd", "t"), "ratio"] == pytest.approx(ratio, rel=1e-9)
    assert pairs.loc[("slow", "t"), "pairs"] == 0
    assert pairs.loc[("slow", "t"), "verdict"] == "reached in none of 3 seeds, the other in all"
    for name in FIGURES:
        png = (out / f"comparison/{name}-gap-5000.png").read_bytes()
        assert png.startswith(b"\x89PNG")
        assert "<svg" in (out / f"comparison/{name}-gap-5000.svg").read_text()
    assert len(gather([out]).folders) == 9  # the folder of figures holds no runs


@pytest.mark.slow
def test_every_target_has_tables_and_figures_of_its_own(out: Path) -> None:
    comparison = Comparison.of([out], ["gap=1e4", "objective=1e7", "gap=10000"], "gd")
    targets = ["gap=10000", "objective=10000000"]
    assert [str(case.target) for case in comparison.cases] == targets
    titles = [str(table.title) for table in comparison.tables()]
    costs = [title for title in titles if title.startswith("cost to objective of at most 1e+07")]
    assert "paired difference from gd" in costs[1]
    frames = comparison.frames()
    assert frames.pop("causes")["target"].unique().tolist() == targets[:1]  # the other costs none
    frames.pop("quality")  # of the last models, whatever the target
    for frame in frames.values():
        assert frame["target"].unique().tolist() == targets
    names = [f"{figure}-{target.replace('=', '-')}" for target in targets for figure in FIGURES]
    assert list(comparison.figures()) == names


@pytest.mark.slow
def test_the_answer_is_about_the_cost_that_is_chosen(out: Path) -> None:
    usual = Comparison.of([out])
    (case,) = usual.cases
    for name in ("energy", "time", "bits", "rounds"):
        by = Comparison.of([out], by=name)
        assert f" {name} " in by.answers[0]
        assert sorted(by.verdicts(by.cases[0])) == sorted(usual.verdicts(case))
    told = compare(out, "--by", "time", "--json")
    assert json.loads(told.stdout)["answers"] == Comparison.of([out], by="t").answers


def test_a_variant_without_changes_is_a_baseline(tmp_path: Path) -> None:
    variants = {"gd": {"algorithm": {"kind": "gd", "step_size": "0.5/L"}}, "plain": {}}
    fedsim.run(small(variants=variants, stop={"rounds": 3}), out=tmp_path / "runs")
    table = json.loads(compare(tmp_path / "runs", "--against", "plain", "--json").stdout)
    assert {row["variant"] for row in table["pairs"]} == {"gd"}


def test_figures_for_a_paper_have_no_titles(out: Path) -> None:
    comparison = Comparison.of([out])
    for titles in (True, False):
        for figure in comparison.figures(titles=titles).values():
            said = figure.get_suptitle() + figure.axes[0].get_title(loc="left")
            assert bool(said) == titles


@pytest.mark.slow
def test_without_a_gap_to_stop_at_the_whole_run_is_what_is_compared(
    other: Path, tmp_path: Path
) -> None:
    result = compare(other, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert "whole run" not in (tmp_path / "costs-whole-run.svg").read_text()
    assert "cost of the whole run" in result.stdout
    written = pd.read_csv(tmp_path / "costs.csv").set_index("variant")
    assert written["round"].tolist() == [5, 5]
    assert written["t_low"].isna().all()  # one seed
    assert pd.read_csv(tmp_path / "pairs.csv")["p_value"].isna().all()


def test_a_part_of_the_runs_can_be_compared(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {path.parent.name for path in gather([out / "gd"]).folders} == {"gd"}
    assert [path.name for path in gather([out / "gd/seed-2"]).folders] == ["seed-2"]
    monkeypatch.chdir(out / "gd")
    for place in (Path(), Path("seed-3"), Path("../gd")):
        assert set(gather([place]).labels) == {"gd"}


def test_a_run_that_is_named_twice_counts_once(out: Path) -> None:
    assert len(gather([out / "gd", out, out / "base/seed-1"]).folders) == 9


def test_variants_of_one_name_are_told_apart_by_their_folders(
    out: Path, other: Path, tmp_path: Path
) -> None:
    runs = gather([out, other])
    assert dict(runs.labels) == {
        "wide/base": "wide/base (chb)", "gd": "gd", "slow": "slow (gd)",
        "narrow/base": "narrow/base (chb)",
        "wifi": "wifi (chb)",
    }  # fmt: skip
    assert runs.rounds["variant"].unique().tolist() == list(runs.labels)
    again = shutil.copytree(other, tmp_path / "copies/narrow")
    assert set(gather([other, again]).labels) == {
        f"{other.parent.name}/narrow/base", "copies/narrow/base",
        f"{other.parent.name}/narrow/wifi", "copies/narrow/wifi",
    }  # fmt: skip
    comparison = Comparison.of([out, other], against="wide/base (chb)")
    assert comparison.against == "wide/base"
    # Joules of two fleets are the same within 1 %; those of another method are near to both, and
    # constants alone may tell them apart.
    (note,) = comparison.notes
    near = "wide/base (chb) and gd; gd and narrow/base (chb) differ by less than 10 % in energy"
    assert near in note
    assert comparison.cases[0].target.words == "cost of the whole run"


def test_labels_name_the_method_where_methods_differ() -> None:
    def labels(**kinds: str) -> dict[str, str]:
        return labels_of(pd.DataFrame({"variant": kinds.keys(), "algorithm": kinds.values()}))

    assert labels(base="chb", big="chb") == {"base": "base (chb)", "big": "big"}
    assert labels(base="chb", chb="chb") == {"base": "base (chb)", "chb": "chb"}
    assert labels(base="chb", gd="gd", x="gd") == {"base": "base (chb)", "gd": "gd", "x": "x (gd)"}


def test_different_problems_are_pointed_out(out: Path, tmp_path: Path) -> None:
    fedsim.run(small(seeds=2, problem=problem(l2=2.0), stop={"rounds": 3}), out=tmp_path / "ridge")
    note, *_ = Comparison.of([out / "base", out / "gd", tmp_path / "ridge"]).notes
    assert "same problem (wide/base (chb) and gd; ridge/base (chb))" in note


def problem(l2: float) -> dict[str, object]:
    """Return the problem of the small scenario with another weight of its penalty."""
    own = small()["problem"]
    return {**own, "loss": {**own["loss"], "l2": l2}}


@pytest.mark.slow
def test_a_run_that_failed_has_no_end_that_it_reached(tmp_path: Path) -> None:
    wild = {"algorithm": {"kind": "gd", "step_size": 1e6}}
    stop = {"rounds": 400}
    with pytest.warns(TheoryWarning, match="below 2/L"):
        fedsim.run(small(variants={"wild": wild}, stop=stop), out=tmp_path)
    comparison = Comparison.of([tmp_path])
    assert any("diverged" in note for note in comparison.notes)
    table = comparison.cases[0].table.set_index("variant")
    assert table["reached"].to_dict() == {"base": 1, "wild": 0}


@pytest.mark.slow
def test_seeds_that_vary_nothing_are_pointed_out(tmp_path: Path) -> None:
    own = {**small()["problem"], "split": {"kind": "contiguous", "remainder": "spread"}}
    fedsim.run(small(problem=own, seeds=2, stop={"rounds": 3}), out=tmp_path)
    notes = Comparison.of([tmp_path]).notes
    assert notes == [("the whole run: all seeds cost the same for base (chb): no interval")]


def test_variants_that_only_sometimes_get_there_are_pointed_out(out: Path) -> None:
    finals = [run["gap"].min() for _, run in gather([out]).rounds.groupby(["variant", "seed"])]
    target = np.median(finals[6:])  # of the slow ones
    comparison = Comparison.of([out], [f"gap={float(np.nextafter(target, np.inf))!r}"])
    (case,) = comparison.cases
    table = case.table.set_index("variant")
    assert table["reached"].to_dict()["slow"] in {1, 2}
    assert not table["pareto"].to_dict()["slow"]
    assert any("seeds reached the target, and the means are over" in it for it in comparison.notes)


@pytest.mark.slow
def test_of_many_variants_those_that_matter_are_drawn(out: Path, tmp_path: Path) -> None:
    for number in range(12):
        shutil.copytree(out / "slow", tmp_path / f"many/slow-{number:02}")
    for name in ("base", "gd"):
        shutil.copytree(out / name, tmp_path / f"many/{name}")
    comparison = Comparison.of([tmp_path / "many"], against="slow-11")
    drawn = [
        text.get_text() for text in comparison.figures()["costs-gap-5000"].axes[0].get_yticklabels()
    ]
    assert len(drawn) == 12
    assert {"base (chb)", "gd", "slow-11 (gd)"} <= set(drawn)
    assert any("of 14 variants" in note for note in comparison.notes)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--target", "gap"], ["got 'gap'", "gap=1e-5"]),
        (["--target", "gap=low"], ["got 'gap=low'"]),
        (["--target", "=1"], ["got '=1'"]),
        (["--target", "gap=nan"], ["got 'gap=nan'"]),
        (["--target", "gap=-1"], ["got 'gap=-1'", "no gap is below 0"]),
        (["--target", "gap=0"], ["got 'gap=0'"]),
        (["--target", "gap=85%"], ["got 'gap=85%'"]),
        (["--target", "test_accuracy=85"], ["at most 1 (100 %)", "give 0.85 for 85 %"]),
        (["--target", "test_accuracy=-0.1"], ["test_accuracy is at least 0", "0.85 or 85 %"]),
        (["--target", "accuracy=0.9"], ["'accuracy'", "objective, gap"]),
        (["--target", "t=0.9"], ["'t'", "objective, gap"]),
        (["--against", "adam"], ["'adam'", "base, gd, slow"]),
        (["--by", "tiem"], ["got 'tiem'; did you mean 'time'?", "energy, time, bits or rounds"]),
        (["--by", "CO2"], ["got 'CO2'. Expected energy, time, bits or rounds"]),
        (["--confidence", "95"], ["got 95", "between 0 and 1"]),
    ],
)
def test_what_cannot_be_compared_is_said(
    arguments: list[str], words: list[str], out: Path, tmp_path: Path
) -> None:
    check_blame(compare(out, *arguments, "--out", tmp_path / "files"), *words)
    assert not (tmp_path / "files").exists()


@pytest.mark.parametrize("text", ["0.85", "85%", "85 %", " 85 % "])
def test_a_share_is_read_in_per_cent_too(text: str) -> None:
    assert Target.read(f"test_accuracy={text}") == Target("test_accuracy", 0.85)


def test_folders_without_runs_are_no_comparison(out: Path, tmp_path: Path) -> None:
    check_blame(compare(out, tmp_path / "none"), "there is no folder", "none")
    check_blame(compare(tmp_path), "there are no runs in", "fedsim run")
    check_blame(compare(out / "base/seed-1/rounds.parquet"), "there is no folder")


def test_where_no_run_is_left_each_is_named(other: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(other, tmp_path / "runs")
    (copy / "base/seed-1/summary.json").unlink()
    (copy / "wifi/seed-1/rounds.parquet").write_bytes(b"")
    result = compare(copy)
    check_blame(result, "missing: 1 of 1 of base", "is damaged", str(Path("wifi/seed-1")))
    assert not (copy / "comparison").exists()


def test_who_mistypes_is_told_what_is_near(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runs").symlink_to(out.parent)
    monkeypatch.chdir(tmp_path)
    check_blame(compare(Path(out.name)), "there is no folder", f"did you mean runs/{out.name}?")
    check_blame(compare(out, "--target", "gpa=1"), "evaluated 'gpa'; did you mean 'gap'?")
    check_blame(compare(out, "--against", "bsae"), "no variant 'bsae'; did you mean")
