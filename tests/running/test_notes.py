"""Notes: what a scenario says without effect, said alike by check, run and Python."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from typer.testing import CliRunner

import fedsim
from fedsim.cli import app
from fedsim.core.text import quantity
from fedsim.results import analysis
from fedsim.results.record.scenarios import Note
from fedsim.running.check import preflight_notes
from fedsim.scenario import dump, load
from fedsim.scenario.building import Builder
from tests.runs import SMALL, small
from tests.tiers import every

SAME_DATA = {"problem": {**small()["problem"], "split": {"kind": "contiguous"}}}
GD = {"kind": "gd", "step_size": "1/L"}
STEEP = {"kind": "gd", "step_size": "2.5/L"}


def notes(**changes: Any) -> list[Note]:
    return list(preflight_notes(Builder(load(small(**changes))).check()))


def keys(**changes: Any) -> list[tuple[str, str]]:
    return [(note.about, note.key) for note in notes(**changes)]


# -- variants ----------------------------------------------------------------------------


def test_a_scenario_that_means_what_it_says_has_no_notes() -> None:
    assert notes(variants={"gd": {"algorithm": GD}}, seeds=2) == []


def test_a_variant_that_is_merged_into_the_base_is_named() -> None:
    """It leaves error feedback out, and so keeps the base's."""
    top = {"kind": "top-k", "fraction": 0.5}
    wire = {"up": {"compressor": top, "error_feedback": "ef"}}
    dcgd = {"kind": "dcgd", "step_size": "0.1/L"}
    noef = {"wire": {"up": {"compressor": top}}}
    none = {"wire": {"up": {"compressor": top, "error_feedback": "none"}}}
    (note,) = notes(algorithm=dcgd, wire=wire, variants={"noef": noef, "none": none})
    assert (note.about, note.key) == ("noef", "variants")
    assert "identical to base, " in note.text
    assert "merged" in note.text


def test_a_variant_that_is_another_variant_is_named() -> None:
    other = {"algorithm": {"censor": 0.3}}
    (note,) = notes(variants={"a": other, "b": other})
    assert (note.about, note.key) == ("b", "variants")
    assert "identical to a, " in note.text


def test_a_point_of_a_sweep_that_is_the_same_number_is_named() -> None:
    (note,) = notes(algorithm=GD, sweep={"algorithm.step_size": ["1/L", "0.5/L", "1.0/L"]})
    assert (note.about, note.key) == ("step_size-1.0-L", "variants")
    assert "identical to step_size-1-L, " in note.text


# -- seeds -------------------------------------------------------------------------------


def test_seeds_that_draw_nothing_are_named() -> None:
    assert keys(**SAME_DATA, algorithm=GD, seeds=3) == [("base", "seeds")]
    assert keys(**SAME_DATA, algorithm=GD) == []
    runs = fedsim.run(small(**SAME_DATA, algorithm=GD, seeds=3))
    assert runs.rounds.groupby("seed")["objective"].sum().nunique() == 1


DRAWING: dict[str, dict[str, Any]] = {
    "split": {},
    "compressor": {
        **SAME_DATA,
        "algorithm": {"kind": "dcgd", "step_size": "0.1/L"},
        "wire": {"up": {"compressor": {"kind": "rand-k", "fraction": 0.5}}},
    },
    "batch": {**SAME_DATA, "algorithm": {"kind": "fedavg", "step_size": 1e-4, "batch": 5}},
    "start": {"problem": {**SAME_DATA["problem"], "start": {"kind": "normal"}}},
    "cohort": {**SAME_DATA, "participation": {"kind": "uniform", "count": 2}, "algorithm": GD},
    "loss of packets": {
        **SAME_DATA,
        "fleet": [
            {"count": 5, "radio": {"kind": "wifi", "loss": {"kind": "independent", "rate": "5 %"}}}
        ],
    },
    "slowdown": {
        **SAME_DATA,
        "fleet": [
            {"count": 5, "device": {"kind": "pi-4", "slowdown": {"kind": "lognormal", "sigma": 1}}}
        ],
    },
}


@pytest.mark.filterwarnings("ignore:.*assumes that all clients take part:fedsim.TheoryWarning")
@every("world", DRAWING)
def test_seeds_that_draw_something_are_not(world: str) -> None:
    """And the runs differ, so that nothing would have been a false alarm the other way."""
    changes = {"algorithm": GD, **DRAWING[world], "seeds": 2}
    assert [key for _, key in keys(**changes) if key == "seeds"] == []
    one, two = (
        frame.drop(columns=["seed"]).reset_index(drop=True)
        for _, frame in fedsim.run(small(**changes, stop={"rounds": 3})).rounds.groupby("seed")
    )
    assert not one.equals(two)


