"""All settings of the program, with their defaults and units.

Each part of the program has its own small frozen class, so that it receives only the settings that it needs.
``Settings`` contains all classes: its fields are the tables of the TOML file, and their fields are the keys.
``config/default.toml`` lists every key with its reason, and a test keeps the two equal.
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
LEDGER_KINDS = ("scalable", "bloom", "bitmap")  # kinds that have false positives and cannot forget
LINK_KINDS = ("iframe", "frame", "refresh", "canonical", "next", "alternate")  # in addition to <a> and <area>
EMBEDDED = ("off", "scope", "any")
HOPS_MOST = 2  # maximum hops off the site, stored in two bits ...
LEAF = 3  # ... whose last value marks URLs that are fetched without following their links
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
OUTPUT_FIELDS = (  # fields that a record may omit
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
HEADERS_MOST = 32  # headers of a response in a record
CLASSES = 8  # priority classes: 0, which goes first, to 7
PARTITIONS_MOST = 1_024  # the carrier has names for this many partitions
PURPOSES = ("search", "ai-input", "ai-train", "tdm", "archive")
UNSTATED = ("allow", "refuse")
PATIENCE = ("usual", "short", "endless")


def fault_of_slices(number: int) -> str | None:
    return "must be 0 (never) or at least 2, not 1: the result is one slice" if number == 1 else None


# Types of values, with the units and bounds of numbers, permitted words, and functions that return the error of a value
# (in a list: of an element). Numbers are at least 0; ``load`` sets the other bounds where none are given.
Count = Annotated[int, Meta(gt=0)]
Byte = Annotated[int, Meta(le=255)]  # stored in one byte
Tries = Annotated[int, Meta(gt=0, le=255)]  # counted in one byte
Depth = Annotated[int, Meta(le=2**32 - 2)]  # stored in four bytes; links one level deeper are examined
Class = Annotated[int, Meta(le=CLASSES - 1)]
Slots = Annotated[int, Meta(gt=0, le=2**16)]  # the number of ports of a machine
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
    """Settings of the whole crawl."""

    concurrency: Slots = 64  # URLs in flight
    max_pages: Count | None = None  # limit on the `fetched` URLs of the job
    max_depth: Depth | None = None  # limit on the hops from a seed
    max_time: Seconds | None = None  # maximum seconds that a run may take
    fail_on_limit: bool = False  # exit with code 3 when max_pages or max_time ends the run
    scope: Annotated[str, SCOPES] = "host"
    hops_outside: Annotated[int, Meta(le=HOPS_MOST)] = 0  # maximum number of consecutive links outside the scope
    order: Annotated[str, ORDERS] = "breadth"
    known: tuple[str, ...] = ()  # files and jobs whose seen-sets contain URLs that are not to be admitted
    store: str | None = None  # the bucket or shared directory in which the crawl is stored


class ScopeSettings(Struct, frozen=True):
    """Patterns that narrow the scope; ``crawler.url.scope.patterns`` describes their syntax."""

    include: tuple[str, ...] = ()  # if there are any patterns here, a link must match one to be followed
    exclude: tuple[str, ...] = ()  # links that match one of these patterns are left out


class PriorityRule(Struct, frozen=True):
    """One ``[[priority]]``: a URL gets the class if all given conditions match (``class_`` is ``class`` in TOML)."""

    class_: Class  # 0, which goes first, to 7
    pattern: str | None = None
    min_depth: Depth | None = None
    max_depth: Depth | None = None
    seed: bool | None = None
    min_sitemap_priority: Share | None = None  # 0 to 1; applies to URLs listed in a sitemap
    max_sitemap_priority: Share | None = None


class PrioritySettings(Struct, frozen=True):
    """Rules for the class of a URL; the first rule whose conditions all match applies."""

    rules: tuple[PriorityRule, ...] = ()


class PolitenessSettings(Struct, frozen=True):
    """How often a host may be requested."""

    delay: Wait = 1.0  # seconds between the end of one request to a host and the start of the next
    per_host: Slots = 1  # lease slots per host
    host_key: Annotated[str, HOST_KEYS] = "host"  # scope of a shared gap and lease slots
    rate: Rate | None = None  # requests per second, all hosts together
    hours: Windows = ()  # windows of time in which hosts may be requested; empty: always
    time_zone: Zone | None = None  # the time zone of `hours`; None: this machine's
    max_crawl_delay: Wait = 60.0  # seconds; a larger Crawl-delay is reduced to this value
    # seconds to wait after the first failure: a 429 or 503 without Retry-After, or no response; doubles each time
    backoff_first: Annotated[float, SECONDS, Meta(le=3_600)] = 5.0
    patience: Annotated[str, PATIENCE] = "usual"  # how many more chances a failing host gets
    retry_retired: bool = False  # give another chance to hosts that an earlier run retired


class FetchSettings(Struct, frozen=True):
    """Settings of an HTTP exchange."""

    user_agent: Annotated[str, fault_of_agent] = "crawler/0.1"
    contact: Annotated[str, fault_of_header_text] | None = None  # URL or mail address, added to the User-Agent
    connect_timeout: Seconds = 10.0  # seconds to connect, including name lookup and TLS
    headers_timeout: Seconds = 30.0  # seconds from the request to the end of the response's headers
    body_timeout: Seconds = 60.0  # seconds for the whole body
    max_body: Annotated[int, BYTES, Meta(gt=0, le=2**32)] = 16 * 2**20  # maximum bytes, after content decoding
    max_redirects: Byte = 10  # maximum redirects in a row
    allow_private: bool = False  # permit loopback and private addresses, but not link-local ones
    # networks (CIDR) to permit; link-local addresses and cloud metadata can only be permitted here
    allow_networks: Annotated[tuple[str, ...], fault_of_network] = ()
    allow_ports: tuple[Annotated[int, Meta(le=65_535)], ...] = ()  # blocked ports (as in browsers) that are permitted
    proxy: Proxy | None = None  # URL of the proxy, or "direct" for none; None: the environment's proxy
    proxy_login: Secret | None = None  # reference to user:password: env:NAME or file:PATH
    no_proxy: tuple[str, ...] = ()  # hosts that bypass the proxy, including all below them
    ca_file: str | None = None  # trusted certificates in PEM, in addition to the system's
    cookies: bool = False  # keep cookies during the run, and send each only to its own host


class IdentitySettings(Struct, frozen=True):
    """Signed requests (``crawler.web.identity``)."""

    key: str | None = None  # file of private keys, created by `crawler identity new`; without it nothing is signed
    agent: Annotated[str, fault_of_origin] | None = None  # origin whose directory lists the keys; None: from the file
    sign: Annotated[str, SIGN_WHEN] = "challenge"  # which requests to sign: all, none, or to hosts that ask


class RetrySettings(Struct, frozen=True):
    """How often, and when, URLs with transient failures are tried again. They return to their host's queue."""

    tries: Tries = 4  # maximum tries, including the first
    first_wait: Wait = 5.0  # seconds before the second try; each further wait is four times as long
    max_wait: Wait = 600.0  # seconds


