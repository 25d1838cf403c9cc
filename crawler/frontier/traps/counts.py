"""Counters keyed by 16-byte digests, in the store, with the most recently used ones cached in memory."""

from __future__ import annotations

import struct
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import TypeVar

from crawler.base.kv import Batch, Family, Reader
from crawler.url.scope.modes import Linked
from crawler.url.urls.domain import registrable_domain

COUNT = b"n"  # key: this byte and a digest; value: the count
MAX_RECORDS = 100  # `excluded` records per trap; further URLs are only counted
DOMAIN_FACTOR = 50  # limit of a domain as a multiple of a host's: a domain with a wildcard record has endless hosts
STEP = 100  # number of URLs of one kind on a host that are counted at once for its domain
KEPT_MAX = 50_000  # counters in memory, about 200 bytes each
_NUMBER = struct.Struct("<Q")
L = TypeVar("L", bound=Linked)


class TrapRecordError(ValueError):
    """Raised when a stored row is neither a count nor a closed trap."""


class Counts:
    """The counters of one job. Those in memory include the last written batch and the batch being filled."""

    def __init__(self, store: Reader) -> None:
        self._store = store
        self._kept: OrderedDict[bytes, int] = OrderedDict()

    def number(self, key: bytes) -> int:
        """Return the count under a digest, or 0; raises TrapRecordError."""
        number = self._kept.get(key)
        if number is not None:
            self._kept.move_to_end(key)
            return number
        stored = self._store.get(Family.TRAPS, COUNT + key)
        number = 0 if stored is None else decode_count(stored)
        self._keep(key, number)
        return number

    def set(self, key: bytes, number: int, batch: Batch) -> int:
        """Put a count into the batch. Returns its increase."""
        grown = number - self.number(key)
        batch.put(Family.TRAPS, COUNT + key, _NUMBER.pack(number))
        self._keep(key, number)
        return grown

    def _keep(self, key: bytes, number: int) -> None:
        self._kept[key] = number
        self._kept.move_to_end(key)
        if len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)


def decode_count(value: bytes) -> int:
    """Decode a stored count; raises TrapRecordError."""
    if len(value) != _NUMBER.size:
        raise TrapRecordError(f"not a count: {len(value)} bytes")
    return int(_NUMBER.unpack(value)[0])


def digest_of(text: str) -> bytes:
    """Return the digest of the text. It is cryptographic, so that no host can fill the counters of another."""
    return blake2b(text.encode(), digest_size=16).digest()


class DomainTraps:
    """The counters of all domains of a job. The limit of a domain is a multiple of the limit of a host.

    With a wildcard DNS record a domain has endless hosts, each with its own limits. URLs of one pattern, and
    parameter sets of one path, are therefore also counted for the domain, in steps of 100; a host with fewer than 100
    of a kind does not count and costs nothing. Once the domain has fifty times the limit of a host, each of its hosts
    may have 100 of that kind at most. A thousand honest hosts are not affected until they have five thousand URLs of
    one pattern each, while ten thousand hosts of a spammer are cut off.
    """

    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    def allows(self, number: int, subject: tuple[str, str], most: int, changed: dict[bytes, int]) -> bool:
        """Return True if a host that has used ``number`` of its limit of ``most`` may have one more.

        ``subject`` is the host with its port, and the kind that is counted. The domain's new count is put into
        ``changed``.
        """
        if not (most and number) or number % STEP:
            return True
        total_key = _key(*subject)
        total = changed.get(total_key, self._counts.number(total_key))
        if total < most * DOMAIN_FACTOR:
            changed[total_key] = total + STEP
            return True
        return False

    def total(self, host: str, what: str) -> int:
        """Return the total of the domain's hosts, counted in steps of ``STEP``."""
        return self._counts.number(_key(host, what))


def domain_of(host: str) -> str:
    """Return the registrable domain of a ``host:port``."""
    return registrable_domain(host.rpartition(":")[0])


def _key(host: str, what: str) -> bytes:
    return digest_of(f"{domain_of(host)} {what} of a domain")


def open_links(links: Sequence[L], closed_by: Callable[[str], str | None], dropped: Counter[str]) -> list[L]:
    """Return the links that no limit drops; count the others in ``dropped``. ``closed_by`` returns the setting of the
    limit that drops an href, or None."""
    limits = [closed_by(link.href) for link in links]
    dropped.update(limit for limit in limits if limit is not None)
    return [link for link, limit in zip(links, limits, strict=True) if limit is None]