# -- rows without a client ------------------------------------------------------------------


@every(
    ("split", "left_out"),
    [
        ({"kind": "contiguous"}, 0),
        ({"kind": "iid", "stratify": True}, 0),
        ({"kind": "contiguous", "remainder": "drop"}, 442 % 5),
        ({"kind": "iid", "remainder": "drop"}, 442 % 5),
        ({"kind": "shards", "per_client": 3}, 442 % 15),
        ({"kind": "label-mix"}, 442 % 5),
        ({"kind": "writers", "rows": 30}, 442 - 5 * 30),
        ({"kind": "dirichlet"}, 0),
    ],
)
def test_rows_that_no_client_has_are_counted(split: dict[str, Any], left_out: int) -> None:
    problem = {**small()["problem"], "split": split, "optimum": "unknown"}
    found = [note.text for note in notes(problem=problem) if "to no client" in note.text]
    assert len(found) == (left_out > 0)
    assert all(f"{left_out} of 442 training rows" in text for text in found)
    assert all(("remainder: spread" in text) == ("remainder" in split) for text in found)


def test_the_optimum_over_clients_is_that_of_all_rows() -> None:
    """Ridge regression: 442 rows over 5 clients, against the normal equations of all of them."""
    X, y = load_diabetes(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)
    d = X.shape[1]
    for weight, split in ((1.0, {"kind": "iid"}), (5.0, {"kind": "contiguous"})):
        loss = {"kind": "squared", "scale": "sum", "l2": weight}
        problem = {**small()["problem"], "loss": loss, "split": split}
        (job,) = Builder(load(small(problem=problem))).check()
        # Each of the five clients has the penalty once.
        w = np.linalg.solve(X.T @ X + 5 * weight * np.eye(d), X.T @ y)
        value = (np.sum((X @ w - y) ** 2) + 5 * weight * np.sum(w**2)) / 2
        assert job.reference is not None
        assert job.reference.value == pytest.approx(value, rel=1e-10)


# -- batches and ends ----------------------------------------------------------------------


@pytest.mark.parametrize("batch", [10_000, {"start": 10_000, "ratio": 0.5}])
def test_a_batch_larger_than_any_client_is_named(batch: object) -> None:
    fedavg = {"kind": "fedavg", "step_size": 1e-4, "batch": batch}
    (note,) = notes(algorithm=fedavg)
    assert note.key == "algorithm.batch"
    assert "got 10000, but no client has more than 89 samples" in note.text
    assert notes(algorithm=fedavg | {"batch": 89}) == []


def test_the_batch_of_a_solver_too() -> None:
    solver = {"kind": "sgd", "batch": 500, "steps": 1}
    (note,) = notes(algorithm={"kind": "fedgradmp", "sparsity": 3, "solver": solver})
    assert note.key == "algorithm.solver.batch"


def test_rounds_that_end_by_default_are_named_before_and_after() -> None:
    written = small(algorithm=GD, stop={"time": "1e-3 s", "gap": 1e9})
    result = fedsim.run(written)
    assert [note.key for note in result.foreseen] == ["stop.rounds"]
    assert result.seen == ()  # another rule has ended it
    ideal = {"fleet": [], "problem": {**small()["problem"], "split": {"kind": "iid", "clients": 2}}}
    result = fedsim.run(small(algorithm=GD, stop={"gap": 1e-300}, **ideal))
    (note,) = result.seen
    assert (note.about, note.key) == ("base, seed 1", "stop.rounds")
    assert "1000 of 1000: the run ended at the default limit" in note.text


# -- a run that is done and has gone the wrong way -------------------------------------------


def test_variants_with_the_same_warning_of_theory_share_it() -> None:
    longer, steeper = {"stop": {"rounds": 2}}, {"algorithm": {**STEEP, "step_size": "3/L"}}
    variants = {"a": {}, "b": longer, "fine": {"algorithm": GD}, "c": steeper}
    written = small(algorithm=STEEP, variants=variants, stop={"rounds": 1})
    with pytest.warns(fedsim.TheoryWarning) as warned:
        fedsim.run(written)
    warnings = [str(each.message) for each in warned if each.category is fedsim.TheoryWarning]
    assert warnings == [str(note) for note in fedsim.check(written).concerns]
    assert [each.partition(": ")[0] for each in warnings] == ["a, b", "c"]


