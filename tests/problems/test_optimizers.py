"""Optimizers are those of `torch.optim`, and schedules their closed forms."""

from collections.abc import Callable
from math import cos, pi, sqrt
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from fedsim.core.blocks.spec import Spec
from fedsim.core.errors import DataError
from fedsim.problems.optimizers import (
    OPTIMIZERS,
    SGD,
    Adagrad,
    Adam,
    AdamW,
    AnyOptimizer,
    Muon,
    OptimizerState,
    Training,
    VectorOptimizer,
    Yogi,
    join_state,
)
from fedsim.problems.parts import parts_of
from fedsim.problems.schedules import (
    SCHEDULES,
    AnySchedule,
    ConstantSchedule,
    CosineSchedule,
    InverseSquareRootSchedule,
    StepSchedule,
)
from fedsim.problems.vectors import orthogonal
from tests.tiers import every

STEPS = 12
RULES: dict[str, tuple[VectorOptimizer, Callable[[Any], Any]]] = {
    "sgd": (SGD(), lambda p: torch.optim.SGD(p, lr=0.1)),
    "decay": (SGD(weight_decay=0.2), lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.2)),
    "momentum": (SGD(momentum=0.8), lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.8)),
    "nesterov": (
        SGD(momentum=0.8, nesterov=True, weight_decay=0.1),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.8, nesterov=True, weight_decay=0.1),
    ),
    "adam": (Adam(), lambda p: torch.optim.Adam(p, lr=0.1)),
    "adam with decay": (
        Adam(beta1=0.7, beta2=0.9, epsilon=1e-3, weight_decay=0.3),
        lambda p: torch.optim.Adam(p, lr=0.1, betas=(0.7, 0.9), eps=1e-3, weight_decay=0.3),
    ),
    "adamw": (AdamW(), lambda p: torch.optim.AdamW(p, lr=0.1)),
    "adamw with decay": (
        AdamW(weight_decay=0.5, beta2=0.95),
        lambda p: torch.optim.AdamW(p, lr=0.1, betas=(0.9, 0.95), weight_decay=0.5),
    ),
    "adagrad": (Adagrad(), lambda p: torch.optim.Adagrad(p, lr=0.1)),
    "adagrad from 1": (
        Adagrad(initial=1, weight_decay=0.1),
        lambda p: torch.optim.Adagrad(
            p, lr=0.1, initial_accumulator_value=1, weight_decay=0.1, eps=1e-10
        ),
    ),
}


