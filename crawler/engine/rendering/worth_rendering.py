"""Decides which pages are worth rendering in a browser, and measures whether rendering them has paid off.

Rendering a page has paid off if its document has a link in scope that the raw page lacks, or new words with at least
``TEXT`` letters and digits in total. A page without signs that it needs scripts has content without them. For such a
page, additions that also appeared on the last rendered page of its host, such as a banner, do not count.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from html import unescape

from msgspec.structs import replace

from crawler.engine.discover import Discovery
from crawler.engine.understanding import PageFacts
from crawler.frontier.lease import Lease
from crawler.frontier.rendering.rendering_odds import Paid, Paying
from crawler.frontier.traps.soft404 import without_hidden
from crawler.job.job import Job
from crawler.job.verdict import Draft
from crawler.web.links.encoding import as_utf8

TEXT = 60
HOSTS_KEPT = 200  # hosts for which the last page is remembered
NEW_KEPT = 1_000  # maximum number of links and words that are remembered of that page
LENGTH_MOST = 2**20  # bytes of a document that are compared
_TAG = re.compile(rb"<[^>]*>?")


class RenderingPays:
    """Decides which pages of one run to render, and learns from the results. The additions of a page are kept only in
    memory."""

    def __init__(self, job: Job, discovery: Discovery) -> None:
        self._paying = Paying(job.counters.audited, job.seen.hash.secret, job.store)
        self._discovery = discovery
        self._last: OrderedDict[str, frozenset[str]] = OrderedDict()  # host -> additions of its last page

    def wants(self, lease: Lease, facts: PageFacts, when: str) -> Paid:
        """Decide whether to render a page. ``when``: the setting of its host. The result belongs in ``Draft.paid``,
        whether the page is rendered or not."""
        entry = lease.entry
        assert entry is not None
        counts = not (entry.revisit or entry.probe)
        return self._paying.weigh(lease.host.name, entry.href, facts.needs_scripts, when, counts=counts)

    def learned(
        self, lease: Lease, draft: Draft, before: tuple[PageFacts, bytes], after: tuple[PageFacts, bytes]
    ) -> None:
        """Add the result of rendering to the page: ``before`` are its raw facts and body, ``after`` those of its
        document."""
        paid = draft.paid
        assert paid is not None
        (links, words), (old_links, old_words) = (self._shown(lease, *each) for each in (after, before))
        links, words, host = links - old_links, words - old_words, lease.host.name
        last = self._last.pop(host, frozenset()) if not paid.signs else frozenset()
        self._last[host] = frozenset(sorted(links | words)[:NEW_KEPT])
        self._last.move_to_end(host)
        if len(self._last) > HOSTS_KEPT:
            self._last.popitem(last=False)
        draft.paid = replace(paid, gained=bool(links - last) or sum(map(len, words - last)) >= TEXT)

    def _shown(self, lease: Lease, facts: PageFacts, body: bytes) -> tuple[set[str], set[str]]:
        """Return the keys of a document's links, except links to the document itself, and its words."""
        assert lease.entry is not None
        links = self._discovery.keys_inside(lease.entry, facts.links, facts.base)
        text = _TAG.sub(b" ", without_hidden(bytes(as_utf8(body[:LENGTH_MOST], facts.links.encoding))))
        return links, set(re.findall(r"\w+", unescape(text.decode("utf-8", "replace"))))
