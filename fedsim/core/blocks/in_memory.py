"""Objects passed in Python: values, which have a digest, and code, which has none.

Rows, frames, numbers and texts are values. The scenario of a run records their digest, so a later
run with the same values is recognised as the same run. Functions, classes, modules and all other
objects are code: no digest could reliably tell whether they have changed. For them the scenario
records the word `code`, and the digest of any values inside, such as the parameters of a module.

A block that is read again in the same process finds its object by the digest. In another process,
or when a run with code is read from its file, using the object raises an error that asks the caller
to pass it again.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Self
from uuid import uuid4
from weakref import ref

import cloudpickle
from pydantic import Field, PrivateAttr, model_validator

from fedsim.core.blocks.plugins import is_handed_over, specs_in
from fedsim.core.blocks.spec import Spec
from fedsim.core.errors import DataError

_CODE = "code"
"""The beginning of the key of code, which has no digest."""

_KEY = re.compile(rf"\b{_CODE}-[0-9a-f]{{32}}\b")


class InMemory:
    """An object passed by the caller; two of them are equal only if they are the same object.

    Attributes:
        key: the digest of a value; for code, a random key, with the digest of the values in it.
        value: the object.
        again: computes the digest again, to detect changes. None if the object cannot change, or
            the digest cannot be repeated.
    """

    __slots__ = ("__weakref__", "again", "key", "value")

    def __init__(self, key: str, value: object, again: Callable[[], str] | None = None) -> None:
        self.key = key
        self.value = value
        self.again = again

    def __reduce__(self) -> tuple[Any, ...]:
        # By value (cloudpickle), since a class defined in a notebook cannot be imported elsewhere.
        return _unpickle, (self.key, cloudpickle.dumps(self.value))


_HELD: dict[str, list[ref[InMemory]]] = {}
"""Weak references to the objects that blocks hold, by key, oldest first."""


def _remember(held: InMemory) -> None:
    known = ref(held, partial(_forget, held.key))  # may run `_forget`, so before reading `_HELD`
    _HELD.setdefault(held.key, []).append(known)


def _forget(key: str, gone: ref[InMemory]) -> None:
    """Remove the reference to an object that no block holds any more."""
    kept = [reference for reference in _HELD.get(key, ()) if reference is not gone]
    if kept:
        _HELD[key] = kept
    else:
        _HELD.pop(key, None)


def _find(key: str) -> InMemory | None:
    """Return the object with a key; of several, the latest that is still alive."""
    alive = (reference() for reference in reversed(_HELD.get(key, [])))
    return next((held for held in alive if held is not None), None)


def _unpickle(key: str, pickled: bytes) -> InMemory:
    """Return an object received from another process."""
    held = InMemory(key, cloudpickle.loads(pickled))
    # If this process has the object already, blocks keep holding that one.
    if _find(key) is None:
        _remember(held)
    return held


class Holding(Spec):
    """A block with an in-memory object."""

    digest: str = Field(
        description="SHA-256 of the values passed in Python, in hexadecimal; for a function, a"
        " class, a module or another object `code`, and the digest of the values in it, if any"
    )

    _held: InMemory | None = PrivateAttr(default=None)

    @classmethod
    def of_values(cls, value: object, digest: Callable[[], str], **fields: Any) -> Self:
        """Return a block that holds a value, which its digest identifies."""
        return cls._holding(InMemory(digest(), value, digest), fields)

    @classmethod
    def of_code(
        cls,
        value: object,
        digest: str = "",
        again: Callable[[], str] | None = None,
        **fields: Any,
    ) -> Self:
        """Return a block with an object that counts as code.

        Args:
            value: the object.
            digest: the digest of the values inside the object, see `digest_of`; empty if none.
            again: computes this digest again; None if the result could differ by itself.
            fields: the other fields of the block.
        """
        key = f"{_CODE}-{uuid4().hex}"
        if not digest:
            return cls._holding(InMemory(key, value), fields)
        return cls._holding(InMemory(f"{key}-{digest}", value, again), fields)

    @classmethod
    def _holding(cls, held: InMemory, fields: dict[str, Any]) -> Self:
        _remember(held)
        block = cls(digest=held.key, **fields)
        block._held = held
        return block

    @model_validator(mode="after")
    def _hold_again(self) -> Self:
        self._held = _find(self.digest)
        return self

    @property
    def held(self) -> InMemory | None:
        """The object; None in a process that does not have it."""
        return self._held

    @property
    def is_code(self) -> bool:
        """Whether the object is code, so that fedsim cannot tell whether it has changed."""
        return self.digest.startswith(_CODE)

    def value(self, key: str) -> Any:
        """Return the object.

        Args:
            key: the key of the block in the scenario, for the error.

        Raises:
            DataError: this process does not have the object, because another one wrote the block.
        """
        if self._held is None:
            known = (
                "does not have it" if self.is_code else f"has only its digest {self.digest[:12]}"
            )
            text = f"this object was passed in Python, and a file {known}"
            raise DataError(key, f"{text}: run it from Python, and pass the object again")
        return self._held.value


def without_keys(text: str) -> str:
    """Return a text in which each key of code is replaced by the word `code`, as in files.

    >>> without_keys(f'{{"digest": "code-{"0" * 32}"}}')
    '{"digest": "code"}'
    """
    return _KEY.sub(_CODE, text)


def code_in(value: object) -> list[str]:
    """Return the names of all code passed in Python that the blocks of a value contain.

    This is of two sorts: classes of blocks that neither a plugin nor an entry point provides, and
    functions, classes, modules and other objects that blocks hold.
    """
    names = dict[str, None]()
    for block in specs_in(value):
        if is_handed_over(type(block)):
            names[type(block).__name__] = None
        elif isinstance(block, Holding) and block.is_code:
            names[str(getattr(block, "name", type(block).__name__))] = None
    return [*names]


def check_unchanged(value: object) -> None:
    """Check that the values held by the blocks of `value` are still those that were passed.

    Raises:
        DataError: the caller has modified one of them since.
    """
    checked = set[InMemory]()
    for block in specs_in(value):
        held = block.held if isinstance(block, Holding) else None
        if held is None or held.again is None or held in checked:
            continue
        checked.add(held)
        # The key of code ends with the digest of the values in it.
        if held.again() != held.key.rpartition("-")[2]:
            name = getattr(block, "name", "the data")
            text = "has changed since it was handed over to fedsim; hand it over again"
            raise DataError("problem", f"{name} {text}")