def gradients(seed: int, size: int = 7) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Of all magnitudes, some zero."""
    rng = np.random.default_rng(seed)
    g = rng.standard_normal((STEPS, size)) * 10.0 ** rng.integers(-6, 4, (STEPS, size))
    return np.where(rng.random(g.shape) < 0.1, 0.0, g)


@every("name", RULES)
@every("tensors", [False, True])
@every("seed", range(3))
def test_a_rule_is_that_of_torch(name: str, tensors: bool, seed: int) -> None:
    rule, make = RULES[name]
    start = np.random.default_rng(seed + 9).standard_normal(7)
    parameter = torch.nn.Parameter(torch.tensor(start))
    theirs = make([parameter])
    w: Any = torch.tensor(start) if tensors else start.copy()
    state = rule.begin(w)
    for g in gradients(seed):
        parameter.grad = torch.tensor(g)
        theirs.step()
        rule.step(w, torch.tensor(g) if tensors else g, 0.1, state)
        expected = parameter.detach().numpy()
        np.testing.assert_allclose(np.asarray(w), expected, rtol=1e-12, atol=1e-12)


@every("name", [*RULES, "yogi"])
def test_a_state_that_is_written_and_read_goes_on_as_if_it_had_not_been(name: str) -> None:
    rule = RULES[name][0] if name in RULES else Yogi()
    w = np.ones(7)
    state = rule.begin(w)
    assert len(state.moments) == rule.moments
    for g in gradients(1)[:5]:
        rule.step(w, g, 0.1, state)
    kept = join_state(w, state)
    assert kept.shape == (7 + 1 + 7 * rule.moments,)
    v, read = kept[:7].copy(), Training(rule, (), state=kept[7:]).begin(w)
    for g in gradients(1)[5:]:
        rule.step(w, g, 0.1, state)
        rule.step(v, g, 0.1, read)
    assert w.tobytes() == v.tobytes()


SHAPES = [(5, 3), (5,), (2, 3, 2), (1, 4), (3, 4)]
PARTS = parts_of(["tall", "bias", "kernel", "row", "head"], SHAPES)
PLACES = [slice(part.start, part.stop) for part in PARTS]


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("scale", ["original", "match-rms-adamw"])
@pytest.mark.parametrize("tensors", [False, True], ids=["numpy", "tensor"])
def test_muon_is_that_of_torch_and_adamw_for_what_is_no_matrix(
    nesterov: bool, scale: Any, tensors: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.clone)  # as precise as ours
    rule = Muon(nesterov=nesterov, scale=scale, adamw=("he*",)).fit(PARTS)
    start = np.random.default_rng(9).standard_normal(PARTS[-1].stop)
    # Torch's takes matrices alone: a kernel is one of as many rows as it has outputs.
    kinds = [(5, 3), (5,), (2, 6), (1, 4), (3, 4)]
    theirs = [
        torch.nn.Parameter(torch.tensor(start[place]).reshape(shape))
        for place, shape in zip(PLACES, kinds, strict=True)
    ]
    rest: Any = torch.optim.AdamW([theirs[1], *theirs[3:]], lr=0.1, weight_decay=0.1)
    adjust = scale.replace("-", "_")
    own: Any = torch.optim.Muon(
        [theirs[0], theirs[2]], lr=0.1, nesterov=nesterov, adjust_lr_fn=adjust, weight_decay=0.1
    )
    w: Any = torch.tensor(start) if tensors else start.copy()
    state = rule.begin(w)
    for g in gradients(5, PARTS[-1].stop):
        for parameter, place in zip(theirs, PLACES, strict=True):
            parameter.grad = torch.tensor(g[place]).reshape(parameter.shape)
        own.step()
        rest.step()
        rule.step(w, torch.tensor(g) if tensors else g, 0.1, state)
        expected = np.concatenate([each.detach().numpy().ravel() for each in theirs])
        np.testing.assert_allclose(np.asarray(w), expected, rtol=1e-12, atol=1e-12)
    assert state.steps == STEPS


def test_muon_s_matrix_has_singular_values_near_one() -> None:
    matrix = np.random.default_rng(2).standard_normal((6, 40))
    found = orthogonal(matrix, 5)
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    a, b, c = 3.4445, -4.7750, 2.0315
    values = values / np.linalg.norm(matrix)
    for _ in range(5):  # what is done to a matrix is done to each singular value
        values = a * values + b * values**3 + c * values**5
    np.testing.assert_allclose(found, left * values @ right, rtol=0, atol=1e-12)
    assert 0.6 < values.min() < values.max() < 1.3
    np.testing.assert_allclose(orthogonal(matrix.T, 5), found.T, rtol=0, atol=1e-12)


def test_muon_costs_its_products() -> None:
    """A product of (m, k) and (k, n) is 2 m k n; AdamW's 13 for the other numbers."""
    rule = Muon(adamw=("he*", "kernel")).fit(PARTS)
    once = 2 * 3 * 5 * 3 + 2 * 3**3 + 2 * 3 * 3 * 5
    whole = 5 * once + 10 * 15 + 13 * (5 + 12 + 4 + 12)
    assert rule.operations * PARTS[-1].stop == pytest.approx(whole)


def test_muon_needs_a_matrix() -> None:
    with pytest.raises(DataError, match=r"none to take it among w \(7,\); take adamw"):
        Muon().fit(parts_of(["w"], [(7,)]))


def test_gradients_are_not_changed_by_a_step() -> None:
    for rule in (*(each for each, _ in RULES.values()), Yogi()):
        w, g = np.ones(3), np.array([1.0, -2.0, 0.0])
        rule.step(w, g, 0.1, rule.begin(w))
        assert g.tolist() == [1.0, -2.0, 0.0]


def test_yogi_is_the_paper_s_step() -> None:
    rule, w = Yogi(beta1=0.6, beta2=0.9, epsilon=0.01, initial=0.5), np.ones(7)
    state, x, m, v = rule.begin(w), np.ones(7), np.zeros(7), np.full(7, 0.5)
    for t, g in enumerate(gradients(2), 1):
        rule.step(w, g, 0.1, state)
        m = 0.6 * m + 0.4 * g
        v = v - 0.1 * g**2 * np.sign(v - g**2)
        x = x - 0.1 * (m / (1 - 0.6**t)) / (np.sqrt(v / (1 - 0.9**t)) + 0.01)
        np.testing.assert_allclose(w, x, rtol=1e-12)


@pytest.mark.parametrize("most", [0.5, 100.0])
def test_a_gradient_is_clipped_as_torch_clips_it(most: float) -> None:
    for g in gradients(4):
        parameter = torch.nn.Parameter(torch.zeros(7, dtype=torch.float64))
        parameter.grad = torch.tensor(g)
        torch.nn.utils.clip_grad_norm_([parameter], most)
        found = Training(SGD(), (), clip=most).limit(g)
        np.testing.assert_allclose(found, parameter.grad.numpy(), rtol=1e-12, atol=0)


