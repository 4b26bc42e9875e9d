"""Measures and test data of a scenario: read, refused, bound, and in the round table."""

from pathlib import Path
from typing import Any, Literal

import jsonschema
import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim.algorithms import GradientDescent
from fedsim.core.blocks.registry import kinds_of
from fedsim.core.ports import Array, Server
from fedsim.problems import MEASURES, SOURCES, GivenMeasure, HeldOut, Measure
from fedsim.problems.measures import GradientNorm, Support
from fedsim.scenario import Scenario, dump, load, schema
from fedsim.scenario.located import Origin
from fedsim.scenario.yaml import read_text
from tests.scenario.building.plans import found, job
from tests.scenario.examples import faults, least
from tests.tiers import every

SPARSE: dict[str, Any] = {
    "problem": {
        "loss": {"kind": "squared"},
        "data": {"kind": "sparse-linear", "clients": 4, "rows": 20, "features": 8, "ones": 4},
        "split": {"kind": "groups"},
        "test": {"fraction": 0.25},
    },
    "algorithm": {"kind": "gd", "step_size": "1/L"},
    "stop": {"rounds": 12},
}
NAMES = ["gradient_norm", "distance", {"kind": "support", "threshold": 0.5}, "test_loss"]


def problem(**changes: Any) -> dict[str, Any]:
    return {**least()["problem"], **changes}


def scenario(**blocks: Any) -> Scenario:
    return load(least(**blocks)).variants[0].scenario


def test_a_name_stands_for_the_measure_with_its_defaults() -> None:
    measures = scenario(measures=["gradient_norm", {"kind": "support", "threshold": 0.01}]).measures
    assert measures == (GradientNorm(), Support(threshold=0.01))
    assert scenario(measures=[{"kind": "gradient_norm"}]).measures == measures[:1]


def test_measures_and_test_data_are_read_back_from_a_dump() -> None:
    every = [kind for model in MEASURES if model is not GivenMeasure for kind in kinds_of(model)]
    for test in (None, {"fraction": 0.2}, {"kind": "sklearn", "name": "wine"}):
        made = scenario(problem=problem(test=test), measures=every)
        assert [each.kind for each in made.measures] == every
        tree, _ = read_text(dump(made), lambda line: Origin("dumped", line))
        assert load(tree.plain()).variants[0].scenario == made


@pytest.mark.slow
def test_editors_know_the_names_the_blocks_and_the_ways_to_test() -> None:
    document = schema()
    validator = jsonschema.Draft202012Validator(document)
    for measures, test, good in (
        (NAMES, {"fraction": 0.2}, True),
        (["accuracy"], None, False),
        ([{"kind": "support", "tolerance": 1}], None, False),
        ([], {"kind": "sklearn", "name": "wine"}, True),
        ([], {"share": 0.2}, False),
    ):
        written = least(problem=problem(test=test), measures=measures)
        assert validator.is_valid(written) == good
    described = document["properties"]["measures"]["items"]["anyOf"]
    assert len(described) == 1 + len(MEASURES)
    ways = document["$defs"]["ProblemSpec"]["properties"]["test"]["anyOf"]
    # A share, whole clients, a source or the name of one, or null.
    assert len(ways) == 2 + len(SOURCES) + 2
    assert validator.is_valid(least(problem=problem(test={"clients": 2})))
    assert not validator.is_valid(least(problem=problem(test={"clients": 0})))
    (names,) = (way["enum"] for way in ways if "enum" in way)
    assert set(names) <= {name for source in SOURCES for name in kinds_of(source)}


@every(
    ("blocks", "key", "words"),
    [
        ({"measures": ["gradientnorm"]}, "measures.0", "did you mean 'gradient_norm'?"),
        ({"measures": ["rank", {"kind": "rank", "tolerance": 0}]}, "measures.1", "measures.0 is"),
        ({"measures": [{"kind": "rank", "tolerance": 1}]}, "measures.0.tolerance", "below 1"),
        ({"measures": [{"kind": "rank", "treshold": 1}]}, "measures.0.treshold", "unknown key"),
        ({"problem": problem(test={"fraction": 1})}, "problem.test.fraction", "below 1"),
        ({"problem": problem(test={"share": 0.1})}, "problem.test", "give {fraction: 0.2}"),
        ({"problem": problem(test=0.2)}, "problem.test", "give a block"),
        ({"problem": problem(test={"kind": "held"})}, "problem.test.kind", "One of: libsvm"),
        (
            {"problem": problem(test={"kind": "npz", "path": "a", "preprocess": ["intercept"]})},
            "problem.test.preprocess",
            "fitted on the training rows",
        ),
    ],
)
def test_what_is_wrong_is_said_where_it_is(blocks: Any, key: str, words: str) -> None:
    (fault,) = faults(least(**blocks))
    assert fault.key == key
    assert words in fault.message


def test_what_the_problem_cannot_serve_is_found_before_the_run(tmp_path: Path) -> None:
    messages = found(tmp_path, measures=["gradient_norm", "distance", "rank", "test_accuracy"])
    assert list(messages) == ["measures.1", "measures.2", "measures.3"]
    assert "fedsim list data" in messages["measures.1"]
    assert "problem.test" in messages["measures.3"]
    wrong = found(tmp_path, problem=problem(test={"kind": "npz", "path": "none.npz"}))
    assert list(wrong) == ["problem.test.path"]
    small = found(tmp_path, problem=problem(test={"fraction": 0.001}))
    assert "less than one row of 442" in small["problem.test.fraction"]


