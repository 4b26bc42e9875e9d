"""Handlers of clients that are alike run once for all of them, and the run's files are the same."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from fedsim.algorithms.averaging import FedAvg
from fedsim.core.ports import Array, Client, Payload
from fedsim.problems.evaluators.compiled import add_rows
from fedsim.problems.evaluators.compiled.evaluator import CompiledEvaluator
from fedsim.results.record.folder import read_json
from fedsim.sim.arrays.client import ArrayClient
from fedsim.wire import Dense, ValueFormat, weighted_sum
from fedsim.wire.packers import Packing
from fedsim.wire.payloads import rows
from fedsim.wire.payloads.dense import LongDense
from fedsim.wire.payloads.rows import DenseRows
from tests.campaigns.worlds.playing import _different

from .test_arrays import LTE, PROBLEM, both, scenario

pytestmark = pytest.mark.filterwarnings("ignore::fedsim.core.errors.TheoryWarning")

STEP: dict[str, Any] = {"step_size": 0.01, "local_steps": 3}
METHODS: list[dict[str, Any]] = [
    {"kind": "fedavg", **STEP},
    {"kind": "fedavg", "step_size": 0.01, "epochs": 2},
    {"kind": "fedprox", **STEP},
    {"kind": "fedexprox", **STEP},
    {"kind": "fednova", **STEP},
    {"kind": "fedadam", **STEP},
    {"kind": "dcgd", "step_size": 0.001},
    {"kind": "gd", "step_size": "1/L"},
    {"kind": "hb", "step_size": "1/L"},
    {"kind": "lag", "step_size": "1/L"},
    {"kind": "lag-wk", "step_size": "1/L"},
    {"kind": "chb", "step_size": "1/L", "momentum": 0.4, "censor": 9.0},
    {"kind": "chb", "step_size": "1/L", "momentum": 0.4, "eps1": 1e9},
    {"kind": "chb-charge", "step_size": "1/L", "momentum": 0.4, "censor": 9.0},
]
PLACES: list[dict[str, Any]] = [
    {},
    {"fleet": [LTE, {"count": 4, "device": "pi-4", "radio": "wifi"}]},
    {
        "fleet": [
            {**LTE, "device": {"kind": "pi-4", "slowdown": {"kind": "lognormal", "sigma": 0.5}}}
        ]
    },
    {"participation": {"kind": "uniform", "count": 3}},
    {"silence": {"kind": "deadline", "after": "20 s"}, "stop": {"rounds": 15}},
    {"network": {"server": {"uplink": "30 kbit/s"}}, "stop": {"rounds": 15}},
    {"wire": {"values": "float16"}, "precision": "float32"},
    {"fleet": [{"count": 6}]},
]


def by_hand(*_: object) -> None:
    pytest.fail("a client has computed by itself")


KINDS = [str(each["kind"]) for each in METHODS]
WITH_ALL = {"participation", "silence", "wire"}
"""What a method's own handlers may meet with in another way than those of other methods."""
PAIRS = [
    pytest.param(method, place, marks=() if method is METHODS[number] else pytest.mark.slow)
    for number, place in enumerate(PLACES)
    for turn, method in enumerate(METHODS)
    if WITH_ALL & set(place) or turn % 5 == number % 5
]


@pytest.mark.parametrize(("method", "place"), PAIRS)
def test_the_files_are_the_same(
    method: dict[str, Any], place: dict[str, Any], tmp_path: Path
) -> None:
    stateful = method["kind"] not in {"dcgd", *(each for each in KINDS if each.startswith("fed"))}
    sampled = "participation" in place
    with patch.object(
        ArrayClient, "compute", ArrayClient.compute if sampled and stateful else by_hand
    ):
        one, other = both(tmp_path, scenario(algorithm=method, **place))
    assert not _different(one, other)


