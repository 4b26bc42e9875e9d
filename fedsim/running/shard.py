"""A share of a plan's runs: the third of sixteen, say, whoever makes the others."""

import re
from collections.abc import Sequence
from typing import NamedTuple, Self, TypeVar

from fedsim.errors import DataError

_T = TypeVar("_T")


class Shard(NamedTuple):
    """A fixed share of the runs, by their order; all shards together have each run once.

    Attributes:
        number: which one, counted from 1.
        shares: how many there are.
    """

    number: int
    shares: int

    @classmethod
    def parsed(cls, text: str) -> Self:
        """Return the shard that a text such as "3/16" names.

        Raises:
            DataError: it names none.

        >>> Shard.parsed("3/16").of(range(40))
        [2, 18, 34]
        """
        found = re.fullmatch(r"\s*(\d{1,9})\s*/\s*(\d{1,9})\s*", text)
        shard = cls(int(found[1]), int(found[2])) if found else cls(0, 0)
        if not 1 <= shard.number <= shard.shares:
            raise DataError("shard", f"a shard is K/N, from 1/16 to 16/16, say; got {text!r}")
        return shard

    def of(self, runs: Sequence[_T]) -> list[_T]:
        """Return those of the runs that belong to the shard."""
        return list(runs[self.number - 1 :: self.shares])


WHOLE = Shard(1, 1)
"""All runs."""
