"""Discover: find the URLs in a text and keep those that may be admitted.

    seeds      lines -> canonical URLs; each widens the scope
    outlinks   the links of a page -> canonical URLs -> those in scope
    sitemap    the listed URLs -> canonical URLs -> those in scope
    redirect   a Location -> one link

Each function counts the URLs it leaves out. Work that depends only on foreign bytes runs under ``Reading``. Nothing is
admitted here: the transaction that ends the visit admits the URLs.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from itertools import chain, islice, repeat
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from crawler.base.settings.parts import HOPS_MOST, Settings
from crawler.engine.reading import Reading, Unreadable
from crawler.engine.seeds import why_no_url
from crawler.frontier.entry import Entry
from crawler.frontier.sitemap_dates import Stated
from crawler.frontier.traps.copies import Content, Copies
from crawler.frontier.traps.ids import Sight
from crawler.frontier.traps.soft404 import Judgement, PageKind, Soft404
from crawler.job.found import NO_LINKS, SITEMAP_DEPTH, Candidate, Outlinks, candidates_of
from crawler.job.job import Job
from crawler.job.records import count_outside
from crawler.url.robots.parse import robots_url
from crawler.url.scope.boundary import Boundary, Outside, Reach
from crawler.url.scope.priority_rules import LISTED_PRIORITY
from crawler.url.urls.canonicaliser import Canonical, Canonicaliser
from crawler.url.urls.host_key import host_name
from crawler.url.urls.whatwg import Rejected, has_userinfo
from crawler.web.extract.edges import HEADER, REDIRECT, USUAL, Edge, Facts, facts_of
from crawler.web.links.described import Described
from crawler.web.links.extract import PageLinks
from crawler.web.links.query import encode_queries
from crawler.web.links.sitemap import Listed

log = logging.getLogger("crawler")

LINKS_A_PART = 1_000  # links resolved at a time; the event loop may run between two parts
CHARACTERS_A_PART = 64 * 1024
FOREIGN_COUNTS = 3  # characters that one non-ASCII character counts as
COPY, NOFOLLOW = "copy", "nofollow"  # reasons why the links of a page are not followed
HOSTS_MOST = 100  # maximum number of out-of-scope hosts for which links of seeds are counted
_NAMED = 5  # maximum number of URLs in a message
_SHOWN = 200  # characters of foreign text in a message
Vouched = Collection[str] | None  # hrefs in a sitemap that may be out of scope; None: the hrefs are not from a sitemap


def together(parts: Sequence[Outlinks]) -> Outlinks:
    """Combine the outlinks of all parts of a page. All parts but the last have been admitted."""
    outside: dict[Outside, int] = {}
    for part in parts:
        for reason, links in part.outside.items():
            outside[reason] = outside.get(reason, 0) + links
    last = parts[-1] if parts else Outlinks(0, [])
    return replace(
        last,
        found=sum(part.found for part in parts),
        left_out=list(islice(chain.from_iterable(part.left_out for part in parts), LINKS_A_PART)),
        outside=outside,
        edges=list(chain.from_iterable(part.edges for part in parts)),
        urls=list(chain.from_iterable(part.urls for part in parts)),
    )


class Likeness(Struct, frozen=True):
    """How a page compares with other pages of its host. ``of_copy``: it is a copy whose links are not followed.
    ``judged``: whether the host sends this page for paths that do not exist."""

    content: Content | None
    of_copy: bool
    judged: Judgement

    @property
    def is_followed(self) -> bool:
        """True if the page's links are followed."""
        return not self.of_copy and self.judged.kind is PageKind.PAGE


class Target(Struct, frozen=True):
    """The target of a redirect: its ``location`` as recorded, and the link to follow, or an ``error`` if no link is
    followed."""

    location: str
    links: Outlinks = NO_LINKS
    error: str | None = None