class BudgetSettings(Struct, frozen=True):
    """Limits on what is fetched from one host or domain; further URLs become `excluded` records."""

    host_pages: Count | None = None  # maximum responses
    host_bytes: Bytes | None = None  # maximum bytes of bodies
    domain_pages: Count | None = None  # maximum responses of all hosts of a registrable domain together


class RobotsSettings(Struct, frozen=True):
    """Handling of robots.txt (RFC 9309)."""

    ignore: bool = False


class PurposeSettings(Struct, frozen=True):
    """The purpose of the crawl. A page that refuses it is read only for its links."""

    uses: Annotated[tuple[str, ...], PURPOSES] = ()
    unstated: Annotated[str, UNSTATED] = "allow"  # applies to pages that state no preference


class SeenSettings(Struct, frozen=True):
    """Settings of the seen-set."""

    kind: Annotated[str, SEEN_KINDS] = "scalable"
    hash: Annotated[str, SEEN_HASHES] = "blake2b"  # hash of the keys: blake2b with a secret, or mmh3 with a random seed
    fpp: Annotated[float, Meta(gt=0, lt=1)] = 0.001  # upper bound of the false-positive probability of the whole filter
    capacity: Annotated[int, Meta(gt=0, le=2**40)] = 2**20  # keys in the first slice
    layout: Annotated[str, SEEN_LAYOUTS] = "paired"  # where the bits of a key are placed
    compact_slices: Annotated[int, fault_of_slices] = 2  # slices at which a chain is rebuilt as a single one; 0: never
    ledger: bool = True  # check digests on disk when the filter reports a URL as seen; only for LEDGER_KINDS

    def __post_init__(self) -> None:
        """Switch the ledger off for all kinds except LEDGER_KINDS: the others have no false positives, or can
        forget."""
        if self.kind not in LEDGER_KINDS:
            force_setattr(self, "ledger", False)


