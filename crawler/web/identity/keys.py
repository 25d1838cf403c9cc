"""Ed25519 keys as JSON Web Keys (RFC 8037), using PyNaCl (the extra ``identity``), and the file of private keys: a JSON
Web Key Set, with the agent whose directory lists the keys.

The ID of a key is its thumbprint (RFC 7638). Each key has a period of validity, which the directory of public keys
states too. During a rotation two keys are valid: the newer one signs, and the directory lists both.
"""

from __future__ import annotations

import json
import os
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from crawler.base import entropy
from crawler.base.disk import RealDisk, open_regular, replace_file
from crawler.base.settings.leaving import fault_of_origin
from crawler.base.settings.load import SettingsError

SIZE = 32  # bytes of a seed, and of a public key
DAY = 86_400
LIFETIME = 365 * DAY  # seconds for which a new key is valid
ALWAYS = 2**53  # the expiry of a key without ``exp``
_FILE_MOST = 2**20  # maximum bytes to read from a key file


class Key:
    """A private key, valid from ``begins`` until ``ends`` (seconds since 1970)."""

    def __init__(self, seed: bytes, begins: int = 0, ends: int = ALWAYS) -> None:
        from nacl.signing import SigningKey  # noqa: PLC0415, optional

        self._signing = SigningKey(seed)
        self.begins = begins
        self.ends = ends
        self.x = encoded(bytes(self._signing.verify_key))
        self.kid = thumbprint(self.x)

    def sign(self, text: str) -> str:
        """Return the signature of a text in Base64."""
        return b64encode(self._signing.sign(text.encode("ascii")).signature).decode()

    @property
    def public(self) -> dict[str, Any]:
        """The public key as a JSON Web Key."""
        return {"kty": "OKP", "crv": "Ed25519", "kid": self.kid, "x": self.x, "nbf": self.begins, "exp": self.ends}

    @property
    def private(self) -> dict[str, Any]:
        """The private key as a JSON Web Key."""
        return {**self.public, "d": encoded(bytes(self._signing))}


def new_key(now: float, valid: Sequence[Key]) -> Key:
    """Make a key that is valid for a year. If other keys are ``valid``, its period starts in a day, because until then
    servers may use a copy of the directory that does not list it."""
    begins = int(now) + (DAY if valid else 0)
    return Key(entropy.random_bytes(SIZE), begins, begins + LIFETIME)


def read_key_file(path: Path) -> tuple[list[Key], str | None]:
    """Return the keys in a file, and the agent if it names one. Raises SettingsError, whose message quotes nothing from
    the file."""
    try:
        with open_regular(path) as stream:
            mode, text = os.fstat(stream.fileno()).st_mode, stream.read(_FILE_MOST)
    except OSError as error:
        raise SettingsError(f"identity.key: cannot read {path}: {error.strerror}") from error
    if mode & 0o077:
        raise SettingsError(f"identity.key: other users can read or change {path}; run chmod 600 {path}")
    check_library()
    try:
        found = json.loads(text)
        keys, agent = [_read(each) for each in found.get("keys", [found])], found.get("agent")
    except (ValueError, TypeError, AttributeError, LookupError, OverflowError, RecursionError):
        keys, agent = [], None
    if not keys or (agent is not None and fault_of_origin(str(agent))):
        wanted = "it holds no private Ed25519 keys, or no valid agent; create it with `crawler identity new`"
        raise SettingsError(f"identity.key: {path}: {wanted}")
    return keys, agent


def write_key_file(path: Path, keys: Sequence[Key], agent: str) -> None:
    """Write keys to a file that only its owner may read. Raises OSError."""
    text = json.dumps({"agent": agent, "keys": [key.private for key in keys]}, indent=1)
    replace_file(RealDisk(), path, f"{text}\n".encode())


def _read(jwk: Mapping[str, Any]) -> Key:
    if (jwk["kty"], jwk["crv"]) != ("OKP", "Ed25519"):
        raise ValueError("not an Ed25519 key")
    return Key(decoded(jwk["d"]), int(jwk.get("nbf", 0)), int(jwk.get("exp", ALWAYS)))


def key_at(keys: Sequence[Key], now: float) -> Key | None:
    """Return the signing key: the newest valid one; None if none is valid."""
    return max((key for key in keys if key.begins <= now < key.ends), key=lambda key: key.begins, default=None)


def thumbprint(x: str) -> str:
    """Return the ID of a public key (RFC 7638, RFC 8037 appendix A.3)."""
    return encoded(sha256(f'{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}'.encode("utf-8", "replace")).digest())


def verifies(x: str, text: str, signature: str) -> bool:
    """Return whether a public key verifies a signature in Base64."""
    from nacl.exceptions import CryptoError  # noqa: PLC0415, optional
    from nacl.signing import VerifyKey  # noqa: PLC0415

    try:
        VerifyKey(decoded(x)).verify(text.encode("ascii"), b64decode(signature, validate=True))
    except (CryptoError, ValueError):
        return False
    return True


def check_library() -> None:
    """Raise SettingsError if PyNaCl is not installed."""
    try:
        import nacl.signing  # noqa: F401, PLC0415
    except ImportError as error:
        raise SettingsError("signed requests need PyNaCl: pip install pynacl") from error


def encoded(data: bytes) -> str:
    """Encode bytes in the Base64 of JSON Web Keys."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def decoded(text: str) -> bytes:
    """Decode a seed or a public key; the inverse of ``encoded``. Raises ValueError."""
    data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(data) != SIZE or encoded(data) != text:
        raise ValueError("not 32 bytes in Base64")
    return data