class Added(Struct, frozen=True):
    """The result of adding URLs to a job: the URLs that may be admitted, the number out of scope, the invalid texts
    with their reasons, and the number of URLs whose credentials were dropped."""

    inside: list[Canonical]
    outside: int
    rejected: tuple[tuple[str, str], ...]
    credentials_dropped: int


class Discovery:
    """Discovers the URLs of one run."""

    def __init__(self, job: Job, settings: Settings, reading: Reading) -> None:
        self._job = job
        self._reading = reading
        self._boundary = Boundary(job.scope, settings)
        self._settings = settings
        self._edges = wants_edges(settings)
        self._canonicaliser = Canonicaliser(settings.canonical.rules)
        self._copies = Copies(settings.traps, job.store)
        self._soft404 = Soft404(settings.traps, job.store)
        self.seeds_rejected = 0
        self._elsewhere = Counter[str]()  # number of links of seeds to each out-of-scope host

    @property
    def elsewhere(self) -> str | None:
        """The out-of-scope host to which most links of the seeds lead, if the crawl found no pages but its seeds. A
        message at the end of the crawl names it."""
        counters = self._job.counters
        is_alone = counters.urls_admitted <= counters.seeds + counters.pages_redirected
        return self._elsewhere.most_common(1)[0][0] if is_alone and self._elsewhere else None

    def change(self, settings: Settings) -> None:
        """Use the settings' patterns and depth from now on."""
        self._boundary = Boundary(self._job.scope, settings)

    def seeds(self, lines: list[str]) -> list[Canonical]:
        """Return the URLs of the lines. Invalid lines are counted and logged."""
        found: list[Canonical] = []
        for line in lines:
            url = self._canonicaliser.canonicalise(line)
            if isinstance(url, Rejected):
                self.seeds_rejected += 1
                why = "" if line.startswith("(") else f": {why_no_url(url.reason)}"  # ``line`` is an error
                log.warning("seed skipped: %s%s", shown(line), why)
                continue
            if has_userinfo(line):
                log.warning("seed %s: credentials in URLs are not sent; put them in the configuration", shown(url.href))
            found.append(url)
        return found

    def added(self, texts: Sequence[str], *, seed: bool) -> Added:
        """Return the added URLs that may be admitted, and those left out. With ``seed``, each URL widens the scope."""
        found: list[Canonical] = []
        rejected: list[tuple[str, str]] = []
        dropped = 0
        for text in texts:
            url = self._canonicaliser.canonicalise(text)
            if isinstance(url, Rejected):
                rejected.append((shown(text), url.reason))
            else:
                found.append(url)
                dropped += has_userinfo(text)
        if seed:
            for url in found:
                self._job.widen(url.href)
        inside, _ = self._inside(found, 0, None, seed=seed)
        return Added(inside, len(found) - len(inside), tuple(rejected), dropped)

    def measure(self, body: bytes) -> Generator[None, None, Content | Unreadable | None]:
        """Compute the fingerprints of a page; the event loop may run at each yield."""
        return self._reading.steps(self._copies.measure(body))

    def compare(self, entry: Entry, body: bytes, written: Sequence[str], content: Content | None) -> Likeness:
        """Return how a fetched page compares with other pages of its host. ``written``: its links as the page states
        them. ``content``: its fingerprints."""
        if content is not None:
            content = self._copies.compare(entry.href, content)
        judged = self._soft404.judge(entry, body, written, content)
        return Likeness(content, self._of_copy(content) and judged.kind is PageKind.PAGE, judged)

    def look(self, entry: Entry, body: bytes, page: PageLinks, content: Content | None) -> list[Sight]:
        """Return what a page shows about the ids in its URL. ``content`` names the original if the page is a copy."""
        if entry.probe or entry.revisit:
            return []
        is_new = self._copies.is_new(entry.href, content)
        return self._job.traps.ids.look(entry.href, body, page.about.canonical, is_new=is_new)

    def probe(self, href: str) -> Canonical | None:
        """Return the canonical form of a made-up URL; None if it is invalid."""
        url = self._canonicaliser.canonicalise(href)
        return url if isinstance(url, Canonical) else None

    def outlinks(self, entry: Entry, page: PageLinks, base: str, likeness: Likeness) -> Iterator[Outlinks | Unreadable]:
        """Yield the links of the page in parts; no URL occurs twice, even in different parts. The links are resolved
        against ``base``. A part takes a few milliseconds."""
        hrefs, counters = page.hrefs, self._job.counters
        known: set[str] = set()
        hops = self._boundary.hops(entry.href, entry.reach)
        # Embedded files of off-site pages are not fetched.
        embedded = [] if hops else page.embedded
        counters.links_too_long += page.too_long
        counters.pages_cut += page.truncated or page.cut is not None
        parts = [(part, True) for part in _parts(hrefs)] + [(part, False) for part in _parts(embedded)]
        is_only = len(parts) == 1 and not page.unfollowed
        for part, of_links in parts:
            resolved = self._reading.read(self._resolve, page, base, part)
            if isinstance(resolved, Unreadable):
                yield resolved
                return
            urls, rejected, too_long = resolved.urls, resolved.rejected, resolved.too_long
            counters.links_too_long += too_long
            if not is_only:
                urls = [url for url in urls if url.key not in known]
                known.update([url.key for url in urls])
            counters.links_found += len(urls)
            counters.links_rejected += rejected
            links = self._outlinks(urls, likeness, entry.depth + 1, Reach(hops), of_links=of_links)
            if entry.seed and of_links and Outside.OFF_SCOPE in links.outside and len(self._elsewhere) < HOSTS_MOST:
                inside = {url.href for url in links.inside}
                self._elsewhere.update(host_name(url.href) for url in urls if url.href not in inside)
            if self._edges and not entry.probe:
                reasons = self._reasons(links, likeness, entry.depth + 1, hops, of_links=of_links)
                links.edges.extend(_edges(urls, resolved, reasons))
            if too_long:
                links.outside[Outside.TOO_LONG] = links.outside.get(Outside.TOO_LONG, 0) + too_long
            yield links
        for part in () if entry.probe else _parts(page.unfollowed):
            resolved = self._reading.read(self._resolve, page, base, part)
            if not isinstance(resolved, Unreadable):
                urls = [url for url in resolved.urls if url.key not in known]
                known.update([url.key for url in urls])
                yield Outlinks(0, [], edges=_edges(urls, resolved, repeat(NOFOLLOW)))

    def resolve(self, base: str, hrefs: Sequence[str]) -> list[str]:
        """Return the valid ``hrefs`` as absolute URLs; pure."""
        urls = (self._canonicaliser.canonicalise(href, base) for href in hrefs)
        return [url.href for url in urls if isinstance(url, Canonical)]

    def canonical(self, href: str, links: PageLinks) -> str | None:
        """Return the canonical URL that the page states; None if it states none or that URL is invalid. Pure."""
        stated = links.about.canonical
        if stated is None or stated == href:
            return stated
        url = self._canonicaliser.canonicalise(stated, self.base(href, links.base))
        if isinstance(url, Rejected) or len(url.href) > self._settings.links.max_url_length:
            return None
        return url.href

    def stated(self, entry: Entry, hrefs: Sequence[str]) -> Outlinks | Unreadable:
        """Return the links in the headers of an answer that is not a page."""
        resolved = self._reading.read(self._canonicaliser.outlinks, entry.href, hrefs)
        if isinstance(resolved, Unreadable):
            return resolved
        urls, rejected = resolved
        self._job.counters.links_found += len(urls)
        self._job.counters.links_rejected += rejected
        reach = self._boundary.reach(entry.href, entry.reach)
        inside, outside = self._inside(urls, entry.depth + 1, reach)
        links = Outlinks(len(urls), inside, outside=outside, candidates=candidates_of(reach.of), urls=urls)
        if self._edges:
            reasons = self._reasons(links, None, entry.depth + 1, reach.page, of_links=True)
            stated = _Resolved(urls, 0, 0, [""] * len(urls), [_OF_HEADER] * len(urls))
            links.edges.extend(_edges(urls, stated, reasons))
        return links

    def named(self, entry: Entry, texts: Sequence[str]) -> Outlinks:
        """Return the links that user code adds to a page. They are not edges of the link graph."""
        urls, _ = self._canonicaliser.outlinks(entry.href, texts)
        self._job.counters.links_found += len(urls)
        reach = self._boundary.reach(entry.href, entry.reach)
        inside, outside = self._inside(urls, entry.depth + 1, reach)
        return Outlinks(len(urls), inside, outside=outside, candidates=candidates_of(reach.of))

    def follows(self, entry: Entry, text: str) -> bool:
        """Return whether a link of the page would be followed."""
        url = self._canonicaliser.canonicalise(text, entry.href)
        if isinstance(url, Rejected):
            return False
        reach = self._boundary.reach(entry.href, entry.reach)
        return bool(self._boundary.inside([url], entry.depth + 1, {}, reach=reach))

    def _reasons(
        self, links: Outlinks, page: Likeness | None, depth: int, hops: int, *, of_links: bool
    ) -> Iterable[str | None] | None:
        """Return for each of ``links.urls`` why it is not followed; None if all are followed. The page is ``hops``
        links off the site."""
        if page is not None and not page.is_followed:
            return repeat(COPY if page.of_copy else page.judged.kind.name.lower())
        if len(links.inside) == links.found:
            return None
        inside = {url.href for url in links.inside}
        reasons = list(links.outside)
        if len(reasons) < 2:
            reason = reasons[0] if reasons else None
            return [None if url.href in inside else reason for url in links.urls]
        judge = self._boundary.inside if of_links else self._judge_embedded

        def asked(url: Canonical) -> str | None:
            found: dict[Outside, int] = {}
            judge([url], depth, found, reach=Reach(hops))
            return next(iter(found), None)

        return [None if url.href in inside else asked(url) for url in links.urls]

    def _judge_embedded(
        self, urls: Sequence[Canonical], depth: int, outside: dict[Outside, int], *, reach: Reach
    ) -> list[Canonical]:
        return self._boundary.embedded(urls, depth, outside, reach, anywhere=self._settings.links.embedded == "any")

    def _outlinks(self, urls: list[Canonical], page: Likeness, depth: int, reach: Reach, *, of_links: bool) -> Outlinks:
        if page.judged.kind is not PageKind.PAGE:
            self._job.counters.links_of_soft404 += len(urls)
            return Outlinks(len(urls), [], urls=urls)
        if page.of_copy:
            # Count every link of a copy as left out for this reason, even if another reason applies too.
            self._job.counters.links_of_copies += len(urls)
            return Outlinks(len(urls), [], left_out=self._boundary.inside(urls, depth, {}), urls=urls)
        judge = self._inside if of_links else self._embedded
        inside, outside = judge(urls, depth, reach)
        return Outlinks(len(urls), inside, outside=outside, candidates=candidates_of(reach.of), urls=urls)

    def base(self, href: str, stated: str | None) -> str:
        """Return the base URL of a page's links; pure."""
        resolved = None if stated is None else self._canonicaliser.canonicalise(stated, href)
        return resolved.href if isinstance(resolved, Canonical) else href

    def _resolve(self, links: PageLinks, base: str, hrefs: list[str]) -> _Resolved:
        """Resolve some links of a page; pure."""
        sent = encode_queries(hrefs, links.encoding, self._settings.links.max_url_length)
        if not self._edges:
            urls, rejected = self._canonicaliser.outlinks(base, sent)
            return _Resolved(urls, rejected, len(hrefs) - len(sent))
        described = links.described or Described()
        # If all links of the page are described, their fragments are already cut off.
        links_sent = described.texts if sent is described.of else sent
        urls, rejected, sources = self._canonicaliser.traced_outlinks(base, links_sent)
        written: Sequence[str | None] = sources
        texts = list(map((described.texts if sent is hrefs else {}).get, sources))
        if None in texts:
            said = _written(hrefs, sent, links.encoding, described)
            written = [said.get(link) for link in sources]
            texts = ["" if link is None else described.texts[link] for link in written]
        facts = _facts(written, described)
        return _Resolved(urls, rejected, len(hrefs) - len(sent), cast("list[str]", texts), facts)

    def keys_inside(self, entry: Entry, page: PageLinks, base: str) -> set[str]:
        """Return the keys of the page's links that are in scope, except links to the page itself. No counters
        change."""
        resolved = self._reading.read(self._resolve, page, base, page.hrefs)
        if isinstance(resolved, Unreadable):
            return set()
        return {url.key for url in self._boundary.inside(resolved.urls, 0, {}) if url.href != entry.href}

    def sitemap(self, entry: Entry, listed: Sequence[Listed], *, index: bool) -> Outlinks | Unreadable:
        """Return the URLs of one part of a sitemap.

        They get the depth of the sitemap itself, or depth 1 if the sitemap is a seed."""
        read = self._reading.read(self._listed, entry.href, listed)
        if isinstance(read, Unreadable):
            return read
        found, candidates, rejected = read
        self._job.counters.links_rejected += rejected
        self._job.counters.links_found += len(found)
        reach, own = self._boundary.reach(entry.href, entry.reach), _authority(entry.href)
        vouched = [url.href for url in found if _vouches(entry) and _authority(url.href) == own] if index else None
        inside, outside = self._inside(found, listed_depth(entry), reach, vouched=vouched)
        for href, hops in reach.of.items():
            candidates[href] = replace(candidates[href], reach=hops)
        return Outlinks(len(found), inside, outside=outside, candidates=candidates, urls=found)

    def _listed(self, href: str, listed: Sequence[Listed]) -> tuple[list[Canonical], dict[str, Candidate], int]:
        """Return the URLs, what the sitemap states about them, and the number of invalid URLs; pure."""
        found: dict[str, Canonical] = {}
        candidates: dict[str, Candidate] = {}
        own, rejected = _authority(href), 0
        for one in listed:
            url = self._canonicaliser.canonicalise(one.href, href)
            if isinstance(url, Rejected):
                rejected += 1
                continue
            found.setdefault(url.key, url)
            priority, stated = LISTED_PRIORITY if one.priority is None else one.priority, None
            if (one.begin or one.frequency) and _authority(url.href) == own:
                stated = Stated(one.begin, one.end, one.frequency)
            known = candidates.get(url.href)
            if known is None:
                candidates[url.href] = Candidate(listed=priority, stated=stated)
            elif known.stated is None and stated is not None:
                candidates[url.href] = replace(known, stated=stated)
        return list(found.values()), candidates, rejected

    def named_sitemaps(self, page: str, named: Sequence[str]) -> list[Canonical]:
        """Return the sitemaps that the host's robots.txt names. If the page is in scope, these sitemaps may be on any
        host. Sitemaps that a limit leaves out are logged."""
        robots, vouches = robots_url(page), self._job.scope.contains(page)
        found, left = dict[str, Canonical](), list[str]()
        for text in named:
            url = self._reading.read(self._canonicaliser.canonicalise, text, robots)
            if isinstance(url, Canonical):
                found.setdefault(url.key, url)
            else:
                left.append(text)
        self._job.counters.links_rejected += len(left)
        urls = [url.href for url in found.values()]
        inside, outside = self._inside(list(found.values()), SITEMAP_DEPTH, None, vouched=urls if vouches else ())
        read = {url.href for url in inside}
        left += [href for href in urls if href not in read]
        if left and vouches and Outside.TOO_DEEP not in outside:
            log.warning("%s: skipped sitemaps in robots.txt: %s", robots, some_of(left))
        return inside

    def redirect(self, entry: Entry, location: str, base: str | None = None) -> Target | Unreadable:
        """Return the target of a redirect: a new link at the same depth. A redirect of a seed widens the scope."""
        url = self._reading.read(self._canonicaliser.canonicalise, location, base or entry.href)
        if isinstance(url, Unreadable):
            return url
        if isinstance(url, Rejected):
            cut = location[: self._settings.links.max_url_length]
            return Target(cut, error=f"redirect to {shown(location)}: {url.reason}")
        if entry.redirects >= self._settings.fetch.max_redirects:
            many = f"redirect number {entry.redirects + 1} in a row: not followed (fetch.max_redirects)"
            return Target(url.href[: self._settings.links.max_url_length], error=many)
        if len(url.href) > (longest := self._settings.links.max_url_length):
            why = f"redirect to a URL of {len(url.href)} characters: not followed (links.max_url_length)"
            return Target(url.href[:longest], self._target(url, entry, url.href[:longest]), why)
        if entry.seed and self._job.widen(url.href):
            log.warning("scope widened: seed %s redirects to %s", entry.href, url.href)
        return Target(url.href, self._target(url, entry, url.href))

    def _target(self, url: Canonical, entry: Entry, shown: str) -> Outlinks:
        """Return the target of a redirect as a link, with its edge, which leads to ``shown``. A redirect off the site
        does not count as a hop."""
        reach = self._boundary.reach(entry.href, entry.reach)
        if entry.is_leaf:
            links, reach, outside = self._settings.links, Reach(HOPS_MOST), dict[Outside, int]()
            anywhere = links.external or links.embedded == "any"
            inside = self._boundary.embedded([url], entry.depth, outside, reach, anywhere=anywhere)
            self._counted(outside)
        else:
            reach.page = max(0, reach.page - 1)
            vouched = [url.href] if _vouches(entry) else None
            inside, outside = self._inside([url], entry.depth, reach, seed=entry.seed, vouched=vouched)
        edges = [(shown, "", Facts(REDIRECT, why=next(iter(outside), None)))] if outside or inside else []
        return Outlinks(1, inside, outside=outside, candidates=candidates_of(reach.of), edges=edges)

    def excluded(self, entry: Entry) -> str | None:
        """Return the pattern that now excludes an admitted URL, or None if the URL may be fetched."""
        return None if entry.seed else self.bars(entry.href)

    def bars(self, href: str) -> str | None:
        """Return the pattern that excludes a URL, or None."""
        return self._boundary.excluded(href)

    def _of_copy(self, content: Content | None) -> bool:
        """Return whether the page is a copy whose links are skipped; count it if it is a copy."""
        if content is None or content.duplicate_of is None:
            return False
        self._job.counters.pages_copies += 1
        return self._settings.traps.duplicates == "skip-links"

    def _inside(
        self, urls: list[Canonical], depth: int, reach: Reach | None, *, seed: bool = False, vouched: Vouched = None
    ) -> tuple[list[Canonical], dict[Outside, int]]:
        outside: dict[Outside, int] = {}
        inside = self._boundary.inside(urls, depth, outside, seed=seed, vouched=vouched, reach=reach)
        return inside, self._counted(outside)

    def _embedded(self, urls: list[Canonical], depth: int, reach: Reach) -> tuple[list[Canonical], dict[Outside, int]]:
        outside: dict[Outside, int] = {}
        anywhere = self._settings.links.embedded == "any"
        inside = self._boundary.embedded(urls, depth, outside, reach, anywhere=anywhere)
        return inside, self._counted(outside)

    def _counted(self, outside: dict[Outside, int]) -> dict[Outside, int]:
        for reason, links in outside.items():
            count_outside(self._job.counters, reason, links)
        return outside


