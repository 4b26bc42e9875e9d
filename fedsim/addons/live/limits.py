"""Bounds on what a peer may send."""

LONGEST_REPORT = 1 << 14
"""The limit of a report's body, bytes."""

_ROOM, _VECTORS = 1 << 20, 8


def longest_message(dimension: int) -> int:
    """Return the limit of the body of a message, bytes.

    It has room for eight vectors of the model's length in float64, and for 1 MiB of anything else.

    >>> longest_message(1_000_000)
    65048576
    """
    return _ROOM + _VECTORS * 8 * dimension


def largest_vector(dimension: int) -> int:
    """Return the largest dimension of a vector in a message, for a model of some dimension.

    A sparse vector may be far longer than its encoding, so the length of a frame does not bound it.

    >>> largest_vector(1_000_000)
    8065536
    """
    return (1 << 16) + _VECTORS * dimension
