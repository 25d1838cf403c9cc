"""Every setting of the program, with its default and its unit.

Each part has a small frozen class of its own, so that it is handed only the settings that concern it. ``Settings``
holds them all: its field names are the tables of the TOML file, theirs are the keys. ``config/default.toml`` lists
every key with its reason, and a test keeps the two equal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct, field
from msgspec.structs import force_setattr

from crawler.base.settings.hours import fault_of_time, fault_of_window, fault_of_zone
from crawler.base.settings.leaving import (
    fault_of_agent,
    fault_of_header,
    fault_of_header_name,
    fault_of_header_text,
    fault_of_network,
    fault_of_origin,
    fault_of_proxy,
    fault_of_reference,
    fault_of_status,
    fault_of_type,
    fault_of_webhook,
)
from crawler.base.settings.match import fault_of_match
from crawler.base.units import BYTES, HOURS, SECONDS

ORDERS = ("breadth", "depth", "score")
SCOPES = ("host", "domain", "prefix", "any")
SEEN_KINDS = ("scalable", "bloom", "counting", "cuckoo", "exact", "digest", "bitmap")
LEDGER_KINDS = ("scalable", "bloom", "bitmap")  # those with false positives that cannot forget
LINK_KINDS = ("iframe", "frame", "refresh", "canonical", "next", "alternate")  # besides a and area, which always count
EMBEDDED = ("off", "scope", "any")
HOPS_MOST = 2  # off the site: stored in two bits ...
LEAF = 3  # ... with a mark of its own for what is fetched, and whose links are not followed
DUPLICATES = ("record", "skip-links", "off")
RECRAWL_POLICIES = ("freshness", "adaptive")
RECRAWL_COMPARES = ("body", "text")
SEEN_HASHES = ("blake2b", "mmh3")
SEEN_LAYOUTS = ("paired", "blocked", "classic")
SIGN_WHEN = ("challenge", "always", "never")
BROWSER_WHEN = ("never", "signs", "always")
BROWSER_ENGINES = ("auto", "headless-shell", "chromium", "lightpanda")
BROWSER_THIRD_PARTIES = ("none", "scripts", "any")
BROWSER_POST = ("never", "same-site")
HOST_KEYS = ("host", "origin", "domain", "address")
OUTPUT_FIELDS = (  # of a record, that may be left out
    "title",
    "language",
    "detected_language",
    "canonical",
    "charset",
    "payload_digest",
    "etag",
    "last_modified",
    "address",
    "seconds",
    "tries",
)
HEADERS_MOST = 32  # of an answer, in a record
CLASSES = 8  # priority classes: 0, which goes first, to 7
PARTITIONS_MOST = 1_024  # of a crawl: a carrier has names for so many
PURPOSES = ("search", "ai-input", "ai-train", "tdm", "archive")
UNSTATED = ("allow", "refuse")
PATIENCE = ("usual", "short", "endless")


def fault_of_slices(number: int) -> str | None:
    return "must be 0 (never) or at least 2, not 1: the result is one slice" if number == 1 else None


# What values may be: what numbers count, bounds of numbers, the words that may be chosen from, and functions that say
# what is wrong with a value (of a list: with an element). Numbers are at least 0; ``load`` has the bounds of those that
# have none here.
Count = Annotated[int, Meta(gt=0)]
Byte = Annotated[int, Meta(le=255)]  # stored in one
Tries = Annotated[int, Meta(gt=0, le=255)]  # counted in one byte
Depth = Annotated[int, Meta(le=2**32 - 2)]  # stored in four bytes, and links one level deeper are examined
Class = Annotated[int, Meta(le=CLASSES - 1)]
Slots = Annotated[int, Meta(gt=0, le=2**16)]  # as many as a machine has ports
Partitions = Annotated[int, Meta(gt=0, le=PARTITIONS_MOST)]
Seconds = Annotated[float, SECONDS, Meta(gt=0)]
Wait = Annotated[float, SECONDS]  # may be 0
Bytes = Annotated[int, BYTES, Meta(gt=0)]
Size = Annotated[int, BYTES]  # may be 0
Rate = Annotated[float, Meta(gt=0)]
Share = Annotated[float, Meta(le=1)]
Windows = Annotated[tuple[str, ...], fault_of_window]
Zone = Annotated[str, fault_of_zone]
Secret = Annotated[str, fault_of_reference]
Proxy = Annotated[str, fault_of_proxy]
Types = Annotated[tuple[str, ...], fault_of_type]
Statuses = Annotated[tuple[str, ...], fault_of_status]


class CrawlSettings(Struct, frozen=True):
    """The whole crawl."""

    concurrency: Slots = 64  # URLs in flight
    max_pages: Count | None = None  # `fetched` URLs in this job
    max_depth: Depth | None = None  # hops from a seed
    max_time: Seconds | None = None  # seconds of this run
    fail_on_limit: bool = False  # exit with code 3 when one of the two ends the run
    scope: Annotated[str, SCOPES] = "host"
    hops_outside: Annotated[int, Meta(le=HOPS_MOST)] = 0  # links off the scope that are followed in a row
    order: Annotated[str, ORDERS] = "breadth"
    known: tuple[str, ...] = ()  # files and jobs with older seen-sets, whose URLs are not admitted
    store: str | None = None  # the bucket, or shared directory, that the crawl lives in


class ScopeSettings(Struct, frozen=True):
    """Patterns that narrow the scope; ``crawler.url.scope.patterns`` has their syntax."""

    include: tuple[str, ...] = ()  # if there are any, a link must match one
    exclude: tuple[str, ...] = ()  # a link that matches one is left out


class PriorityRule(Struct, frozen=True):
    """One ``[[priority]]``: a URL gets the class if all given conditions match (``class_`` is ``class`` in TOML)."""

    class_: Class  # 0, which goes first, to 7
    pattern: str | None = None
    min_depth: Depth | None = None
    max_depth: Depth | None = None
    seed: bool | None = None
    min_sitemap_priority: Share | None = None  # 0 to 1; of URLs that a sitemap lists
    max_sitemap_priority: Share | None = None


class PrioritySettings(Struct, frozen=True):
    """Which class a URL gets; the first rule whose conditions all match wins."""

    rules: tuple[PriorityRule, ...] = ()


class PolitenessSettings(Struct, frozen=True):
    """How often one host may be asked."""

    delay: Wait = 1.0  # seconds between the end of one request to a host and the start of the next
    per_host: Slots = 1  # lease slots a host
    host_key: Annotated[str, HOST_KEYS] = "host"  # what shares one gap and the lease slots
    address_delay: Seconds | None = None  # seconds between two requests to one IP address, whatever the names
    rate: Rate | None = None  # requests a second, all hosts together
    hours: Windows = ()  # windows of time in which hosts may be asked; none: always
    time_zone: Zone | None = None  # of `hours`; None: that of this machine
    max_crawl_delay: Wait = 60.0  # seconds; a larger Crawl-delay is cut to this
    # seconds after the first 429 or 503 that names no time, or no answer; doubles
    backoff_first: Annotated[float, SECONDS, Meta(le=3_600)] = 5.0
    patience: Annotated[str, PATIENCE] = "usual"  # how long hosts that fail are given chances
    retry_retired: bool = False  # give hosts that an earlier run retired another chance


class FetchSettings(Struct, frozen=True):
    """One HTTP exchange."""

    user_agent: Annotated[str, fault_of_agent] = "crawler/0.1"
    contact: Annotated[str, fault_of_header_text] | None = None  # URL or mail address, added to the User-Agent
    connect_timeout: Seconds = 10.0  # seconds to connect, including name look-up and TLS
    headers_timeout: Seconds = 30.0  # seconds from the request to the end of the response's headers
    body_timeout: Seconds = 60.0  # seconds for the whole body
    max_body: Annotated[int, BYTES, Meta(gt=0, le=2**32)] = 16 * 2**20  # bytes after content decoding
    max_redirects: Byte = 10  # redirects in a row
    allow_private: bool = False  # loopback and private addresses, but not link-local ones
    # CIDR; the only way to link-local addresses and cloud metadata
    allow_networks: Annotated[tuple[str, ...], fault_of_network] = ()
    allow_ports: tuple[Annotated[int, Meta(le=65_535)], ...] = ()  # of those that browsers block
    proxy: Proxy | None = None  # its URL; "direct": none; without a value the environment's
    proxy_login: Secret | None = None  # reference to user:password: env:NAME or file:PATH
    no_proxy: tuple[str, ...] = ()  # hosts that are reached directly, with all below them
    ca_file: str | None = None  # certificates in PEM that are trusted besides the system's
    cookies: bool = False  # kept for the run, each for its own host


class IdentitySettings(Struct, frozen=True):
    """Signed requests (``crawler.web.identity``)."""

    key: str | None = None  # file of private keys, made with `crawler identity new`; without it nothing is signed
    agent: Annotated[str, fault_of_origin] | None = None  # origin whose directory lists the keys; None: the file's
    sign: Annotated[str, SIGN_WHEN] = "challenge"  # which requests: those to hosts that ask, all, or none


class RetrySettings(Struct, frozen=True):
    """Transient failures go through the same host queue again."""

    tries: Tries = 4  # including the first
    first_wait: Wait = 5.0  # seconds; each further wait is four times as long
    max_wait: Wait = 600.0  # seconds


class BudgetSettings(Struct, frozen=True):
    """How much is taken from one host or domain in total; a URL beyond that becomes an `excluded` record."""

    host_pages: Count | None = None  # responses
    host_bytes: Bytes | None = None  # of bodies
    domain_pages: Count | None = None  # responses of all hosts of a registrable domain together


class RobotsSettings(Struct, frozen=True):
    """robots.txt, by RFC 9309."""

    ignore: bool = False


class PurposeSettings(Struct, frozen=True):
    """What pages are crawled for. A page that refuses that is read for its links, and dropped."""

    uses: Annotated[tuple[str, ...], PURPOSES] = ()
    unstated: Annotated[str, UNSTATED] = "allow"  # what holds where a page does not say


class SeenSettings(Struct, frozen=True):
    """The seen-set."""

    kind: Annotated[str, SEEN_KINDS] = "scalable"
    hash: Annotated[str, SEEN_HASHES] = "blake2b"  # of keys: blake2b with a secret, or mmh3 with a random seed
    fpp: Annotated[float, Meta(gt=0, lt=1)] = 0.001  # compound bound of the whole filter
    capacity: Annotated[int, Meta(gt=0, le=2**40)] = 2**20  # keys in the first slice
    layout: Annotated[str, SEEN_LAYOUTS] = "paired"  # where the bits of a key are
    compact_slices: Annotated[int, fault_of_slices] = 2  # slices at which a scalable chain is rebuilt as one; 0: never
    ledger: bool = True  # what the filter calls seen is confirmed later, from digests on the disk; of LEDGER_KINDS

    def __post_init__(self) -> None:
        """The other kinds have none: they do not err, or can forget."""
        if self.kind not in LEDGER_KINDS:
            force_setattr(self, "ledger", False)


class CanonicalSettings(Struct, frozen=True):
    """Identity of a URL."""

    rules: tuple[str, ...] = ()  # names of opt-in rules that touch the key


class LinkSettings(Struct, frozen=True):
    """Which links of a page are followed."""

    respect_meta_robots: bool = True
    respect_rel_nofollow: bool = False
    kinds: Annotated[tuple[str, ...], LINK_KINDS] = LINK_KINDS  # what leads on, besides a and area
    embedded: Annotated[str, EMBEDDED] = "off"  # which images, styles, scripts and media of pages in scope are fetched
    external: bool = False  # fetch each URL off the scope that pages in scope link to, and follow nothing from it
    max_url_length: Annotated[int, Meta(ge=16)] = 2_048  # characters of the href; longer ones are counted, not admitted
    max_links: Count = 200_000  # distinct links taken from one page
    sitemaps: bool = True  # those that robots.txt names, that are seeds or that are linked to


class DescribedLinks(LinkSettings, frozen=True):
    """The same where links are wanted with what the page says of them."""


class TrapSettings(Struct, frozen=True):
    """How much is taken from a host or a domain before that counts as a trap (0: no limit), and what copies are."""

    max_variants: int = 100_000  # distinct URLs of one pattern, on one host
    max_hosts: int = 10_000  # of one registrable domain
    # what to do with a page that is a copy of another one of its host
    duplicates: Annotated[str, DUPLICATES] = "record"
    near_duplicates: bool = False  # pages that are nearly the same are copies too
    soft404: bool = True  # learn the page that a host sends for paths that do not exist, and leave out its links


class RecrawlSettings(Struct, frozen=True):
    """Finished pages are visited again, each at its own pace."""

    enabled: bool = False
    policy: Annotated[str, RECRAWL_POLICIES] = "freshness"  # how intervals are chosen
    # seconds between two visits of a page, on average over all pages: the budget; also from the first to the second
    mean_interval: Seconds = 86_400.0
    min_interval: Seconds = 3_600.0  # seconds
    max_interval: Seconds = 2_592_000.0  # seconds; also used if a rule of the crawler refused the request
    compare: Annotated[str, RECRAWL_COMPARES] = "body"  # what tells whether a page has changed


class ScheduleSettings(Struct, frozen=True):
    """When the crawl runs, and when it visits all pages again."""

    every_hours: Annotated[float, HOURS, Meta(gt=0, le=24 * 3_660)] | None = None  # from one round to the next
    times: Annotated[tuple[str, ...], fault_of_time] = ()  # of day, at which a round begins
    hours: Windows = ()  # windows of time in which the crawl runs; none: always
    time_zone: Zone | None = None  # of both; None: that of this machine

    @property
    def has_rounds(self) -> bool:
        """Whether pages are visited again, at times."""
        return self.every_hours is not None or bool(self.times)


SiteGroups = tuple[tuple[str, str], ...]


class SiteTable(Struct, frozen=True):
    """One ``[[site]]``: keys for what it matches. None: not stated, so what holds without the table does."""

    match: Annotated[str, fault_of_match]  # ``crawler.base.settings.match`` has its forms
    delay: Wait | None = None  # seconds; the keys down to `max_interval` are those of the same name in other tables
    per_host: Slots | None = None
    hours: Windows | None = None
    time_zone: Zone | None = None
    rate: Rate | None = None  # requests a second, all hosts that match together
    group: str | None = None  # hosts that name the same one share a gap and lease slots, whatever `host_key` says
    headers_timeout: Seconds | None = None
    body_timeout: Seconds | None = None
    ignore_robots: bool | None = None
    host_pages: Count | None = None
    host_bytes: Bytes | None = None
    # "Name: value"; a value may be a reference: env:NAME, file:PATH
    headers: Annotated[tuple[str, ...], fault_of_header] | None = None
    login: Secret | None = None  # reference to user:password, for basic authentication
    proxy: Proxy | None = None
    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] | None = None
    priority: Class | None = None  # the class
    interval: Seconds | None = None  # seconds between two visits of a page, always
    min_interval: Seconds | None = None
    max_interval: Seconds | None = None
    browser: Annotated[str, BROWSER_WHEN] | None = None  # `when` of that table


class SitesSettings(Struct, frozen=True):
    """The ``[[site]]`` tables. Of several that match, the last that has a key says what it is."""

    tables: tuple[SiteTable, ...] = ()

    @property
    def groups(self) -> SiteGroups:
        """Which hosts share a gap by the name of a group: what matches them, and the name."""
        return tuple((table.match, table.group) for table in self.tables if table.group is not None)


class BrowserSettings(Struct, frozen=True):
    """Pages that a browser renders."""

    when: Annotated[str, BROWSER_WHEN] = "never"  # which pages
    engine: Annotated[str, BROWSER_ENGINES] = "auto"
    no_sandbox: bool = False  # as root, engines run only without theirs
    tabs: Count = 4  # pages that are rendered at a time; at most one, or fewer than half of crawl.concurrency
    third_parties: Annotated[str, BROWSER_THIRD_PARTIES] = "scripts"  # what is asked of hosts outside the scope
    post: Annotated[str, BROWSER_POST] = "never"


HTML = ("text/html", "application/xhtml+xml")
ON_PAGE_IN = ("thread", "process")
ON_ERRORS = ("count", "stop")


class HookSettings(Struct, frozen=True):
    """Code of the user, by its name: ``module:function``, or what an installed package registers."""

    on_page: str | None = None  # called with each page
    on_page_in: Annotated[str, ON_PAGE_IN] = "thread"  # where; an async function has an event loop of its own
    on_page_timeout: Wait = 60.0  # seconds that a call may take; 0: any time
    on_page_types: Types = HTML  # which pages ...
    on_error: Annotated[str, ON_ERRORS] = "count"  # what a page does on which it fails
    filter_link: str | None = None  # whether a link is followed
    score_links: str | None = None  # how early links are followed: 0 to 1 for each
    score_page: str | None = None  # how much a page is what the crawl looks for: 0 to 1
    relevant_score: Share = 0.5  # the least score of a page that counts as relevant
    request_headers: str | None = None  # headers of the request of a URL
    is_changed: str | None = None  # whether a page that is visited again has changed

    @property
    def of_links(self) -> bool:
        """Whether code is asked about links."""
        return self.filter_link is not None or self.score_links is not None


class DurabilitySettings(Struct, frozen=True):
    """What a crash may cost."""

    sync_interval: Seconds = 1.0  # seconds between fsyncs
    checkpoint_interval: Seconds = 60.0  # seconds between generations
    min_free: Size = 0  # bytes free on the disk below which the crawl stops


OUTPUTS = ("warc", "links", "text", "bodies", "structured")  # by number in positions, from 1; 0 is pages.jsonl
WHOLE = frozenset(("warc", "bodies"))  # those that hold whole answers
# Those that can be asked for. Markdown stands in the rows of text, and a WACZ is made of the files of warc.
KEPT = (*OUTPUTS, "markdown", "wacz")
EXTRACTORS = ("turbohtml", "trafilatura")


class OutputSettings(Struct, frozen=True):
    """What records say, and what is kept of pages besides."""

    keep: Annotated[tuple[str, ...], KEPT] = ()
    file_size: Bytes = 2**30  # bytes from which the next record begins a new file
    pages_size: Size = 0  # the same of pages.jsonl; 0: it stays one file
    # of a record
    fields: Annotated[tuple[str, ...], OUTPUT_FIELDS] = tuple(
        name for name in OUTPUT_FIELDS if name != "payload_digest"
    )
    headers: Annotated[tuple[str, ...], fault_of_header_name] = ()  # of an answer that a record holds
    # What outputs hold that hold whole answers. An empty list does not choose.
    store_types: Types = ()  # "image/png", "image/*"
    store_statuses: Statuses = ()  # "404", "2xx"
    # bytes of a body, with its content coding, that are stored
    store_max_size: Annotated[int, BYTES, Meta(le=2**32)] = 16 * 2**20
    store_include: tuple[str, ...] = ()  # patterns as in ``ScopeSettings``
    store_exclude: tuple[str, ...] = ()


class TextSettings(Struct, frozen=True):
    """How the main text of pages is extracted, and their structured data."""

    extractor: Annotated[str, EXTRACTORS] = "turbohtml"


class DashboardSettings(Struct, frozen=True):
    """The live page."""

    listen: str | None = None  # [HOST:]PORT
    token: str | None = None  # required from every visitor; without both keys the job's own
    token_file: str | None = None  # file that holds the token
    interval: Seconds = 1.0  # seconds between events


CRAWL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")  # what a crawl in partitions may be called


PLACED_BY = ("domain", "host")


class PartitionSettings(Struct, frozen=True):
    """One crawl by several processes. It has partitions if ``processes`` or ``engine`` is given."""

    processes: Partitions | None = None  # on this machine
    count: Partitions | None = None  # partitions, fixed when the crawl begins; None: those that it has, or 16
    # what stays in one partition, fixed as `count` is; then "domain"
    placed_by: Annotated[str, PLACED_BY] | None = None
    workers: Count | None = None  # to wait for before a new crawl is shared out; None: those of this machine
    engine: str | None = None  # URL of what carries between workers; None: the first process does
    crawl: str | None = None  # the name of the crawl there

    @property
    def wanted(self) -> bool:
        """Whether the crawl is to have partitions."""
        return self.processes is not None or self.engine is not None


NOTICES = ("end", "pause", "resume", "attention")


class NotifySettings(Struct, frozen=True):
    """A webhook that is told of the crawl."""

    url: Annotated[str, fault_of_webhook] | None = None  # or a reference to it: env:NAME, file:PATH
    events: Annotated[tuple[str, ...], NOTICES] = ("end", "pause", "attention")  # of which it is told
    text_only: bool = False  # nothing but {"text": ...}


class Settings(Struct, frozen=True, eq=False):  # noqa: PLW1641, nobody hashes them
    """All of them; one field a TOML table, besides ``places``."""

    crawl: CrawlSettings = field(default_factory=CrawlSettings)
    scope: ScopeSettings = field(default_factory=ScopeSettings)
    priority: PrioritySettings = field(default_factory=PrioritySettings)
    politeness: PolitenessSettings = field(default_factory=PolitenessSettings)
    fetch: FetchSettings = field(default_factory=FetchSettings)
    identity: IdentitySettings = field(default_factory=IdentitySettings)
    retry: RetrySettings = field(default_factory=RetrySettings)
    budget: BudgetSettings = field(default_factory=BudgetSettings)
    robots: RobotsSettings = field(default_factory=RobotsSettings)
    purpose: PurposeSettings = field(default_factory=PurposeSettings)
    seen: SeenSettings = field(default_factory=SeenSettings)
    canonical: CanonicalSettings = field(default_factory=CanonicalSettings)
    links: LinkSettings = field(default_factory=LinkSettings)
    traps: TrapSettings = field(default_factory=TrapSettings)
    recrawl: RecrawlSettings = field(default_factory=RecrawlSettings)
    schedule: ScheduleSettings = field(default_factory=ScheduleSettings)
    site: SitesSettings = field(default_factory=SitesSettings)
    browser: BrowserSettings = field(default_factory=BrowserSettings)
    hooks: HookSettings = field(default_factory=HookSettings)
    durability: DurabilitySettings = field(default_factory=DurabilitySettings)
    output: OutputSettings = field(default_factory=OutputSettings)
    text: TextSettings = field(default_factory=TextSettings)
    dashboard: DashboardSettings = field(default_factory=DashboardSettings)
    partitions: PartitionSettings = field(default_factory=PartitionSettings)
    notify: NotifySettings = field(default_factory=NotifySettings)
    # Where a value comes from, in words: by table and key, or "site", number of the table and key. Not of defaults.
    # "fetch", "site" and a number: a table that earlier versions called so.
    places: Mapping[tuple[str | int, ...], str] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        """Whether the values are the same, wherever they come from."""
        if not isinstance(other, Settings):
            return NotImplemented
        return all(getattr(self, table) == getattr(other, table) for table in TABLES)


# The kind of each table, by its name.
TABLES: dict[str, type[Struct]] = {
    name: type(getattr(Settings(), name)) for name in Settings.__struct_fields__ if name != "places"
}


# Settings that stored state depends on: they are fixed when a job begins.
SHAPING = (
    ("crawl", "order"),
    ("seen", "kind"),
    ("seen", "fpp"),
    ("seen", "capacity"),
    ("seen", "layout"),
    ("seen", "ledger"),
    ("seen", "hash"),
    ("canonical", "rules"),
)
