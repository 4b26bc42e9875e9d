"""The handshake of a connection, without sockets: frames in, frames out.

    client                                      server
    HELLO      version, number, nonce       ->
               <-  CHALLENGE  nonce, whether a token is asked for
    PROOF      digest of its scenario, HMAC ->
               <-  WELCOME    HMAC, the run     or  REFUSED  code, reason
    READY      hash of the clients' losses  ->   or  <-  REFUSED

READY also states whether the client has a meter, and whether its memory of this run is complete
after a reconnection; WELCOME has the data for that check.

Both HMACs are SHA-256 with the token as the key, over the role and all earlier frames, nonces
included: the token is never sent, a recorded handshake cannot be replayed, and the proof of one end
is invalid for the other. They are compared in constant time.
The server checks in this order: version, token, digest, number. So an endpoint without the token
learns nothing of the run, and nothing but WELCOME is sent before all checks have passed.
"""

import hmac
import json
import secrets
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from fedsim.addons.live.frames import Kind, is_past
from fedsim.core.blocks.wording import printable
from fedsim.core.errors import AdmissionError, FrameError
from fedsim.core.ports import ClientId

VERSION = 2
"""The version of frames and handshake."""

MAGIC = b"fedsim-live"
_HELLO = struct.Struct("<11sHI32s")
_CHALLENGE = struct.Struct("<32sB")
_PROOF = struct.Struct("<32s32sdd")
_NONCE_BYTES = _DIGEST_BYTES = _MAC_BYTES = 32
NO_DIGEST = bytes(_DIGEST_BYTES)
"""Sent by a client that receives the scenario from the server."""

LONGEST_HELLO = 256
"""The limit of a body that the server accepts before it admits a client, bytes."""

LONGEST_WELCOME = 1 << 22
"""The limit of a body that a client accepts before it is admitted, bytes."""

LEAST_TOKEN = 16
"""The length of the shortest accepted token, bytes."""

_LONGEST_TEXT = 1000
"""Largest number of characters shown of a text from the other end."""

_CODES = ("version", "token", "scenario", "client", "data", "full", "connected", "broken")


_KINDS = {
    "variant": str,
    "seed": int,
    "scenario": str,
    "clients": int,
    "run": str,
    "returns": int,
    "last_exchange": int,
}
"""The fields of an offer in JSON, beside the digest, with their types."""


@dataclass(frozen=True)
class RunOffer:
    """The run that a server offers to clients.

    Attributes:
        digest: of the whole scenario file with its overrides.
        variant, seed: of the run.
        scenario: the text of the scenario of this run, for clients without the file.
        clients: the number of clients.
        run: an identifier of this run, unique even among runs of the same seed.
        returns: how often this client has left the run so far.
        last_exchange: the exchange of this client's last received reply, or silence; 0 for none.
    """

    digest: bytes
    variant: str
    seed: int
    scenario: str
    clients: int
    run: str = ""
    returns: int = 0
    last_exchange: int = 0

    def encode(self) -> bytes:
        """Return the offer as JSON."""
        content = {
            "digest": self.digest.hex(),
            "variant": self.variant,
            "seed": self.seed,
            "scenario": self.scenario,
            "clients": self.clients,
            "run": self.run,
            "returns": self.returns,
            "last_exchange": self.last_exchange,
        }
        return json.dumps(content).encode()

    @classmethod
    def decode(cls, data: bytes) -> "RunOffer":
        """Return the offer in a JSON text.

        Raises:
            FrameError: it is not an offer.
        """
        try:
            content: Any = json.loads(data)
            known = {name: content[name] for name in _KINDS}
            made = cls(bytes.fromhex(content["digest"]), **known)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise FrameError(f"the server's offer of a run cannot be read: {error!r}") from None
        # The exact type: a bool is an int, and would pass `isinstance`.
        if not all(type(known[name]) is kind for name, kind in _KINDS.items()):
            text = printable(repr(known), _LONGEST_TEXT)
            raise FrameError(f"the server's offer of a run has fields of other types: {text}")
        return made


