"""A run with Flower clients: messages with exact bits, work with a price, state, streams."""

from collections import Counter
from pathlib import Path
from random import random
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord
from flwr.serverapp.strategy import FedAvg, FedMedian

import fedsim
from fedsim.flower import method
from fedsim.protocol.transport import Carry
from fedsim.wire import HEADER_BITS
from tests.addons.flower.scenes import PI, partition, run, scenario


def plus_one(arrays: dict[str, Any], _: Message, __: Context) -> dict[str, Any]:
    return {name: array + np.float32(1) for name, array in arrays.items()}


def drawn(arrays: dict[str, Any], _: Message, __: Context) -> dict[str, Any]:
    """Add what the three global generators say."""
    said = np.float32(random() + np.random.rand() + float(torch.rand(())))
    return {name: array + said for name, array in arrays.items()}


def test_the_strategy_makes_the_model_of_what_clients_return() -> None:
    result = run(plus_one)
    assert result.rounds["objective"].tolist() == [8.0, 0.0, 8.0]  # 8 numbers: 0, 1, 2
    assert result.models["model"].iloc[-1].tolist() == [2.0] * 8


@pytest.mark.parametrize(("form", "bits"), [("float32", 32), ("float64", 64), ("float16", 16)])
def test_a_number_takes_the_bits_of_its_format(form: str, bits: int) -> None:
    """A vector is a byte for what it is, one for its rank, four for its length, and its numbers."""
    one, two = (
        run(wire={"values": each}).events.query("event == 'send'") for each in (form, "float64")
    )
    difference = two["payload_bits"].to_numpy() - one["payload_bits"].to_numpy()
    assert (difference == 8 * (64 - bits)).all()
    vectors = 8 * (2 + 4) + 8 * bits
    assert (one["payload_bits"] > vectors).all()  # what is said beside the model comes on top
    assert (one["header_bits"] == HEADER_BITS).all()


def test_settings_and_figures_are_charged_byte_for_byte() -> None:
    name = "a-setting-of-some-length"
    plain, longer = (
        run(algorithm={"kind": "flower", "train_config": config}).events.query("event == 'send'")
        for config in ({}, {name: "x" * 100})
    )
    down, more = (each[each["node"] == "server"]["payload_bits"] for each in (plain, longer))
    assert ((more.to_numpy() - down.to_numpy()) >= 8 * (100 + len(name))).all()
    up, same = (each[each["node"] != "server"]["payload_bits"] for each in (plain, longer))
    assert up.tolist() == same.tolist()


def test_training_takes_the_time_of_its_declared_operations() -> None:
    events = run(loss={"cost": {"operations": 3e9}}).events.query("event == 'compute'")
    speed = fedsim.Scenario.model_validate(scenario()).fleet[0].device.constant
    assert speed
    assert events["duration"].to_numpy() == pytest.approx(3e9 / speed)
    assert (events["operations"] == 3e9).all()


@pytest.mark.parametrize("per", ["fit", "sample"])
def test_seconds_on_a_device_are_scaled_by_the_device(per: str) -> None:
    cost = {"seconds": "2 s", "on": "pi-4", "per": per}
    loss = {"cost": cost, "samples": 5}
    events = run(loss=loss).events.query("event == 'compute'")
    assert events["duration"].to_numpy() == pytest.approx(2.0 * (5 if per == "sample" else 1))


FILES = ("events.parquet", "rounds.parquet", "models.parquet")


def states() -> tuple[object, ...]:
    """Return the states of the global generators that fedsim itself leaves alone."""
    legacy: Any = np.random.get_state()
    return legacy[1].tolist(), torch.get_rng_state().tolist()


def test_the_same_scenario_gives_the_same_bytes_twice(tmp_path: Path) -> None:
    """Whatever states the global generators are in, and they are in them afterwards."""
    found: list[list[bytes]] = []
    for turn in range(2):
        torch.manual_seed(turn)
        np.random.seed(turn)
        before = states()
        fedsim.run(scenario(drawn), out=tmp_path / f"{turn}")
        assert before == states()
        folder = tmp_path / f"{turn}" / "base" / "seed-1"
        found.append([(folder / name).read_bytes() for name in FILES])
    assert found[0] == found[1]


