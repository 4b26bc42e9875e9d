"""The wrapper that runs a method under secure aggregation."""

from collections.abc import Iterator
from typing import Any, cast

from fedsim.core.ports import Array, Client, Message, Server, Silence
from fedsim.protocol.clip_counts import ClipCounts
from fedsim.protocol.secrecy import client as clients
from fedsim.protocol.secrecy import costs
from fedsim.protocol.secrecy.agreement import Agreement
from fedsim.protocol.secrecy.client import Forwarded, SecretClient, SecretMemory
from fedsim.protocol.secrecy.messages import (
    ConsistencyRequest,
    InputRequest,
    KeyRequest,
    MaskedInput,
    NeighbourKeys,
    Notice,
    UnmaskRequest,
)
from fedsim.protocol.secrecy.server import SecretServer
from fedsim.protocol.wrapping import Wrapped, Wrapper


class SecretMethod(Wrapper):
    """Runs a method whose server only learns sums of its clients' vectors.

    A client learns with the method's next message whether its last one was counted. If it was not,
    because it came too late or the round was abandoned, the method takes it back as a lost one. So
    sums of changes stay right.

    Args:
        method: the method.
        known: what server and clients know before the first round.
    """

    def __init__(self, method: Wrapped, known: Agreement) -> None:
        super().__init__(method)
        self.known = known
        self.clipped = ClipCounts(known.block.clip)

    async def serve(self, server: Server) -> None:
        """Run the method's server; a run that starts again counts its vectors again."""
        self.clipped = ClipCounts(self.known.block.clip)
        await super().serve(server)

    def run_notes(self) -> Iterator[tuple[str, str]]:
        """Yield whether the clip has shortened vectors, and the clip that would have kept them."""
        if self.clipped.shortened:
            text = f"{self.clipped}: this changes the training, and is not needed for secrecy"
            enough = f"a clip of {self.clipped.sufficient:g} keeps vectors of these norms"
            yield "secrecy.clip", f"{text}; {enough} as they are"
        yield from super().run_notes()

    def describe(self, clients: int, plain: int) -> str:
        """Return the bits of a client's messages in a round, with and without secrecy.

        Args:
            clients: the clients of a round.
            plain: the bits of its vectors without secrecy.
        """
        known, run = self.known, 0
        scheme = known.scheme_among(range(clients), run)
        bits = scheme.bits(min(scheme.graph.degree, clients - 1), known.coordinates)
        text = (
            f"{known.block.kind} among {clients:,} clients: each sends {bits.up:,} bits in a round"
            f" in place of {plain:,}, {bits.vector:,} of them its masked vector, and receives"
            f" {bits.down:,} beside the model; encryption and lists of clients add"
            f" {bits.framing_up:,} and {bits.framing_down:,}"
        )
        if known.factors is not None:
            text += "; each multiplies its vector by its weight, and sends that along"
        if known.votes:
            text += f"; before the vectors each votes on its group's silence, {costs.VOTE} bits"
        if known.unites:
            least = known.block.contributors
            text += "; the server sees at which coordinates each client's vector is not zero"
            if least == 1:
                text += ", and the values of a client where all others are zero; secrecy."
                text += "contributors: 2 leaves these out"
            else:
                text += f", and sums where {least} clients or more contribute, fewer if some of"
                text += " them drop out in between"
        return text

    @property
    def abandons(self) -> bool:
        """True: a round with too few answers is no step."""
        return True

    def server(self, server: Server) -> Server:
        """Return the server, which has no single replies."""
        return cast("Server", SecretServer(server, self.known))

    def client(self, client: Client[SecretMemory]) -> Client[Any]:
        """Return a client, whose vectors are rounded to integers."""
        return cast("Client[Any]", SecretClient(client, self.known, self.clipped))

    def memory(self, initial: Array) -> SecretMemory:
        """Return a client's memory."""
        return SecretMemory(self.method.memory(initial))

    def undelivered(self, client: Client[SecretMemory], message: Any) -> None:
        """Take back the method's message, if the lost one has its masked vectors, or a notice."""
        if isinstance(message, (MaskedInput, Notice)):
            self._take_back(client)

    def _take_back(self, client: Client[SecretMemory]) -> None:
        pending, client.state.pending = client.state.pending, None
        if pending is not None:
            self.method.undelivered(self.client(client), pending.message)

    async def handle(self, client: Client[SecretMemory], message: Any) -> Message | Silence:
        """Answer a message of the protocol, or the method's with masked vectors."""
        if isinstance(message, KeyRequest):
            return await clients.send_keys(client, self.known)
        if isinstance(message, NeighbourKeys):
            return await clients.send_shares(client, cast("Any", message.keys).data, self.known)
        if isinstance(message, InputRequest):
            return await clients.send_asked(client, message)
        if isinstance(message, ConsistencyRequest):
            asked = cast("Any", message.framing).data
            return await clients.send_signature(client, asked)
        if isinstance(message, UnmaskRequest):
            asked = cast("Any", message.framing).data
            return await clients.send_unmasking(client, asked, self.known)
        told: Forwarded = message.secrecy_framing.data
        pending = client.state.pending
        if pending is not None and pending.run != told.counted:
            self._take_back(client)
        client.state.pending = None
        clients.open_shares(client, message)
        reply = await super().handle(client, message)
        return await clients.send_input(client, message, reply, self.known)
