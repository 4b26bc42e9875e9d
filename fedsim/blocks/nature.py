"""What a block declares of itself, from which follows how a run with it can be played.

A run is played by events, which every block can be part of. All else is faster and knows less:
rounds in arrays, worlds without events (`robust`), a log under other prices (`reprice`), a page
that prices in the browser (`explore`), real clients (`live`). Each names the traits that it cannot
have; a block that declares one of these is why, in its own words.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class Nature:
    """What a block is. Each is a clause that says why it is so, or empty where it is not.

    Attributes:
        varies: its figures are not the same at all times.
        shares: how fast one message is depends on which others there are.
        draws: its figures are drawn anew while a run goes on.
        loses: messages may be lost for good.
        waits: it waits for other things than messages and work.
        reacts: what is learned depends on when things happen.
    """

    varies: str = ""
    shares: str = ""
    draws: str = ""
    loses: str = ""
    waits: str = ""
    reacts: str = ""

    def first(self, traits: Iterable[str]) -> str:
        """Return the first clause of some traits; empty if it has none of them."""
        return next((why for trait in traits if (why := getattr(self, trait))), "")


TRAITS = tuple(each.name for each in fields(Nature))
"""All traits, in the order in which they are named."""

CONSTANT = Nature()
"""Of what depends on messages and work alone, and on these in the same way at all times."""


class Reason(NamedTuple):
    """Why a run cannot be played in some way.

    Attributes:
        key: of the scenario, that the block is at.
        why: a clause.
    """

    key: str
    why: str

    def __str__(self) -> str:
        return f"{self.key}: {self.why}"


def reasons(blocks: Iterable[tuple[str, Nature]], traits: Iterable[str]) -> Iterator[Reason]:
    """Yield why blocks cannot be played where some traits are not known.

    Args:
        blocks: the key of each in the scenario, and what it declares.
        traits: of which any is a reason.
    """
    unknown = tuple(traits)
    for key, nature in blocks:
        if why := nature.first(unknown):
            yield Reason(key, why)