def test_a_run_that_ends_above_where_it_began_says_so_everywhere(tmp_path: Path) -> None:
    written = small(algorithm=STEEP, variants={"fine": {"algorithm": GD}}, stop={"rounds": 5})
    with pytest.warns(fedsim.TheoryWarning, match="2/L"):
        result = fedsim.run(written, out=tmp_path / "out")
    (note,) = result.notes
    assert (note.about, note.key) == ("base, seed 1", "objective")
    summary = json.loads((tmp_path / "out/base/seed-1/summary.json").read_text())
    assert summary["status"] == "rose"
    assert summary["objective"] > summary["start"]
    assert summary["notes"] == [f"objective: {note.text}"]
    assert f"{summary['start']:.6g}; step_size is" in note.text
    caveats = analysis.Comparison.of([tmp_path / "out"], ["objective=1"], None, 0.95).notes
    assert sum("above" in text and "above its initial value" in text for text in caveats) == 1


FLIPPED = {"count": 2, "attack": {"kind": "sign-flip", "scale": 50}}


@pytest.mark.parametrize(
    ("rule", "blame"),
    [
        ({}, "2 of 5 clients attack, and the mean does not withstand it: give aggregation: "),
        (
            {"aggregation": {"kind": "trimmed-mean", "byzantine": 1}},
            "2 of 5 clients attack, and trimmed-mean withstands 1 (aggregation.byzantine): give",
        ),
        ({"aggregation": "median", "algorithm": {**GD, "step_size": "30/L"}}, "step_size is"),
    ],
)
@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")
def test_an_attack_is_named_as_the_cause_of_a_risen_objective_before_the_step_size(
    rule: dict[str, Any], blame: str
) -> None:
    fleet = [{**small()["fleet"][0], "count": 3}, {**small()["fleet"][0], **FLIPPED}]
    attacked = {"algorithm": GD, "fleet": fleet, "stop": {"rounds": 3}, **rule}
    result = fedsim.run(small(**attacked), check=False)
    told = [note.text for note in result.notes if note.key == "objective"]
    told += [str(each) for each in result.summary["reason"] if "diverged" in str(each)]
    assert any(f"; {blame}" in text for text in told), told
    assert ("step_size" in told[0]) == (blame == "step_size is")


@pytest.mark.parametrize(
    ("radio", "key"),
    [
        ("nb-iot", ""),
        ("nb-iot-psm", "tau"),
        ({"kind": "nb-iot-edrx", "paging_cycle": "20 min"}, "paging_cycle"),
        ("lte", ""),
    ],
)
def test_a_radio_that_sleeps_for_long_is_named_with_the_time_that_a_message_waits(
    radio: Any, key: str
) -> None:
    written = small(fleet=[{**small()["fleet"][0], "radio": radio}])
    found = fedsim.check(written)
    sleeping = [note for note in found.notes if "it falls asleep" in note.text]
    assert [note.key for note in sleeping] == ([f"fleet.0.radio.{key}"] if key else [])
    (job,) = found.jobs
    (group,) = job.scenario.fleet
    longest = max(stage.cycle for stage in group.radio.states.stages)
    assert (longest >= 60) == bool(key)
    if sleeping:
        assert sleeping[0].text.startswith(f"got {quantity(longest, 's')}: ")


@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")
@pytest.mark.parametrize("where", ["server", "clients"])
def test_against_an_attack_only_a_rule_is_advised_that_the_scenario_may_have(where: str) -> None:
    fleet = [{**small()["fleet"][0], "count": 3}, {**small()["fleet"][0], **FLIPPED}]
    private = {"privacy": {"clip": 1.0, "noise": 1.0, "where": where}}
    attacked = small(algorithm=GD, fleet=fleet, **private)
    (job,) = Builder(load(attacked)).check()
    advised = {**attacked, "aggregation": {"kind": "trimmed-mean", "byzantine": 2}}
    if "give aggregation: {kind: trimmed-mean, byzantine: 2}" in job.advice():
        load(advised)
        return
    assert "2 of 5 clients attack" in job.advice()
    with pytest.raises(fedsim.ScenarioError) as refused:
        load(advised)
    assert job.advice().rpartition("not in this scenario: ")[2] in str(refused.value)
    assert where == "server"