class CanonicalSettings(Struct, frozen=True):
    """The identity of a URL."""

    rules: tuple[str, ...] = ()  # names of opt-in rules that change the key


class LinkSettings(Struct, frozen=True):
    """Which links of a page are followed."""

    respect_meta_robots: bool = True
    respect_rel_nofollow: bool = False
    kinds: Annotated[tuple[str, ...], LINK_KINDS] = LINK_KINDS  # followed links, in addition to a and area
    embedded: Annotated[str, EMBEDDED] = "off"  # which images, styles, scripts and media of pages in scope are fetched
    external: bool = False  # fetch out-of-scope URLs that pages in scope link to, without following links on them
    max_url_length: Annotated[int, Meta(ge=16)] = 2_048  # maximum characters of an href; longer ones are only counted
    max_links: Count = 200_000  # maximum distinct links taken from one page
    sitemaps: bool = True  # fetch sitemaps named by robots.txt, given as seeds or linked from pages


class DescribedLinks(LinkSettings, frozen=True):
    """Link settings that also ask the parser to describe each link."""


class TrapSettings(Struct, frozen=True):
    """Limits above which a host or domain counts as a trap (0: no limit), and how copies of pages are handled."""

    max_variants: int = 100_000  # maximum distinct URLs of one pattern, on one host
    max_hosts: int = 10_000  # maximum hosts of one registrable domain
    # handling of a page that is a copy of another page of its host
    duplicates: Annotated[str, DUPLICATES] = "record"
    near_duplicates: bool = False  # treat nearly identical pages as copies, too
    soft404: bool = True  # learn each host's page for paths that do not exist, and leave out its links


class RecrawlSettings(Struct, frozen=True):
    """Revisits of finished pages, each at its own interval."""

    enabled: bool = False
    policy: Annotated[str, RECRAWL_POLICIES] = "freshness"  # how intervals are chosen
    # seconds between two visits of a page, as a mean over all pages (the budget), and between the first two visits
    mean_interval: Seconds = 86_400.0
    min_interval: Seconds = 3_600.0  # seconds
    max_interval: Seconds = 2_592_000.0  # seconds; also used if one of the crawler's own rules refused the request
    compare: Annotated[str, RECRAWL_COMPARES] = "body"  # content that is compared to detect changes


class ScheduleSettings(Struct, frozen=True):
    """When the crawl runs, and when it visits all pages again."""

    every_hours: Annotated[float, HOURS, Meta(gt=0, le=24 * 3_660)] | None = None  # time between two rounds
    times: Annotated[tuple[str, ...], fault_of_time] = ()  # times of day at which a round starts
    hours: Windows = ()  # windows of time in which the crawl runs; empty: always
    time_zone: Zone | None = None  # the time zone of `times` and `hours`; None: this machine's

    @property
    def has_rounds(self) -> bool:
        """True if pages are visited again at set times."""
        return self.every_hours is not None or bool(self.times)