class _Resolved(Struct, frozen=True):
    """The URLs of some links of a page, the number of invalid links, and the number of links whose query is too long.
    ``texts`` and ``facts``: the link text and attributes of each URL, if an output wants them."""

    urls: list[Canonical]
    rejected: int
    too_long: int
    texts: Sequence[str] = ()
    facts: Sequence[Facts] = ()


def _written(hrefs: Sequence[str], sent: Sequence[str], encoding: str, described: Described) -> dict[str, str]:
    """Map each link as sent to the canonicaliser, without its fragment and line breaks, to the described link."""
    if len(sent) != len(hrefs):  # some links had a query that is too long
        pairs = [(text, href) for href in hrefs for text in encode_queries([href], encoding)]
    else:
        pairs = list(zip(sent, hrefs, strict=True))
    written: dict[str, str] = {}
    for text, href in pairs:
        if (own := href.partition("#")[0]) in described.texts:
            link = text.partition("#")[0]
            written.setdefault(link, own)
            if "\n" in link:
                written.setdefault(link.replace("\n", ""), own)
    return written


_OF_HEADER = Facts(HEADER)  # links without an element come from the headers


def _facts(links: Sequence[str | None], described: Described) -> list[Facts]:
    """Return the attributes of the links, except their texts. A None among the links is a link from the headers."""
    kinds, rels = described.kinds, described.rels
    odd = {None, *kinds, *rels}
    return [
        USUAL if link not in odd else _OF_HEADER if link is None else facts_of(kinds.get(link, "a"), rels.get(link, ""))
        for link in links
    ]


