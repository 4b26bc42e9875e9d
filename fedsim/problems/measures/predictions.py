"""Measures of what a model predicts: of the clients' rows, of test rows, and client by client."""

from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field
from scipy.special import log_expit, log_softmax, softmax

from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.problems.client_loss import LocalLoss
from fedsim.problems.held_out_targets import (
    class_places,
    held_out_labels,
    held_out_rows,
    held_out_targets,
)
from fedsim.problems.measures.base import Figures, Measure, Observer, OwnObserver
from fedsim.problems.problem import Problem
from fedsim.problems.samples import Samples


class TrainingLoss(Measure):
    """Training loss: the clients' losses joined as in the objective, without the penalty.

    Terms within the clients' losses, such as their l2, are part of it. Where they have none and
    are means over rows, it is the mean over all clients' rows.
    """

    columns: ClassVar[tuple[str, ...]] = ("train_loss",)

    kind: Literal["train_loss"] = "train_loss"

    def bind(self, problem: Problem) -> Observer:
        """Return the loss; see `Measure.bind`."""

        def evaluate(w: Array) -> Figures:
            return {"train_loss": problem.smooth_value(w)}

        return evaluate

    def bind_own(self, problem: Problem) -> OwnObserver:
        """Return the loss of each client at its own model, joined alike."""

        def evaluate(models: Sequence[Array]) -> Figures:
            pairs = zip(problem.losses, models, strict=True)
            return {"train_loss": problem.total([loss.value(w) for loss, w in pairs])}

        return evaluate


class TrainingAccuracy(Measure):
    """Share of all clients' rows whose label the model predicts."""

    columns: ClassVar[tuple[str, ...]] = ("train_accuracy",)

    kind: Literal["train_accuracy"] = "train_accuracy"

    def bind(self, problem: Problem) -> Observer:
        """Return the share; see `Measure.bind`."""
        classes = problem.loss.classes(problem.labels)
        return _accuracy(problem, problem.samples, classes, self.kind)

    def bind_own(self, problem: Problem) -> OwnObserver:
        """Return the share, of each client's rows by its own model."""
        shares, rows = _client_accuracies(problem), problem.rows / problem.rows.sum()
        return lambda models: {self.kind: float(rows @ shares(models))}


class HeldOutAccuracy(Measure):
    """Share of the test rows whose label the model predicts."""

    columns: ClassVar[tuple[str, ...]] = ("test_accuracy",)

    kind: Literal["test_accuracy"] = "test_accuracy"

    def bind(self, problem: Problem) -> Observer:
        """Return the share; see `Measure.bind`."""
        test, _, classes = held_out_labels(problem, self.kind)
        return _accuracy(problem, (test,), classes, self.kind)


class HeldOutLoss(Measure):
    """Mean over the test rows of the loss, without the l1 and l2 terms of the clients."""

    columns: ClassVar[tuple[str, ...]] = ("test_loss",)

    kind: Literal["test_loss"] = "test_loss"

    def bind(self, problem: Problem) -> Observer:
        """Return the mean; see `Measure.bind`.

        It is half the mean squared error for the squared loss, or all of it where the scale
        is mean-square; for the others the mean of the rows' losses.
        """
        test = held_out_rows(problem, self.kind)
        loss = problem.loss
        scale = loss.scale if loss.scale == "mean-square" else "mean"
        none = dict.fromkeys({"l1", "l2"} & type(loss).model_fields.keys(), 0.0)
        plain = loss.model_copy(update={"scale": scale, **none})
        held = LocalLoss(plain, test.X, held_out_targets(problem, test))

        def evaluate(w: Array) -> Figures:
            return {"test_loss": held.value(w)}

        return evaluate


def _client_accuracies(problem: Problem) -> Callable[[Sequence[Array]], Array]:
    """Return a function of a model for each client: their accuracies on their own rows, (M,)."""
    classes = problem.loss.classes(problem.labels)
    known = [(part, problem.loss.class_labels(part.y)) for part in problem.samples]

    def evaluate(models: Sequence[Array]) -> Array:
        return np.array(
            [
                (problem.loss.predict(part.X, w, classes) == labels).mean()
                for w, (part, labels) in zip(models, known, strict=True)
            ]
        )

    return evaluate


def _accuracy(problem: Problem, parts: Sequence[Samples], classes: Array, column: str) -> Observer:
    rows = sum(part.rows for part in parts)
    known = [(part, problem.loss.class_labels(part.y)) for part in parts]

    def evaluate(w: Array) -> Figures:
        right = [
            int(np.count_nonzero(problem.loss.predict(part.X, w, classes) == labels))
            for part, labels in known
        ]
        return {column: sum(right) / rows}

    return evaluate


# Further measures of classifiers on test rows.


class HeldOutF1(Measure):
    """F1 score of the predicted labels of the test rows: of each class, averaged.

    The F1 score of a class is 2 TP/(2 TP + FP + FN); 0 where the class is neither there nor
    predicted.
    """

    columns: ClassVar[tuple[str, ...]] = ("test_f1",)

    kind: Literal["test_f1"] = "test_f1"
    average: Literal["macro", "micro", "weighted"] = Field(
        default="macro",
        description="macro: every class counts alike; weighted: by its test rows; micro: the "
        "counts of all classes are added up first",
    )

    def bind(self, problem: Problem) -> Observer:
        """Return the score; see `Measure.bind`."""
        from sklearn.metrics import f1_score  # it takes long to load

        test, labels, classes = held_out_labels(problem, self.kind)

        def evaluate(w: Array) -> Figures:
            predicted = problem.loss.predict(test.X, w, classes)
            score = f1_score(
                labels, predicted, labels=classes, average=self.average, zero_division=0.0
            )
            return {"test_f1": float(score)}

        return evaluate


