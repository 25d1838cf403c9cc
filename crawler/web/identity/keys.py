"""Ed25519 keys as JSON Web Keys (RFC 8037), by PyNaCl (the extra ``identity``).

A key is known by its thumbprint (RFC 7638). It signs from its begin to its end, which the directory of public keys says
too. While keys are replaced there are two: the one that began last signs, and both are listed.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from crawler.base import entropy
from crawler.base.settings.load import SettingsError

if TYPE_CHECKING:
    from nacl.signing import SigningKey

SIZE = 32  # bytes of a seed, and of a public key
DAY = 86_400
LIFETIME = 365 * DAY  # seconds
ALWAYS = 2**53  # the end of a key that states none
_NONCE = 24  # bytes


class Key:
    """A private key. ``begins`` and ``ends`` are in seconds since 1970."""

    def __init__(self, seed: bytes, begins: int = 0, ends: int = ALWAYS) -> None:
        self._seed = seed
        self.begins = begins
        self.ends = ends
        self.x = encoded(bytes(self._signing.verify_key))
        self.kid = thumbprint(self.x)

    @cached_property
    def _signing(self) -> SigningKey:
        from nacl.signing import SigningKey  # noqa: PLC0415, optional

        return SigningKey(self._seed)

    def sign(self, text: str) -> str:
        """The signature of a text, in Base64."""
        return b64encode(self._signing.sign(text.encode("ascii")).signature).decode()

    @property
    def public(self) -> dict[str, Any]:
        """The public half as a JSON Web Key."""
        own = {"kty": "OKP", "crv": "Ed25519", "kid": self.kid, "x": self.x}
        return {**own, "nbf": self.begins, "exp": self.ends}

    @property
    def private(self) -> dict[str, Any]:
        """The whole key as a JSON Web Key."""
        return {**self.public, "d": encoded(self._seed)}


def new_key(now: float, valid: Sequence[Key]) -> Key:
    """A key for a year. If others are ``valid``, it begins a day from now: servers may have read the directory without
    it just before."""
    begins = int(now) + (DAY if valid else 0)
    return Key(entropy.random_bytes(SIZE), begins, begins + LIFETIME)


def read_keys(text: bytes) -> tuple[list[Key], str | None]:
    """The keys of a JSON Web Key, or of a set of them, and whose they are, if that is stated. Raises ValueError and
    what wrong types raise; the texts of these errors may quote a key."""
    found = json.loads(text)
    keys = [_read(each) for each in found.get("keys", [found])]
    return keys, found.get("agent")


def _read(jwk: Mapping[str, Any]) -> Key:
    if (jwk["kty"], jwk["crv"]) != ("OKP", "Ed25519"):
        raise ValueError("a key of another kind")
    return Key(decoded(jwk["d"]), int(jwk.get("nbf", 0)), int(jwk.get("exp", ALWAYS)))


def key_at(keys: Sequence[Key], now: float) -> Key | None:
    """The key that signs: of the valid ones, the one that began last."""
    return max((key for key in keys if key.begins <= now < key.ends), key=lambda key: key.begins, default=None)


def thumbprint(x: str) -> str:
    """By what a public key is known (RFC 7638, RFC 8037 appendix A.3)."""
    return encoded(sha256(f'{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}'.encode()).digest())


def verifies(x: str, text: str, signature: str) -> bool:
    """Whether a signature in Base64 is that of a public key."""
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


def new_nonce() -> str:
    """What makes a signature one of a kind."""
    return encoded(entropy.random_bytes(_NONCE))


def encoded(data: bytes) -> str:
    """Base64 for JSON Web Keys."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def decoded(text: str) -> bytes:
    """What ``encoded`` was given, of the size of a key. Raises ValueError."""
    data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(data) != SIZE or encoded(data) != text:
        raise ValueError("not 32 bytes in Base64")
    return data