def test_operations_are_counted_by_the_formulas() -> None:
    """Beyond w - eta g: a sum, a product, a quotient or a root is one operation each."""
    expected = {
        "sgd": 0,
        "decay": 2,
        "momentum": 2,
        "nesterov": 6,
        "adam": 11,
        "adam with decay": 13,
        "adamw": 13,
        "adagrad": 5,
        "adagrad from 1": 7,
    }
    for name, count in expected.items():
        assert RULES[name][0].operations == count, name
    assert Yogi().operations == 12
    assert Training(Adam(), (), clip=1.0).operations == 14


# -- schedules ---------------------------------------------------------------------------


@given(t=st.integers(0, 500), warm=st.integers(0, 50))
def test_a_schedule_is_its_formula(t: int, warm: int) -> None:
    n = max(t - warm, 0)
    formulas = [
        (ConstantSchedule(warm_up=warm), 1.0),
        (StepSchedule(every=7, to=0.5, warm_up=warm), 0.5 ** (n // 7)),
        (
            CosineSchedule(over=90, least=0.1, warm_up=warm),
            0.1 + 0.45 * (1 + cos(pi * min(n, 90) / 90)),
        ),
        (InverseSquareRootSchedule(scale=4, warm_up=warm), sqrt(4 / (4 + n))),
    ]
    for schedule, later in formulas:
        expected = (t + 1) / warm if t < warm else later
        assert schedule.factor(t) == pytest.approx(expected, rel=1e-12)
        assert 0 < schedule.factor(t) <= 1


@pytest.mark.parametrize(
    ("own", "make"),
    [
        (StepSchedule(every=3, to=0.3), lambda o: torch.optim.lr_scheduler.StepLR(o, 3, 0.3)),
        (
            CosineSchedule(over=20, least=0.2),
            lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 20, 0.02),
        ),
        (
            ConstantSchedule(warm_up=5),
            lambda o: torch.optim.lr_scheduler.LinearLR(o, 1 / 5, 1, total_iters=4),
        ),
    ],
    ids=["step", "cosine", "warm-up"],
)
def test_a_schedule_is_that_of_torch(own: Any, make: Callable[[Any], Any]) -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    theirs = make(optimizer)
    for t in range(20):
        assert 0.1 * own.factor(t) == pytest.approx(theirs.get_last_lr()[0], rel=1e-9)
        optimizer.step()
        theirs.step()


def test_rates_are_counted_by_round_or_by_local_step() -> None:
    by_round = StepSchedule(every=2, to=0.5)
    assert by_round.rates(1.0, 1, 3) == (1, 1, 1)
    assert by_round.rates(1.0, 3, 3) == (0.5, 0.5, 0.5)
    by_step = StepSchedule(every=2, to=0.5, by="step")
    assert by_step.rates(1.0, 1, 3) == (1, 1, 0.5)
    assert by_step.rates(1.0, 2, 3) == (0.5, 0.25, 0.25)


# -- what is refused ---------------------------------------------------------------------


@every(
    ("field", "block", "said"),
    [
        (AnyOptimizer, {"kind": "adamm"}, "adam"),
        (AnyOptimizer, {"kind": "sgd", "nesterov": True}, "nesterov needs a momentum above 0"),
        (AnyOptimizer, {"kind": "sgd", "momentum": 1}, "less than 1"),
        (AnyOptimizer, {"kind": "adam", "epsilon": 0}, "greater than 0"),
        (AnyOptimizer, {"kind": "adam", "momentum": 0.9}, "momentum"),
        (AnySchedule, {"kind": "cosine"}, "over"),
        (AnySchedule, {"kind": "step", "every": 0}, "greater than 0"),
        (AnySchedule, {"kind": "linear"}, "One of: constant, step, cosine, inverse-square-root"),
        (AnySchedule, {"kind": "cosine", "over": 5, "by": "epoch"}, "'round' or 'step'"),
    ],
)
def test_what_is_no_rule_is_refused(field: Any, block: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        TypeAdapter(field).validate_python(block)


def test_a_name_stands_for_a_block() -> None:
    made: list[Any] = [
        TypeAdapter[Any](AnyOptimizer).validate_python("adam"),
        TypeAdapter[Any](AnySchedule).validate_python("constant"),
    ]
    assert made == [Adam(), ConstantSchedule()]
    for registry in (OPTIMIZERS, SCHEDULES):
        assert all(issubclass(each, Spec) for each in registry)
    assert OptimizerState([]).steps == 0
