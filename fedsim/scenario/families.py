"""What a method inherits from one of its family that it replaces in a variant."""

from collections.abc import Collection

from fedsim.algorithms import ALGORITHMS, Algorithm
from fedsim.blocks.catalogue import Catalogue
from fedsim.scenario.merging import Inherited


def families(known: Catalogue) -> Inherited:
    """Return what says which parameters two methods share: all of one name, in one family.

    Args:
        known: what a scenario can name.
    """

    def inherited(before: str, after: str) -> Collection[str]:
        one, other = known.find(ALGORITHMS, before), known.find(ALGORITHMS, after)
        if one is None or other is None or not _related(one, other):
            return ()
        return one.model_fields.keys() & other.model_fields.keys()

    return inherited


def _related(one: type, other: type) -> bool:
    """Say whether two methods are of one family: of one file, or with a base of their own."""
    own, others = ({*each.__mro__} - {*Algorithm.__mro__} for each in (one, other))
    return one.__module__ == other.__module__ or bool(own & others)