def test_columns_are_in_the_round_table(tmp_path: Path) -> None:
    result = fedsim.run({**SPARSE, "measures": NAMES}, out=tmp_path)
    (run,) = result.runs
    table = pd.read_parquet(run / "rounds.parquet")
    columns = [
        "gradient_norm", "distance", "support_precision", "support_recall", "support_f1",
        "support_size", "test_loss",
    ]  # fmt: skip
    assert set(columns) <= set(table.columns)
    assert len(table) == 13
    assert not table[columns].isna().any(axis=None)
    assert table["support_size"].dtype == np.int64
    assert (table["distance"].diff().dropna() < 0).all()
    assert table["distance"].iloc[0] == 2.0  # from zero to four ones
    assert table["test_loss"].iloc[-1] < table["test_loss"].iloc[0] / 10


def test_nobody_in_the_simulated_world_notices_who_looks_on(tmp_path: Path) -> None:
    alone = fedsim.run(SPARSE, out=tmp_path / "alone")
    watched = fedsim.run({**SPARSE, "measures": NAMES}, out=tmp_path / "watched")
    pd.testing.assert_frame_equal(alone.events, watched.events)
    pd.testing.assert_frame_equal(alone.rounds, watched.rounds[alone.rounds.columns])


def test_rows_held_out_are_no_clients() -> None:
    whole = job(Path(), **{**SPARSE, "fleet": [], "problem": {**SPARSE["problem"], "test": None}})
    held = job(Path(), **{**SPARSE, "fleet": []})
    assert held.problem.test is not None
    assert [part.rows for part in whole.problem.samples] == [20] * 4
    assert [part.rows for part in held.problem.samples] == [15] * 4
    assert np.bincount(np.asarray(held.problem.test.client)).tolist() == [5] * 4
    kept = np.concatenate([part.X for part in held.problem.samples])
    everything = np.concatenate([kept, held.problem.test.X])
    before = np.concatenate([part.X for part in whole.problem.samples])
    assert np.array_equal(np.sort(everything[:, 0]), np.sort(before[:, 0]))
    spec = held.scenario.problem.test
    assert spec == HeldOut(fraction=0.25)


def test_constraint_and_accuracy_of_a_real_run(tmp_path: Path) -> None:
    """Violations are counted with pandas; accuracy grows with the rounds."""
    blocks = least(
        problem={
            "loss": {"kind": "logistic", "labels": "plus-minus"},
            "data": {"kind": "sklearn", "name": "breast-cancer", "preprocess": ["standardise"]},
            "split": {"kind": "iid", "clients": 5},
            "test": {"fraction": 0.2},
        },
        measures=["train_accuracy", "test_accuracy"],
        stop={"rounds": 10},
    )
    rounds = fedsim.run(blocks, out=tmp_path / "a").rounds
    assert (rounds[["train_accuracy", "test_accuracy"]].iloc[-1] > 0.9).all()
    blocks["problem"]["loss"] = {"kind": "neyman-pearson"}
    blocks["measures"] = [{"kind": "constraint", "tolerance": 0.1}]
    rounds = fedsim.run(blocks, out=tmp_path / "b").rounds
    assert rounds["constraint"].iloc[0] == pytest.approx(np.log(2))
    assert rounds["violated"].sum() == (rounds["constraint"] > 0.1).sum() == 11


class Chatty(GradientDescent):
    """Gradient descent that tells a figure of its own."""

    kind: Literal["chatty"] = "chatty"  # type: ignore[assignment]
    name: str = "drift"

    async def serve(self, server: Server) -> None:
        server.commit(server.initial, **{self.name: 0.5})


def chatty(name: str, *measures: Measure | str) -> Any:
    blocks = least(
        problem=problem(split={"kind": "iid", "clients": 3}),
        algorithm={"kind": "chatty", "step_size": 0.1, "name": name},
        measures=list(measures),
        stop={"rounds": 1},
    )
    return fedsim.run(blocks, blocks=[Chatty], check=False)


def test_a_method_and_the_observer_share_the_round_table() -> None:
    result = chatty("drift", "sparsity")
    start, first = result.rounds[["drift", "nonzeros"]].to_numpy()
    assert np.isnan(start[0])
    assert [start[1], *first] == [0.0, 0.5, 0.0]


@pytest.mark.parametrize(
    ("name", "words"),
    [("nonzeros", "remove it from `measures`"), ("gap", "rename the method's figure")],
)
def test_two_figures_of_one_name_end_the_run_and_are_named(name: str, words: str) -> None:
    (row,) = chatty(name, "sparsity").summary.to_dict("records")
    assert row["status"] == "duplicate-column"
    assert f"'{name}'" in row["reason"]
    assert words in row["reason"]


def test_a_measure_made_in_python_is_taken_as_it_is() -> None:
    made = scenario(measures=(Support(threshold=0.3), "rank"))
    assert made.measures[0] == Support(threshold=0.3)
    model: Array = np.zeros(10)
    (observe,) = job(Path(), measures=["sparsity"]).observers
    assert observe(model) == {"nonzeros": 0}