@pytest.mark.parametrize(
    "parts",
    [
        {"algorithm": {"kind": "fedavg", **STEP, "batch": 7}},
        {"algorithm": {"kind": "fedavg", **STEP, "batch": {"start": 40, "ratio": 0.5}}},
        {
            "algorithm": {"kind": "fedavg", **STEP},
            "problem": {**PROBLEM, "loss": {"kind": "softmax"}},
            "silence": {"kind": "deadline", "after": "9 h"},
        },
        {
            "algorithm": {"kind": "fedavg", **STEP},
            "wire": {"up": {"compressor": {"kind": "natural"}}},
        },
        {"algorithm": {"kind": "fediter-ht", **STEP, "sparsity": 3}},
        {"algorithm": {"kind": "fed-ht", **STEP, "sparsity": 3, "batch": 7}},
    ],
)
def test_clients_that_differ_compute_by_themselves(parts: dict[str, Any], tmp_path: Path) -> None:
    seen = list[object]()
    compute = ArrayClient.compute

    def counted(client: ArrayClient, *work: Any) -> Any:
        seen.append(client.id)
        return compute(client, *work)

    with patch.object(ArrayClient, "compute", counted):
        one, other = both(tmp_path, scenario(**parts))
    assert seen
    assert not _different(one, other)


DRAWING: list[dict[str, Any]] = [
    {"algorithm": {"kind": "fedavg", **STEP, "batch": 7}},
    {"algorithm": {"kind": "fedavg", **STEP, "batch": {"start": 40, "ratio": 0.5}}},
    {
        "algorithm": {"kind": "fedprox", **STEP, "batch": 7},
        "participation": {"kind": "uniform", "count": 3},
    },
    {
        "algorithm": {"kind": "fed-ht", **STEP, "sparsity": 3},
        "problem": {**PROBLEM, "loss": {"kind": "softmax"}},
    },
    {
        "algorithm": {"kind": "distributed-iht", "step_size": 0.01, "sparsity": 3},
        "fleet": [{"count": 6}],
    },
]


@pytest.mark.slow
@pytest.mark.parametrize("parts", DRAWING)
def test_compiled_kernels_compute_for_all_clients_at_once(
    parts: dict[str, Any], tmp_path: Path
) -> None:
    block = scenario(**{"fleet": [{**LTE, "count": 6}], **parts}, evaluator="compiled")
    with patch.object(ArrayClient, "compute", by_hand):
        one, other = both(tmp_path, block)
    assert not _different(one, other)


SPARSE = {
    "loss": {"kind": "squared"},
    "data": {"kind": "sparse-linear", "clients": 6, "rows": 8, "features": 40, "ones": 3},
    "optimum": "unknown",
}
ON_SPARSE_ROWS: list[dict[str, Any]] = [
    {"algorithm": {"kind": "fedavg", **STEP}},
    {"algorithm": {"kind": "fedprox", **STEP, "batch": 3}},
    {"algorithm": {"kind": "fednova", **STEP}, "wire": {"values": "bfloat16"}},
    {"algorithm": {"kind": "hb", "step_size": 0.01}},
]


@pytest.mark.slow
@pytest.mark.parametrize("parts", ON_SPARSE_ROWS)
def test_so_they_do_on_sparse_rows_with_equally_many_numbers(
    parts: dict[str, Any], tmp_path: Path
) -> None:
    block = scenario(**{"problem": SPARSE, "fleet": [{**LTE, "count": 6}], **parts})
    with patch.object(ArrayClient, "compute", by_hand):
        one, other = both(tmp_path, {**block, "evaluator": "compiled"})
    assert not _different(one, other)


@pytest.mark.slow
@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"precision": "float32"},
        {"wire": {"values": "float64"}},
        {"wire": {"values": "float16"}},
        {"wire": {"up": {"compressor": {"kind": "top-k", "count": 3}, "error_feedback": "ef"}}},
        {"algorithm": {"kind": "fedprox", **STEP, "batch": 3}},
        {"algorithm": {"kind": "fednova", **STEP}},
        {"algorithm": {"kind": "fedavg", **STEP, "optimizer": "adam"}},
        {"algorithm": {"kind": "fedavg", **STEP, "step_size": 1e38}},
    ],
)
@pytest.mark.parametrize("problem", [SPARSE, PROBLEM])
def test_a_log_is_the_same_whoever_rounds_what_is_sent(
    problem: dict[str, Any], parts: dict[str, Any], tmp_path: Path
) -> None:
    block = {"problem": problem, "fleet": [{**LTE, "count": 6}], "evaluator": "compiled", **parts}
    block = scenario(**{"algorithm": {"kind": "fedavg", **STEP}, **block})
    with patch("fedsim.problems.evaluators.compiled.program.SINGLES", 1):
        runs = both(tmp_path / "kernels", block)
    with patch.object(Packing, "narrow", lambda _, work: work):
        runs += both(tmp_path / "packers", block)
    for other in runs[1:]:
        assert not _different(runs[0], other)


