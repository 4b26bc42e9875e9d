"""What Fast-FedDA, C-FedDA and MC-FedDA send and charge, where they go, and what they refuse."""

from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.algorithms import CFedDA, FastFedDA, MCFedDA
from fedsim.algorithms.dual_averaging import Ball, Stage
from fedsim.core.errors import ParameterError
from fedsim.core.ports import SPARSE
from fedsim.problems import Penalty
from fedsim.problems.penalties import L1, L2, ElasticNet, Nuclear
from tests.algorithms.local_loops import told
from tests.algorithms.penalised import Link, penalised, setting_of, small
from tests.algorithms.test_fedda import BLOCK, GAMMA, MU
from tests.tiers import every, examples


def sent(seen: Any, sender: str) -> list[tuple[str, int]]:
    """Return what a node or kind of node has sent, and the bits of the payloads."""
    return [
        (row["message"], row["payload_bits"])
        for row in seen.events
        if row["event"] == "send" and row["node"].startswith(sender)
    ]


def dense(dimension: int) -> int:
    """Kind, format, number of axes and length, and 32 bits a value."""
    return 8 + 8 + 8 + 32 - 8 + 32 * dimension


WIRE = {"wire": {"values": "float32"}}


@pytest.mark.parametrize("combined", [False, True])
def test_fast_fedda_sends_one_vector_down_and_two_up_or_one(combined: bool, tmp_path: Path) -> None:
    problem, _, _ = penalised(tmp_path, "none")
    seen = told(problem, {"kind": "fast-fedda", "combined": combined} | BLOCK, tmp_path, **WIRE)
    one = dense(problem.dimension)
    assert set(sent(seen, "server")) == {("dual", one)}
    assert set(sent(seen, "client")) == {("combined", one) if combined else ("sums", 2 * one)}


def test_the_sum_of_sparse_models_goes_up_sparse(tmp_path: Path) -> None:
    """Where the penalty leaves no coordinate the sum takes 32 bits: kind, format, d and k."""
    problem, _, _ = penalised(tmp_path, "l1")
    problem.block["penalty"] = {"kind": "l1", "weight": 1e4}
    problem.block["start"] = {"kind": "own"}
    seen = told(problem, {"kind": "fast-fedda"} | BLOCK, tmp_path, **WIRE)
    assert not seen.run.models.any()
    assert set(sent(seen, "client")) == {("sums", dense(problem.dimension) + 32)}


def test_the_centre_comes_down_with_every_message_after_the_first_stage(tmp_path: Path) -> None:
    """A centre of zeros takes 32 bits, and the number of rounds 8 + 32."""
    problem, _, _ = penalised(tmp_path, "l1")
    stages = [{"weight": 1e4, "radius": 1e3, "rounds": 3}] * 2
    block = {"kind": "mc-fedda", "stages": stages} | BLOCK
    seen = told(problem, block, tmp_path, **WIRE)
    one, clients = dense(problem.dimension), len(problem.parts)
    down = sent(seen, "server")
    assert set(down[: 3 * clients]) == {("dual", one)}
    assert set(down[3 * clients :]) == {("stageddual", one + 32 + 40)}
    assert set(sent(seen, "client")) == {("gradients", one)}


@pytest.mark.parametrize(
    ("block", "proxes"),
    [
        ({"method": FastFedDA}, [2, 1, 1]),
        ({"method": CFedDA, "ball": Ball(kind="nuclear-ball", radius=1e3)}, [2, 2, 2]),
    ],
)
def test_every_prox_and_every_projection_is_charged(
    block: dict[str, Any], proxes: list[int]
) -> None:
    problem = small(Nuclear(weight=0.1), matrix=True)
    parameters = {key: value for key, value in block.items() if key != "method"}
    link = Link(problem, block["method"](mu=MU, gamma=GAMMA, local_steps=3, **parameters), rounds=1)
    link.run()
    svd = 16 * 4 * 3 * 3 + 8 * 3**3
    for node, loss in zip(link.nodes, problem.losses, strict=True):
        assert node.operations == [loss.gradient_operations + svd * each for each in proxes]


