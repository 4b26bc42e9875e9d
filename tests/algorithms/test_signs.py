"""signSGD with majority vote is algorithm 3 of its paper, and nobody steps on a wrong model."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import fedsim
from fedsim.algorithms import ProblemInfo, SignSGD
from fedsim.algorithms.sign_sgd import Vote, signs
from fedsim.core.errors import ParameterError
from fedsim.core.ports import SIGNS, Array
from fedsim.wire import Contract, ValueFormat, decode, encode
from fedsim.wire.payloads.dense import natural
from tests.algorithms.local_loops import SIZES, Local, Told, check_near, local, told
from tests.algorithms.sums import FULL, LOSSY, TARDY, in_time

DELTA = 0.01
TWO: dict[str, Any] = {"participation": {"kind": "uniform", "count": 2}}
THREE: dict[str, Any] = {"participation": {"kind": "uniform", "count": 3}}


def voted(problem: Local, cohorts: list[list[int]], beta: float) -> list[Array]:
    """Bernstein et al., algorithm 3, for odd cohorts: w <- w - delta sign(sum sign(m_i))."""
    w, models = np.zeros(problem.dimension), []
    m = np.zeros((len(SIZES), w.size))
    for cohort in cohorts:
        models.append(w)
        for client in cohort:
            m[client] = beta * m[client] + (1 - beta) * problem.gradient(client, w)
        w = w - DELTA * np.sign(np.sign(m[cohort]).sum(axis=0))
    return models


@pytest.mark.parametrize("loss", ["logistic", "softmax"])
@pytest.mark.parametrize("cohort", ["all", "three"])
@pytest.mark.parametrize("batch", [None, 4])
@pytest.mark.parametrize("beta", [0.0, 0.8])
def test_it_is_the_paper_s_loop(
    loss: str, cohort: str, batch: int | None, beta: float, tmp_path: Path
) -> None:
    problem = local(tmp_path, loss, batch)
    algorithm = {"kind": "signsgd", "step_size": DELTA, "momentum": beta}
    seen = told(problem, algorithm, tmp_path, **(THREE if cohort == "three" else {}))
    check_near(seen.run.models, voted(problem, seen.cohorts, beta))


def test_what_is_late_is_not_counted(tmp_path: Path) -> None:
    problem = local(tmp_path)
    blocks = TARDY | {"stop": {"rounds": 20}}
    seen = told(problem, {"kind": "signsgd", "step_size": DELTA}, tmp_path, **blocks)
    cohorts = in_time(seen, "ballot")
    assert {len(cohort) for cohort in cohorts} == {0, 3}
    assert sum(row["event"] == "late" for row in seen.events) > 20
    check_near(seen.run.models, voted(problem, cohorts, 0.0))


def sent(seen: Told, node: str) -> list[tuple[str, int]]:
    """Return what a node has said, and the bits of it."""
    rows = [row for row in seen.events if (row["event"], row["node"]) == ("send", node)]
    return [(row["message"], row["payload_bits"]) for row in rows]


def test_a_coordinate_takes_a_bit_both_ways(tmp_path: Path) -> None:
    """Beside: a byte each for the kind of payload and the dimension, and a scale of float32."""
    algorithm = {"kind": "signsgd", "step_size": DELTA}
    blocks = {"wire": {"values": "float32"}, "stop": {"rounds": 3}}
    seen = told(local(tmp_path, "softmax"), algorithm, tmp_path, **blocks)
    bits = 8 * (1 + 1 + 4) + 24  # 18 coordinates take 3 bytes
    assert sent(seen, "client-0") == [("ballot", bits)] * 3
    down = {bits for message, bits in sent(seen, "server") if message == "vote"}
    assert down == {bits}
    first = [(message, bits) for message, bits in sent(seen, "server") if message == "model"]
    assert first == [("model", 8 * (2 + 4 + 4 * 18))] * len(SIZES)


def test_the_model_is_sent_where_not_all_have_answered(tmp_path: Path) -> None:
    algorithm = {"kind": "signsgd", "step_size": DELTA}
    seen = told(local(tmp_path), algorithm, tmp_path, **THREE)
    assert {message for message, _ in sent(seen, "server")} == {"model"}
    lossy = told(local(tmp_path), algorithm, tmp_path / "lossy", **LOSSY, stop={"rounds": 120})
    assert {message for message, _ in sent(lossy, "server")} == {"model", "vote"}


@dataclass
class Spied:
    """A client, or its oracle, that tells at which models minibatches are drawn."""

    behind: Any
    tell: Callable[[Array], None]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.behind, name)

    @property
    def oracle(self) -> Any:
        return Spied(self.behind.oracle, self.tell)

    def minibatch(self, w: Array, *drawn: Any) -> Any:
        self.tell(w.copy())
        return self.behind.minibatch(w, *drawn)


@pytest.mark.slow
@pytest.mark.parametrize("values", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("blocks", [{}, LOSSY], ids=["all hear", "a third is lost"])
def test_every_vote_is_cast_at_the_server_s_model(
    values: str, blocks: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the bit, whatever was lost; where the model is sent, it is the model as it is sent.

    A round that no client has answered has no model of its own, and its ballots do not count.
    """
    problem, rounds = local(tmp_path, "softmax"), 60
    algorithm = {"kind": "signsgd", "step_size": DELTA}
    blocks = blocks | {"wire": {"values": values}, "stop": {"rounds": rounds}}
    asked: list[tuple[int, bool, Array]] = []
    handle = SignSGD.handle

    async def spied(self: SignSGD, client: Any, message: Any) -> Any:
        number, voted_on = client.round, isinstance(message, Vote)
        return await handle(
            self, Spied(client, lambda w: asked.append((number, voted_on, w))), message
        )

    monkeypatch.setattr(SignSGD, "handle", spied)
    seen = told(problem, algorithm, tmp_path, **blocks)
    models = seen.run.models
    unanswered = {row["round"] for row in seen.events if row["event"] == "abandoned"}
    assert len(unanswered) <= 4
    assert len({model.tobytes() for model in models}) > 50
    assert len(asked) > rounds
    counted = [each for each in asked if each[0] not in unanswered]
    assert {number for number, *_ in counted} == {*range(1, rounds + 1)} - unanswered
    for number, voted_on, w in counted:
        before = models[number - 1]
        expected = before if voted_on else ValueFormat[values.upper()].round(before)
        assert w.tobytes() == expected.tobytes()


