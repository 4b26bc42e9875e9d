"""In-memory objects of blocks, such as arrays or a PyTorch module: a file has only their digests.

A block with an in-memory object is written with the digest of the object, so that a later run can
be compared with it. When the block is read again in the same process, it finds the object by its
digest; in another process its use raises an error that asks for the object. If an object has no
digest (see `fedsim.blocks.identity`), a random number takes its place: no earlier run is ever
reused for it.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Self
from uuid import uuid4
from weakref import ref

import cloudpickle
from pydantic import Field, PrivateAttr, model_validator

from fedsim.blocks.identity import ObjectIdentity, identity_of
from fedsim.blocks.plugins import own_classes, specs_in
from fedsim.blocks.spec import Spec
from fedsim.errors import DataError

_UNKNOWN = "unknown-"
"""The prefix of the random key of an object without a digest."""


class InMemory:
    """An object passed by the caller; it equals only itself, whatever its digest.

    Attributes:
        key: the digest of the object, SHA-256 in hexadecimal, or a random key.
        value: the object.
        reason: why runs with this object are never reused; empty if they are.
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
        """Compute the digest again: the caller may have modified the object in the meantime."""
        if not self.reason and self._again is not None:
            found = self._again()
            if found.digest != self.key:
                self.reason = found.reason or "it has changed since it was handed over"

    def __reduce__(self) -> tuple[Any, ...]:
        # By value (cloudpickle): the class of the object may have been defined in a notebook.
        return _unpickle, (self.key, cloudpickle.dumps(self.value), self.reason)


_HELD: dict[str, list[ref[InMemory]]] = {}
"""The objects of this process by their keys, in the order they came, while a block has them."""


def _remember(held: InMemory) -> None:
    """Let an object be found by its key."""
    known = ref(held, partial(_forget, held.key))  # first: it may forget others of that key
    _HELD.setdefault(held.key, []).append(known)


def _forget(key: str, gone: ref[InMemory]) -> None:
    """Forget an object that no block has any more."""
    kept = [each for each in _HELD.get(key, ()) if each is not gone]
    if kept:
        _HELD[key] = kept
    else:
        _HELD.pop(key, None)


def _find(key: str) -> InMemory | None:
    """Return the object with a key; of equal ones the latest that a block has."""
    alive = (each() for each in reversed(_HELD.get(key, [])))
    return next((each for each in alive if each is not None), None)


def hold(
    found: ObjectIdentity, value: object, again: Callable[[], ObjectIdentity] | None = None
) -> InMemory:
    """Return a value wrapped with its key.

    Args:
        found: the identity of the value.
        value: the object that the caller passed.
        again: computes the identity again; None for immutable values.
    """
    key = found.digest or f"{_UNKNOWN}{uuid4().hex}"
    held = InMemory(key, value, found.reason, again)
    _remember(held)
    return held


def _unpickle(key: str, pickled: bytes, reason: str) -> InMemory:
    """Return an object received from another process."""
    held = InMemory(key, cloudpickle.loads(pickled), reason)
    if _find(key) is None:
        _remember(held)
    return held


class Holding(Spec):
    """A block with an in-memory object."""

    digest: str = Field(
        description="SHA-256 of the object passed in Python, in hexadecimal; unknown- and a random"
        " number if it cannot be compared with other objects for certain"
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
        """Return a block with a value; see `hold`."""
        held = hold(found, value, again)
        made = cls(digest=held.key, **fields)
        made._held = held
        return made

    @model_validator(mode="after")
    def _hold_again(self) -> Self:
        self._held = _find(self.digest)
        return self

    @property
    def held(self) -> InMemory | None:
        """The wrapped object; None in a process that does not have it."""
        return self._held

    def value(self, key: str) -> Any:  # noqa: ANN401 - whatever was given
        """Return the object.

        Raises:
            DataError: this process does not have it, as the block was written by another one.
        """
        if self._held is None:
            text = (
                "this object was passed in Python, and a file has only its digest "
                f"({self.digest[:12]}...): run it from Python, and pass the object again"
            )
            raise DataError(key, text)
        return self._held.value


def held_in(value: object) -> Iterable[InMemory]:
    """Return the in-memory objects of all blocks within a value, each once."""
    every = (each.held for each in specs_in(value) if isinstance(each, Holding))
    return dict.fromkeys(each for each in every if each is not None)


def identity_in(value: object) -> ObjectIdentity:
    """Return the identity of everything user-defined in the blocks within a value, beside fields.

    That is the classes of the blocks, with everything that their code reads, and in-memory objects.
    """
    for held in held_in(value):
        if held.reason:
            return ObjectIdentity(reason=held.reason)
    found = identity_of(*own_classes(value))
    return (
        ObjectIdentity(reason=f"a class of its blocks: {found.reason}") if found.reason else found
    )
