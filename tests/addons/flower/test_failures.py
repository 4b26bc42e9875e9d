"""What goes wrong in a user's code: an error that names client and round, and the log is kept."""

import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, Message
from flwr.serverapp.strategy import FedAvg

import fedsim
from fedsim.flower import app, method, seconds_of
from fedsim.scenario import load
from fedsim.scenario.registries import blocks_in
from tests.addons.flower.scenes import ZEROS, Step, client_app, nothing, run, scenario
from tests.tiers import every


def in_round_two(step: Step) -> Step:
    """Do something at client 1 in round 2, and nothing before and elsewhere."""

    def made(arrays: dict[str, Any], msg: Message, context: Context) -> dict[str, Any] | None:
        number = msg.content["config"]["server-round"]
        if context.node_config["partition-id"] == 1 and number == 2:
            return step(arrays, msg, context)
        return arrays

    return made


def raising(*_: object) -> None:
    """Divide by zero."""
    divmod(1, 0)


def hanging(arrays: dict[str, Any], *_: object) -> dict[str, Any]:
    """Sleep on, whatever is raised."""
    while True:
        with suppress(Exception):  # as code that retries for ever
            time.sleep(0.01)


WRONG: dict[str, tuple[Step, str]] = {
    "raises": (
        raising,
        r"has failed: ZeroDivisionError: [a-z ]+zero \(test_failures.py, line",
    ),
    "exits": (lambda *_: sys.exit(3), "has failed: SystemExit: 3"),
    "no arrays": (lambda *_: None, "has returned no arrays; expected the model"),
    "fewer arrays": (lambda a, *_: {"w": a["w"]}, "has returned 1 arrays, where the model has 2"),
    "other names": (
        lambda a, *_: {"w": a["w"], "c": a["b"]},
        "an array 'c', where the model has w, b",
    ),
    "other shape": (
        lambda a, *_: {**a, "b": np.zeros(3, np.float32)},
        r"array 'b' of shape \(3,\), where the model has \(2,\)",
    ),
    "other type": (
        lambda a, *_: {**a, "b": np.zeros(2)},
        "array 'b' of float64, where the model has float32",
    ),
    "nan": (
        lambda a, *_: {**a, "b": a["b"] * np.nan},
        "has returned NaN or infinity in 2 of 8 numbers",
    ),
}


@every("what", WRONG)
def test_what_a_client_does_wrong_is_told_with_client_and_round(what: str) -> None:
    step, said = WRONG[what]
    result = run(in_round_two(step), stop={"rounds": 5})
    row = result.summary.iloc[0]
    assert row["status"] == "failed"
    assert row["rounds"] == 1
    assert "\n" not in row["reason"]
    assert row["reason"].startswith("train of client 1 in round 2 ")
    with pytest.raises(AssertionError, match=said):
        raise AssertionError(row["reason"])
    assert len(result.events) > 10  # the log up to there


def test_a_client_that_hangs_is_broken_off_at_its_limit() -> None:
    result = run(in_round_two(hanging), loss={"limit": "200 ms"})
    assert result.summary["reason"].tolist() == [
        "train of client 1 in round 2 did not return within 0.2 s of real time (problem.loss.limit)"
    ]


def test_a_hanging_client_is_left_where_no_signal_comes() -> None:
    """Signals come to the main thread alone."""
    from concurrent.futures import ThreadPoolExecutor

    over: list[bool] = []

    def slow(arrays: dict[str, Any], *_: object) -> dict[str, Any]:
        while not over:
            time.sleep(0.01)
        return arrays

    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(run, in_round_two(slow), loss={"limit": "200 ms"}).result()
        over.append(True)
    assert "client 1 in round 2 did not return within 0.2 s" in result.summary["reason"].item()


def test_what_fails_where_no_signal_comes_is_told_as_elsewhere() -> None:
    from concurrent.futures import ThreadPoolExecutor

    def failing(*_: object) -> dict[str, Any]:
        raise ValueError("no such layer")

    here = run(in_round_two(failing), loss={"limit": "30 s"}).summary["reason"].item()
    with ThreadPoolExecutor(1) as pool:
        there = pool.submit(run, in_round_two(failing), loss={"limit": "30 s"}).result()
    assert there.summary["reason"].item() == here
    assert "no such layer" in here


