"""Data that say nothing: zeros, constants, single rows; with every method, loss and penalty."""

from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.algorithms import Algorithm
from fedsim.core.errors import ScenarioError
from fedsim.core.ports import Array
from fedsim.results.record.summary import end_of
from tests.methods import METHODS, PENALISED, the_class
from tests.tiers import every, some

LOSSES: dict[str, dict[str, Any]] = {
    "logistic": {"kind": "logistic", "labels": "plus-minus"},
    "logistic-l1": {"kind": "logistic", "labels": "plus-minus", "l1": 0.1},
    "logistic-l2": {"kind": "logistic", "labels": "plus-minus", "l2": 0.1},
    "squared": {"kind": "squared"},
    "softmax": {"kind": "softmax"},
    "trace-regression": {"kind": "trace-regression"},
    "mlp": {"kind": "mlp", "hidden": 2},
}
CONSTRAINED: dict[str, Any] = {"kind": "neyman-pearson"}
ROWS, FEATURES, CLIENTS = 12, 9, 3
WORLDS = ("zeros", "constant", "one zero client", "single rows", "one client", "vanishing")


def features(world: str) -> tuple[Array, int]:
    """Return the features of a world, and over how many clients they are split."""
    X = np.random.default_rng(0).standard_normal((ROWS, FEATURES))
    match world:
        case "zeros":
            X[:] = 0
        case "constant":
            X[:] = 1
        case "one zero client":
            X[: ROWS // CLIENTS] = 0
        case "vanishing":  # its squares are below all numbers
            X *= 1e-170
    return X, {"single rows": ROWS, "one client": 1}.get(world, CLIENTS)


def problem(world: str, loss: dict[str, Any], folder: Path, **more: object) -> dict[str, Any]:
    X, clients = features(world)
    path = folder / f"{world}.npz"
    np.savez(path, X=X, y=np.tile([-1.0, 1.0], ROWS // 2))
    return {
        "loss": loss,
        "data": {"kind": "npz", "path": str(path)},
        "split": {"kind": "contiguous", "clients": clients},
        **more,
    }


def block(kind: str, **more: object) -> dict[str, Any]:
    """Return a method with step sizes and batches that suit anything."""
    values = {"kind": kind, **METHODS[kind], **more}
    if "step_size" in values:
        values["step_size"] = more.get("step_size", 0.05)
    if kind == "fedgradmp":
        values["solver"] = {"kind": "gradient-descent", "step_size": 0.05, "steps": 3}
    least = {"batch": 2, "sparsity": 1}
    return values | {key: least[key] for key in least if key in values}


def is_constrained(kind: str) -> bool:
    return the_class(kind).constraint_tolerance is not Algorithm.constraint_tolerance


def run(kind: str, of: dict[str, Any], **more: object) -> fedsim.Result:
    method = the_class(kind)
    asynchronous = {"participation": {"kind": "asynchronous", "buffer": 1}}
    penalised = {"penalty": PENALISED["penalty"]} if method.proximal else {}
    return fedsim.run(
        {
            "problem": of | penalised,
            "algorithm": block(kind, **more),
            "stop": {"rounds": 3},
            **(asynchronous if method.asynchronous else {}),
        }
    )


def assert_done(result: fedsim.Result) -> None:
    (status,) = result.summary["status"]  # a few steps on data that say nothing may lead upwards
    assert end_of(status).complete, result.summary["reason"].tolist()
    assert np.isfinite(result.rounds["objective"]).all()


@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")
@pytest.mark.parametrize("kind", some(METHODS, "chb", "fedavg", "fedsgm", "scaffold"))
def test_every_method_ends_on_data_that_say_nothing(kind: str, tmp_path: Path) -> None:
    losses = LOSSES if not is_constrained(kind) else {"neyman-pearson": CONSTRAINED}
    if kind == "lag-ps":  # asks by constants that a network does not have
        losses = {name: loss for name, loss in losses.items() if name != "mlp"}
    for loss in losses.values():
        assert_done(run(kind, problem("zeros", loss, tmp_path, optimum="unknown")))
    for world, loss in zip(WORLDS[1:], cycle(losses.values()), strict=False):
        if not (world == "single rows" and loss == CONSTRAINED):
            assert_done(run(kind, problem(world, loss, tmp_path, optimum="unknown")))


@every("constant", ["L", "L_max"])
@every("kind", [k for k, block in METHODS.items() if "step_size" in block])
def test_a_step_relative_to_nothing_is_refused(kind: str, constant: str, tmp_path: Path) -> None:
    loss = CONSTRAINED if is_constrained(kind) else LOSSES["logistic"]
    with pytest.raises(ScenarioError) as caught:
        run(kind, problem("zeros", loss, tmp_path), step_size=f"0.5/{constant}")
    (fault,) = caught.value.faults
    assert fault.key == "algorithm.step_size"
    assert f"constant {constant} is 0" in fault.message
    assert "as a number" in fault.message


def test_who_asks_by_smoothness_constants_takes_a_loss_that_has_them(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"algorithm.kind: lag-ps selects .* use lag-wk"):
        run("lag-ps", problem("constant", LOSSES["mlp"], tmp_path))


def test_a_solver_too_is_refused_at_its_own_key(tmp_path: Path) -> None:
    solver = {"solver": {"kind": "gradient-descent"}}
    written = {"kind": "fedgradmp", "sparsity": 1, **solver}
    with pytest.raises(ScenarioError, match=r"algorithm.solver.step_size: got 1/L"):
        fedsim.run({"problem": problem("zeros", LOSSES["squared"], tmp_path), "algorithm": written})


PENALTIES: list[dict[str, Any]] = [
    {"kind": "l1", "weight": 0.1},
    {"kind": "elastic-net", "weight": 0.1},
    {"kind": "group-l2", "weight": 0.1},
    {"kind": "nuclear", "weight": 0.1},
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")
@pytest.mark.parametrize("world", WORLDS)
def test_the_reference_of_nothing_is_where_nothing_is_gained(world: str, tmp_path: Path) -> None:
    """Optima are at most every value on the way; of features that are zero, that at the start."""
    for loss in LOSSES.values():
        if loss["kind"] == "mlp":
            continue
        for kind in ("gd", "distributed-iht"):
            (summary,) = run(kind, problem(world, loss, tmp_path)).summary.to_dict("records")
            assert summary["gap"] >= -1e-12
            if world == "zeros" and loss["kind"] in ("logistic", "softmax"):
                assert summary["reference.value"] == pytest.approx(np.log(2), rel=1e-12)


def test_so_are_those_of_penalties(tmp_path: Path) -> None:
    for penalty in PENALTIES:
        for loss in ("softmax", "trace-regression"):
            of = problem("zeros", LOSSES[loss], tmp_path, penalty=penalty)
            written = {"kind": "fedmid", "step_size": 0.1}
            result = fedsim.run({"problem": of, "algorithm": written, "stop": {"rounds": 2}})
            assert_done(result)
            assert (result.rounds["gap"].abs() <= 1e-12).all()
