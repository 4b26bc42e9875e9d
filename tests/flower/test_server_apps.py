"""A ServerApp of Flower's makes here what it makes where clients answer it directly."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Context,
    Message,
    RecordDict,
)
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common.serde import message_to_proto
from flwr.server import LegacyContext, ServerConfig
from flwr.server.strategy import FedAvg as OlderFedAvg
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAdam, FedAvg, FedMedian, Strategy
from numpy.typing import NDArray

import fedsim
from fedsim.flower import app, method
from tests.flower.scenes import PI, ZEROS, client_app
from tests.flower.test_strategies import Direct, towards, walker

CLIENTS, ROUNDS = 6, 3
Main = Callable[[Grid, Context], None]
Vector = NDArray[Any]


def start() -> ArrayRecord:
    return ArrayRecord({name: Array(each) for name, each in ZEROS.items()})


def served(main: Main) -> ServerApp:
    made = ServerApp()
    made.main()(main)
    return made


def run(main: Main, clients: Any = None, **keys: Any) -> fedsim.Result:
    """Run an app's main in fedsim's world."""
    loss = app(
        clients or client_app(towards),
        clients=CLIENTS,
        cost={"operations": 1e9},
        evaluated_by="nobody",
        initial=None if clients else ZEROS,
    )
    return fedsim.run(
        {
            "problem": {"loss": loss},
            "algorithm": method(served(main)),
            "fleet": [{"count": CLIENTS, **PI}],
            "stop": {"rounds": ROUNDS},
            **keys,
        }
    )


STRATEGIES: dict[str, Callable[[], Strategy]] = {
    "FedAvg": FedAvg,
    "FedAdam": FedAdam,
    "FedMedian": FedMedian,
    "some": lambda: FedAvg(fraction_train=0.5, min_train_nodes=2),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", STRATEGIES)
def test_a_main_makes_the_model_that_it_makes_where_clients_answer_at_once(name: str) -> None:
    ends: list[ArrayRecord] = []

    def main(grid: Grid, context: Context) -> None:
        np.random.seed(0)  # noqa: NPY002 - whom a strategy takes is drawn from there or from random
        found = STRATEGIES[name]().start(grid, start(), num_rounds=ROUNDS)
        ends.append(found.arrays)

    result = run(main)
    (inside,) = ends
    flat = np.concatenate([each.numpy().ravel() for each in inside.values()])
    assert result.models["model"].iloc[-1] == pytest.approx(flat, rel=1e-6)
    if name != "some":
        alone = STRATEGIES[name]().start(Direct(client_app(towards)), start(), num_rounds=ROUNDS)
        outside = np.concatenate([each.numpy().ravel() for each in alone.arrays.values()])
        assert flat == pytest.approx(outside, rel=1e-6)
        assert abs(flat).max() > 0.01
    assert result.rounds["round"].tolist() == [*range(ROUNDS + 1)]
    again = run(main)
    assert again.rounds.equals(result.rounds)


class Noted(FedAvg):
    """Notes the model after each aggregation."""

    def __init__(self, fraction_evaluate: float) -> None:
        super().__init__(fraction_evaluate=fraction_evaluate)
        self.models: list[Vector] = []

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> Any:
        arrays, metrics = super().aggregate_train(server_round, replies)
        assert arrays is not None
        self.models.append(np.concatenate([each.numpy().ravel() for each in arrays.values()]))
        return arrays, metrics


@pytest.mark.parametrize(
    ("fraction_evaluate", "rounds", "keeps"),
    [(1.0, ROUNDS, False), (0.0, ROUNDS + 1, False), (0.0, ROUNDS, True)],
    ids=["sent to evaluate", "sent in the next round", "kept"],
)
def test_a_round_has_the_model_after_its_aggregation(
    fraction_evaluate: float, rounds: int, keeps: bool
) -> None:
    strategies: list[Noted] = []

    def main(grid: Grid, context: Context) -> None:
        strategies.append(Noted(fraction_evaluate))
        found = strategies[-1].start(grid, start(), num_rounds=rounds)
        if keeps:
            context.state["model"] = found.arrays

    result = run(main, models={"every": 1})
    expected = strategies[-1].models[:ROUNDS]
    assert result.models["round"].tolist() == [1, 2, 3]
    for model, wanted in zip(result.models["model"], expected, strict=True):
        assert model == pytest.approx(wanted, rel=1e-6)
    assert not np.array_equal(expected[-1], expected[-2])


def unsent(grid: Grid, context: Context) -> None:
    Noted(0.0).start(grid, start(), num_rounds=ROUNDS)


def test_bits_are_those_of_the_serialised_messages_and_an_own_loop_runs() -> None:
    """A loop without a strategy: one query, then training of one client with an action."""
    sizes: list[int] = []

    def main(grid: Grid, context: Context) -> None:
        nodes = list(grid.get_node_ids())
        for number in (1, 2, 3):
            content = RecordDict(
                {"arrays": start(), "config": ConfigRecord({"text": 300 * number * "x"})}
            )
            message = Message(content, nodes[1], "train", group_id=str(number))
            sizes.append(len(message_to_proto(message).SerializeToString()))
            (reply,) = grid.send_and_receive([message])
            assert reply.metadata.src_node_id == nodes[1]
            context.state["kept"] = reply.content["arrays"]

    result = run(main)
    assert result.rounds["transmissions"].sum() == 3
    down = result.rounds["bits_down"].to_numpy()[1:] / 8
    assert np.diff(down).tolist() == pytest.approx(np.diff(sizes).tolist(), abs=2)  # of lengths
    assert (down >= sizes).all()
    assert result.models["model"].iloc[-1] == pytest.approx(np.full(8, 2.0))  # 0 + (4 - 0)/2


def test_who_does_not_answer_is_an_error_to_the_app() -> None:
    seen: list[list[bool]] = []

    def main(grid: Grid, context: Context) -> None:
        content = RecordDict({"arrays": start(), "config": ConfigRecord()})
        messages = [Message(content, node, "train") for node in grid.get_node_ids()]
        seen.append([each.has_error() for each in grid.send_and_receive(messages)])
        context.state["kept"] = start()

    fleet = [
        {"count": CLIENTS - 1, **PI},
        {"count": 1, **PI, "battery": {"capacity": "0.0001 Wh"}},
    ]
    run(main, fleet=fleet, stop={"rounds": 1})
    assert seen == [[False] * (CLIENTS - 1) + [True]]


def failing(grid: Grid, context: Context) -> None:
    raise ValueError("the app is wrong")


def short(grid: Grid, context: Context) -> None:
    FedAvg().start(grid, start(), num_rounds=1)


def polling(grid: Grid, context: Context) -> None:
    grid.push_messages([])


@pytest.mark.parametrize(
    ("main", "text"),
    [
        (failing, "the app is wrong"),
        (short, "has ended after 1 rounds"),
        (unsent, "has not sent the model that it holds after round 3"),
        (polling, "grid.send_and_receive"),
    ],
)
def test_what_goes_wrong_is_said(main: Main, text: str) -> None:
    with pytest.raises(fedsim.FedsimError, match=text):
        run(main)


def test_an_app_without_a_main_is_refused() -> None:
    loss = app(client_app(towards), clients=2, cost={"operations": 1}, initial=ZEROS)
    without = {"problem": {"loss": loss}, "algorithm": method(ServerApp()), "stop": {"rounds": 1}}
    with pytest.raises(fedsim.FedsimError, match=r"method\(strategy\)"):
        fedsim.run(without)


@pytest.mark.slow
def test_secure_aggregation_gives_the_plain_mean_and_costs_more_bits() -> None:
    """SecAgg+ of Flower's, by its mod at the clients and its workflow at the server."""

    def workflow(fit: Any) -> Main:
        def main(grid: Grid, context: Context) -> None:
            strategy = OlderFedAvg(fraction_evaluate=0.0)
            own = LegacyContext(context, ServerConfig(num_rounds=ROUNDS), strategy)
            DefaultWorkflow(fit_workflow=fit)(grid, own)
            context.state["kept"] = own.state.array_records["parameters"]

        return main

    secure = SecAggPlusWorkflow(num_shares=CLIENTS, reconstruction_threshold=4, clipping_range=40.0)
    plain = run(workflow(None), ClientApp(client_fn=walker), wire={"values": "float64"})
    masked = run(
        workflow(secure),
        ClientApp(client_fn=walker, mods=[secaggplus_mod]),
        wire={"values": "float64"},
    )
    models = [each.models["model"].iloc[-1] for each in (plain, masked)]
    assert abs(models[0]).max() > 1
    assert models[1] == pytest.approx(models[0], abs=1e-3)
    assert masked.summary["bits_up"].item() > plain.summary["bits_up"].item()
    # One client is asked for the model; then each has four exchanges a round, and not one.
    counts = [each.summary["transmissions"].item() for each in (plain, masked)]
    assert counts == [1 + CLIENTS * ROUNDS, 1 + 4 * CLIENTS * ROUNDS]