class Failing(FedAvg):
    """A strategy that fails as it aggregates."""

    def aggregate_train(self, server_round: int, replies: Any) -> Any:
        raise KeyError(f"round {server_round}")


def test_a_strategy_that_fails_is_named() -> None:
    result = run(algorithm=method(Failing()))
    reason = result.summary["reason"].item()
    assert reason.startswith(
        "aggregate_train of the strategy Failing in round 1 has failed: KeyError"
    )


@every(
    ("keys", "said"),
    [
        ({"algorithm": {"kind": "flower", "strategy": "FedMedia"}}, "did you mean 'FedMedian'"),
        ({"algorithm": {"kind": "flower", "options": {"fraction_fit": 1}}}, "fraction_fit"),
        ({"algorithm": {"kind": "gd", "step_size": 1}}, "train with their own programs"),
        ({"algorithm": {"kind": "fednova", "step_size": 1}}, "train with their own programs"),
        (
            {"algorithm": {"kind": "fedavg", "step_size": "1/L"}},
            "fedsim does not know its smoothness constant",
        ),
        (
            {"loss": {"clients": 4}},
            "problem.loss.clients: got 4, but the counts of fleet add up to 3",
        ),
        ({"loss": {"samples": (1, 2)}}, "problem.loss.samples: got 2 numbers for 3 clients"),
        ({"loss": {"initial": None}}, "has no initial model"),
        ({"evaluator": "compiled"}, "do so one-by-one"),
        ({"stop": {"gap": 0.1}}, "no optimum is known"),
        ({"stop": {"accuracy": 0.5}}, "unknown key 'accuracy'"),
        ({"measures": ["accuracy"]}, "measures.0"),
        ({"participation": {"kind": "asynchronous", "concurrency": 2}}, "needs rounds"),
    ],
)
def test_what_does_not_go_together_is_said_before_anything_runs(keys: Any, said: str) -> None:
    with pytest.raises(fedsim.ScenarioError) as raised:
        fedsim.check(scenario(**keys))
    assert said in str(raised.value)


@every(
    "fields",
    [
        {"clients": 2},
        {"clients": 2, "cost": {}},
        {"clients": 2, "cost": {"seconds": "1 s"}},
        {"clients": 2, "cost": {"operations": 1, "seconds": "1 s", "on": "pi-4"}},
        {"clients": 0, "cost": {"operations": 1}},
        {"clients": 2, "cost": {"operations": 1}, "l2": 0.1},
        {"clients": 2, "cost": {"operations": 1}, "limit": 3},
    ],
)
def test_a_block_that_is_wrong_is_refused(fields: Any) -> None:
    with pytest.raises(ValueError, match="validation error"):
        app(client_app(nothing), initial=ZEROS, **fields)


def test_a_figure_is_not_called_as_a_column_of_every_round_table() -> None:
    def judged(_: list[Any]) -> tuple[float, dict[str, float]]:
        return 1.0, {"joules": 2.0}

    loss = {"evaluate": judged, "evaluated_by": "server"}
    with pytest.raises(fedsim.ScenarioError, match=r"loss\.kind: .*'joules'.*rename the metric"):
        fedsim.run(scenario(loss=loss))


def test_data_belongs_to_the_clients() -> None:
    block = scenario()
    block["problem"]["data"] = {"kind": "sklearn", "name": "iris"}
    with pytest.raises(fedsim.ScenarioError, match=r"problem\.data: .*data of their own"):
        fedsim.check(block)


def test_what_is_as_good_as_nothing_may_be_said_of_data() -> None:
    block = scenario()
    block["problem"] |= {"penalty": {"kind": "none"}, "split": {"kind": "contiguous"}}
    (variant,) = load(block).variants
    assert variant.scenario.problem.penalty.kind == "none"
    block["problem"]["penalty"] = {"kind": "l1", "weight": 0.1}
    with pytest.raises(fedsim.ScenarioError, match=r"problem\.penalty: .*data of their own"):
        load(block)


def test_flower_is_for_clients_of_flower() -> None:
    block = {
        "problem": {"loss": "logistic", "data": {"kind": "sklearn", "name": "breast-cancer"}},
        "algorithm": "flower",
    }
    said = r"problem\.loss\.kind: .*clients with their own programs"
    with pytest.raises(fedsim.ScenarioError, match=said):
        fedsim.check(block)


