"""What holds for every measure, and what each says of a problem that it cannot be used with."""

from itertools import chain

import numpy as np
import pytest
from scipy.sparse import csr_array

from fedsim.core.errors import DataError
from fedsim.problems import (
    MEASURES,
    GivenMeasure,
    Logistic,
    Measure,
    Problem,
    Samples,
    Squared,
)
from fedsim.problems.losses import NeymanPearson, Softmax, TraceRegression
from fedsim.problems.measures import (
    ConstraintValue,
    Distance,
    Generation,
    HeldOutAbsoluteError,
    HeldOutAccuracy,
    HeldOutLoss,
    HeldOutTopAccuracy,
    OperatorDistance,
    Rank,
    RelativeDistance,
    Support,
    TrainingAccuracy,
)
from fedsim.results.record.rounds import COLUMNS
from tests.problems.measured import gaussian, parted, seen
from tests.tiers import every

GIVEN: dict[type[Measure], dict[str, int]] = {
    HeldOutTopAccuracy: {"k": 1},
    Generation: {"length": 1},
}
"""What a measure is given where its default does not go with two classes, or rows in no order."""

EVERY = every("kind", [each for each in MEASURES if each is not GivenMeasure])


OF_NUMBERS = {Rank, OperatorDistance, HeldOutAbsoluteError}


@EVERY
def test_sparse_features_are_measured_as_dense_ones(kind: type[Measure]) -> None:
    rng = np.random.default_rng(9)
    X = np.where(rng.random((40, 12)) < 0.3, rng.standard_normal((40, 12)), 0.0)
    y = np.resize([1.0, -1.0, -1.0], 40)
    figures = []
    for layout in (np.asarray, csr_array):
        parts = [
            Samples(layout(part.X), part.y, None, np.ones(12)) for part in parted(X, y, parts=4)
        ]
        *clients, test = parts
        loss = TraceRegression(rows=3) if kind in OF_NUMBERS else NeymanPearson()
        problem = Problem.of(loss, clients, test=test)
        measure = kind.model_validate(GIVEN.get(kind, {}))
        figures.append(seen(measure, problem, np.linspace(-1, 1, 12)))
    assert figures[0] == pytest.approx(figures[1], rel=1e-12)


NO_TEST = "give problem.test"
UNSEEN = Samples(np.ones((2, 12)), np.array([1.0, 7.0]))
REFUSED: list[tuple[Measure, Problem, str]] = [
    (Distance(), gaussian(Squared()), "this data has none"),
    (Support(), gaussian(Squared()), "use a generator"),
    (RelativeDistance(), gaussian(Squared(), np.zeros(12)), "not zero"),
    (Support(), gaussian(Squared(), np.zeros(12)), "not zero"),
    (Distance(), gaussian(Softmax(), np.ones(12)), "with 12 entries, but .* softmax has 24"),
    (Rank(), gaussian(Squared()), r"softmax or trace-regression; .* the shape \(12,\)"),
    (ConstraintValue(), gaussian(Squared()), "neyman-pearson; the loss here is squared"),
    (TrainingAccuracy(), gaussian(Squared()), "squared does not classify"),
    (HeldOutAccuracy(), gaussian(Logistic()), NO_TEST),
    (HeldOutLoss(), gaussian(Logistic()), NO_TEST),
    (HeldOutAccuracy(), gaussian(Softmax(), test=UNSEEN), "label 7"),
    (HeldOutLoss(), gaussian(Softmax(), test=UNSEEN), "label 7"),
]


@every(("measure", "problem", "words"), REFUSED)
def test_what_a_problem_lacks_is_said(measure: Measure, problem: Problem, words: str) -> None:
    with pytest.raises(DataError, match=words):
        measure.bind(problem)


def complete() -> list[Problem]:
    """Return problems that have among them all that a measure needs."""
    held = Samples(np.ones((2, 12)), np.array([1.0, -1.0]))
    return [
        gaussian(Softmax(), np.ones(24), test=held),
        gaussian(NeymanPearson(), np.ones(12), test=held),
        gaussian(Squared(), np.ones(12), test=held),
    ]


@EVERY
def test_a_measure_fills_the_columns_that_it_says(kind: type[Measure]) -> None:
    evaluated = 0
    for problem in complete():
        try:
            measure = kind.model_validate(GIVEN.get(kind, {}))
            figures = seen(measure, problem, np.ones(problem.dimension))
        except DataError:
            continue
        evaluated += 1
        assert tuple(figures) == kind.columns
    assert evaluated


def test_no_two_measures_have_a_column_in_common() -> None:
    columns = list(chain.from_iterable(kind.columns for kind in MEASURES))
    assert len(set(columns)) == len(columns)
    assert not COLUMNS & set(columns)


@EVERY
def test_a_measure_says_what_it_is_and_what_its_parameters_mean(kind: type[Measure]) -> None:
    assert (kind.__doc__ or "").splitlines()[0].endswith(".")
    assert [name for name, field in kind.model_fields.items() if not field.description] == ["kind"]


@EVERY
def test_a_measure_leaves_the_model_as_it_is(kind: type[Measure]) -> None:
    for problem in complete():
        w = np.linspace(-1, 2, problem.dimension)
        w.flags.writeable = False  # an observer that wrote into it would raise
        try:
            observe = kind.model_validate({}).bind(problem)
        except DataError:
            continue
        assert observe(w) == observe(w)
