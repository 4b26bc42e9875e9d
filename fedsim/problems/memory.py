"""What two evaluations of one loss have in common, kept by who makes both."""

from collections.abc import Callable
from typing import Protocol, TypeVar, cast
from weakref import ReferenceType, ref

from fedsim.ports import Array, Basis, alike
from fedsim.problems.losses import State


class Based(Protocol):
    """A loss in a basis."""

    basis: Basis


Part = TypeVar("Part", bound=Based)


class EvaluationCache:
    """The last forward pass of one loss, and the last basis that it was restricted to.

    An observer asks for the value where the next gradient is taken, and a solver for many
    gradients in one basis. What is kept goes by content, so it does not matter which is asked
    first, whether the arrays are one object, or what becomes of them later; no result depends
    on what was asked before.
    """

    __slots__ = ("_forward", "_part")

    def __init__(self) -> None:
        self._forward: tuple[bytes | None, State] = (None, ())
        self._part: ReferenceType[Based] | None = None

    def forward(self, w: Array, compute: Callable[[Array], State]) -> State:
        """Return the forward state at `w`, computed unless it was asked for last."""
        key = w.tobytes()
        last, state = self._forward
        if key != last:
            state = compute(w)
            # One assignment, so that threads find either the old pair or the new one.
            self._forward = (key, state)
        return state

    def part(self, basis: Basis, make: Callable[[], Part]) -> Part:
        """Return the loss in a basis, made unless it was asked for last and is still in use.

        It may be as large as the samples, so it lives only as long as somebody works with it.
        """
        known = None if self._part is None else self._part()
        if known is None or not alike(known.basis, basis):
            known = make()
            self._part = ref(known)
        return cast("Part", known)  # whoever asks makes one kind
