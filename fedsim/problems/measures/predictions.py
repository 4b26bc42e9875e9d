"""Measures of a model's predictions: on the clients' rows, on test rows, and per client."""

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
    """Training loss: the clients' losses combined as in the objective, without the penalty.

    Terms within the clients' losses, such as their l2, are included. If losses are means over rows
    without such terms, this is the mean over all clients' rows.
    """

    columns: ClassVar[tuple[str, ...]] = ("train_loss",)

    kind: Literal["train_loss"] = "train_loss"

    def bind(self, problem: Problem) -> Observer:
        """Return a function for the loss; see `Measure.bind`."""

        def evaluate(w: Array) -> Figures:
            return {"train_loss": problem.smooth_value(w)}

        return evaluate

    def bind_own(self, problem: Problem) -> OwnObserver:
        """Return a function for the losses of clients at their own models, combined likewise."""

        def evaluate(models: Sequence[Array]) -> Figures:
            pairs = zip(problem.losses, models, strict=True)
            return {"train_loss": problem.total([loss.value(w) for loss, w in pairs])}

        return evaluate


class TrainingAccuracy(Measure):
    """Share of all clients' rows whose label the model predicts."""

    columns: ClassVar[tuple[str, ...]] = ("train_accuracy",)

    kind: Literal["train_accuracy"] = "train_accuracy"

    def bind(self, problem: Problem) -> Observer:
        """Return a function for the share; see `Measure.bind`."""
        classes = problem.loss.classes(problem.labels)
        return _accuracy(problem, problem.samples, classes, self.kind)

    def bind_own(self, problem: Problem) -> OwnObserver:
        """Return a function for the share, where each client's rows use its own model."""
        shares, rows = _client_accuracies(problem), problem.rows / problem.rows.sum()
        return lambda models: {self.kind: float(rows @ shares(models))}


class HeldOutAccuracy(Measure):
    """Share of the test rows whose label the model predicts."""

    held_out = True
    columns: ClassVar[tuple[str, ...]] = ("test_accuracy",)

    kind: Literal["test_accuracy"] = "test_accuracy"

    def bind(self, problem: Problem) -> Observer:
        """Return a function for the share; see `Measure.bind`."""
        test, _, classes = held_out_labels(problem, self.kind)
        return _accuracy(problem, (test,), classes, self.kind)


class HeldOutLoss(Measure):
    """Mean of the loss over the test rows, without the clients' l1 and l2 terms."""

    held_out = True
    columns: ClassVar[tuple[str, ...]] = ("test_loss",)

    kind: Literal["test_loss"] = "test_loss"

    def bind(self, problem: Problem) -> Observer:
        """Return a function for the mean; see `Measure.bind`.

        For the squared loss it is half the mean squared error, or the mean squared error if the
        scale is mean-square. For other losses it is the mean of the rows' losses.
        """
        test = held_out_rows(problem, self.kind)
        loss = problem.loss
        # A sum over the test rows would depend on their number.
        scale = loss.scale if loss.scale == "mean-square" else "mean"
        none = dict.fromkeys({"l1", "l2"} & type(loss).model_fields.keys(), 0.0)
        plain = loss.model_copy(update={"scale": scale, **none})
        held = LocalLoss(plain, test.X, held_out_targets(problem, test))

        def evaluate(w: Array) -> Figures:
            return {"test_loss": held.value(w)}

        return evaluate