def test_the_start_is_the_objective_at_the_model_that_all_start_from() -> None:
    (summary,) = fedsim.run(small(algorithm=GD)).summary.to_dict("records")
    plan = load(small(algorithm=GD))
    (job,) = Builder(plan).check()
    assert summary["start"] == job.problem.value(job.setup.initial)
    assert summary["notes"] == []


def test_under_a_constraint_an_objective_may_rise() -> None:
    problem = {
        "loss": {"kind": "neyman-pearson"},
        "data": {"kind": "sklearn", "name": "breast-cancer", "preprocess": ["standardise"]},
        "split": {"kind": "iid", "clients": 3, "remainder": "drop"},
    }
    sgm = {"kind": "fedsgm", "step_size": 0.5, "tolerance": 1e-3}
    result = fedsim.run({"problem": problem, "algorithm": sgm, "stop": {"rounds": 3}})
    assert result.seen == ()


@pytest.mark.parametrize(("share", "noted"), [("5 %", True), ("30 %", False)])
def test_a_run_of_which_most_rounds_were_no_steps_says_so(share: str, noted: bool) -> None:
    """None of five clients is there in 77 % of the rounds, or in 17 % of them."""
    there = {"availability": {"kind": "bernoulli", "share": share}}
    fleet = [{**group, **there} for group in SMALL["fleet"]]
    full = {"kind": "full", "give_up": "20 s"}
    result = fedsim.run(small(algorithm=GD, fleet=fleet, participation=full, stop={"rounds": 30}))
    abandoned = (result.events["event"] == "abandoned").sum()
    assert abandoned > 0
    assert (abandoned > 15) == noted
    told = f"rounds: {abandoned} of 30 were abandoned because too few clients replied"
    assert any(told in str(note) for note in result.notes) == noted


# -- where they are said -------------------------------------------------------------------


@pytest.mark.slow
def test_check_and_run_say_the_same_before_anything_runs(tmp_path: Path) -> None:
    path = tmp_path / "noted.yaml"
    written = small(**SAME_DATA, algorithm=GD, seeds=2, variants={"again": {}})
    path.write_text(dump(load(written).variants[0].scenario.model_copy(update={"seeds": 2})))
    path.write_text(path.read_text() + "variants: {same: {}, again: {}}\n")
    said: list[Note] = []
    result = fedsim.run(path, out=tmp_path / "out", tell=said.append)
    assert tuple(said) == result.foreseen
    assert [(note.about, note.key) for note in said] == [
        ("again", "variants"),
        ("same, again", "seeds"),
    ]
    checked = CliRunner().invoke(app, ["check", str(path)])
    run = CliRunner().invoke(app, ["run", str(path), "--out", str(tmp_path / "out")])
    for note in said:
        for output in (checked.output, run.output):
            assert f"note: {note}" in output


@pytest.mark.slow
def test_the_table_of_a_run_marks_what_has_risen(tmp_path: Path) -> None:
    path = tmp_path / "steep.yaml"
    path.write_text(dump(load(small(algorithm=STEEP, stop={"rounds": 4})).variants[0].scenario))
    result = CliRunner().invoke(app, ["run", str(path), "--out", str(tmp_path / "out")])
    assert result.exit_code == 0
    assert "base (gd) (objective rose)" in " ".join(result.output.split())
    assert "note: base, seed 1: objective: it ended at" in result.output


# -- settings without effect ---------------------------------------------------------------

DIABETES: dict[str, Any] = {
    "loss": {"kind": "squared", "l2": 1},
    "data": {"kind": "sklearn", "name": "diabetes", "preprocess": ["standardise"]},
    "split": {"kind": "iid"},
}
IRIS = {
    **DIABETES,
    "loss": {"kind": "softmax", "l2": 0.1},
    "data": {"kind": "sklearn", "name": "iris"},
}
PLAIN: dict[str, Any] = {
    "problem": DIABETES,
    "algorithm": {"kind": "gd", "step_size": "0.5/L"},
    "fleet": [{"count": 8, "device": "pi-4", "radio": "wifi", "carbon": "DE"}],
    "stop": {"rounds": 3},
}
SLOW = {"kind": "pi-4", "slowdown": {"kind": "lognormal", "sigma": 1}}
COHORT = {"kind": "carbon-aware", "count": 2}
DCGD = {"kind": "dcgd", "step_size": "0.1/L"}


def compressed(fraction: float) -> dict[str, Any]:
    up = {"compressor": {"kind": "rand-k", "fraction": fraction}}
    return {"algorithm": DCGD, "wire": {"up": up}}


