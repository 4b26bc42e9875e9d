"""Greedy continuations of a text, beside a loop that reads the text itself."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.problems import Generation, HeldOutAccuracy, Problem, Samples
from fedsim.problems.losses import Softmax
from tests.problems.measured import parted, seen

TOKENS, CONTEXT = 3, 5


def windows(text: NDArray[np.int64], stride: int) -> Samples:
    """Return rows of a text and the tokens behind them."""
    starts = range(0, len(text) - CONTEXT, stride)
    X: Array = np.array([text[at : at + CONTEXT] for at in starts])
    return Samples(X, np.array([float(text[at + CONTEXT]) for at in starts]))


def problem_of(text: NDArray[np.int64], stride: int) -> Problem:
    rng = np.random.default_rng(4)
    X: Array = rng.integers(0, TOKENS, (30, CONTEXT)).astype(np.float64)
    y = np.resize(np.arange(TOKENS) + 0.0, 30)
    return Problem.of(Softmax(), parted(X, y), test=windows(text, stride))


def continued(text: NDArray[np.int64], stride: int, length: int, W: Array) -> dict[str, float]:
    """Return the figures: each prompt goes on by itself, token after token."""
    whole, tokens = [], []
    for at in range(0, len(text) - CONTEXT, stride):
        # Known is what is in the rows: up to the token behind the last one.
        last = (len(text) - CONTEXT - 1) // stride * stride + CONTEXT
        if at + CONTEXT + length - 1 > last:
            continue
        made = text[at : at + CONTEXT].tolist()
        for _ in range(length):
            made.append(int(np.argmax(np.array(made[-CONTEXT:]) @ W)))
        right = [
            made[CONTEXT + place] == text[at + CONTEXT + place].item() for place in range(length)
        ]
        whole.append(all(right))
        tokens += right
    return {"exact_match": float(np.mean(whole)), "generation_accuracy": float(np.mean(tokens))}


@given(
    seed=st.integers(0, 10_000), stride=st.integers(1, CONTEXT), length=st.integers(1, 2 * CONTEXT)
)
def test_prompts_go_on_by_the_model_alone(seed: int, stride: int, length: int) -> None:
    rng = np.random.default_rng(seed)
    text = rng.integers(0, TOKENS, 60)
    W = rng.standard_normal((CONTEXT, TOKENS))
    found = seen(Generation(length=length), problem_of(text, stride), W.ravel())
    assert found == pytest.approx(continued(text, stride, length, W))


@given(seed=st.integers(0, 10_000))
def test_of_one_token_it_is_the_accuracy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem, W = problem_of(rng.integers(0, TOKENS, 60), 2), rng.standard_normal(CONTEXT * TOKENS)
    accuracy = seen(HeldOutAccuracy(), problem, W)["test_accuracy"]
    found = seen(Generation(length=1), problem, W)
    assert found == pytest.approx({"exact_match": accuracy, "generation_accuracy": accuracy})


def test_a_model_that_knows_the_text_makes_no_error() -> None:
    """Tokens 1 and 2 alternate."""
    text = np.resize([1, 2], 60)
    W = np.zeros((CONTEXT, TOKENS))
    W[-1, 1] = W[-2, 2] = 1.0  # the logit of 1 is the last token, that of 2 the one before
    figures = [
        seen(Generation(length=7), problem_of(text, 1), W.ravel()),
        continued(text, 1, 7, W),
    ]
    assert figures[0] == {"exact_match": 1.0, "generation_accuracy": 1.0} == figures[1]


def test_prompts_are_evenly_spaced_and_not_more_than_asked_for() -> None:
    text = np.random.default_rng(3).integers(0, TOKENS, 60)
    problem, W = problem_of(text, 1), np.linspace(-1, 2, CONTEXT * TOKENS)
    (only,) = {seen(Generation(length=2, prompts=1), problem, W)["exact_match"]}
    assert only in {0.0, 1.0}
    several = seen(Generation(length=2, prompts=4), problem, W)["generation_accuracy"]
    assert (8 * several).is_integer()


def test_rows_that_are_no_passage_of_a_text_are_refused() -> None:
    problem = problem_of(np.random.default_rng(5).integers(0, TOKENS, CONTEXT + 4), 1)
    with pytest.raises(DataError, match="generation of 9 tokens needs test rows that follow"):
        Generation(length=9).bind(problem)
    rng = np.random.default_rng(6)
    apart = Samples(rng.standard_normal((8, CONTEXT)), np.resize([0.0, 1.0], 8))
    with pytest.raises(DataError, match=r"give problem\.test as data of the kind text"):
        Generation(length=2).bind(Problem.of(Softmax(), parted(apart.X, apart.y), test=apart))
