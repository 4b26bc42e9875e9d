"""Whose fault it is when the protocol is broken."""


class LocalProtocolError(RuntimeError):
    """This end was asked for what the protocol does not allow now."""


class RemoteProtocolError(RuntimeError):
    """The other end has sent what the protocol does not allow."""
