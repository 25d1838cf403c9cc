"""Keys for tests, and an independent verifier: http-message-signatures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from http_message_signatures import HTTPMessageVerifier, HTTPSignatureKeyResolver, algorithms

from crawler.base.settings.parts import IdentitySettings
from crawler.web.identity.directory import directory
from crawler.web.identity.keys import Key, KeySet, decoded, key_from, write_key_file

AGENT = "https://bot.example"


def key_file(home: Path, *keys: Key) -> IdentitySettings:
    """Settings with a file of these keys, or of one that is always valid."""
    path = home / "identity.jwk"
    write_key_file(path, KeySet(list(keys) or [key_from(b"1" * 32)], AGENT))
    return IdentitySettings(key=str(path))


class _Directory(HTTPSignatureKeyResolver):
    def __init__(self, keys: list[dict[str, Any]]) -> None:
        self._keys = {key["kid"]: Ed25519PublicKey.from_public_bytes(decoded(key["x"])) for key in keys}

    def resolve_public_key(self, key_id: str) -> Any:
        return self._keys.get(key_id)

    def resolve_private_key(self, key_id: str) -> Any:
        raise NotImplementedError


def verifier(*keys: Key) -> HTTPMessageVerifier:
    """A verifier that knows the public halves as a directory has them."""
    listed = json.loads(directory(keys or [key_from(b"1" * 32)]))["keys"]
    return HTTPMessageVerifier(signature_algorithm=algorithms.ED25519, key_resolver=_Directory(listed))


def request(url: str, headers: Mapping[str, str]) -> Any:
    """A request as the verifier takes it."""
    return SimpleNamespace(method="GET", url=url, headers=dict(headers))


def received(head: bytes, scheme: str = "http") -> Any:
    """The same of what a server was sent."""
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines if line)
    return request(f"{scheme}://{headers['Host']}{first.split(' ')[1]}", headers)
