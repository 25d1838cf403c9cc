"""Signs requests (RFC 9421), and decides which ones.

The signed text, called the *signature base*, has a line for each covered component and one for the parameters:

    "@authority": example.com
    "signature-agent";key="sig1": "https://bot.example"
    "@signature-params": ("@authority" "signature-agent";key="sig1");created=1; ... ;tag="web-bot-auth"

The names come from draft-ietf-webbotauth-httpsig-protocol-00.

A host gets unsigned requests until it requires signatures: with ``Accept-Signature``, or with a refusal that names
them. The signer remembers this for the host and port, and the crawl stores it in the host's state. If a request was
refused because it lacks a signature, the crawl repeats it. Each request is signed separately, in the step that sends
it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct, field
from multidict import MultiMapping

from crawler.base import entropy
from crawler.base.settings.load import SettingsError
from crawler.base.settings.parts import IdentitySettings
from crawler.web.identity.keys import Key, encoded, key_at, read_key_file

EXPIRES = 60  # seconds; enough, because a request is signed in the step that sends it
_NONCE = 24  # random bytes of a nonce
_TAG = "web-bot-auth"
_LABEL = "sig1"
_AGENT = f'"signature-agent";key="{_LABEL}"'
REFUSALS = frozenset((401, 403))  # statuses that are repeated with a signature; 429 is retried anyway
_NAMING = frozenset((*REFUSALS, 429))  # statuses that require signatures if the answer names them
_NAMES = ("web-bot-auth", "web bot auth", "signature-agent", "signature-input", "http message signature")
_LOOKED_AT = 64 * 1024  # bytes of a body that are searched
_HOSTS = 10_000  # maximum hosts; beyond it, all are forgotten, and later restored from the hosts' stored state

log = logging.getLogger("crawler")


def request_headers(key: Key, agent: str, authority: str, now: float) -> dict[str, str]:
    """Sign a request to ``authority`` (host and port, as in its Host header) in the name of ``agent``."""
    parameters = f'("@authority" {_AGENT}){parameters_of(key, now, int(now) + EXPIRES, _TAG)}'
    signature = key.sign(f'"@authority": {authority}\n{_AGENT}: "{agent}"\n"@signature-params": {parameters}')
    return {
        "Signature-Agent": f'{_LABEL}="{agent}"',
        "Signature-Input": f"{_LABEL}={parameters}",
        "Signature": f"{_LABEL}=:{signature}:",
    }


def parameters_of(key: Key, created: float, expires: int, tag: str) -> str:
    """Return the parameters of a signature, without what it covers."""
    when, nonce = f";created={int(created)};expires={expires}", encoded(entropy.random_bytes(_NONCE))
    return f'{when};keyid="{key.kid}";alg="ed25519";nonce="{nonce}";tag="{tag}"'


class Signer(Struct):
    """Signs requests in the name of ``agent``, the origin whose directory lists the keys. ``asking``: hosts that ask
    for signatures."""

    keys: Sequence[Key]
    agent: str
    always: bool
    clock: Callable[[], float] = time.time
    asking: set[str] = field(default_factory=set)
    has_expired: bool = False

    @classmethod
    def of(cls, settings: IdentitySettings) -> Signer | None:
        """Return the signer for these settings; None if no requests are to be signed. Raises SettingsError."""
        if settings.sign == "never" or settings == IdentitySettings():
            return None
        if settings.key is None:
            raise SettingsError("identity.key is missing; set it to the file that `crawler identity new` created")
        found = read_key_file(Path(settings.key))
        if key_at(found.keys, time.time()) is None:
            raise SettingsError(f"identity.key: no key in {settings.key} is valid now; run `crawler identity new`")
        return cls(found.keys, settings.agent or found.agent, always=settings.sign == "always")

    def signs(self, authority: str, *, known: bool) -> bool:
        """Return whether the host asks for signatures. ``known``: it asked for them in an earlier run."""
        if known:
            self.asking.add(authority)
        return authority in self.asking

    def key_for(self, authority: str) -> Key | None:
        """Return the key that signs a request to the host; None if it must not be signed, or if all keys have
        expired."""
        if not self.always and authority not in self.asking:
            return None
        key = key_at(self.keys, self.clock())
        if key is None and not self.has_expired:
            self.has_expired = True
            log.warning("requests are no longer signed: all keys of the identity have expired")
        return key

    def headers(self, authority: str) -> dict[str, str]:
        """Return the signature headers of a request that is sent now."""
        key = self.key_for(authority)
        return {} if key is None else request_headers(key, self.agent, authority, self.clock())

    def note(self, authority: str, status: int, headers: MultiMapping[str], body: bytes | None) -> None:
        """Remember the host if its answer requires signatures."""
        asks = "Accept-Signature" in headers
        if not asks and status in _NAMING and authority not in self.asking:
            text = f"{' '.join(headers.values())} {(body or b'')[:_LOOKED_AT].decode('latin-1')}".lower()
            asks = any(name in text for name in _NAMES)
        if asks:
            if len(self.asking) >= _HOSTS:
                self.asking.clear()
            self.asking.add(authority)