SiteGroups = tuple[tuple[str, str], ...]


class SiteTable(Struct, frozen=True):
    """One ``[[site]]``: keys for the hosts or URLs that it matches. None means that the key is not set."""

    match: Annotated[str, fault_of_match]  # for its forms see ``crawler.base.settings.match``
    delay: Wait | None = None  # seconds; the keys from here to `max_interval` work as in other tables
    per_host: Slots | None = None
    hours: Windows | None = None
    time_zone: Zone | None = None
    rate: Rate | None = None  # requests per second, all matching hosts together
    group: str | None = None  # hosts with the same name share a gap and lease slots, regardless of `host_key`
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
    priority: Class | None = None  # the priority class
    interval: Seconds | None = None  # fixed seconds between two visits of a page
    min_interval: Seconds | None = None
    max_interval: Seconds | None = None
    browser: Annotated[str, BROWSER_WHEN] | None = None  # overrides browser.when


class SitesSettings(Struct, frozen=True):
    """The ``[[site]]`` tables. If several match, the last one that sets a key applies."""

    tables: tuple[SiteTable, ...] = ()

    @property
    def groups(self) -> SiteGroups:
        """The match and name of each table that puts hosts into a group with a shared gap."""
        return tuple((table.match, table.group) for table in self.tables if table.group is not None)


class BrowserSettings(Struct, frozen=True):
    """Rendering of pages in a browser."""

    when: Annotated[str, BROWSER_WHEN] = "never"  # which pages are rendered
    engine: Annotated[str, BROWSER_ENGINES] = "auto"
    no_sandbox: bool = False  # run the engine without its sandbox; required when running as root
    tabs: Count = 4  # pages rendered at a time, limited to fewer than half of crawl.concurrency but at least one
    third_parties: Annotated[str, BROWSER_THIRD_PARTIES] = "scripts"  # permitted requests to hosts outside the scope
    post: Annotated[str, BROWSER_POST] = "never"


HTML = ("text/html", "application/xhtml+xml")
ON_PAGE_IN = ("thread", "process")
ON_ERRORS = ("count", "stop")


class HookSettings(Struct, frozen=True):
    """User code, by name: ``module:function``, or a name registered by an installed package."""

    on_page: str | None = None  # function that is called with each page
    on_page_in: Annotated[str, ON_PAGE_IN] = "thread"  # where on_page runs; an async function has its own event loop
    on_page_timeout: Wait = 60.0  # seconds that a call of on_page may take; 0: unlimited
    on_page_types: Types = HTML  # types of pages for which on_page is called
    on_error: Annotated[str, ON_ERRORS] = "count"  # what to do when on_page fails on a page
    filter_link: str | None = None  # decides whether a link is followed
    score_links: str | None = None  # scores links from 0 to 1; higher scores are followed earlier
    score_page: str | None = None  # scores the relevance of a page to the crawl from 0 to 1
    relevant_score: Share = 0.5  # lowest score of a page that counts as relevant
    request_headers: str | None = None  # returns additional headers for the request of a URL
    is_changed: str | None = None  # decides whether a revisited page has changed

    @property
    def of_links(self) -> bool:
        """True if any function is called for links."""
        return self.filter_link is not None or self.score_links is not None


class DurabilitySettings(Struct, frozen=True):
    """Limits on how much work a crash can destroy, and on free disk space."""

    sync_interval: Seconds = 1.0  # seconds between fsyncs
    checkpoint_interval: Seconds = 60.0  # seconds between generations
    min_free: Size = 0  # free bytes on the disk below which the crawl stops


OUTPUTS = ("warc", "links", "text", "bodies", "structured")  # numbered in positions from 1; 0 is pages.jsonl
WHOLE = frozenset(("warc", "bodies"))  # outputs that contain whole responses
# Outputs that can be requested. Markdown is part of the text rows, and a WACZ is made from the WARC files.
KEPT = (*OUTPUTS, "markdown", "wacz")
EXTRACTORS = ("turbohtml", "trafilatura")


