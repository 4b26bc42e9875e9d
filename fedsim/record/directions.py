"""Which figures of a round are the better the higher they are."""

HIGHER_IS_BETTER = frozenset(
    {"train_accuracy", "test_accuracy", "support_precision", "support_recall", "support_f1"}
)
"""Columns whose target is reached from below; that of all others is reached from above."""
