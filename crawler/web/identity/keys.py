"""Ed25519 keys as JSON Web Keys (RFC 8037), using PyNaCl (the extra ``identity``), and the file of private keys.

The ID of a key is its thumbprint (RFC 7638). Each key has a period of validity, which the directory of public keys
states too. During a rotation two keys are valid: the newer one signs, and the directory lists both.
"""

from __future__ import annotations

import os
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal

from msgspec import DecodeError, Meta, Struct, json

from crawler.base import entropy
from crawler.base.disk import RealDisk, open_regular, replace_file
from crawler.base.settings.leaving import fault_of_origin
from crawler.base.settings.load import SettingsError

DAY = 86_400
LIFETIME = 365 * DAY  # seconds for which a new key is valid
ALWAYS = 2**53  # the expiry of a key without ``exp``
_FILE_MOST = 2**20  # maximum bytes to read from a key file


class Key(Struct, frozen=True, omit_defaults=True, dict=True):
    """A JSON Web Key, valid from ``nbf`` until ``exp`` (seconds since 1970). ``x`` is its public half, ``d`` the
    seed, which only private keys have."""

    kty: Literal["OKP"]
    crv: Literal["Ed25519"]
    x: str
    kid: str
    nbf: int = 0
    exp: int = ALWAYS
    d: str = ""

    def __repr__(self) -> str:
        return f"Key({self.kid})"  # without the seed

    @cached_property
    def _signing(self) -> Any:
        return library().signing.SigningKey(decoded(self.d))

    def sign(self, text: str) -> str:
        """Return the signature of a text in Base64."""
        return b64encode(self._signing.sign(text.encode("ascii")).signature).decode()


class KeySet(Struct, omit_defaults=True):
    """A JSON Web Key Set. In a file of private keys, ``agent`` is the origin whose directory lists the keys."""

    keys: Annotated[list[Key], Meta(min_length=1)]
    agent: str = ""


def key_from(seed: bytes, begins: int = 0, ends: int = ALWAYS) -> Key:
    """Return the private key with this seed."""
    x = encoded(bytes(library().signing.SigningKey(seed).verify_key))
    return Key("OKP", "Ed25519", x, thumbprint(x), begins, ends, encoded(seed))


def new_key(now: float, valid: Sequence[Key]) -> Key:
    """Make a key that is valid for a year. If other keys are ``valid``, its period starts in a day, because until then
    servers may use a copy of the directory that does not list it."""
    begins = int(now) + (DAY if valid else 0)
    return key_from(entropy.random_bytes(32), begins, begins + LIFETIME)


def read_key_file(path: Path) -> KeySet:
    """Return the content of a file of private keys. Raises SettingsError, whose message quotes nothing from it."""
    try:
        with open_regular(path) as stream:
            mode, text = os.fstat(stream.fileno()).st_mode, stream.read(_FILE_MOST)
    except OSError as error:
        raise SettingsError(f"identity.key: cannot read {path}: {error.strerror}") from error
    if mode & 0o077:
        raise SettingsError(f"identity.key: other users can read or change {path}; run chmod 600 {path}")
    library()
    with suppress(DecodeError, ValueError, RecursionError):
        found = json.decode(text, type=KeySet)
        are_own = all(key == key_from(decoded(key.d), key.nbf, key.exp) for key in found.keys)
        if are_own and fault_of_origin(found.agent) is None:
            return found
    wanted = "it holds no private Ed25519 keys, or no valid agent; create it with `crawler identity new`"
    raise SettingsError(f"identity.key: {path}: {wanted}")


def write_key_file(path: Path, content: KeySet) -> None:
    """Write keys to a file that only its owner may read. Raises OSError."""
    replace_file(RealDisk(), path, json.encode(content) + b"\n")


def key_at(keys: Sequence[Key], now: float) -> Key | None:
    """Return the signing key: the newest valid one; None if none is valid."""
    return max((key for key in keys if key.nbf <= now < key.exp), key=lambda key: key.nbf, default=None)


def thumbprint(x: str) -> str:
    """Return the ID of a public key (RFC 7638, RFC 8037 appendix A.3)."""
    return encoded(sha256(f'{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}'.encode()).digest())


def verifies(x: str, text: str, signature: str) -> bool:
    """Return whether a public key verifies a signature in Base64."""
    nacl = library()
    try:
        nacl.signing.VerifyKey(decoded(x)).verify(text.encode("ascii"), b64decode(signature, validate=True))
    except (nacl.exceptions.CryptoError, ValueError):
        return False
    return True


def library() -> ModuleType:
    """Return PyNaCl. Raises SettingsError if it is not installed."""
    try:
        import nacl.signing  # noqa: PLC0415, optional
    except ImportError as error:
        raise SettingsError("signed requests need PyNaCl: pip install pynacl") from error
    return nacl


def encoded(data: bytes) -> str:
    """Encode bytes in the Base64 of JSON Web Keys."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def decoded(text: str) -> bytes:
    """Decode the 32 bytes of a seed or public key; the inverse of ``encoded``. Raises ValueError."""
    return b64decode(f"{text}=", b"-_", validate=True)