@pytest.mark.slow
def test_more_clients_than_there_are_are_not_waited_for() -> None:
    result = run(algorithm={"kind": "flower", "options": {"min_available_nodes": 9}})
    assert "waits for more clients than the 3 there are" in result.summary["reason"].item()


WITHOUT = """
import sys
sys.modules["flwr"] = None
import fedsim
try:
    import fedsim.flower
except ModuleNotFoundError as error:
    print(error)
try:
    fedsim.check({"problem": {"loss": "logistic", "data": {"kind": "sklearn", "name": "iris"}},
                  "algorithm": "flower"})
except fedsim.ScenarioError as error:
    print(error)
"""


@pytest.mark.slow
def test_without_flower_it_is_said_how_to_get_it() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True
    )
    one, two = ran.stdout.splitlines()
    for line in (one, two):
        assert "pip install '.[flower]'" in line


def test_blocks_made_of_objects_stay_in_their_process() -> None:
    with pytest.raises(
        fedsim.BlockError, match=r"flower-app.* use jobs=1 and no executor, or put its class into"
    ):
        fedsim.run(scenario(seeds=2), jobs=2)


PLUGIN = """
from typing import ClassVar, Literal
from fedsim.flower import App, Flower
from flwr.serverapp.strategy import FedMedian
from fedsim.scenario.registries import blocks_in
from tests.addons.flower.scenes import ZEROS, client_app, nothing

class Own(App):
    kind: Literal["own"] = "own"
    client_app: ClassVar = client_app(nothing)

    def initial_arrays(self):
        return ZEROS

class Median(Flower):
    kind: Literal["own-median"] = "own-median"

    def make(self, problem):
        return FedMedian()
"""


@pytest.mark.slow
def test_blocks_of_a_plugin_go_to_other_processes(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(PLUGIN)
    loss = {"kind": "own", "clients": 3, "cost": {"operations": 1}}
    block = {
        "problem": {"loss": loss},
        "algorithm": "own-median",
        "stop": {"rounds": 1},
        "seeds": 2,
    }
    result = fedsim.run(block, blocks=blocks_in([tmp_path / "own.py"]), jobs=2)
    assert result.summary["status"].tolist() == ["done", "done"]


def test_flower_keeps_quiet_and_clients_leave_standard_output_alone(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    def talking(arrays: dict[str, Any], *_: object) -> dict[str, Any]:
        sys.stdout.write("trained\n")
        return arrays

    caplog.set_level("INFO", "flwr")
    run(talking)
    assert not [each for each in caplog.records if each.name == "flwr"]
    said = capsys.readouterr()
    assert "trained" not in said.out
    assert said.err.count("trained") == 2 * 3


def up(arrays: dict[str, Any], *_: object) -> dict[str, Any]:
    """Add one to all numbers."""
    return {name: array + np.float32(1) for name, array in arrays.items()}


def test_what_goes_wrong_as_a_model_is_judged_is_told_with_the_client() -> None:
    """At the model to begin with before anything runs, later by the run."""

    def inverse(arrays: dict[str, Any]) -> float:
        return 1.0 / (float(arrays["b"][0]) - 2)

    result = run(up, judge=inverse, stop={"rounds": 5})
    assert result.summary["rounds"].item() == 1
    reason = result.summary["reason"].item()
    assert reason.startswith("evaluate of client 0 for the observer has failed: ZeroDivisionError")
    with pytest.raises(
        fedsim.ScenarioError, match=r"problem\.loss\.evaluated_by: evaluate of client 0"
    ):
        fedsim.check(scenario(judge=lambda arrays: 1.0 / arrays["b"][0].item()))


def test_a_loss_that_is_no_number_is_told_with_the_client() -> None:
    def gone(arrays: dict[str, Any]) -> float:
        return float("nan") if arrays["b"][0] > 1 else 1.0

    result = run(up, judge=gone, stop={"rounds": 5})
    assert result.summary["reason"].item() == (
        "evaluate of client 0 for the observer has returned nan as loss"
    )


def test_seconds_are_those_of_a_fit_here() -> None:
    def slow(arrays: dict[str, Any], *_: object) -> dict[str, Any]:
        time.sleep(0.02)
        return arrays

    block = app(client_app(slow), clients=1, initial=ZEROS, cost={"operations": 1})
    assert seconds_of(block, fits=2) >= 0.02
