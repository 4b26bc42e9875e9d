"""Authentication of peers, by certificates of both ends or by a shared token."""

import ipaddress
import re
import secrets
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

from fedsim.addons.live.handshake import LEAST_TOKEN
from fedsim.core.errors import DataError


class Address(NamedTuple):
    """The address of a server.

    Attributes:
        host: a name or a number.
        port: 0 for one that the system chooses.
    """

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the address that a text names: HOST:PORT, or [HOST]:PORT for IPv6.

        Raises:
            DataError: it is not an address.

        >>> Address.parse("127.0.0.1:7000"), Address.parse("[::1]:0")
        (Address(host='127.0.0.1', port=7000), Address(host='::1', port=0))
        """
        found = re.fullmatch(r"(?:\[([0-9A-Fa-f:.%\w]+)\]|([^\s:\[\]]+)):(\d{1,5})", text.strip())
        if found is None or int(found[3]) > 65535:
            text = f"got {text!r}; expected HOST:PORT, such as 127.0.0.1:7000, or [::1]:7000"
            raise DataError("address", text)
        return cls(found[1] or found[2], int(found[3]))

    @property
    def local(self) -> bool:
        """Whether only processes of this machine can reach it.

        >>> [Address(each, 1).local for each in ("127.0.0.1", "::1", "localhost", "0.0.0.0")]
        [True, True, True, False]
        """
        try:
            return ipaddress.ip_address(self.host.partition("%")[0]).is_loopback
        except ValueError:
            return self.host.lower() == "localhost"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True)
class Certificates:
    """The files of one end of a TLS connection, in PEM.

    Attributes:
        certificate: the certificate of this end, with its chain.
        key: its private key.
        authority: the certificates that verify the other end.
    """

    certificate: Path
    key: Path
    authority: Path

    def server(self) -> ssl.SSLContext:
        """Return the context of a server, which requires certificates of clients."""
        context = self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        context.verify_mode = ssl.CERT_REQUIRED
        return context

    def client(self) -> ssl.SSLContext:
        """Return the context of a client, which checks the server's name and certificate."""
        return self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))

    def _load(self, context: ssl.SSLContext) -> ssl.SSLContext:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        for name in ("certificate", "key", "authority"):
            if not (path := getattr(self, name)).is_file():
                raise DataError(name, f"there is no file {path} for the TLS {name}")
        try:
            context.load_cert_chain(self.certificate, self.key, password=_no_password)
            context.load_verify_locations(self.authority)
        except (ssl.SSLError, OSError) as error:
            files = f"{self.certificate}, {self.key} and {self.authority}"
            raise DataError("certificate", f"{files} cannot be used for TLS: {error}") from None
        return context


def explain_tls(error: OSError, peer: str, files: Certificates, host: str = "") -> str:
    """Return a sentence on the cause of a TLS failure, and a remedy.

    Args:
        error: as the handshake raised it.
        peer: the owner of the certificate, such as "the server at 127.0.0.1:7000".
        files: the files of this end.
        host: the host that the certificate has to name; empty for none.
    """
    code = error.verify_code if isinstance(error, ssl.SSLCertVerificationError) else 0
    reason = (error.reason or "") if isinstance(error, ssl.SSLError) else ""
    if code in _OTHER_AUTHORITY:
        text = f"the certificate of {peer} is signed by another authority than the one in"
        how = "give the authority that signed it as --authority, or have it signed by this one"
        return f"{text} {files.authority}: {how}"
    if code in _OTHER_HOST:
        text = f"the certificate of {peer} does not name {host}"
        return f"{text}: connect to a host that it names, or make one that names {host}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of {peer} is not accepted: {error.verify_message}"
    if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return f"{peer} has no certificate: give it --certificate, --key and --authority"
    if reason in {"WRONG_VERSION_NUMBER", "HTTP_REQUEST"}:
        return f"{peer} does not speak TLS: give it --certificate, --key and --authority"
    # A peer that refuses a certificate under asyncio closes the connection without an alert.
    why = str(error) or f"it may not accept this end's certificate, {files.certificate}"
    return f"TLS with {peer} has failed: {why}"


_OTHER_AUTHORITY = {2, 7, 18, 19, 20, 21, 30}
"""Codes of X.509: no issuer that is known, or another key than that of the known one."""

_OTHER_HOST = {62, 64}


def _no_password() -> str:
    raise DataError("key", "the private key has a password; give one without, readable by you only")


@dataclass(frozen=True)
class Access:
    """The authentication of both ends of a connection.

    Attributes:
        token: the token that both share; None for none.
        certificates: the files of this end; None for a connection without TLS.
    """

    token: bytes | None = None
    certificates: Certificates | None = None

    def check(self, address: Address) -> None:
        """Check that a server authenticates clients if other machines can reach it.

        Raises:
            DataError: it does not.
        """
        if not address.local and self.token is None and self.certificates is None:
            text = f"{address} can be reached from other machines, so clients have to authenticate"
            raise DataError("listen", f"{text}: give a token file, or certificates")


def read_token(path: Path) -> bytes:
    """Return the token in a file, without white space around it.

    Raises:
        DataError: the file cannot be read, or the token is too short.
    """
    try:
        token = path.read_bytes().strip()
    except OSError as error:
        raise DataError("token", f"{path}: {error.strerror}") from None
    if len(token) < LEAST_TOKEN:
        how = "python -c 'import secrets; print(secrets.token_urlsafe(32))' makes one"
        text = f"the token in {path} has {len(token)} bytes; at least {LEAST_TOKEN} are needed"
        raise DataError("token", f"{text}: {how}")
    return token


def fresh_token() -> bytes:
    """Return a new token, for a server and clients that are started together."""
    return secrets.token_urlsafe(32).encode()