@pytest.mark.slow
def test_a_group_that_diverges_after_its_draws_ends_as_the_events_do(tmp_path: Path) -> None:
    # Rounds are then played as events from the first one on, with streams that are new.
    method = {"kind": "fedavg", "step_size": 1e60, "local_steps": 2, "batch": 7}
    block = scenario(algorithm=method, evaluator="compiled", fleet=[{**LTE, "count": 6}])
    one, other = both(tmp_path, block)
    assert read_json(one / "summary.json")["status"] == "diverged"
    assert not _different(one, other)


def test_the_sum_of_replies_is_that_of_compiled_code(tmp_path: Path) -> None:
    block = scenario(algorithm={"kind": "fedavg", **STEP}, evaluator="compiled")
    with (
        patch.object(rows, "_COMPILED", 1),
        patch.object(CompiledEvaluator, "add_rows", side_effect=add_rows) as summed,
    ):
        one, other = both(tmp_path, block)
    assert summed.call_count == 4  # once a round, where replies are rows
    assert not _different(one, other)


class Shouting(FedAvg):
    """Sends twice its update, as its own `descend` has it; nothing is known of its rows."""

    kind: Literal["shouting"] = "shouting"  # type: ignore[assignment]
    in_arrays: ClassVar[bool] = True

    async def descend(self, client: Client[Any], start: Array) -> Array:
        """Take steps, and go on as far again for clients of an even number."""
        moved = await super().descend(client, start)
        return moved + (client.id % 2) * (moved - start)


def test_of_a_users_own_method_nothing_is_known(tmp_path: Path) -> None:
    block = scenario(algorithm={"kind": "shouting", **STEP})
    one, other = both(tmp_path, block, [Shouting])
    assert not _different(one, other)


@given(
    some.lists(some.booleans(), min_size=1, max_size=12),
    some.integers(1, 9),
    some.sampled_from(list(ValueFormat)),
    some.booleans(),
    some.booleans(),
    some.booleans(),
    some.integers(1, 40),
    some.integers(1, 9),
)
def test_a_sum_of_rows_is_that_of_a_loop(
    stacked: list[bool],
    length: int,
    form: ValueFormat,
    weighted: bool,
    mixed_up: bool,
    long: bool,
    at_once: int,
    long_row: int,
) -> None:
    rng = np.random.default_rng(len(stacked))
    vectors = rng.standard_normal((len(stacked), length)) * 10.0 ** rng.integers(-2, 3, length)
    whole = DenseRows(vectors, form).payloads()
    alone: list[Dense] = [Dense.of(vector, form) for vector in vectors]
    if long:
        alone = [LongDense(form.narrow(vector), form) for vector in vectors]
    assert [each.bits for each in whole] == [each.bits for each in alone]
    order = rng.permutation(len(whole)) if mixed_up else np.arange(len(whole))
    alone = [alone[place] for place in order]
    mixed: list[Payload] = [
        whole[place] if own else one for own, place, one in zip(stacked, order, alone, strict=True)
    ]
    weights = rng.random(len(mixed)) if weighted else np.ones(len(mixed))
    total = np.zeros(length)
    for weight, each in zip(weights, alone, strict=True):
        total += weight * each.values
    with patch.multiple(rows, _AT_ONCE=at_once, _LONG_ROW=long_row):
        found = weighted_sum(mixed, weights if weighted else None)
    assert found.tobytes() == total.tobytes()


@pytest.mark.parametrize("form", list(ValueFormat))
@pytest.mark.parametrize("kind", ["rows", "dense", "long"])
def test_a_sum_is_the_same_on_any_number_of_threads(
    form: ValueFormat, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, length = np.random.default_rng(7), 5000
    vectors, weights = rng.standard_normal((6, length)), rng.random(6)
    payloads: Sequence[Payload] = DenseRows(vectors, form).payloads()
    if kind == "dense":
        payloads = [Dense.of(vector, form) for vector in vectors]
    elif kind == "long":
        payloads = [LongDense(form.narrow(vector), form) for vector in vectors]
    total = np.zeros(length)
    for weight, vector in zip(weights, vectors, strict=True):
        total += weight * form.round(vector)
    monkeypatch.setattr(rows, "_SHARED", 1)
    for threads in ("1", "2", "3"):
        monkeypatch.setenv("FEDSIM_THREADS", threads)
        assert weighted_sum(payloads, weights).tobytes() == total.tobytes()
