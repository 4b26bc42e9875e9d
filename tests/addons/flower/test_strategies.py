"""Each strategy of Flower's makes here what it makes where clients answer it directly."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict, UserConfig
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp
from flwr.common import (
    Code,
    FitRes,
    Status,
    ndarrays_to_parameters,
    parameters_to_ndarrays,
)
from flwr.server import strategy as older
from flwr.serverapp import strategy as newer
from flwr.supercore.task_identity import TaskIdentity

import fedsim
from fedsim.addons.flower.program import client_of
from fedsim.addons.flower.server import NodeIds, NodeProxy, Places
from fedsim.addons.flower.user_code import FlowerEvaluation, parse_reply
from fedsim.flower import app, method
from tests.addons.flower.scenes import ZEROS, client_app, partition, run

CLIENTS, ROUNDS = 6, 3


def towards(arrays: dict[str, Any], _: Message, context: Context) -> dict[str, Any]:
    """Go half of the way to a point of the client's own."""
    point = np.float32((partition(context) + 1) ** 2)
    return {name: array + (point - array) / 2 for name, array in arrays.items()}


class Direct(NodeIds):
    """A grid on which clients answer at once."""

    def __init__(self, clients: ClientApp) -> None:
        super().__init__(range(CLIENTS))
        self._app = clients
        TaskIdentity.run_id = TaskIdentity.task_id = TaskIdentity.node_id = 1

    def send_and_receive(  # type: ignore[override]
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        self.rest()
        return [self._app(each, self._context(each)) for each in messages]

    def _context(self, message: Message) -> Context:
        node = message.metadata.dst_node_id
        config: UserConfig = {"partition-id": client_of(node), "num-partitions": CLIENTS}
        return Context(1, node, config, RecordDict(), {})


NEWER: dict[str, Any] = {
    name: getattr(newer, name)
    for name in (
        *("FedAdagrad", "FedAdam", "FedAvg", "FedAvgM", "FedMedian", "FedProx"),
        *("FedTrimmedAvg", "FedYogi", "Krum", "MultiKrum"),
    )
}
NEWER["private"] = lambda: newer.DifferentialPrivacyServerSideFixedClipping(
    newer.FedAvg(), noise_multiplier=0.0, clipping_norm=2.0, num_sampled_clients=CLIENTS
)


@pytest.mark.slow
@pytest.mark.parametrize("name", NEWER)
def test_a_strategy_of_the_message_interface_makes_the_same_model(name: str) -> None:
    named = {"kind": "flower", "strategy": name}
    algorithm = method(NEWER[name]()) if name == "private" else named
    result = run(towards, CLIENTS, algorithm=algorithm, stop={"rounds": ROUNDS})
    start = ArrayRecord({name: Array(each) for name, each in ZEROS.items()})
    alone = NEWER[name]().start(Direct(client_app(towards)), start, num_rounds=ROUNDS)
    flat = np.concatenate([each.numpy().ravel() for each in alone.arrays.values()])
    assert result.models["model"].iloc[-1] == pytest.approx(flat, rel=1e-5, abs=1e-6)
    assert abs(flat).max() > 0.01


class Walker(NumPyClient):
    """Goes half of the way to a point of its own."""

    def __init__(self, client: int) -> None:
        self.point = float(client**2)

    def get_parameters(self, config: dict[str, Any]) -> list[Any]:
        return [np.zeros((2, 3)), np.zeros(2)]

    def fit(
        self, parameters: list[Any], config: dict[str, Any]
    ) -> tuple[list[Any], int, dict[str, Any]]:
        return [each + (self.point - each) / 2 for each in parameters], 10, {}

    def evaluate(
        self, parameters: list[Any], config: dict[str, Any]
    ) -> tuple[float, int, dict[str, Any]]:
        return float(parameters[1][0]), 10, {}


def walker(context: Context) -> Any:
    return Walker(partition(context)).to_client()


def own() -> Any:
    return ndarrays_to_parameters(Walker(0).get_parameters({}))


OLDER: dict[str, Any] = {
    "FedAvg": older.FedAvg,
    "FedAdam": lambda: older.FedAdam(initial_parameters=own()),
    "FedAvgM": lambda: older.FedAvgM(initial_parameters=own(), server_momentum=0.5),
    "FedMedian": older.FedMedian,
    "FedProx": lambda: older.FedProx(proximal_mu=0.1),
    "FedTrimmedAvg": older.FedTrimmedAvg,
    "Krum": lambda: older.Krum(num_malicious_clients=1, num_clients_to_keep=2),
    "FaultTolerantFedAvg": older.FaultTolerantFedAvg,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OLDER)
def test_a_strategy_of_the_older_interface_makes_the_same_model(name: str) -> None:
    block = app(walker, clients=CLIENTS, cost={"operations": 1})
    result = fedsim.run(
        {
            "problem": {"loss": block},
            "algorithm": method(OLDER[name](), evaluation=True),
            "wire": {"values": "float64"},
            "stop": {"rounds": ROUNDS},
        }
    )
    arrays = alone(OLDER[name]())
    flat = np.concatenate([each.ravel() for each in arrays])
    assert result.models["model"].iloc[-1] == pytest.approx(flat)
    assert result.rounds["evaluate_loss"].iloc[-1] == pytest.approx(flat[-1])


def alone(strategy: Any) -> list[Any]:
    """Let a strategy's clients answer it directly; return the arrays of the model."""
    places = Places(range(CLIENTS))
    parameters = strategy.initialize_parameters(places) or own()
    fine = Status(Code.OK, "")
    for number in range(1, ROUNDS + 1):
        results = []
        for place, asked in strategy.configure_fit(number, parameters, places):
            assert isinstance(place, NodeProxy)
            fitted, count, figures = Walker(place.client).fit(
                parameters_to_ndarrays(asked.parameters), asked.config
            )
            results.append((place, FitRes(fine, ndarrays_to_parameters(fitted), count, figures)))
        results.sort(key=lambda each: each[0].client)
        parameters, _ = strategy.aggregate_fit(number, results, [])
    return parameters_to_ndarrays(parameters)


def test_the_figures_of_a_strategys_own_evaluation_are_columns() -> None:
    def evaluate(number: int, arrays: list[Any], config: dict[str, Any]) -> Any:
        return float(number), {"first": float(arrays[0].flat[0])}

    block = app(walker, clients=CLIENTS, cost={"operations": 1}, evaluated_by="nobody")
    strategy = older.FedAvg(evaluate_fn=evaluate)
    result = fedsim.run(
        {"problem": {"loss": block}, "algorithm": method(strategy), "stop": {"rounds": 2}}
    )
    assert result.rounds["central_loss"].tolist()[1:] == [1.0, 2.0]
    mean = np.mean([client**2 for client in range(CLIENTS)])
    assert result.rounds["central_first"].tolist()[1:] == pytest.approx(
        [mean / 2, mean * 3 / 4], rel=1e-6
    )


def test_who_does_not_answer_is_a_failure_to_the_strategy() -> None:
    """A strategy that accepts no failures keeps the model where one of its clients has died."""
    seen: list[tuple[int, int]] = []

    class Strict(older.FedAvg):
        def aggregate_fit(self, server_round: int, results: Any, failures: Any) -> Any:
            seen.append((len(results), len(failures)))
            return super().aggregate_fit(server_round, results, failures)

    fleet = [
        {"count": 2, "device": "pi-4", "radio": "wifi"},
        {"count": 1, "device": "pi-4", "radio": "wifi", "battery": {"capacity": "0.001 Wh"}},
    ]
    block = app(walker, cost={"operations": 1e11})
    algorithm = method(Strict(accept_failures=False))
    result = fedsim.run(
        {"problem": {"loss": block}, "algorithm": algorithm, "fleet": fleet, "stop": {"rounds": 1}}
    )
    assert seen == [(2, 1)]
    assert result.models["model"].iloc[-1].tolist() == [0.0] * 8


def test_whom_the_scenario_has_not_drawn_is_no_failure_to_the_strategy() -> None:
    """A strategy that asks all has its cohort drawn; one that names some misses those it named."""
    seen: list[tuple[int, int]] = []

    class Counting(older.FedAvg):
        def aggregate_fit(self, server_round: int, results: Any, failures: Any) -> Any:
            seen.append((len(results), len(failures)))
            return super().aggregate_fit(server_round, results, failures)

    block = app(walker, clients=6, cost={"operations": 1})
    drawn = {"participation": {"kind": "uniform", "count": 2}}
    cases: list[tuple[dict[str, Any], dict[str, Any], tuple[int, int]]] = [
        ({}, drawn, (2, 0)),
        ({}, {}, (6, 0)),
        ({"fraction_fit": 0.5, "min_fit_clients": 1}, {}, (3, 0)),
    ]
    for options, more, expected in cases:
        seen.clear()
        algorithm = method(Counting(**options))
        source = {"problem": {"loss": block}, "algorithm": algorithm, "stop": {"rounds": 2}}
        fedsim.run(source | more)
        assert seen == [expected] * 2


def test_clients_that_a_strategy_names_fail_it_also_where_the_scenario_draws_others() -> None:
    """Two of three are named, and two of three have no charge for their work: one fails or two."""
    seen: list[tuple[int, int]] = []

    class Counting(older.FedAvg):
        def aggregate_fit(self, server_round: int, results: Any, failures: Any) -> Any:
            seen.append((len(results), len(failures)))
            return super().aggregate_fit(server_round, results, failures)

    fleet = [
        {"count": 1, "device": "pi-4", "radio": "wifi"},
        {"count": 2, "device": "pi-4", "radio": "wifi", "battery": {"capacity": "0.001 Wh"}},
    ]
    algorithm = method(Counting(fraction_fit=0.7, min_fit_clients=2, min_available_clients=2))
    source = {
        "problem": {"loss": app(walker, cost={"operations": 1e11})},
        "algorithm": algorithm,
        "fleet": fleet,
        "participation": {"kind": "uniform", "count": 2},
        "stop": {"rounds": 1},
    }
    fedsim.run(source)
    ((results, failures),) = seen
    assert results + failures == 2
    assert failures >= 1


def test_an_evaluation_counts_by_the_examples_that_a_strategy_of_flower_weighs_by() -> None:
    key = newer.FedAvg().weighted_by_key
    content = RecordDict({"metrics": MetricRecord({key: 7, "accuracy": 0.5})})
    assert parse_reply(content, legacy=False) == FlowerEvaluation(7.0, {"accuracy": 0.5})