def _mac(token: bytes, role: bytes, *exchanged: bytes) -> bytes:
    """Return the proof of a token: of fixed length, whatever was exchanged."""
    # With the lengths, no two sequences of frames give the same bytes.
    lengths = struct.pack(f"<{len(exchanged)}I", *map(len, exchanged))
    return hmac.digest(token, MAGIC + role + lengths + b"".join(exchanged), "sha256")


def shown_text(said: bytes) -> str:
    """Return a text of the other end for display: on one line, without control characters."""
    return printable(said[: 4 * _LONGEST_TEXT].decode(errors="replace"), _LONGEST_TEXT)


def refusal(error: AdmissionError) -> bytes:
    """Return the body of a REFUSED frame."""
    return bytes([_CODES.index(error.code)]) + str(error).encode()[: LONGEST_HELLO - 1]


def read_refusal(body: bytes) -> AdmissionError:
    """Return the error of a REFUSED frame.

    Raises:
        FrameError: its code is unknown.
    """
    if not body or body[0] >= len(_CODES):
        raise FrameError("the server refuses for a reason that has no known code")
    text = shown_text(body[1:])
    return AdmissionError(_CODES[body[0]], f"the server has refused the connection: {text}")


def _unpack(layout: struct.Struct, kind: Kind, due: Kind, body: bytes) -> tuple[Any, ...]:
    """Return the fields of a frame of the handshake.

    Raises:
        FrameError: another kind is expected, or the body has another length.
    """
    if kind is not due:
        raise FrameError(f"expected a {due.name} frame, got {kind.name}")
    if len(body) != layout.size:
        raise FrameError(f"a {due.name} frame has {layout.size} bytes, got {len(body)}")
    return layout.unpack(body)


class Times(NamedTuple):
    """When a client received the challenge and sent its proof, by its own clock, s."""

    received: float
    sent: float


class ServerHandshake:
    """The server's side.

    Args:
        offer: the run that clients join.
        token: the token shared with the clients; None if none is required.
        take: returns the offer for one client; raises AdmissionError if its number is not free.

    Attributes:
        client: the number of the client; -1 until it is admitted.
        admitted: whether it is admitted.
        times: times of the client's clock; None until it is admitted.
    """

    def __init__(
        self, offer: RunOffer, token: bytes | None, take: Callable[[ClientId], RunOffer]
    ) -> None:
        self.client: ClientId = -1
        self.admitted = False
        self.times: Times | None = None
        self._offer = offer
        self._token = token
        self._take = take
        self._hello = b""
        self._number = -1
        self._challenge = b""

    def receive(self, kind: Kind, body: bytes) -> tuple[Kind, bytes]:
        """Receive a frame; return the kind and the body of the answer.

        Raises:
            AdmissionError: the client is refused.
            FrameError: the frame is not the expected one.
        """
        return self._receive_proof(kind, body) if self._hello else self._receive_hello(kind, body)

    def _receive_hello(self, kind: Kind, body: bytes) -> tuple[Kind, bytes]:
        magic, version, number, _ = _unpack(_HELLO, kind, Kind.HELLO, body)
        if magic != MAGIC:
            raise FrameError("the peer does not speak fedsim's protocol")
        if version != VERSION:
            text = f"the client speaks version {version} of the protocol, the server {VERSION}"
            raise AdmissionError("version", text)
        self._hello, self._number = body, number
        asked = self._token is not None
        self._challenge = _CHALLENGE.pack(secrets.token_bytes(_NONCE_BYTES), asked)
        return Kind.CHALLENGE, self._challenge

    def _receive_proof(self, kind: Kind, body: bytes) -> tuple[Kind, bytes]:
        digest, proof, received, sent = _unpack(_PROOF, kind, Kind.PROOF, body)
        # Without a token there is nothing to prove; the field is sent all the same, as zeros, so
        # that frames have one layout.
        own = b""
        if self._token is not None:
            exchanged = self._hello, self._challenge, digest
            due = _mac(self._token, b"client", *exchanged)
            if not hmac.compare_digest(proof, due):
                raise AdmissionError("token", "the client does not prove the shared token")
            own = _mac(self._token, b"server", *exchanged)
        # After the token: a peer without it must not learn which scenario runs here.
        if digest not in {NO_DIGEST, self._offer.digest}:
            ends = f"{digest.hex()[:12]}, the server's {self._offer.digest.hex()[:12]}"
            text = f"the client's scenario has the digest {ends}: use the same file and overrides"
            raise AdmissionError("scenario", text)
        if not is_past(received, sent):
            times = f"received at {received:g} s, sent at {sent:g} s"
            raise FrameError(f"a PROOF frame has impossible times: {times}")
        if self._number >= self._offer.clients:
            text = f"expected a client from 0 to {self._offer.clients - 1}, got {self._number}"
            raise AdmissionError("client", text)
        offer = self._take(self._number)
        self.client, self.admitted = self._number, True
        self.times = Times(received, sent)
        return Kind.WELCOME, own.ljust(_MAC_BYTES, b"\0") + offer.encode()


