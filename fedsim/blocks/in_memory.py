"""In-memory objects of a block, which a file cannot contain: it holds their digest.

A block that holds something is written like any other, as the digest of what it holds, so that
a later run can be compared with it. Read back in the process that was given the object, the block
holds it again; elsewhere it says that it has to be given again. Where an object has no digest (see
`fedsim.blocks.identity`), a random number that is never used again takes its place: no run is ever
taken for one that was made from it.
"""

from collections.abc import Callable, Iterable
from typing import Any, Self
from uuid import uuid4
from weakref import WeakValueDictionary

import cloudpickle
from pydantic import Field, PrivateAttr, model_validator

from fedsim.blocks.identity import ObjectIdentity, identity_of
from fedsim.blocks.plugins import own_classes, specs_in
from fedsim.blocks.spec import Spec
from fedsim.errors import DataError

_UNKNOWN = "unknown-"
"""What stands before the number of an object without a digest."""


class InMemory:
    """An object that was handed over; equal to itself alone, whatever its digest.

    Attributes:
        key: its digest, SHA-256 in hexadecimal, or a number of its own.
        value: the object.
        reason: why runs that it is part of are made again every time; empty where they are not.
    """

    __slots__ = ("__weakref__", "_again", "key", "reason", "value")

    def __init__(
        self,
        key: str,
        value: object,
        reason: str = "",
        again: Callable[[], ObjectIdentity] | None = None,
    ) -> None:
        self.key = key
        self.value = value
        self.reason = reason
        self._again = again

    def look_again(self) -> None:
        """Compute the digest anew: an object may have been changed since it was handed over."""
        if not self.reason and self._again is not None:
            found = self._again()
            if found.digest != self.key:
                self.reason = found.reason or "it has changed since it was handed over"

    def __reduce__(self) -> tuple[Any, ...]:
        # By value, as a module's class may have been typed into a notebook.
        return _unpickle, (self.key, cloudpickle.dumps(self.value), self.reason)


_HELD: WeakValueDictionary[str, InMemory] = WeakValueDictionary()
"""What this process was given, for as long as a block holds it; of two alike the later one."""


def hold(
    found: ObjectIdentity, value: object, again: Callable[[], ObjectIdentity] | None = None
) -> InMemory:
    """Return a value as it is held from now on.

    Args:
        found: by what it is known.
        value: what is handed over.
        again: computes that anew; None for what nothing can change.
    """
    key = found.digest or f"{_UNKNOWN}{uuid4().hex}"
    held = _HELD[key] = InMemory(key, value, found.reason, again)
    return held


def _unpickle(key: str, pickled: bytes, reason: str) -> InMemory:
    """Return what another process has sent: an object of its own, which no earlier run has used."""
    held = InMemory(key, cloudpickle.loads(pickled), reason)
    _HELD.setdefault(key, held)
    return held


class Holding(Spec):
    """A block that holds what was handed over in Python."""

    digest: str = Field(
        description="SHA-256 of what was handed over in Python, in hexadecimal; unknown- and a"
        " random number where it cannot be compared with anything else for certain"
    )

    _held: InMemory | None = PrivateAttr(default=None)

    @classmethod
    def holding(
        cls,
        found: ObjectIdentity,
        value: object,
        again: Callable[[], ObjectIdentity] | None = None,
        **fields: Any,
    ) -> Self:
        """Return a block that holds a value; see `hold`."""
        held = hold(found, value, again)
        made = cls(digest=held.key, **fields)
        made._held = held
        return made

    @model_validator(mode="after")
    def _hold_again(self) -> Self:
        self._held = _HELD.get(self.digest)
        return self

    @property
    def held(self) -> InMemory | None:
        """What is held; None in a process that was not given it."""
        return self._held

    def value(self, key: str) -> Any:  # noqa: ANN401 - whatever was given
        """Return what is held.

        Raises:
            DataError: nothing, as this was written by another process; `key` says where.
        """
        if self._held is None:
            text = (
                "this was handed over in Python, and a file keeps its digest only "
                f"({self.digest[:12]}...): run it from Python, with the same again"
            )
            raise DataError(key, text)
        return self._held.value


def held_in(value: object) -> Iterable[InMemory]:
    """Return what the blocks within a value hold, each once."""
    every = (each.held for each in specs_in(value) if isinstance(each, Holding))
    return dict.fromkeys(each for each in every if each is not None)


def identity_in(value: object) -> ObjectIdentity:
    """Return by what all is known that blocks within a value have of a user's own, beside fields.

    That is the classes of the blocks, with all that their code reads, and what blocks hold.
    """
    for held in held_in(value):
        if held.reason:
            return ObjectIdentity(reason=held.reason)
    found = identity_of(*own_classes(value))
    return (
        ObjectIdentity(reason=f"a class of its blocks: {found.reason}") if found.reason else found
    )