class OutputSettings(Struct, frozen=True):
    """The fields of records, and other outputs of pages."""

    keep: Annotated[tuple[str, ...], KEPT] = ()
    file_size: Bytes = 2**30  # size in bytes at which the next record starts a new file
    pages_size: Size = 0  # size in bytes at which pages.jsonl starts a new file; 0: a single file
    # fields of a record
    fields: Annotated[tuple[str, ...], OUTPUT_FIELDS] = tuple(
        name for name in OUTPUT_FIELDS if name != "payload_digest"
    )
    headers: Annotated[tuple[str, ...], fault_of_header_name] = ()  # response headers in a record
    # Selection for outputs that contain whole responses. An empty list selects everything.
    store_types: Types = ()  # "image/png", "image/*"
    store_statuses: Statuses = ()  # "404", "2xx"
    # maximum bytes of a stored body, before its content coding is removed
    store_max_size: Annotated[int, BYTES, Meta(le=2**32)] = 16 * 2**20
    store_include: tuple[str, ...] = ()  # URL patterns as in ``ScopeSettings``
    store_exclude: tuple[str, ...] = ()


class TextSettings(Struct, frozen=True):
    """Extraction of the main text of pages, and of their structured data."""

    extractor: Annotated[str, EXTRACTORS] = "turbohtml"


class DashboardSettings(Struct, frozen=True):
    """Settings of the dashboard."""

    listen: str | None = None  # [HOST:]PORT
    token: str | None = None  # required from every visitor; if neither token nor token_file is set, the job's own token
    token_file: str | None = None  # file that contains the token
    interval: Seconds = 1.0  # seconds between events


CRAWL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")  # valid names of a crawl in partitions


PLACED_BY = ("domain", "host")


class PartitionSettings(Struct, frozen=True):
    """A crawl that several processes run together. It has partitions if ``processes`` or ``engine`` is given."""

    processes: Partitions | None = None  # worker processes on this machine
    # number of partitions, fixed when the crawl starts; None: the existing number, or 2 per worker
    count: Partitions | None = None
    # the unit that stays in one partition, fixed like `count`; None: "domain"
    placed_by: Annotated[str, PLACED_BY] | None = None
    workers: Count | None = None  # workers to wait for before partitions are shared out; None: those of this machine
    engine: str | None = None  # URL of the carrier between workers; None: the first process provides it
    crawl: str | None = None  # the name under which the carrier knows the crawl

    @property
    def wanted(self) -> bool:
        """True if the crawl is to have partitions."""
        return self.processes is not None or self.engine is not None


NOTICES = ("end", "pause", "resume", "attention")


class NotifySettings(Struct, frozen=True):
    """A webhook that receives notices about the crawl."""

    url: Annotated[str, fault_of_webhook] | None = None  # the URL, or a reference to it: env:NAME, file:PATH
    events: Annotated[tuple[str, ...], NOTICES] = ("end", "pause", "attention")  # kinds of notices to send
    text_only: bool = False  # send only {"text": ...}


class Settings(Struct, frozen=True, eq=False):  # noqa: PLW1641, never hashed
    """All settings; one field for each TOML table, plus ``places``."""

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
    # Origin of each value as text, by table and key, or by "site", number of the table, and key. Defaults have none.
    # The key ("fetch", "site", number) refers to a table under its name in earlier versions.
    places: Mapping[tuple[str | int, ...], str] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        """Return True if the values are equal, regardless of their origin."""
        if not isinstance(other, Settings):
            return NotImplemented
        return all(getattr(self, table) == getattr(other, table) for table in TABLES)


# The class of each table, by name.
TABLES: dict[str, type[Struct]] = {
    name: type(getattr(Settings(), name)) for name in Settings.__struct_fields__ if name != "places"
}


# Settings on which stored state depends: they are fixed when a job starts.
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
