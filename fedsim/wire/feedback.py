"""Error feedback: what one sender keeps between its messages, so that no error is lost for good.

A packer (`fedsim.ports.Packer`) belongs to one sender and one of the vectors it sends. Its
state is a function of what was packed and not taken back: a message that is known to be lost is
taken back, in any order.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal
from weakref import WeakKeyDictionary

import numpy as np

from fedsim.ports import DENSE, Array, Payload, Structure
from fedsim.wire.compressors import Compressor, Identity
from fedsim.wire.formats import ValueFormat
from fedsim.wire.natural import natural, shorter
from fedsim.wire.payloads import Encodable
from fedsim.wire.payloads.base import frozen

Feedback = Literal["none", "ef", "ef21"]
"""The kinds of error feedback."""


class _Compressing:
    """What all packers of one sender's vectors have: a compressor, a format and its draws.

    Args:
        compressor: may remember what it sent.
        form: how a value is written.
        rng: what random compressors draw from.
        in_full: whether a vector that the compressor could make longer than it is goes in full,
            which is exact. That takes its draw as well, so those that follow stay in step.
    """

    def __init__(
        self,
        compressor: Compressor,
        form: ValueFormat,
        rng: np.random.Generator,
        *,
        in_full: bool = True,
    ) -> None:
        self._compressor, self._send = compressor, compressor.sender()
        self._form, self._rng, self._in_full = form, rng, in_full

    def _compress(self, vector: Array, structure: Structure, *, shrink: bool) -> Encodable:
        """Return C(v), or C(a v) with the a that makes an unbiased C contractive; or v in full."""
        small = _contracted(self._compressor, vector) if shrink else vector
        payload = self._send(small, self._rng, self._form)
        if not self._in_full:
            return payload
        longest = self._compressor.longest(small, payload)
        return shorter(vector, structure, self._form, longest) or payload


class Plain(_Compressing):
    """A compressor without feedback: the error of a message is lost with it."""

    source: ClassVar[str] = "none"
    shrinks: ClassVar[bool] = False

    def pack(self, vector: Array, structure: Structure = DENSE) -> Encodable:
        """Return C(v)."""
        if isinstance(self._compressor, Identity) or not vector.ndim:
            return natural(vector, structure, self._form)
        return self._compress(vector, structure, shrink=self.shrinks)

    def take_back(self, payload: Payload) -> None:
        """Do nothing: nothing was kept."""


def _contracted(compressor: Compressor, vector: Array) -> Array:
    """Return a v, with the a that makes an unbiased C contractive (`Contract.shrink`)."""
    shrink = compressor.contract(vector.size).shrink
    return vector if shrink == 1.0 else shrink * vector


class Contractive(Plain):
    """A compressor for a method that keeps the errors itself, as EF21 does.

    An unbiased one is made contractive: with omega above 1 its error may exceed the vector, and
    differences to what a server holds would grow.
    """

    shrinks: ClassVar[bool] = True


class _Remembering(_Compressing, ABC):
    """A packer whose state changes by a known vector with every payload."""

    def __init__(
        self,
        compressor: Compressor,
        form: ValueFormat,
        rng: np.random.Generator,
        *,
        in_full: bool = True,
    ) -> None:
        super().__init__(compressor, form, rng, in_full=in_full)
        self._state: Array = np.zeros(1)
        # A payload that nobody holds any more cannot be taken back, so it need not be known.
        self._changes: WeakKeyDictionary[Payload, Array] = WeakKeyDictionary()

    def pack(self, vector: Array, structure: Structure = DENSE) -> Payload:
        """Return what is sent for a vector, shape (d,).

        With the errors so far it may have lost its structure: then it is no shorter for it. A
        number is sent as it is.
        """
        if not vector.ndim:
            return natural(vector, structure, self._form)
        return self._packed(vector, structure)

    @abstractmethod
    def _packed(self, vector: Array, structure: Structure) -> Payload:
        """Return what is sent for a vector, and take note of what that changes."""

    def take_back(self, payload: Payload) -> None:
        """Undo the change that a payload made to the state, to rounding.

        One that was not packed here, or was taken back before, changes nothing.
        """
        change = self._changes.pop(payload, None)
        if change is not None:
            self._state = frozen(self._state - change)

    def _change(self, payload: Payload, change: Array) -> None:
        """Add to the state what a payload adds to it."""
        self._changes[payload] = change
        self._state = frozen(self._state + change)


class ErrorFeedback(_Remembering):
    """EF: sends c = C(e + v) and keeps e <- e + v - c, the error so far.

    So the sum of all that arrives and of e is the sum of all vectors. A message that is taken
    back takes its vector along: e is what it was, and whether v is said again is for the
    algorithm to decide, as it is without feedback.
    """

    source: ClassVar[str] = "Seide et al. 2014; Stich, Cordonnier, Jaggi 2018"

    @property
    def error(self) -> Array:
        """The error e so far, shape (d,); zeros of shape (1,) before the first message."""
        return self._state

    def _packed(self, vector: Array, structure: Structure) -> Encodable:
        """Return c."""
        payload = self._compress(self._state + vector, structure, shrink=True)
        with np.errstate(invalid="ignore"):  # an infinite value has no error that could be kept
            self._change(payload, vector - payload.values)
        return payload


class ErrorFeedback21(_Remembering):
    """EF21: sends c = C(v - h), and both sides keep h <- h + c, which is what arrives.

    h is 0 at first. The receiver's h is that of the sender as long as every message arrives, or
    is taken back before the next one is packed; it is one state for each sender.
    """

    source: ClassVar[str] = "Richtarik, Sokolov, Fatkhullin 2021, algorithm 2"

    @property
    def held(self) -> Array:
        """What the receiver holds, h, shape (d,); zeros of shape (1,) before the first message."""
        return self._state

    def _packed(self, vector: Array, structure: Structure) -> "Update":
        """Return c, which arrives as the new h."""
        with np.errstate(invalid="ignore"):
            sent = self._compress(vector - self._state, structure, shrink=True)
            payload = Update(sent, frozen(self._state + sent.values))
            self._change(payload, sent.values)
        return payload


@dataclass(frozen=True, eq=False)
class Update:
    """A payload that is added to what its receiver holds.

    Attributes:
        sent: what is on the wire.
        values: what the receiver holds then, read-only, shape (d,).
    """

    sent: Encodable
    values: Array

    @property
    def bits(self) -> int:
        """The length of the encoding of what is on the wire."""
        return self.sent.bits


PACKERS: dict[Feedback, type[Plain | ErrorFeedback | ErrorFeedback21]] = {
    "none": Plain,
    "ef": ErrorFeedback,
    "ef21": ErrorFeedback21,
}
"""The packer of each kind of error feedback."""


def refusal(compressor: Compressor, feedback: Feedback) -> str:
    """Say why a compressor cannot be used with a kind of error feedback; empty where it can.

    An unbiased compressor can: the vector is divided by 1 + omega (`Contract.shrink`). EF needs
    a bound on the error (Sahu et al. 2021 for an absolute one), EF21 a contraction.
    """
    if feedback == "ef21" and compressor.contract(1).kind == "absolute":
        return (
            f"{compressor.kind} is not contractive: it sends nothing of a difference below its "
            "threshold, so what EF21 holds need not come any nearer"
        )
    return ""