class ClientHandshake:
    """The client's side.

    Args:
        client: its number.
        digest: of its scenario; `NO_DIGEST` to take the server's.
        token: the token shared with the server; None for none.

    Attributes:
        client: see above.
        offer: the joined run; None before.
    """

    def __init__(self, client: ClientId, digest: bytes, token: bytes | None) -> None:
        self.client = client
        self.offer: RunOffer | None = None
        self._digest = digest
        self._token = token
        nonce = secrets.token_bytes(_NONCE_BYTES)
        self._hello = _HELLO.pack(MAGIC, VERSION, client, nonce)
        self._challenge = b""

    def begin(self) -> tuple[Kind, bytes]:
        """Return the kind and the body of the first frame."""
        return Kind.HELLO, self._hello

    def receive(self, kind: Kind, body: bytes, clock: Callable[[], float]) -> bytes | None:
        """Receive a frame; return the body of the PROOF that answers it, if one does.

        Raises:
            AdmissionError: the server has refused, or does not prove the token.
            FrameError: the frame is not the expected one.
        """
        if kind is Kind.REFUSED:
            raise read_refusal(body)
        if not self._challenge:
            return self._receive_challenge(kind, body, clock)
        if kind is not Kind.WELCOME or len(body) < _MAC_BYTES:
            raise FrameError(f"expected a WELCOME frame, got {kind.name} of {len(body)} bytes")
        if self._token is not None:
            # Before the offer is decoded: nothing of an unproven server is parsed.
            due = _mac(self._token, b"server", self._hello, self._challenge, self._digest)
            if not hmac.compare_digest(body[:_MAC_BYTES], due):
                raise AdmissionError("token", "the server does not prove the shared token")
        self.offer = RunOffer.decode(body[_MAC_BYTES:])
        return None

    def _receive_challenge(self, kind: Kind, body: bytes, clock: Callable[[], float]) -> bytes:
        received = clock()
        _, asked = _unpack(_CHALLENGE, kind, Kind.CHALLENGE, body)
        if asked and self._token is None:
            raise AdmissionError("token", "the server requires a shared token, but none was given")
        # An impostor that claims to need no token would receive the client's data.
        if self._token is not None and not asked:
            text = "a shared token was given, but the server requires none"
            raise AdmissionError("token", text)
        self._challenge = body
        proof = bytes(_MAC_BYTES)
        if self._token is not None:
            proof = _mac(self._token, b"client", self._hello, self._challenge, self._digest)
        return _PROOF.pack(self._digest, proof, received, clock())


class ClientReady(NamedTuple):
    """The report of a client that has built its part.

    Attributes:
        metered: whether it has a meter.
        knows: whether its memory of this run is complete after a reconnection.
    """

    metered: bool
    knows: bool


def ready(fingerprint: str, *, metered: bool, knows: bool = False) -> bytes:
    """Return the body of a READY frame: `ClientReady`, and the hash of the clients' losses."""
    return bytes([metered + 2 * knows]) + fingerprint.encode()


def check_ready(body: bytes, fingerprint: str) -> ClientReady:
    """Check that a client has the data of the server; return its report.

    Raises:
        AdmissionError: it has other data.
        FrameError: the body is not that of a READY frame.
    """
    if not body or body[0] > 3:
        raise FrameError("a READY frame lacks the meter's flag")
    if body[1:] != fingerprint.encode():
        text = "the client has built its losses from other data, or another version of fedsim"
        raise AdmissionError("data", f"{text}: use the same files, and the same versions")
    return ClientReady(bool(body[0] & 1), bool(body[0] & 2))