@pytest.mark.slow
def test_it_comes_as_near_to_the_optimum_as_its_step_is_short(tmp_path: Path) -> None:
    """Clients that are alike: a client alone is one of them."""
    problem = local(tmp_path)
    problem.block["split"] = {"kind": "iid", "clients": 1}
    ends = {}
    for delta in (0.01, 0.001):
        scenario = {
            "problem": problem.block,
            "algorithm": {"kind": "signsgd", "step_size": delta},
            "wire": FULL,
            "stop": {"rounds": int(3 / delta)},
        }
        ends[delta] = fedsim.run(scenario).rounds["gap"].iloc[-1]
    assert ends[0.01] < 1e-3
    assert ends[0.001] < 0.05 * ends[0.01]


@given(arrays(np.float64, st.integers(1, 40), elements=st.sampled_from([-2.5, 0.0, -0.0, 1e-300])))
def test_a_sign_is_one_or_minus_one(vector: Array) -> None:
    made = signs(vector, np.random.default_rng(0))
    assert set(made.tolist()) <= {-1.0, 1.0}
    assert (made[vector != 0] == np.sign(vector[vector != 0])).all()


@given(st.lists(st.booleans(), min_size=1, max_size=70), st.floats(0.5, 1e6, width=32))
def test_signs_go_over_the_wire_as_bits(negative: list[bool], scale: float) -> None:
    vector = np.where(negative, -scale, scale)
    data = encode(natural(vector, SIGNS, ValueFormat.FLOAT64))
    assert (decode(data).values == vector).all()
    assert len(data) == 1 + 1 + 4 + (len(negative) + 7) // 8


def test_ties_fall_on_both_sides() -> None:
    made = signs(np.zeros(4000), np.random.default_rng(0))
    assert abs(made.mean()) < 0.1


@pytest.mark.parametrize("side", ["uplink", "downlink"])
def test_signs_are_not_compressed_once_more(side: str) -> None:
    compressed: dict[str, Any] = {side: Contract("contractive", 0.5)}
    with pytest.raises(ParameterError, match="bit per coordinate already"):
        SignSGD(step_size=0.1).configure(ProblemInfo(2, 3, lambda: 1.0, **compressed))
    assert SignSGD(step_size="1/L").configure(ProblemInfo(2, 3, lambda: 4.0)).step_size == 0.25