@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")
@every(
    ("without", "with_effect", "key", "text"),
    [
        (
            {"fleet": [{"count": 8, "device": SLOW, "radio": "wifi"}]},
            {"fleet": [{"count": 8, "device": {**SLOW, "speed": "1 Mflop/s"}, "radio": "wifi"}]},
            "fleet.0.device",
            "computing takes at most 0.0",
        ),
        (compressed(0.9), compressed(0.1), "wire.up.compressor", "it saves nothing"),
        (
            {"stop": {"rounds": 3, "patience": {"rounds": 3}}},
            {"stop": {"rounds": 3, "patience": {"rounds": 2}}},
            "stop.patience",
            "it never ends a run",
        ),
        (
            {"stop": {"rounds": 3, "objective": 1.0}},
            {"stop": {"rounds": 3, "objective": 1e6}},
            "stop.objective",
            "but the smallest objective is 13495.4",
        ),
        (
            {"problem": {**DIABETES, "split": {"kind": "dirichlet", "alpha": 0.1}}},
            {"problem": {**IRIS, "split": {"kind": "dirichlet", "alpha": 0.1}}},
            "problem.split",
            "214 distinct values in 442 rows",
        ),
        (
            {"participation": {**COHORT, "below": "3 g/kWh"}},
            {"participation": {**COHORT, "below": "900 g/kWh"}},
            "participation.below",
            "no hour meets it",
        ),
    ],
)
def test_a_setting_without_effect_is_named_by_check_and_by_a_run(
    without: dict[str, Any], with_effect: dict[str, Any], key: str, text: str
) -> None:
    result = fedsim.run(PLAIN | without)
    for found in (fedsim.check(PLAIN | without).notes, result.notes):
        (note,) = [each for each in found if each.key == key]
        assert text in note.text
    assert key not in [note.key for note in fedsim.check(PLAIN | with_effect).notes]


def test_labels_of_one_class_are_named(tmp_path: Path) -> None:
    (tmp_path / "same.csv").write_text("a,y\n" + "".join(f"{0.5 + n % 7},1\n" for n in range(40)))
    data = {"kind": "table", "path": str(tmp_path / "same.csv"), "label": "y"}
    found = fedsim.check(PLAIN | {"problem": {**DIABETES, "data": data}}).notes
    said = [each.text for each in found if each.key == "problem.data"]
    assert sum("all 40 labels are" in text for text in said) == 1


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"participation": {"kind": "full", "deadline": "60 s"}}, "participation.deadline"),
        ({"silence": {"kind": "deadline", "after": "60 s"}}, "silence.after"),
    ],
)
def test_a_deadline_that_all_replies_met_is_named(changes: dict[str, Any], key: str) -> None:
    (note,) = fedsim.run(PLAIN | changes).seen
    assert (note.key, note.text) == (
        key,
        "got 60 s, and all replies of all rounds were in time: it had no effect",
    )


def test_a_deadline_that_some_replies_missed_is_not() -> None:
    far = {"kind": "wifi", "latency": "1 s"}
    fleet = [*PLAIN["fleet"], {"count": 1, "device": "pi-4", "radio": far}]
    changes = {
        "participation": {"kind": "full", "deadline": "500 ms"},
        "fleet": fleet,
        "stop": {"rounds": 9},
    }
    result = fedsim.run(PLAIN | changes)
    assert result.clients["late"].sum() + result.clients["lost"].sum() > 0
    assert "participation.deadline" not in [note.key for note in result.seen]


@pytest.mark.parametrize(
    ("value", "bound", "remedy"),
    [
        (85, "at most 1 (100 %)", "give 0.85 for 85 %"),
        (850, "at most 1 (100 %)", "give a share, such as 0.85 or 85 %"),
        (1.5, "at most 1 (100 %)", "give a share, such as 0.85 or 85 %"),
        (-0.1, "at least 0", "give a share, such as 0.85 or 85 %"),
    ],
)
def test_a_share_outside_zero_to_one_is_refused(value: float, bound: str, remedy: str) -> None:
    stop = {"rounds": 3, "train_accuracy": value}
    with pytest.raises(fedsim.ScenarioError) as caught:
        fedsim.check(PLAIN | {"problem": IRIS, "measures": ["train_accuracy"], "stop": stop})
    (fault,) = caught.value.faults
    assert str(fault) == (
        f"stop.train_accuracy: got {value}, but train_accuracy is {bound}; {remedy}"
    )
