"""What links under TCP remember of episodes: a tree of what has begun, and what followed."""

from collections.abc import Hashable
from math import inf
from typing import NamedTuple

MOST = 100_000
"""What a memory holds, in beginnings and ends of messages: some 50 MB at most."""

Beginning = tuple[int, Hashable, int, float, float]
"""The tick at which a message begins, what its lane is like, which of the lanes of this episode
that is, in the order of their first messages, the message's bits, and the radio's rate, bit/s."""


class MessageEnd(NamedTuple):
    """The end of a message.

    Attributes:
        tick: the one up to which it has happened.
        number: the message's, in its episode.
        again: the bits of it that were sent again.
    """

    tick: int
    number: int
    again: int


class EpisodeStep:
    """What follows when some messages have begun, until another one does.

    Attributes:
        ends: of messages, in order.
        nexts: by what begins next: the step that follows, and how much of this one comes before.
        known: up to which tick all is known.
        quiet: when the last queue is empty, s, if all messages end in this step.
    """

    __slots__ = ("ends", "known", "nexts", "quiet")

    def __init__(self, known: int) -> None:
        self.known = known
        self.ends: list[MessageEnd] = []
        self.nexts: dict[Beginning, tuple[EpisodeStep, int]] = {}
        self.quiet = inf


class EpisodeMemory:
    """What links remember of episodes.

    Attributes:
        size: of all, in beginnings and ends of messages.
    """

    __slots__ = ("_roots", "size")

    def __init__(self) -> None:
        self._roots: dict[Hashable, EpisodeStep] = {}
        self.size = 0

    @property
    def full(self) -> bool:
        """Whether no episode in progress may be remembered any further."""
        return self.size > 2 * MOST

    def root(self, key: Hashable) -> EpisodeStep:
        """Return how episodes begin, on links of this key; a full memory is emptied before."""
        if self.size > MOST:
            self._roots.clear()
            self.size = 0
        if key not in self._roots:
            self._roots[key] = EpisodeStep(0)
        return self._roots[key]
