"""Routes URLs of a partition: URLs of other partitions go to the outbox, in the transaction that finds them.

How a URL of another partition is handled depends on where it was found:

    links of a page            sent, unless sent recently, in which case they are duplicates; their owner queues new
                               ones and counts others as duplicates; it treats those in a closed trap, known to an
                               older seen-set or refused by the rules like links of its own pages
    links of a copy            sent with the URL of the original; their owner refuses new ones with a record, up to
                               ``MAX_RECORDS`` of the copy's host for each owner
    redirect                   its target is sent with the number of redirects; if a seed's redirect widens the scope,
                               that is sent to all partitions in the same transaction
    sitemap or feed            its URLs are sent with their details; known pages may become due sooner there
    sitemaps in robots.txt     sent
    seeds, added URLs          sent each time; their owner looks up those that its seen-set reports as seen by mistake
    missed by the seen-set     cannot be elsewhere: only URLs of this partition are looked up
    made-up paths              are on the host of their page, so never elsewhere
    requests of a spider       have no partitions

No URL is counted twice: a link is counted in the partition of its page, and whatever happens to the URL later in the
partition of the URL. A link that is not sent again is counted as a duplicate here. The sum of a counter over all
partitions is therefore that of a single process, unless the owner had refused that link. Here ``sent_elsewhere`` counts
the URLs in the outbox's messages.

With scores of links or pages, repeated links must always be sent: their importance or class would otherwise be lost.
The same applies to URLs named by users, to links of copies and to times from sitemaps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from crawler.base.kv import Batch, Reader
from crawler.job.found import Found
from crawler.job.metrics.catalogue import Counters
from crawler.job.partition.inlet import Inlet
from crawler.job.partition.messages import Widened, encode_message, links_of
from crawler.job.partition.outbox import Outbox
from crawler.job.partition.placement import Placement
from crawler.seen.exact.recent import RecentDigests, remember
from crawler.seen.slices.key_hash import Blake2b
from crawler.url.urls.canonicaliser import Canonical

SENT_BYTES = 2**20  # bytes of memory for digests of recently sent URLs: 65,536 URLs
_CHARACTERS = 32 * 1024  # characters of hrefs per message
_WIDENED = 256  # URLs per message


class PartitionRouter:
    """The router of partition ``me``. ``outbox`` and ``inlet`` exist once the job is open. ``sent`` remembers recently
    sent URLs; None: every URL is sent each time."""

    outbox: Outbox
    inlet: Inlet

    def __init__(self, me: int, placement: Placement, sent_bytes: int = SENT_BYTES) -> None:
        """``sent_bytes``: the memory for recently sent URLs; with 0, every URL is sent each time. Raises ValueError."""
        if not 0 <= me < placement.partitions:
            raise ValueError(f"the crawl has {placement.partitions} partitions, so there is no partition {me}")
        self.me = me
        self.placement = placement
        self.sent: RecentDigests | None = remember(sent_bytes) if sent_bytes else None
        self._digests = Blake2b(placement.secret).digest_keys

    def load(self, store: Reader, counters: Counters) -> None:
        """Read the job's stored state of other partitions. Raises OSError, InletError."""
        partitions = self.placement.partitions
        self.outbox, self.inlet = Outbox(store, self.me, partitions), Inlet(store, self.me, partitions)
        self._counters = counters

    def keeps(self, urls: Sequence[Canonical]) -> Sequence[Canonical]:
        """Return the URLs that belong to this partition."""
        of, me = self.placement.of, self.me
        return [url for url in urls if of(url.href) == me]

    def ours(self, found: Found, batch: Batch) -> Sequence[Canonical]:
        """See ``Router``."""
        kept, away = list[Canonical](), list[tuple[int, int]]()
        of, me, own = self.placement.of, self.me, "/"
        for position, url in enumerate(found.urls):
            href = url.href
            if href.startswith(own):  # most links of a page are on its host
                kept.append(url)
            elif (target := of(href)) == me:
                kept.append(url)
                own = href[: href.find("/", 8) + 1]
            else:
                away.append((position, target))
        if not away:
            return found.urls
        by_target: dict[int, list[int]] = {}
        unsent = self._unsent(found, away)
        self._counters.urls_duplicate += len(away) - len(unsent)
        for position, target in unsent:
            by_target.setdefault(target, []).append(position)
        for target, positions in by_target.items():
            for some in _parts(found, positions):
                self.outbox.put(target, encode_message(links_of(found, some)), batch)
                self._counters.links_sent_elsewhere += len(some)
        return kept

    def _unsent(self, found: Found, away: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
        """Return (position, target) of each URL that must be sent."""
        if self.sent is None or not _is_plain(found):
            return away
        digests = self._digests([found.urls[position].key for position, _ in away])
        return [away[at] for at in self.sent.meet(digests)]

    def tell_widened(self, hrefs: Sequence[str], batch: Batch) -> None:
        """Send to all other partitions that these URLs have widened the scope."""
        for begin in range(0, len(hrefs), _WIDENED):
            self._tell(Widened(list(hrefs[begin : begin + _WIDENED])), batch)

    def tell_entries(self, mode: str, entries: Sequence[str], batch: Batch, target: int | None = None) -> None:
        """Send these entries of the mode's scope to the target, or to all other partitions."""
        for begin in range(0, len(entries), _WIDENED):
            self._tell(Widened([], mode, list(entries[begin : begin + _WIDENED])), batch, target)

    def _tell(self, widened: Widened, batch: Batch, target: int | None = None) -> None:
        message = encode_message(widened)
        for each in self.outbox.targets if target is None else [target]:
            self.outbox.put(each, message, batch)


def _is_plain(found: Found) -> bool:
    """Return True if a URL that was sent before need not be sent again."""
    is_named = found.seed or found.found_at is None
    says_more = any(each.priority is not None or each.stated is not None for each in found.candidates.values())
    return not (found.share or found.copy is not None or is_named or says_more)


def _parts(found: Found, positions: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yield the positions in parts whose hrefs fit into a message."""
    begin = size = 0
    for at, position in enumerate(positions):
        size += len(found.urls[position].href)
        if size > _CHARACTERS and at > begin:
            yield positions[begin:at]
            begin, size = at, len(found.urls[position].href)
    if begin < len(positions):
        yield positions[begin:]
