"""What links under TCP remember of episodes: a tree of what has begun, and what followed."""

from collections.abc import Hashable
from math import inf

MOST = 100_000
"""What a memory holds, of what has begun and what was told: some 50 MB at most."""

Beginning = tuple[int, Hashable, int, float, float]
"""The tick at which a message begins, what its lane is like, which of the lanes of this episode
that is, in the order of their first messages, the message's bits, and the radio's rate, bit/s."""

Told = tuple[int, int, float, bool]
"""The tick up to which it has happened, the message's number, and the bits that were sent again at
its end, or the rate at which its bits arrive, bit/s; and which of the two."""


class Step:
    """What follows when some messages have begun, until another one does.

    Attributes:
        told: in order.
        nexts: by what begins next: the step that follows, and how much of this one comes before.
        known: up to which tick all is known.
        quiet: when the last queue is empty, s, if all messages end in this step.
    """

    __slots__ = ("known", "nexts", "quiet", "told")

    def __init__(self, known: int) -> None:
        self.known = known
        self.told: list[Told] = []
        self.nexts: dict[Beginning, tuple[Step, int]] = {}
        self.quiet = inf


class EpisodeMemory:
    """What links remember of episodes.

    Attributes:
        size: of all, in messages and what was told of them.
    """

    __slots__ = ("_roots", "size")

    def __init__(self) -> None:
        self._roots: dict[Hashable, Step] = {}
        self.size = 0

    @property
    def full(self) -> bool:
        """Whether no episode in progress may be remembered any further."""
        return self.size > 2 * MOST

    def root(self, key: Hashable) -> Step:
        """Return how episodes begin, on links of this key; a full memory is emptied before."""
        if self.size > MOST:
            self._roots.clear()
            self.size = 0
        if key not in self._roots:
            self._roots[key] = Step(0)
        return self._roots[key]