def _client_accuracies(problem: Problem) -> Callable[[Sequence[Array]], Array]:
    """Return a function that maps one model per client to accuracies on their own rows, (M,)."""
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
    """F1 score of the predicted labels of the test rows: one per class, averaged.

    The F1 score of a class is 2 TP/(2 TP + FP + FN). It is 0 if the class neither occurs nor is
    predicted.
    """

    held_out = True
    columns: ClassVar[tuple[str, ...]] = ("test_f1",)

    kind: Literal["test_f1"] = "test_f1"
    average: Literal["macro", "micro", "weighted"] = Field(
        default="macro",
        description="macro: every class counts alike; weighted: by its test rows; micro: the "
        "counts of all classes are added up first",
    )

    def bind(self, problem: Problem) -> Observer:
        """Return a function for the score; see `Measure.bind`."""
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

    For two classes it is the share of pairs of one row of each class in which the row of the second
    class has the higher logit; ties count half. For more classes it is the mean over the classes,
    each against all others, with the probabilities of softmax.
    """

    held_out = True
    columns: ClassVar[tuple[str, ...]] = ("test_auc",)

    kind: Literal["test_auc"] = "test_auc"

    def bind(self, problem: Problem) -> Observer:
        """Return a function for the area; see `Measure.bind`."""
        from sklearn.metrics import roc_auc_score  # it takes long to load

        test, labels, classes = held_out_labels(problem, self.kind)
        missing = np.setdiff1d(classes, labels)
        if missing.size:
            text = f"there is none of the label {missing[0]:g}"
            raise DataError("test", f"test_auc needs test rows of every class; {text}")

        def evaluate(w: Array) -> Figures:
            scores = problem.loss.scores(test.X, w, classes)
            # A diverged model has logits that are not finite, of which scikit-learn computes no
            # area.
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

    held_out = True
    columns: ClassVar[tuple[str, ...]] = ("test_top_accuracy",)

    kind: Literal["test_top_accuracy"] = "test_top_accuracy"
    k: int = Field(
        default=5,
        ge=1,
        description="k: a row counts if its label is among the k most probable classes",
    )

    def bind(self, problem: Problem) -> Observer:
        """Return a function for the share; see `Measure.bind`.

        A class is among the first k if fewer than k others have a larger logit.
        """
        test, labels, classes = held_out_labels(problem, self.kind)
        if self.k >= len(classes):
            text = f"got k: {self.k}, and the data has {len(classes)} classes; give a smaller one"
            raise DataError("measures.k", text)
        places = class_places(labels, classes)

        def evaluate(w: Array) -> Figures:
            scores = problem.loss.scores(test.X, w, classes)
            if scores.ndim == 1:
                # A single logit is that of the larger label, against 0 for the other.
                scores = np.column_stack([np.zeros_like(scores), scores])
            label_scores = np.take_along_axis(scores, places[:, None], axis=1)
            return {
                "test_top_accuracy": float(((scores > label_scores).sum(axis=1) < self.k).mean())
            }

        return evaluate


class HeldOutPerplexity(Measure):
    """Perplexity of the test rows: exp of the mean of -log(probability of the row's label).

    Probabilities come from softmax over the logits, or from the sigmoid of a single logit. A model
    that predicts all classes with equal probability has a perplexity equal to their number.
    """

    held_out = True
    columns: ClassVar[tuple[str, ...]] = ("test_perplexity",)

    kind: Literal["test_perplexity"] = "test_perplexity"

    def bind(self, problem: Problem) -> Observer:
        """Return a function for the perplexity; see `Measure.bind`."""
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

    held_out = True
    columns: ClassVar[tuple[str, ...]] = ("test_mae",)

    kind: Literal["test_mae"] = "test_mae"

    def bind(self, problem: Problem) -> Observer:
        """Return a function for the mean; see `Measure.bind`."""
        test = held_out_rows(problem, self.kind)
        problem.loss.regress(test.X[:1], np.zeros(problem.dimension))  # raises for a classifier

        def evaluate(w: Array) -> Figures:
            return {"test_mae": float(np.abs(problem.loss.regress(test.X, w) - test.y).mean())}

        return evaluate


class ClientAccuracy(Measure):
    """How evenly a model serves the clients: the accuracies on the clients' own training rows.

    Columns are the smallest accuracy over the clients, the mean over the worst tenth of them
    (rounded up), the median, and the standard deviation. Every client has the same weight.
    """

    columns: ClassVar[tuple[str, ...]] = (
        "worst_accuracy",
        "tenth_accuracy",
        "median_accuracy",
        "spread_of_accuracies",
    )

    kind: Literal["client_accuracy"] = "client_accuracy"

    def bind(self, problem: Problem) -> Observer:
        """Return a function for the figures; see `Measure.bind`."""
        observe, count = self.bind_own(problem), len(problem.samples)
        return lambda w: observe([w] * count)

    def bind_own(self, problem: Problem) -> OwnObserver:
        """Return a function for the figures of each client's own model on its own rows."""
        accuracies = _client_accuracies(problem)

        def evaluate(models: Sequence[Array]) -> Figures:
            shares = np.sort(accuracies(models))
            # Rounded up, this is at least one client.
            tenth = -(-len(shares) // 10)
            figures = shares[0], shares[:tenth].mean(), np.median(shares), shares.std()
            return dict(zip(self.columns, map(float, figures), strict=True))

        return evaluate
