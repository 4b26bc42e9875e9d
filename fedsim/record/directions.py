"""Optimisation direction of a round's figures: which are better when higher."""

HIGHER_IS_BETTER = frozenset(
    {"train_accuracy", "test_accuracy", "support_precision", "support_recall", "support_f1"}
)
"""Columns whose target is reached from below; that of all others is reached from above."""

_RISING = frozenset({"accuracy", "acc", "precision", "recall", "f1", "auc", "r2", "score", "iou"})
"""The last words of user-defined figures that are better when higher."""


def higher_is_better(column: str) -> bool:
    """Return whether higher is better: fedsim's figures by list, user-defined ones by name.

    >>> [higher_is_better(name) for name in ("test_accuracy", "eval_acc", "eval_loss", "nonzeros")]
    [True, True, False, False]
    """
    return column in HIGHER_IS_BETTER or column.replace("-", "_").rpartition("_")[2] in _RISING
