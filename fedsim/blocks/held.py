"""What is handed over in Python, and cannot be written down: a block holds it, a file its digest.

A block that holds something is written like any other, as the digest of what it holds, so that
it can be told whether a run was made from the same. Read back in the process that was given the
thing, it holds it again; elsewhere it says that it has to be given again.
"""

from typing import Any, Self
from weakref import WeakValueDictionary

import cloudpickle
from pydantic import Field, PrivateAttr, model_validator

from fedsim.blocks.spec import Spec
from fedsim.errors import DataError


class Held:
    """Something, known by its digest; equal to what has the same.

    Attributes:
        digest: SHA-256 of what is held, in hexadecimal.
        value: what is held.
    """

    __slots__ = ("__weakref__", "digest", "value")

    def __init__(self, digest: str, value: object) -> None:
        self.digest = digest
        self.value = value

    def __eq__(self, other: object) -> bool:
        """Say whether other is held under the same digest."""
        return isinstance(other, Held) and self.digest == other.digest

    def __hash__(self) -> int:
        """Return a hash of the digest."""
        return hash(self.digest)

    def __reduce__(self) -> tuple[Any, ...]:
        # By value, as a module's class may have been typed into a notebook.
        return _unpickled, (self.digest, cloudpickle.dumps(self.value))


_HELD: WeakValueDictionary[str, Held] = WeakValueDictionary()
"""What this process was given, for as long as a block holds it."""


def hold(digest: str, value: object) -> Held:
    """Return what is held under a digest: what already is, or the value."""
    return _HELD.setdefault(digest, Held(digest, value))


def _unpickled(digest: str, pickled: bytes) -> Held:
    known = _HELD.get(digest)
    return known or hold(digest, cloudpickle.loads(pickled))


class Holding(Spec):
    """A block that holds what was handed over in Python."""

    digest: str = Field(description="SHA-256 of what was handed over in Python, in hexadecimal")

    _held: Held | None = PrivateAttr(default=None)

    @classmethod
    def holding(cls, digest: str, value: object, **fields: Any) -> Self:
        """Return a block that holds a value, known by its digest."""
        held = hold(digest, value)
        made = cls(digest=digest, **fields)
        made._held = held
        return made

    @model_validator(mode="after")
    def _hold_again(self) -> Self:
        self._held = _HELD.get(self.digest)
        return self

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