def _edges(urls: Sequence[Canonical], resolved: _Resolved, reasons: Iterable[str | None] | None) -> list[Edge]:
    """Return the edges to ``urls``, which are all or some of the URLs of ``resolved``. ``reasons``: for each URL, why
    it is not followed; None if all are followed."""
    texts, facts = resolved.texts, resolved.facts
    if len(urls) < len(resolved.urls):
        said = dict(zip([url.key for url in resolved.urls], zip(texts, facts, strict=True), strict=True))
        texts, facts = [said[url.key][0] for url in urls], [said[url.key][1] for url in urls]
    if reasons is not None:
        facts = [
            fact if why is None else facts_of(fact.kind, fact.rel, why)
            for fact, why in zip(facts, reasons, strict=False)
        ]
    return list(zip([href for href, _ in urls], texts, facts, strict=True))


def _parts(hrefs: list[str]) -> Iterator[list[str]]:
    """Cut the links of a page into parts with a limited number of links and characters; a single link may be longer.
    Characters of a non-ASCII link count as several, because each may have to be encoded."""
    if not hrefs:
        return
    text = "".join(hrefs)
    fits = len(text) * (1 if text.isascii() else FOREIGN_COUNTS) <= CHARACTERS_A_PART
    if fits and len(hrefs) <= LINKS_A_PART:
        yield hrefs
        return
    start = characters = 0
    for at, href in enumerate(hrefs):
        size = len(href) if href.isascii() else FOREIGN_COUNTS * len(href)
        characters += size
        if at > start and (at - start == LINKS_A_PART or characters > CHARACTERS_A_PART):
            yield hrefs[start:at]
            start, characters = at, size
    yield hrefs[start:]


def wants_edges(settings: Settings) -> bool:
    """Return whether an output or user code needs the links with their texts and attributes."""
    return "links" in settings.output.keep or settings.hooks.of_links


def _authority(href: str) -> str:
    """Return the name and port of a URL. What a site states about pages at another name or port is ignored."""
    return href.split("/", 3)[2]


def _vouches(entry: Entry) -> bool:
    """Return whether a site in scope names this URL as a sitemap."""
    return entry.sitemap and not entry.reach


def listed_depth(entry: Entry) -> int:
    """Return the depth of the URLs that a sitemap lists."""
    return max(SITEMAP_DEPTH, entry.depth)


def some_of(urls: Sequence[str]) -> str:
    """Return the number of URLs and the first few of them, for a message."""
    return f"{len(urls):,} ({', '.join(map(shown, urls[:_NAMED]))}{', ...' if len(urls) > _NAMED else ''})"


def shown(text: str) -> str:
    """Shorten foreign text for a message and escape its control characters."""
    short = text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
    return short.encode("unicode_escape").decode("ascii")