class HeldOutAUC(Measure):
    """Area under the ROC curve of the test rows.

    Of two classes: the share of pairs of a row of each in which that of the second has the higher
    logit, ties counting half. Of more: the mean over the classes, each against all others, by
    the probabilities of softmax.
    """

    columns: ClassVar[tuple[str, ...]] = ("test_auc",)

    kind: Literal["test_auc"] = "test_auc"

    def bind(self, problem: Problem) -> Observer:
        """Return the area; see `Measure.bind`."""
        from sklearn.metrics import roc_auc_score  # it takes long to load

        test, labels, classes = held_out_labels(problem, self.kind)
        missing = np.setdiff1d(classes, labels)
        if missing.size:
            text = f"there is none of the label {missing[0]:g}"
            raise DataError("test", f"test_auc needs test rows of every class; {text}")

        def evaluate(w: Array) -> Figures:
            scores = problem.loss.scores(test.X, w, classes)
            if not np.isfinite(scores).all():
                return {"test_auc": np.nan}
            if scores.ndim == 1 or len(classes) == 2:
                margin = scores if scores.ndim == 1 else scores[:, 1] - scores[:, 0]
                return {"test_auc": float(roc_auc_score(labels == classes[1], margin))}
            areas = [
                roc_auc_score(labels == label, shares)
                for label, shares in zip(classes, softmax(scores, axis=1).T, strict=True)
            ]
            return {"test_auc": float(np.mean(areas))}

        return evaluate


class HeldOutTopAccuracy(Measure):
    """Share of the test rows whose label is among the k classes with the largest logits."""

    columns: ClassVar[tuple[str, ...]] = ("test_top_accuracy",)

    kind: Literal["test_top_accuracy"] = "test_top_accuracy"
    k: int = Field(
        default=5,
        ge=1,
        description="k: a row counts if its label is among the k most probable classes",
    )

    def bind(self, problem: Problem) -> Observer:
        """Return the share; see `Measure.bind`.

        A class counts as among the first k where fewer than k others have a larger logit.
        """
        test, labels, classes = held_out_labels(problem, self.kind)
        if self.k >= len(classes):
            text = f"got k: {self.k}, and the data has {len(classes)} classes; give a smaller one"
            raise DataError("measures.k", text)
        places = class_places(labels, classes)

        def evaluate(w: Array) -> Figures:
            scores = problem.loss.scores(test.X, w, classes)
            if scores.ndim == 1:
                scores = np.column_stack([np.zeros_like(scores), scores])
            label_scores = np.take_along_axis(scores, places[:, None], axis=1)
            return {
                "test_top_accuracy": float(((scores > label_scores).sum(axis=1) < self.k).mean())
            }

        return evaluate


class HeldOutPerplexity(Measure):
    """Perplexity of the test rows: exp of the mean of -log(probability of the row's label).

    Probabilities are those of softmax over the logits, or of the sigmoid where there is one. A
    model that knows nothing has the number of classes.
    """

    columns: ClassVar[tuple[str, ...]] = ("test_perplexity",)

    kind: Literal["test_perplexity"] = "test_perplexity"

    def bind(self, problem: Problem) -> Observer:
        """Return the perplexity; see `Measure.bind`."""
        test, labels, classes = held_out_labels(problem, self.kind)
        places = class_places(labels, classes)

        def evaluate(w: Array) -> Figures:
            scores = problem.loss.scores(test.X, w, classes)
            if scores.ndim == 1:
                logs = log_expit(np.where(places == 1, scores, -scores))
            else:
                logs = np.take_along_axis(log_softmax(scores, axis=1), places[:, None], axis=1)
            with np.errstate(over="ignore"):
                return {"test_perplexity": float(np.exp(-logs.mean()))}

        return evaluate


class HeldOutAbsoluteError(Measure):
    """Mean absolute error of the numbers predicted for the test rows."""

    columns: ClassVar[tuple[str, ...]] = ("test_mae",)

    kind: Literal["test_mae"] = "test_mae"

    def bind(self, problem: Problem) -> Observer:
        """Return the mean; see `Measure.bind`."""
        test = held_out_rows(problem, self.kind)
        problem.loss.regress(test.X[:1], np.zeros(problem.dimension))  # raises where it cannot

        def evaluate(w: Array) -> Figures:
            return {"test_mae": float(np.abs(problem.loss.regress(test.X, w) - test.y).mean())}

        return evaluate


class ClientAccuracy(Measure):
    """How evenly a model serves the clients: the accuracy on each client's own rows.

    Its least value over the clients, the mean over the worst tenth of them (rounded up), the
    median, and the standard deviation, in which every client counts alike. Rows are those that the
    clients train on.
    """

    columns: ClassVar[tuple[str, ...]] = (
        "worst_accuracy",
        "tenth_accuracy",
        "median_accuracy",
        "spread_of_accuracies",
    )

    kind: Literal["client_accuracy"] = "client_accuracy"

    def bind(self, problem: Problem) -> Observer:
        """Return the figures; see `Measure.bind`."""
        observe, count = self.bind_own(problem), len(problem.samples)
        return lambda w: observe([w] * count)

    def bind_own(self, problem: Problem) -> OwnObserver:
        """Return the figures of each client's own model on its own rows."""
        accuracies = _client_accuracies(problem)

        def evaluate(models: Sequence[Array]) -> Figures:
            shares = np.sort(accuracies(models))
            tenth = -(-len(shares) // 10)
            figures = shares[0], shares[:tenth].mean(), np.median(shares), shares.std()
            return dict(zip(self.columns, map(float, figures), strict=True))

        return evaluate
