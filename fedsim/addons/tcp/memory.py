"""Memory of episodes: a tree of message starts, with the message ends between them."""

from collections.abc import Hashable
from math import inf
from typing import NamedTuple

MOST = 100_000
"""Capacity of the memory, in starts and ends of messages: some 50 MB."""

Beginning = tuple[int, Hashable, int, float, float]
"""The start of a message: its tick, the kind of its lane, the index of the lane within the episode
by first use, the message's bits, and the radio's rate, bit/s."""


class MessageEnd(NamedTuple):
    """The end of a message.

    Attributes:
        tick: the tick up to which the message has ended.
        number: the index of the message in its episode.
        again: the retransmitted bits.
    """

    tick: int
    number: int
    again: int


class EpisodeStep:
    """A node of the tree: the ends after some starts, until the next start.

    Attributes:
        ends: the ends of messages, in order.
        nexts: by the next start: the step that follows, and the number of ends of this step before
            it.
        known: the tick up to which all ends are known.
        quiet: the time at which the last queue is empty, s, if all messages end in this step.
    """

    __slots__ = ("ends", "known", "nexts", "quiet")

    def __init__(self, known: int) -> None:
        self.known = known
        self.ends: list[MessageEnd] = []
        self.nexts: dict[Beginning, tuple[EpisodeStep, int]] = {}
        self.quiet = inf


class EpisodeMemory:
    """The trees of episodes, by key of the links.

    Attributes:
        size: the number of starts and ends in all trees.
    """

    __slots__ = ("_roots", "size")

    def __init__(self) -> None:
        self._roots: dict[Hashable, EpisodeStep] = {}
        self.size = 0

    @property
    def full(self) -> bool:
        """Whether episodes in progress may no longer be recorded."""
        return self.size > 2 * MOST

    def root(self, key: Hashable) -> EpisodeStep:
        """Return the root of the tree for links of this key; empty a full memory first."""
        # Only at the beginning of an episode, as an episode in progress refers to its steps. Such a
        # one may still add as much again: see `full`.
        if self.size > MOST:
            self._roots.clear()
            self.size = 0
        if key not in self._roots:
            self._roots[key] = EpisodeStep(0)
        return self._roots[key]
