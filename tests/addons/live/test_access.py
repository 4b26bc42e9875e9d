"""Who may connect: addresses, tokens, and TLS with certificates of both ends."""

import shutil
import socket
import ssl
import subprocess
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest

from fedsim.addons.live import join, serve
from fedsim.addons.live.access import (
    Access,
    Address,
    Certificates,
    explain_tls,
    fresh_token,
    read_token,
)
from fedsim.core.errors import AdmissionError, DataError
from tests.tiers import every

from .peers import SMALL, RawClient, live


@every("text", ["", "7000", "host", "host:", "host:70000", "a b:1", "::1:80"])
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(DataError, match="expected HOST:PORT"):
        Address.parse(text)


def test_an_address_is_read_as_it_is_written() -> None:
    for text in ("127.0.0.1:0", "localhost:7000", "[::1]:65535"):
        assert str(Address.parse(text)) == text


def test_nothing_listens_for_everyone() -> None:
    for listen in ("0.0.0.0:0", "[::]:0", "example.org:7000"):
        with pytest.raises(DataError, match="give a token file, or certificates"):
            serve(SMALL, listen)
    Access(token=fresh_token()).check(Address.parse("0.0.0.0:0"))


def test_a_token_is_read_without_white_space_and_may_not_be_short(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_bytes(b"  " + b"x" * 16 + b"\n")
    assert read_token(file) == b"x" * 16
    file.write_bytes(b"x" * 15)
    with pytest.raises(DataError, match="has 15 bytes; at least 16 are needed"):
        read_token(file)
    with pytest.raises(DataError, match="No such file"):
        read_token(tmp_path / "none")


def openssl(folder: Path, *words: str) -> None:
    program = shutil.which("openssl")
    assert program
    subprocess.run([program, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an authority, certificates of both ends, and of a stranger."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make certificates with")
    made = tmp_path_factory.mktemp("tls")
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    for name, subject in (("authority", "a"), ("stranger", "b"), ("namesake", "a")):
        files = ("-keyout", f"{name}.key", "-out", f"{name}.pem")
        openssl(made, "req", "-x509", *curve, *files, "-subj", f"/CN={subject}")
    (made / "names").write_text(
        "subjectAltName=IP:127.0.0.1\nauthorityKeyIdentifier=keyid\nsubjectKeyIdentifier=hash\n"
    )
    for name in ("server", "client"):
        files = ("-keyout", f"{name}.key", "-out", f"{name}.csr")
        openssl(made, "req", *curve[:-2], *files, "-subj", f"/CN={name}")
        signed = ("-CA", "authority.pem", "-CAkey", "authority.key", "-CAcreateserial")
        names = ("-extfile", "names", "-days", "2")
        files = ("-in", f"{name}.csr", "-out", f"{name}.pem")
        openssl(made, "x509", "-req", *files, *signed, *names)
    return made


def certificates(folder: Path, name: str, authority: str = "authority") -> Certificates:
    files = f"{name}.pem", f"{name}.key", f"{authority}.pem"
    return Certificates(*(folder / each for each in files))


@pytest.mark.slow
def test_certificates_let_clients_in_without_a_token(folder: Path, tmp_path: Path) -> None:
    access = Access(certificates=certificates(folder, "server"))
    made = live(tmp_path, good=(0, 1, 2), access=access)
    assert (made.status, made.refused) == ("done", [])


@pytest.mark.slow
def test_without_a_certificate_nothing_of_a_run_is_sent(folder: Path, tmp_path: Path) -> None:
    async def come_without(client: RawClient) -> None:
        await client.connect()
        client.send(*client.handshake.begin())
        assert await client.until_end() == []
        assert client.came in {b"", client.came[:7]}  # at most an alert of TLS

    access = Access(certificates=certificates(folder, "server"))
    made = live(tmp_path, (2, come_without), access=access)
    assert made.failures == []
    assert made.status == "clients-missing"


@pytest.mark.slow
def test_a_client_of_another_authority_is_refused_in_those_words(
    folder: Path, tmp_path: Path
) -> None:
    access = Access(certificates=certificates(folder, "server"))
    stranger = Access(certificates=certificates(folder, "stranger"))
    made = live(tmp_path, good=(0, 1, 2), access=access, own_access=stranger)
    assert made.status == "clients-missing"
    start = (
        "a client was not admitted: the certificate of the client is signed by another authority"
    )
    for error in made.refused:
        assert str(error).startswith(f"{start} than the one in {folder / 'authority.pem'}: give")


@pytest.mark.slow
def test_a_server_of_another_authority_is_refused_in_those_words(
    folder: Path, tmp_path: Path
) -> None:
    given = Access(certificates=certificates(folder, "client"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        context = certificates(folder, "stranger").server()
        serving = Thread(target=accept_one, args=(listener, context))
        serving.start()
        with pytest.raises(AdmissionError) as refused:
            join(f"127.0.0.1:{port}", [0], access=given)
        serving.join()
    assert "the certificate of the server at 127.0.0.1:" in str(refused.value)
    text = f"is signed by another authority than the one in {folder / 'authority.pem'}: give"
    assert text in str(refused.value)
    access = Access(certificates=certificates(folder, "stranger"))
    made = live(tmp_path, good=(0, 1, 2), access=access, own_access=given)
    assert made.status == "clients-missing"
    assert f"may not accept this end's certificate, {folder / 'stranger.pem'}" in str(
        made.refused[0]
    )


def accept_one(listener: socket.socket, context: ssl.SSLContext) -> None:
    end, _ = listener.accept()
    with suppress(OSError), context.wrap_socket(end, server_side=True):
        pass


def shake_hands(
    server: ssl.SSLContext, client: ssl.SSLContext, host: str = "127.0.0.1"
) -> dict[str, OSError]:
    """Return the error of each end of a handshake in memory; alerts are not sent."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = {
        "client": client.wrap_bio(down, up, server_hostname=host),
        "server": server.wrap_bio(up, down, server_side=True),
    }
    errors = dict[str, OSError]()
    for name in ("client", "server") * 3:
        try:
            if not errors:
                ends[name].do_handshake()
        except ssl.SSLWantReadError:
            pass
        except OSError as error:
            errors[name] = error
    return errors


@pytest.mark.slow
def test_what_tls_refuses_is_explained_in_a_sentence(folder: Path) -> None:
    server, client = (certificates(folder, name) for name in ("server", "client"))
    assert shake_hands(server.server(), client.client()) == {}
    for other in ("stranger", "namesake"):  # of another name, and of the same with another key
        wary = certificates(folder, "client", other)
        found = shake_hands(server.server(), wary.client())
        text = explain_tls(found["client"], "the server", wary, "127.0.0.1")
        assert f"another authority than the one in {wary.authority}" in text
        wary = certificates(folder, "server", other)
        found = shake_hands(wary.server(), client.client())
        text = explain_tls(found["server"], "the client", wary)
        assert f"another authority than the one in {wary.authority}" in text
    found = shake_hands(server.server(), client.client(), "localhost")
    text = explain_tls(found["client"], "the server", client, "localhost")
    assert text.startswith("the certificate of the server does not name localhost: connect to")
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.load_verify_locations(folder / "authority.pem")
    found = shake_hands(server.server(), bare)
    text = explain_tls(found["server"], "the client", server)
    assert text.startswith("the client has no certificate: give it --certificate, --key")


@pytest.mark.slow
def test_files_that_are_no_certificates_are_named(folder: Path) -> None:
    with pytest.raises(DataError, match="there is no file"):
        certificates(folder, "nobody").server()
    mixed = Certificates(folder / "server.pem", folder / "client.key", folder / "authority.pem")
    with pytest.raises(DataError, match="cannot be used for TLS"):
        mixed.client()