def test_seeds_clients_and_rounds_draw_differently() -> None:
    seen: list[float] = []

    def noting(arrays: dict[str, Any], _: Message, __: Context) -> dict[str, Any]:
        seen.append(random())
        return arrays

    run(noting, seeds=2)
    assert len(set(seen)) == len(seen) == 2 * 2 * 3


def test_what_a_client_keeps_in_its_context_stays_with_it() -> None:
    seen: list[tuple[int, int]] = []

    def counting(arrays: dict[str, Any], _: Message, context: Context) -> dict[str, Any]:
        own = context.state.setdefault("own", MetricRecord({"turns": 0}))
        assert isinstance(own, MetricRecord)
        own["turns"] = turn = int(str(own["turns"])) + 1
        seen.append((partition(context), turn))
        assert context.node_config["num-partitions"] == 3
        assert context.run_config == {"lr": 0.5}
        return arrays

    run(counting, loss={"run_config": {"lr": 0.5}}, seeds=2)
    every = [(client, turn) for client in range(3) for turn in (1, 2)]
    assert Counter(seen) == Counter(2 * every)  # each run has contexts of its own


def test_a_strategy_of_each_run_is_a_copy() -> None:
    """FedMedian of three: the client in the middle; the strategy that was given is as it was."""

    def by_client(arrays: dict[str, Any], _: Message, context: Context) -> dict[str, Any]:
        return {n: a + np.float32(partition(context) ** 2) for n, a in arrays.items()}

    strategy = FedMedian()
    result = run(by_client, algorithm=method(strategy))
    assert result.models["model"].iloc[-1].tolist() == [2.0] * 8
    assert result.summary["algorithm"].tolist() == ["flower-fedmedian"]


def test_a_strategy_may_choose_some_clients() -> None:
    options = {"fraction_train": 0.5, "min_train_nodes": 1}
    result = run(clients=6, algorithm={"kind": "flower", "options": options})
    assert result.rounds["cohort"].tolist() == [0, 3, 3]


def test_the_scenario_may_choose_where_the_strategy_takes_all() -> None:
    result = run(clients=6, participation={"kind": "uniform", "count": 2})
    assert result.rounds["cohort"].tolist() == [0, 2, 2]


class Wide(FedAvg):
    """A strategy whose means are numbers of 64 bits."""

    def aggregate_train(self, server_round: int, replies: Any) -> Any:
        arrays, figures = super().aggregate_train(server_round, replies)
        assert arrays is not None
        wide = {name: Array(each.numpy().astype(np.float64)) for name, each in arrays.items()}
        return ArrayRecord(wide), figures


def test_clients_get_the_model_in_its_own_types_whatever_the_strategy_computes_in() -> None:
    seen: set[str] = set()

    def noting(arrays: dict[str, Any], msg: Message, context: Context) -> dict[str, Any]:
        seen.update(str(array.dtype) for array in arrays.values())
        return plus_one(arrays, msg, context)

    wide, own = run(noting, algorithm=method(Wide())), run(plus_one)
    assert wide.models["model"].iloc[-1].tolist() == own.models["model"].iloc[-1].tolist()
    assert seen == {"float32"}


def test_a_round_of_evaluation_is_priced() -> None:
    free, priced = run(plus_one), run(plus_one, algorithm={"kind": "flower", "evaluation": True})
    assert priced.rounds["evaluate_loss"].tolist()[1:] == free.rounds["objective"].tolist()[1:]
    compute = priced.events.query("event == 'compute'")["operations"]
    assert sorted(set(compute)) == pytest.approx([0.3e9, 1e9])
    assert (priced.rounds["bits_down"] > 1.9 * free.rounds["bits_down"])[1:].all()


def test_differences_can_be_compressed_with_feedback() -> None:
    up = {"compressor": {"kind": "top-k", "count": 2}, "error_feedback": "ef"}
    algorithm = {"kind": "flower", "sends": "differences"}
    result = run(plus_one, algorithm=algorithm, wire={"up": up}, stop={"rounds": 4})
    assert sum(result.models["model"].iloc[-1]) == pytest.approx(2 * (1 + 2 + 3 + 4), abs=1e-5)


