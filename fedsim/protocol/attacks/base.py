"""The base class of attacks."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from fedsim.core.blocks.nature import Nature
from fedsim.core.blocks.spec import Spec
from fedsim.core.ports import Array


class Attack(Spec):
    """Base class of attacks: by default a malicious client sends what an honest one would."""

    keeps_structure: ClassVar[bool] = False
    """Whether a distorted vector has zeros, or rank, where the honest one has them."""

    colludes: ClassVar[bool] = False
    """Whether malicious clients know the vectors of the honest ones; see `collude`."""

    silent: ClassVar[bool] = False
    """Whether a malicious client keeps silent in every round."""

    unreadable: ClassVar[bool] = False
    """Whether the server cannot read its messages, and leaves them out."""

    mislabels: ClassVar[bool] = False
    """Whether a malicious client follows the method, on flipped labels."""

    kind: str

    def natures(self) -> Iterator[tuple[str, Nature]]:
        """Yield a nature if an attack needs more than the client's own message."""
        if self.colludes:
            text = f"got {self.kind}, for which malicious clients see what the honest ones send"
            yield "kind", Nature(simulated=text)
        elif self.silent or self.unreadable:
            yield "kind", Nature(simulated=f"got {self.kind}, which live clients do not do yet")

    @property
    def memory(self) -> int:
        """The number of earlier vectors that `distort` reads; by default 0."""
        return 0

    def distort(self, vector: Array, earlier: Sequence[Array], rng: np.random.Generator) -> Array:
        """Return what a malicious client sends in place of a vector.

        Args:
            vector: what a honest client would send, of any shape. It must not be changed.
            earlier: the vectors of earlier rounds, the oldest first, at most `memory`.
            rng: the client's stream of the attack's draws.
        """
        return vector

    def collude(self, true: Array, false_ones: int) -> Array:
        """Return what all malicious clients send, if they collude, shape (d,).

        Args:
            true: the vectors of the honest clients in this round, shape (n - f, d), at least one.
            false_ones: f, the number of malicious clients in this round.
        """
        raise NotImplementedError(type(self).__name__)
