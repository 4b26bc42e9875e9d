"""A ServerApp of Flower's makes here what it makes where clients answer it directly."""

import time
from collections.abc import Callable, Iterable
from logging import INFO
from threading import Thread
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
from flwr.common import log
from flwr.common.serde import message_to_proto
from flwr.server import LegacyContext, ServerConfig
from flwr.server.strategy import FedAvg as OlderFedAvg
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAdam, FedAvg, FedMedian, FedXgbCyclic, Strategy
from flwr.supercore.run import RunNotRunningException
from numpy.typing import NDArray

import fedsim
from fedsim.addons.flower.server_app import AppGrid
from fedsim.flower import app, method
from tests.addons.flower.scenes import PI, ZEROS, client_app, nothing
from tests.addons.flower.test_strategies import Direct, towards, walker
from tests.tiers import every

CLIENTS, ROUNDS = 6, 3
Main = Callable[[Grid, Context], None]
Vector = NDArray[Any]


def start() -> ArrayRecord:
    return ArrayRecord({name: Array(each) for name, each in ZEROS.items()})


def served(main: Main) -> ServerApp:
    made = ServerApp()
    made.main()(main)
    return made


def run(main: Main, clients: Any = None, evaluated_by: str = "nobody", **keys: Any) -> Any:
    """Run an app's main in fedsim's world."""
    loss = app(
        clients or client_app(towards),
        clients=CLIENTS,
        cost={"operations": 1e9},
        evaluated_by=evaluated_by,
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
        np.random.seed(0)
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
        sizes.clear()  # it is called once more, for the initial model
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


@every(
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
        run(main, evaluated_by="clients")


@pytest.mark.parametrize("evaluated_by", ["clients", "nobody"])
def test_the_run_begins_with_the_model_that_main_sends_first(evaluated_by: str) -> None:
    """It is drawn in main, another one for each seed, and clients leave it as it is."""
    sent: list[Vector] = []

    def main(grid: Grid, context: Context) -> None:
        w = np.random.standard_normal((2, 3))
        sent.append(w)
        FedAvg().start(grid, ArrayRecord({"w": Array(w)}), num_rounds=ROUNDS)

    result = run(main, client_app(nothing), evaluated_by, seeds=2)
    drawn = list({w.tobytes(): w for w in sent}.values())  # by seed, however often main is called
    assert len(drawn) == 2
    for seed, w in enumerate(drawn, 1):
        assert result.model(seed=seed) == pytest.approx(w.ravel())
        rounds = result.rounds[result.rounds["seed"] == seed]
        if evaluated_by == "clients":
            expected = np.full(ROUNDS + 1, ((w - 1) ** 2).sum())
            assert rounds["objective"].to_numpy() == pytest.approx(expected)


def test_where_nobody_evaluates_no_model_is_asked_for() -> None:
    result = run(unsent, models={"every": 1})
    assert result.models["round"].tolist() == [1, 2]  # sent as rounds 2 and 3 began
    assert result.summary["rounds"].item() == ROUNDS
    with pytest.raises(ValueError, match="no model is stored for round 3"):
        result.model()


def test_a_model_of_bytes_that_grows_is_not_read() -> None:
    """As trees of XGBoost: each client adds a byte in its turn."""
    sizes: list[int] = []

    def grow(arrays: dict[str, Any], *_: object) -> dict[str, Any]:
        (name, tree), *_rest = arrays.items()
        return {name: np.append(tree, np.uint8(1))}

    def main(grid: Grid, context: Context) -> None:
        tree = ArrayRecord([np.frombuffer(b"tree", np.uint8)])
        found = FedXgbCyclic(fraction_evaluate=0.0).start(grid, tree, num_rounds=ROUNDS)
        sizes.append(len(next(iter(found.arrays.values())).numpy()))

    result = run(main, client_app(grow), evaluated_by="clients")
    assert sizes[-1] == len(b"tree") + ROUNDS
    assert result.summary["dimension"].item() == 0
    assert result.rounds["objective"].isna().all()
    (note,) = result.notes
    assert note.key == "problem.loss.evaluated_by"
    with pytest.raises(fedsim.FedsimError, match="got server, but the model of flower-app has no"):
        run(main, client_app(grow), evaluated_by="server")


def test_a_client_counts_once_in_each_exchange() -> None:
    def main(grid: Grid, context: Context) -> None:
        FedAvg(fraction_evaluate=0.5).start(grid, start(), num_rounds=ROUNDS)

    assert run(main).rounds["cohort"].tolist() == [0, *[CLIENTS + CLIENTS // 2] * ROUNDS]


def test_the_app_s_own_log_is_seen_and_flower_s_is_not(caplog: pytest.LogCaptureFixture) -> None:
    """Each line once, though main is run up to its first messages before the run, too."""

    def main(grid: Grid, context: Context) -> None:
        log(INFO, "main begins")
        found = FedAvg().start(grid, start(), num_rounds=ROUNDS)
        log(INFO, "trained in rounds %s", list(found.train_metrics_clientapp))

    def step(arrays: dict[str, Any], *_: object) -> dict[str, Any]:
        log(INFO, "a client trains")
        return arrays

    caplog.set_level(INFO, "flwr")
    run(main, client_app(step))
    lines = [each.message for each in caplog.records if each.name == "flwr"]
    rounds = [*range(1, ROUNDS + 1)]
    assert lines == [
        "main begins",
        *["a client trains"] * (CLIENTS * ROUNDS),
        f"trained in rounds {rounds}",
    ]


def test_sleeping_takes_no_simulated_time_and_is_noted() -> None:
    def main(grid: Grid, context: Context) -> None:
        FedAvg(fraction_evaluate=0.0).start(grid, start(), num_rounds=ROUNDS)

    def step(arrays: dict[str, Any], *_: object) -> dict[str, Any]:
        time.sleep(0.002)
        return arrays

    awake, asleep = run(main, client_app(nothing)), run(main, client_app(step))
    assert asleep.rounds["t"].equals(awake.rounds["t"])
    assert awake.notes == ()
    (note,) = asleep.notes
    assert note.key == "problem.loss.cost"
    assert f"slept for {0.002 * CLIENTS * ROUNDS:.3g} s" in note.text
    assert time.sleep.__module__ == "time"


def test_a_thread_of_flowers_that_watches_nodes_learns_that_the_run_is_over() -> None:
    """It asks every few seconds for as long as it may: that is no strategy that waits in vain."""
    grid = AppGrid(range(3), Thread(), lambda messages: messages)
    assert all(len([*grid.get_node_ids()]) == 3 for _ in range(50))
    grid.closed = True
    with pytest.raises(RunNotRunningException):
        grid.get_node_ids()


def test_an_app_without_a_main_is_refused() -> None:
    loss = app(client_app(towards), clients=2, cost={"operations": 1})
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
