"""What server and clients of a secure aggregation know before the first round."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fedsim.core.ports import Array, ClientId
from fedsim.protocol.participation.rounds import at_least
from fedsim.protocol.secrecy.blocks import LightSecAgg, Secrecy
from fedsim.protocol.secrecy.coded import Coded
from fedsim.protocol.secrecy.integers import IntegerCode
from fedsim.protocol.secrecy.pairwise import Pairwise, SignedPairwise
from fedsim.protocol.secrecy.scheme import Graph, Scheme
from fedsim.wire.bitstream import Numbers
from fedsim.wire.payloads import draw_indices

LEAST = 2
"""The smallest number of vectors in a sum: one alone would be its own sum."""


def all_coordinates(_: str, dimension: int) -> tuple[int, float]:
    """Return that all coordinates of any field are sent, as they are."""
    return dimension, 1.0


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """What server and clients know before the first round.

    Attributes:
        block: the scenario's block.
        method: the kind of the method, for messages.
        coordinates: m, the coordinates of a client's vectors, for LightSecAgg and for masked zeros.
        rng: returns the random stream of a purpose and an entity.
        factors: the factor in (0, 1] by which each client multiplies its vectors, shape (M,); None
            if all are 1.
        sampled: returns, of a packed field and a dimension d, how many coordinates all clients send
            of it, and the factor by which they are multiplied; d and 1 for all of them.
        may_be_silent: whether the method's clients may be silent.
        headroom: see `IntegerCode`.
    """

    block: Secrecy
    method: str
    coordinates: int
    rng: Callable[..., np.random.Generator]
    factors: Array | None = None
    sampled: Callable[[str, int], tuple[int, float]] = all_coordinates
    may_be_silent: bool = False
    headroom: int = 0

    def factor(self, client: ClientId) -> float:
        """Return the factor of a client's vectors."""
        return 1.0 if self.factors is None else float(self.factors[client])

    def places(self, field: str, dimension: int, run: int) -> Numbers | None:
        """Return the coordinates of a field that all clients send, ascending; None for all.

        Args:
            field: the name under which the vector is packed.
            dimension: d.
            run: the number of the exchange; the server's request has it, and it seeds the draw.
        """
        count, _ = self.sampled(field, dimension)
        if count >= dimension:
            return None
        seed = int(self.rng("secrecy coordinates", field, run).integers(2**64, dtype=np.uint64))
        return draw_indices(seed, count, dimension)

    @property
    def reveals_silence(self) -> bool:
        """Whether the server sees that clients, or groups of clients, are silent."""
        return self.may_be_silent and self.block.silence != "mask"

    @property
    def votes(self) -> bool:
        """Whether groups of clients vote on their silence."""
        return self.may_be_silent and self.block.silence == "grouped"

    @property
    def unites(self) -> bool:
        """Whether clients send the union of the coordinates at which they are not zero."""
        return self.block.supports == "union"

    @property
    def scheme(self) -> type[Coded | Pairwise]:
        """The class of the protocol."""
        if not self.block.agreed:
            return Coded
        return SignedPairwise if self.block.signed else Pairwise

    def scheme_among(self, clients: Sequence[ClientId], run: int) -> Scheme:
        """Return the protocol of a round among the clients that have sent keys.

        Args:
            clients: ascending.
            run: the number of the exchange.
        """
        block, count = self.block, len(clients)
        degree = block.neighbours_among(count)
        graph = Graph(clients, degree, lambda: self.rng("secrecy graph", run))
        code = IntegerCode(count, block.bits, block.clip, self.headroom, prime=not block.agreed)
        scheme: Scheme
        if isinstance(block, LightSecAgg):
            scheme = Coded(graph, code, *block.parts(count))
        else:
            # Of each neighbourhood, to which its client belongs.
            needed = max(at_least(block.threshold * (degree + 1)), LEAST)
            scheme = (SignedPairwise if block.signed else Pairwise)(graph, code, needed)
        if self.votes:
            groups = graph.groups(block.group_size)
            scheme.group_of = {client: group for group in groups for client in group}
        return scheme