def test_a_map_that_is_iterated_is_charged_for_every_iteration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All calls of a round, but for those of the server, whose work nobody pays for."""
    problem = small(Nuclear(weight=0.1), matrix=True, sizes=(7,))
    ball = Ball(kind="nuclear-ball", radius=1.0)
    link = Link(problem, CFedDA(mu=MU, gamma=GAMMA, local_steps=3, ball=ball), rounds=1)
    calls: list[int] = []

    def noting(known: Any) -> Any:
        def noted(*arguments: Any) -> Any:
            calls.append(len(link.nodes[0].operations))
            return known(*arguments)

        return noted

    for name in ("prox", "project", "norm"):
        monkeypatch.setattr(Nuclear, name, noting(getattr(Nuclear, name)))
    link.run()
    svd = 16 * 4 * 3 * 3 + 8 * 3**3
    charged = (np.array(link.nodes[0].operations) - problem.losses[0].gradient_operations) / svd
    assert list(charged) == [calls.count(step) for step in range(3)]
    assert charged[0] == 2
    assert charged[2] > 10


# Rounds without replies, balls, parameters

STAGES = (Stage(weight=0.2, radius=3.0, rounds=2), Stage(weight=0.1, radius=1.0, rounds=2))
METHODS = {
    "fast-fedda": FastFedDA(mu=MU, gamma=GAMMA, local_steps=2, batch=3),
    "c-fedda": CFedDA(
        mu=MU, gamma=GAMMA, local_steps=2, batch=3, ball=Ball(kind="l1-ball", radius=2.0)
    ),
    "mc-fedda": MCFedDA(mu=MU, gamma=GAMMA, local_steps=2, batch=3, stages=STAGES),
}


@pytest.mark.parametrize("kind", METHODS)
@given(deaf=st.sets(st.integers(1, 6), max_size=5))
@examples(15)
def test_a_round_without_replies_changes_nothing(kind: str, deaf: set[int]) -> None:
    """The models are those of the other rounds alone, the last of them standing in for it."""
    problem = small(L1(weight=0.1))
    whole = Link(problem, METHODS[kind], rounds=8)
    models = [whole.initial, *whole.run()]
    heard = np.cumsum([number not in deaf for number in range(1, 9)])
    seen = Link(problem, METHODS[kind], rounds=8, deaf=deaf).run()
    assert np.array_equal(seen, [models[n] for n in heard])


@pytest.mark.slow
@given(seed=st.integers(0, 10), radius=st.floats(0.05, 5.0))
@examples(8)
def test_models_stay_in_the_balls_of_their_stages(seed: int, radius: float) -> None:
    stages = tuple(Stage(weight=0.1, radius=radius / n, rounds=3) for n in (1, 2, 4))
    problem = small(Nuclear(weight=0.1), matrix=True, seed=seed)
    link = Link(problem, MCFedDA(mu=MU, gamma=GAMMA, stages=stages, local_steps=2), rounds=12)
    models = link.run()
    centre = link.initial
    for first, n in ((0, 1), (3, 2), (6, 4)):
        for model in models[first : first + 3]:
            norm = np.linalg.norm((model - centre).reshape(4, 3), "nuc")
            assert norm <= radius / n * (1 + 1e-12)
        centre = models[first + 2]


LIMITS = [
    (FastFedDA(mu=0.4, gamma=5.0), 0.4 / 2),
    (FastFedDA(mu=0.4, gamma=5.0, local_steps=4), 0.4 / 8),
    (CFedDA(mu=0.4, gamma=5.0, ball=Ball(kind="l1-ball", radius=100.0)), 0.0),
    (CFedDA(mu=0.4, gamma=5.0, local_steps=4, ball=Ball(kind="l1-ball", radius=100.0)), 0.0),
]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "surplus"), LIMITS)
def test_one_client_goes_to_the_optimum(method: FastFedDA | CFedDA, surplus: float) -> None:
    """C-FedDA to that of f + h, Fast-FedDA to that of f + h - mu/(4 K) |w|^2: x has its surplus."""
    problem = small(L1(weight=0.3), sizes=(20,))
    w = Link(problem, method, rounds=1500).run()[-1]
    gradient = problem.gradient(w)
    assert problem.regulariser.residual(w, gradient - surplus * w) < 5e-3
    if surplus:
        assert problem.regulariser.residual(w, gradient) > 0.1


@every(
    ("penalty", "ball", "text"),
    [
        (Nuclear(weight=0.1), "l1-ball", "the penalty is nuclear.*give nuclear-ball"),
        (L1(weight=0.1), "nuclear-ball", "the penalty is l1.*give l1-ball"),
        (ElasticNet(weight=0.1), "l1-ball", "elastic-net is no multiple of a norm.*fast-fedda"),
        (L2(weight=0.1), "group-ball", "l2 is no multiple of a norm"),
    ],
)
def test_a_ball_of_another_norm_is_refused(penalty: Penalty, ball: Any, text: str) -> None:
    setting = setting_of(small(penalty, matrix=penalty.kind == "nuclear"))
    method = CFedDA(mu=MU, gamma=GAMMA, ball=Ball(kind=ball, radius=1.0))
    with pytest.raises(ParameterError, match=text) as caught:
        method.configure(setting)
    assert caught.value.key == "ball.kind"
    assert f"got {ball}" in str(caught.value)


class Mine(L1):
    """A penalty of one's own, with a ball of its own name."""

    kind: Literal["mine"] = "mine"  # type: ignore[assignment]
    ball: ClassVar[str] = "my-ball"


def test_a_penalty_of_ones_own_has_its_ball_and_its_structure() -> None:
    setting = setting_of(small(Mine(weight=0.1)))
    method = CFedDA(mu=MU, gamma=GAMMA, ball=Ball(kind="my-ball", radius=1.0)).configure(setting)
    assert method.structure == SPARSE
    with pytest.raises(ParameterError, match=r"the penalty is mine.*give my-ball"):
        CFedDA(mu=MU, gamma=GAMMA, ball=Ball(kind="l1-ball", radius=1.0)).configure(setting)


def test_stages_take_a_norm() -> None:
    with pytest.raises(ParameterError, match="elastic-net is no multiple of a norm") as caught:
        METHODS["mc-fedda"].configure(setting_of(small(ElasticNet(weight=0.1))))
    assert caught.value.key == "stages"


def test_what_theory_does_not_cover_is_named() -> None:
    setting = setting_of(small(L1(weight=0.3)))
    steep = FastFedDA(mu=1e3, gamma=1.0).configure(setting)
    (concern,) = steep.concerns(setting)
    L = float(setting.client_smoothness().max())
    assert concern.key == "mu"
    assert "got 1000" in concern.text
    assert f"{L:g}" in concern.text
    (other,) = METHODS["mc-fedda"].configure(setting).concerns(setting)
    assert other.key == "stages"
    assert "0.1," in other.text
    assert "0.3;" in other.text


@pytest.mark.parametrize("wrong", [{"mu": -1.0}, {"gamma": 0.0}, {"local_steps": 0}])
def test_wrong_parameters_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="greater than"):
        FastFedDA(**({"mu": MU, "gamma": GAMMA} | wrong))
    with pytest.raises(ValueError, match="at least 1 item"):
        MCFedDA(mu=MU, gamma=GAMMA, stages=())
