"""Generation of text as a measure: greedy continuations of test rows, compared with the text."""

from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.problems.held_out_targets import held_out_labels
from fedsim.problems.measures.base import Figures, Measure, Observer
from fedsim.problems.problem import Problem

_PAIRS = 256
"""The number of pairs of rows that are compared to find the stride between rows."""


class Generation(Measure):
    """Greedy continuations of test rows by the model, compared with the true text.

    A prompt consists of the tokens of a test row. The model's most likely next token is appended
    and the oldest one dropped, repeatedly: it reads its own tokens, never the true ones.
    `exact_match` is the share of prompts whose whole continuation equals the text (as in Carlini et
    al., Quantifying Memorization Across Neural Language Models, ICLR 2023). `generation_accuracy`
    is the share of tokens that equal those of the text at the same position. The true continuation
    is read from the test rows that follow in order, each a few tokens further in the same text.
    """

    held_out = True
    columns: ClassVar[tuple[str, ...]] = ("exact_match", "generation_accuracy")

    kind: Literal["generation"] = "generation"
    length: int = Field(default=8, ge=1, description="tokens per continuation")
    prompts: int = Field(
        default=64, ge=1, description="largest number of prompts, evenly spaced in the test rows"
    )

    def bind(self, problem: Problem) -> Observer:
        """Return a function for both shares; see `Measure.bind`."""
        test, labels, classes = held_out_labels(problem, self.kind)
        X = test.X if isinstance(test.X, np.ndarray) else None
        sparse: Any = test.X
        known = read_continuations(X, labels, self.length)
        if not len(known.rows):
            text = f"generation of {self.length} tokens needs test rows that follow in one text"
            remedy = "give problem.test as data of the kind text, or fewer tokens (length)"
            raise DataError("test", f"{text}, and no row has as many behind it; {remedy}")
        count = min(self.prompts, len(known.rows))
        chosen = np.linspace(0, len(known.rows) - 1, count).astype(np.intp)
        rows, wanted = known.rows[chosen], known.tokens[chosen]
        prompts: Array = test.X[rows] if X is not None else sparse[rows].toarray()
        prompts = prompts.astype(np.result_type(prompts, np.int64))

        def evaluate(w: Array) -> Figures:
            window, right = prompts, np.empty(wanted.shape, bool)
            for place in range(self.length):
                prediction = problem.loss.predict(window, w, classes)
                right[:, place] = prediction == wanted[:, place]
                window = np.column_stack([window[:, 1:], prediction.astype(window.dtype)])
            return dict(
                zip(self.columns, (float(right.all(1).mean()), float(right.mean())), strict=True)
            )

        return evaluate


class Continuations(NamedTuple):
    """The true continuation of a text after some of its rows.

    Attributes:
        rows: the indices of these rows, shape (k,), ascending.
        tokens: the tokens after each of them, shape (k, length).
    """

    rows: NDArray[np.intp]
    tokens: Array


def read_continuations(X: Array | None, y: Array, length: int) -> Continuations:
    """Return the true continuations of rows, as far as later rows show them.

    A row follows the previous one, s tokens further in the text, if it begins with all but the
    first s of its tokens, and then has its label. s is the same for all rows, between 1 and the
    length of a row: the value that fits most pairs of consecutive rows, and the smallest of
    several.

    Args:
        X: tokens, shape (n, c); None if they cannot be compared.
        y: the token after each row, shape (n,).
        length: the number of tokens to return.

    >>> text = np.arange(10)
    >>> rows = np.lib.stride_tricks.sliding_window_view(text, 4)[:-1:2]
    >>> read_continuations(rows, text[4::2], 3).tokens.tolist()
    [[4, 5, 6], [6, 7, 8]]
    """
    count = len(y)
    if length == 1:
        return Continuations(np.arange(count), y[:, None])
    if X is None or count < 2:
        return Continuations(np.arange(0), np.empty((0, length)))
    context = X.shape[1]
    sampled = np.unique(np.linspace(0, count - 2, min(count - 1, _PAIRS)).astype(np.intp))
    matches = [_follow(X, y, sampled, s).sum() for s in range(1, context + 1)]
    # The stride is the one at which most rows continue the row before them.
    step = 1 + int(np.argmax(matches))
    needed = -(-(length - 1) // step)  # rows after the first one
    broken = np.flatnonzero(~_follow(X, y, np.arange(count - 1), step))
    ends = np.append(broken, count - 1)  # the last row of each passage
    last = ends[np.searchsorted(ends, np.arange(count))]
    rows = np.flatnonzero(last - np.arange(count) >= needed)
    pieces = [y[rows, None]]
    for ahead in range(1, needed + 1):
        pieces += [X[rows + ahead, context - step + 1 :], y[rows + ahead, None]]
    return Continuations(rows, np.hstack(pieces)[:, :length])


def _follow(X: Array, y: Array, rows: NDArray[np.intp], step: int) -> NDArray[np.bool_]:
    """Return whether the row after each of some rows is `step` tokens further in a text."""
    kept = X.shape[1] - step
    same = (X[rows + 1, :kept] == X[rows, step:]).all(axis=1)
    follows: NDArray[np.bool_] = same & (X[rows + 1, kept] == y[rows])
    return follows
