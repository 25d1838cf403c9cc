"""Maps URLs to partitions, and partitions to workers.

A URL belongs to the partition given by a keyed hash of its registrable domain. All hosts of a domain are thus in one
partition, which alone handles their politeness, robots.txt, traps and duplicates. The key is a secret of the crawl:
without it, an attacker cannot create domains that all belong to one partition. A host without a registrable domain,
such as an IP address, is hashed itself. A leading ``www.`` is ignored, because a canonicalisation rule may remove it.

Hosts that share a gap through a group (``[[site]] group``) are placed by the hash of the group's name, so a single
partition keeps to their common gap.

Partitions are assigned to workers by rendezvous hashing (Thaler and Ravishankar 1998): each pair of a partition and a
worker has a score, and a partition goes to the worker with the best score. Here no worker gets more than its share,
rounded up or down, so a partition may go to the worker with the next best score.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from hashlib import blake2b

from crawler.base.settings.parts import PARTITIONS_MOST, SiteGroups, SiteTable
from crawler.base.settings.sites import HostIndex
from crawler.url.urls.domain import registrable_domain, suffix_list_version
from crawler.url.urls.host_key import is_address

SECRET_LEAST = 16  # bytes
_HOSTS = 32_768  # hosts whose partition is cached, so that a link costs only a dictionary lookup


def suffixes() -> str:
    """Return the version of the public suffix list: another version may place hosts in other partitions."""
    return suffix_list_version()


class Placement:
    """Maps each URL of a crawl to its partition."""

    def __init__(self, secret: bytes, partitions: int, *, by_host: bool = False, groups: SiteGroups = ()) -> None:
        """``by_host``: hash each host itself, for a crawl in which one domain has most of the URLs. ``groups``: hosts
        placed by the name of their group. Raises ValueError."""
        if not SECRET_LEAST <= len(secret) <= blake2b.MAX_KEY_SIZE:
            raise ValueError(f"a crawl's secret has {SECRET_LEAST} to {blake2b.MAX_KEY_SIZE} bytes")
        if not 1 <= partitions <= PARTITIONS_MOST:
            raise ValueError(f"a crawl has 1 to {PARTITIONS_MOST} partitions, not {partitions}")
        self.partitions = partitions
        self.secret = secret
        self.by_host = by_host
        self._groups = [group for _, group in groups]
        self._grouped = HostIndex(enumerate(SiteTable(match) for match, _ in groups))
        self._of_authority = lru_cache(_HOSTS)(self._hash)

    def of(self, href: str) -> int:
        """Return the partition of a canonical URL."""
        return self._of_authority(href[8 if href.startswith("https") else 7 : href.find("/", 8)])

    def of_host(self, host: str) -> int:
        """Return the partition of a host, with or without its port."""
        return self._of_authority(host)

    def _hash(self, authority: str) -> int:
        if self.partitions == 1:
            return 0
        host = authority.rpartition("@")[2]
        name, colon, port = host.rpartition(":")
        if colon and not port.endswith("]"):
            host = name
        if self._grouped and (group := self._group(host)) is not None:
            return self._number(group, b"group")
        if not is_address(host):
            host = _bare(host) if self.by_host else registrable_domain(_bare(host))
        return self._number(host, b"placement")

    def _group(self, host: str) -> str | None:
        """Return the group of the host; if it has none, the group of the host that differs only by ``www.``."""
        bare = _bare(host)
        for name in (host, bare, f"www.{bare}"):
            if found := self._grouped.numbers(None, name, "80"):
                return self._groups[found[-1]]
        return None

    def _number(self, name: str, kind: bytes) -> int:
        digest = blake2b(name.encode("utf-8", "surrogatepass"), key=self.secret, digest_size=8, person=kind)
        return int.from_bytes(digest.digest(), "big") % self.partitions


def _bare(host: str) -> str:
    """Return the host without ``www.``, if at least two labels are left."""
    host = host.rstrip(".") or host
    while host.startswith("www.") and "." in host[4:]:
        host = host[4:]
    return host


def place(partitions: int, workers: Collection[str]) -> dict[int, str]:
    """Assign a worker to each partition; empty without workers. The numbers of partitions of any two workers differ by
    at most one. The result depends only on the set of workers, not on their order."""
    names = sorted(set(workers))
    if not names:
        return {}
    share, larger = divmod(partitions, len(names))
    best = sorted(
        ((_score(partition, name), partition, name) for partition in range(partitions) for name in names), reverse=True
    )
    placed: dict[int, str] = {}
    has = dict.fromkeys(names, 0)
    for _, partition, name in best:
        if partition in placed or has[name] > share or (has[name] == share and not larger):
            continue
        larger -= has[name] == share
        has[name] += 1
        placed[partition] = name
    return dict(sorted(placed.items()))


def _score(partition: int, worker: str) -> bytes:
    return blake2b(worker.encode("utf-8", "surrogatepass"), digest_size=16, salt=partition.to_bytes(4, "big")).digest()
