"""Carriage: what becomes of a message between its sender and its receiver's handler."""

from collections.abc import Callable

from fedsim.ports import SERVER, ClientId
from fedsim.protocol.envelope import Envelope
from fedsim.protocol.packing import Unpacking

Receive = Callable[[ClientId, Envelope], None]
"""Takes what has arrived, from the client or at the client of that number."""


class Values:
    """Messages arrive as the objects that were sent; what is an update, their receiver adds up."""

    def to_server(self, receive: Receive) -> Receive:
        """Return what the network calls for what arrives at the server."""
        unpacking = Unpacking()

        def arrived(client: ClientId, envelope: Envelope) -> None:
            receive(client, self._opened(envelope, client, unpacking))

        return arrived

    def to_client(self, receive: Receive) -> Receive:
        """Return what the network calls for what arrives at one client."""
        unpacking = Unpacking()

        def arrived(client: ClientId, envelope: Envelope) -> None:
            receive(client, self._opened(envelope, SERVER, unpacking))

        return arrived

    def _opened(self, envelope: Envelope, sender: ClientId, unpacking: Unpacking) -> Envelope:
        message = unpacking.read(sender, envelope.message)
        return envelope if message is envelope.message else envelope.saying(message)