def test_models_are_not_compressed_with_feedback() -> None:
    up = {"compressor": {"kind": "top-k", "count": 2}, "error_feedback": "ef"}
    with pytest.raises(fedsim.ScenarioError, match="sends: differences"):
        fedsim.check(scenario(wire={"up": up}))


def test_messages_go_as_bytes_too(tmp_path: Path) -> None:
    ways: tuple[Carry, ...] = ("values", "bytes")
    for carry in ways:
        fedsim.run(scenario(plus_one), out=tmp_path / carry, carry=carry)
    logs = [tmp_path / carry / "base/seed-1/events.parquet" for carry in ways]
    assert logs[0].read_bytes() == logs[1].read_bytes()


@pytest.mark.parametrize("kind", ["fedavg", "fedprox", "fedadam"])
def test_methods_of_local_steps_drive_a_client(kind: str) -> None:
    """Its training takes the place of the steps, of whose length it is told."""
    told: list[Any] = []

    def noting(arrays: dict[str, Any], msg: Message, _: Context) -> dict[str, Any]:
        told.append(dict(msg.content["config"]))
        return {name: array + np.float32(1) for name, array in arrays.items()}

    result = run(noting, algorithm={"kind": kind, "step_size": 0.25, "local_steps": 3})
    assert told[0]["lr"] == 0.25
    assert told[0]["local-steps"] == 3
    assert ("proximal-mu" in told[0]) == (kind == "fedprox")
    if kind != "fedadam":
        assert result.models["model"].iloc[-1].tolist() == [2.0] * 8


def test_clients_train_for_a_server_that_waits_for_none() -> None:
    """The second update is one round old, and counts for 1/sqrt(2)."""
    block = {"kind": "fedbuff", "step_size": 0.1}
    result = run(plus_one, algorithm=block, participation={"kind": "asynchronous", "buffer": 1})
    assert result.models["model"].iloc[-1] == pytest.approx([1 + 0.5**0.5] * 8)


def test_a_client_that_dies_as_it_trains_keeps_what_it_had(tmp_path: Path) -> None:
    """Its battery lasts for less than a fit: nothing is computed, and nothing is remembered."""
    seen: list[int] = []

    def noting(arrays: dict[str, Any], _: Message, context: Context) -> dict[str, Any]:
        seen.append(partition(context))
        return arrays

    fleet = [{"count": 2, **PI}, {"count": 1, **PI, "battery": {"capacity": "0.001 Wh"}}]
    loss = {"cost": {"operations": 1e11}}
    result = run(noting, fleet=fleet, loss=loss, participation={"kind": "full", "deadline": "60 s"})
    assert 2 not in seen
    assert result.events.query("event == 'depleted'")["node"].tolist() == ["client-2"]


def test_accuracy_is_something_to_stop_at() -> None:
    loss = {"figures": ["hit_score"], "evaluated_by": "server"}
    block = scenario(
        plus_one, stop={"hit_score": 2.0, "rounds": 9}, loss={**loss, "evaluate": closeness}
    )
    result = fedsim.run(block)
    assert result.rounds["hit_score"].tolist() == [0.0, 1.0, 2.0]


def closeness(arrays: list[Any]) -> tuple[float, dict[str, float]]:
    """Return 1 and the first number of a model."""
    return 1.0, {"hit_score": float(arrays[0].flat[0])}


def test_tables_cope_where_nobody_says_how_good_a_model_is() -> None:
    result = run(loss={"evaluated_by": "nobody"})
    assert result.summary["status"].tolist() == ["done"]
    assert result.rounds["objective"].isna().all()
    assert "flower" in repr(result)


def test_what_the_strategy_says_is_told_without_an_objective() -> None:
    strategy = FedAvg(train_metrics_aggr_fn=lambda *_: MetricRecord({"train_loss": 0.25}))
    result = run(algorithm=method(strategy), loss={"evaluated_by": "nobody"})
    assert result.rounds["train_loss"].tolist()[1:] == [0.25, 0.25]
    assert "0.25" in repr(result)


def test_numbers_that_are_rounded_on_the_way_are_told_of() -> None:
    (note,) = (each for each in fedsim.check(scenario(wire={"values": "float16"})).notes)
    assert note.key == "wire.values"
    assert "numbers of 32 bits" in note.text
    assert not fedsim.check(scenario()).notes
