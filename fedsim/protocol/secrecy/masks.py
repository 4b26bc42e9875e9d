"""Keys, ciphertexts and masks, by the library `cryptography`.

X25519 for key agreements, HKDF with SHA-256 for the keys of an agreement, AES-256-GCM for shares,
AES-256 in counter mode for the streams of masks, and Ed25519 for signatures.
"""

from functools import lru_cache
from typing import Any

import numpy as np

from fedsim.core.errors import DataError
from fedsim.core.extras import missing
from fedsim.protocol.secrecy.costs import word_bytes
from fedsim.protocol.secrecy.integers import Integers
from fedsim.protocol.secrecy.shamir import PRIME

ENCRYPTING, MASKING = b"fedsim secrecy shares", b"fedsim secrecy masks"
VOTING = b"fedsim secrecy votes"
"""What the key of an agreement is for."""


@lru_cache(maxsize=1)
def library() -> Any:
    """Return the parts of the library.

    Raises:
        DataError: it is not installed.
    """
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ed25519, x25519
        from cryptography.hazmat.primitives.ciphers import Cipher, aead, algorithms, modes
        from cryptography.hazmat.primitives.kdf import hkdf
    except ImportError:
        text = missing("secrecy with values: exact", "cryptography", "secrecy")
        raise DataError("secrecy.values", f"{text}; values: counted does without") from None
    from types import SimpleNamespace

    return SimpleNamespace(
        hashes=hashes,
        x25519=x25519,
        ed25519=ed25519,
        InvalidSignature=InvalidSignature,
        Cipher=Cipher,
        aead=aead,
        algorithms=algorithms,
        modes=modes,
        hkdf=hkdf,
    )


def private_key(rng: np.random.Generator) -> int:
    """Return a private key of X25519, drawn from a stream, as a number below `PRIME`."""
    # Clamped as RFC 7748 asks; of these numbers only two are not below the prime.
    while True:
        number = int.from_bytes(rng.bytes(32), "little")
        number = (number & ~7 & (2**255 - 1)) | 2**254
        if number < PRIME:
            return number


def public_key(private: int) -> bytes:
    """Return the public key of a private one, 32 bytes."""
    key = library().x25519.X25519PrivateKey.from_private_bytes(private.to_bytes(32, "little"))
    return bytes(key.public_key().public_bytes_raw())


def agree(private: int, public: bytes, purpose: bytes) -> bytes:
    """Return the common key of two clients for a purpose, 32 bytes."""
    lib = library()
    key = lib.x25519.X25519PrivateKey.from_private_bytes(private.to_bytes(32, "little"))
    common = key.exchange(lib.x25519.X25519PublicKey.from_public_bytes(public))
    derive = lib.hkdf.HKDF(algorithm=lib.hashes.SHA256(), length=32, salt=None, info=purpose)
    return bytes(derive.derive(common))


def verification_key(signing: bytes) -> bytes:
    """Return the public key of a private key of Ed25519, 32 bytes each."""
    key = library().ed25519.Ed25519PrivateKey.from_private_bytes(signing)
    return bytes(key.public_key().public_bytes_raw())


def sign(signing: bytes, text: bytes) -> bytes:
    """Return the signature of a text, 64 bytes."""
    return bytes(library().ed25519.Ed25519PrivateKey.from_private_bytes(signing).sign(text))


def is_signed(verifying: bytes, signature: bytes, text: bytes) -> bool:
    """Return whether a signature is that of a text."""
    lib = library()
    try:
        lib.ed25519.Ed25519PublicKey.from_public_bytes(verifying).verify(signature, text)
    except lib.InvalidSignature:
        return False
    return True


def encrypt(key: bytes, plain: bytes, rng: np.random.Generator) -> bytes:
    """Return nonce, ciphertext and tag: 28 bytes more than the plain text."""
    nonce = rng.bytes(12)
    return nonce + bytes(library().aead.AESGCM(key).encrypt(nonce, plain, None))


def decrypt(key: bytes, sent: bytes) -> bytes:
    """Return the plain text."""
    return bytes(library().aead.AESGCM(key).decrypt(sent[:12], sent[12:], None))


def mask(key: bytes, coordinates: int, modulus_bits: int) -> Integers:
    """Return the stream of a key as integers, uniform modulo 2^modulus_bits, shape (m,)."""
    lib = library()
    size = word_bytes(modulus_bits)
    cipher = lib.Cipher(lib.algorithms.AES(key), lib.modes.CTR(bytes(16)))
    stream = cipher.encryptor().update(bytes(size * coordinates))
    words = np.frombuffer(stream, f"<u{size}").astype(np.uint64)
    return (words & np.uint64(2**modulus_bits - 1)).astype(np.int64)


def seed_key(seed: int) -> bytes:
    """Return the key of a client's own mask, from its seed."""
    return seed.to_bytes(32, "little")
