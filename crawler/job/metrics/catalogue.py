"""Every statistic of a crawl, declared once: its name, its meaning, how partitions are pooled, and its metric.

The name is the key in ``stats --json``, with dots for what lies deeper, and ``*`` for any name or index. What a job
counts itself are the fields of ``Counters``, which its store has in their order; everything else is in ``_OTHERS``. All
that shows, stores, pools or exports statistics takes them from here, and a test compares the documentation. Words that
only people read inside others, as the name of a function, are not named: a crawl has those of its first partition.

Names of metrics follow https://prometheus.io/docs/practices/naming/: base units at their end (bytes, even for what the
statistics count in bits), ``_total`` for counters, ``_ratio`` for shares between 0 and 1. Labels are bounded: a status
class, a state, the name of an output, the index of a slice (the chain grows with the logarithm of the URLs). Hosts and
URLs are never labels.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from msgspec import Struct, field
from msgspec.structs import asdict

from crawler.url.refusal.own_rules import Rule
from crawler.url.scope.bounds import COUNTED, Limit

NAMED = 20  # hosts or proxies that are named
HOOKS_ASKED = ("filter_link", "score_links", "score_page", "request_headers", "is_changed")  # besides ``on_page``
STATES = ("running", "stopping", "paused", "stopped", "ended")  # the first that a partition is in is the crawl's
PAUSES = ("disk", "outage", "user", "schedule", "round", "hours")  # what pauses a crawl, the most urgent first
CAUSES = ("memory", "full")  # of a warning about the seen-set
# How a URL stands after a visit. Stored as numbers: the order stays.
URL_KINDS = ("ok", "redirects", "server_errors", "client_errors", "soft404", "failed", "blocked", "excluded")

# -- how the values of partitions become that of the crawl --------------------------------------------------------

Pool = Callable[[Sequence[Any]], Any]


def present(values: Sequence[Any]) -> list[Any]:
    return [value for value in values if value is not None]


def total(values: Sequence[Any]) -> Any:
    """The sum of numbers, or of mappings of numbers by their keys, of those that there are; None if there are none."""
    there = present(values)
    if there and isinstance(there[0], Mapping):
        return {
            key: total([each.get(key) for each in there]) for key in dict.fromkeys(key for one in there for key in one)
        }
    return sum(there) if there else None


def whole(values: Sequence[Any]) -> Any:
    """The same, but None if a value is missing: a sum of the others would be taken for the whole."""
    return None if None in values else total(values)


def most(values: Sequence[Any]) -> Any:
    return max(present(values), default=None)


def least(values: Sequence[Any]) -> Any:
    return min(present(values), default=None)


def first(values: Sequence[Any]) -> Any:
    return next(iter(present(values)), None)


def of_all(values: Sequence[Any]) -> Any:
    """The first one, None if a value is missing."""
    return None if None in values else first(values)


def common(values: Sequence[Any]) -> list[Any]:
    return [each for each in values[0] if all(each in others for others in values)]


def names(values: Sequence[Any]) -> list[Any]:
    return [each for value in values for each in value][:NAMED]


# -- one statistic ------------------------------------------------------------------------------------------------


def value_at(stats: Mapping[str, Any], path: str) -> Any:
    """The value of a statistic; None if a part on the way to it is."""
    value: Any = stats
    for key in path.split("."):
        value = None if value is None else value.get(key)
    return value


class Label(NamedTuple):
    """The label of a metric, and its ``words``: what a mapping always has, or all that a single word may be."""

    name: str
    words: tuple[str, ...] = ()


class Statistic(Struct, frozen=True):
    """One statistic. ``kind`` is that of its metric: "counter", "gauge", or empty if it has none. ``name`` is the
    metric's if it is another than that of the statistic, ``unit`` ends it. With ``label`` the value is a mapping, whose
    keys are the label's values, or one of its words, with 1 for that word and 0 for the others. The metric is the value
    times ``scale``. ``pool`` is None if pooling has a rule of its own for it."""

    help: str = ""
    kind: str = ""
    pool: Pool | None = total
    name: str = ""
    unit: str = ""
    label: Label | None = None
    scale: float = 1


def counter(text: str, pool: Pool | None = total, **more: Any) -> Statistic:
    return Statistic(text, "counter", pool, **more)


def gauge(text: str, pool: Pool | None = total, **more: Any) -> Statistic:
    return Statistic(text, "gauge", pool, **more)


def ratio(text: str, pool: Pool | None = None, **more: Any) -> Statistic:
    return Statistic(text, "gauge", pool, unit="ratio", **more)


def shown(pool: Pool | None) -> Statistic:
    """A statistic without a metric."""
    return Statistic(pool=pool)


Counts = dict[str, int]
RULE, LIMIT, HOOK = Label("rule", tuple(Rule)), Label("limit", COUNTED), Label("hook", HOOKS_ASKED)
CLASS = Label("class", ("2xx", "3xx", "4xx", "5xx"))
RENDERED, REQUEST = Label("outcome", ("yes", "partly", "no")), Label("outcome", ("made", "cached"))
_LEFT_OUT = "Links that a limit leaves out now, by limit; for a limit that cuts a page off, such pages."


class Counters(Struct, array_like=True, forbid_unknown_fields=True):
    """What the job has counted since it began. Stored in every transaction, so it always agrees with queue and journal.

    The stored form is a version byte and the fields in this order, as an array in MessagePack: small numbers are short,
    and it is in every transaction. Those that are statistics say so.
    """

    sequence: int = 0  # the journal's next number
    next_number: int = 0  # the frontier's next slot number
    trap_counts: int = 0  # sum of all numbers that traps count
    seeds_fetched: int = 0
    rated: int = 0  # pages that code of the user was to score
    relevant: int = 0  # of these, those whose score says that they are wanted
    render_ms: int = 0  # of CPU
    audited: list[int] = []  # what the recall of the browser is estimated from (``recall``)
    # By ``URL_KINDS``, at their last visits; the rest counts visits.
    urls: list[int] = field(default_factory=lambda: [0] * len(URL_KINDS))

    urls_admitted: Annotated[int, counter("URLs found new and put into the frontier.")] = 0
    urls_known: Annotated[int, counter("Links to URLs that an older seen-set knows.")] = 0
    urls_raised: Annotated[int, counter("URLs that a link with a better score let go earlier.")] = 0
    urls_duplicate: Annotated[int, counter("Links whose URL had been seen before.")] = 0
    urls_excluded: Annotated[int, counter("Visits that robots.txt or a limit excluded.")] = 0
    urls_held_back: Annotated[
        dict[Rule, int], gauge("URLs that a rule of the crawler itself refuses, by rule.", label=RULE)
    ] = {}
    links_left_out: Annotated[dict[Limit, int], gauge(_LEFT_OUT, label=LIMIT)] = {}
    pages_at_border: Annotated[int, gauge("Pages some of whose links a limit leaves out now.")] = 0
    urls_returned: Annotated[int, counter("URLs that were held back and are permitted now.")] = 0
    pages_fetched: Annotated[int, counter("Visits with a complete response.")] = 0
    pages_failed: Annotated[int, counter("Visits without a complete response, after all tries.")] = 0
    pages_redirected: Annotated[int, counter("Visits that were redirected.")] = 0
    pages_soft404: Annotated[int, counter("Visits of pages that their hosts send for paths that do not exist.")] = 0
    pages_blocked: Annotated[
        int, counter("Visits of pages that bar the crawler from others, or that cost something.")
    ] = 0
    internal_failures: Annotated[
        int, counter("Answers that the crawler could not read because of a bug of its own.")
    ] = 0
    pages_code_failed: Annotated[int, counter("Pages on which code of the user failed.")] = 0
    calls_code_failed: Annotated[Counts, counter("Calls of other functions of the user that failed.", label=HOOK)] = {}
    status: Annotated[
        Counts, counter("Visits by the class of the status that they ended with.", name="responses", label=CLASS)
    ] = {}
    throttled: Annotated[int, counter("Answers that asked to slow down: 429 and 503, for robots.txt too.")] = 0
    robots_fetched: Annotated[int, counter("robots.txt files answered or given up.")] = 0
    robots_unreachable: Annotated[int, counter("robots.txt not read; everything forbidden.")] = 0
    robots_stale: Annotated[int, counter("robots.txt not read; last good copy used.")] = 0
    robots_cut: Annotated[int, counter("robots.txt files read in part.")] = 0
    retries: Annotated[int, counter("Tries repeated after a transient failure.")] = 0
    bytes_fetched: Annotated[int, counter("Bytes of response bodies, decoded.", name="fetched_bytes")] = 0
    links_found: Annotated[int, counter("Links found on pages.")] = 0
    links_off_scope: Annotated[int, counter("Links that lead out of the scope.")] = 0
    links_not_included: Annotated[int, counter("Links that match no include pattern.")] = 0
    links_excluded: Annotated[int, counter("Links that match an exclude pattern.")] = 0
    links_rejected: Annotated[int, counter("Links that are not URLs the crawler can fetch.")] = 0
    links_too_deep: Annotated[int, counter("Links beyond the maximum depth.")] = 0
    links_too_long: Annotated[int, counter("Links whose URL is longer than allowed.")] = 0
    links_filtered: Annotated[int, counter("Links that code of the user filtered out.")] = 0
    links_sent_elsewhere: Annotated[int, counter("Links sent to other partitions.")] = 0
    links_trapped: Annotated[int, counter("Links dropped because they lead into a closed trap.")] = 0
    sitemaps_read: Annotated[int, counter("Sitemaps and sitemap indexes that were read.")] = 0
    links_of_copies: Annotated[int, counter("Links not followed because their page is a copy.")] = 0
    links_of_soft404: Annotated[int, counter("Links not followed because their page is a soft 404.")] = 0
    soft404_probes: Annotated[int, counter("Paths that the crawler made up to learn soft 404s.")] = 0
    pages_copies: Annotated[int, counter("Pages with the same content as another page of their host.")] = 0
    pages_cut: Annotated[int, counter("Pages with more links than the limit for one page.")] = 0
    pages_rendered: Annotated[
        Counts, counter("Pages that a browser rendered, partly, or could not.", label=RENDERED)
    ] = {}
    render_requests: Annotated[
        Counts, counter("Requests of rendered pages: made, cached, or refused, by why.", label=REQUEST)
    ] = {}
    revisits: Annotated[int, counter("Finished URLs that were queued again.")] = 0  # with `urls_returned`
    revisits_changed: Annotated[int, counter("Revisits that found the page changed.")] = 0
    revisits_not_modified: Annotated[int, counter("Revisits answered with 304.")] = 0
    revisits_pending: Annotated[int, gauge("Revisits that are queued or in flight.")] = 0
    pages_scheduled: Annotated[int, gauge("Pages with a time for their next visit.")] = 0
    seeds: Annotated[int, counter("Lines of the seeds that are URLs.")] = 0
    hosts: Annotated[int, gauge("Hosts with at least one admitted URL.")] = 0
    pages_unstated: Annotated[int, counter("Pages kept that say nothing of a use in `purpose.uses`.")] = 0

    @property
    def pages(self) -> int:
        """URLs whose last visits have the outcome ``fetched``."""
        return self.urls[0] + self.urls[2] + self.urls[3]

    @property
    def done(self) -> int:
        """Visits that are over."""
        excluded, blocked = self.urls_excluded, self.pages_blocked
        return self.pages_fetched + self.pages_redirected + self.pages_failed + excluded + self.pages_soft404 + blocked

    @property
    def pending(self) -> int:
        """URLs that were admitted or queued again and are not done, including those in flight."""
        return self.urls_admitted + self.revisits - self.done

    def statistics(self) -> dict[str, Any]:
        """Those of the counters that are statistics, by their names."""
        found = asdict(self)
        return {
            name: {**dict.fromkeys(map(str, each.label.words), 0), **found[name]} if each.label else found[name]
            for name, each in _COUNTED.items()
        }


# The annotations are no texts here, so that they need not be read at each start.
_COUNTED: dict[str, Statistic] = {
    name: each.__metadata__[0] for name, each in Counters.__annotations__.items() if hasattr(each, "__metadata__")
}

_OTHERS: dict[str, Statistic] = {
    "state": gauge("1 for the state the crawl is in, 0 for the others.", None, label=Label("state", STATES)),
    "paused": shown(None),
    "paused_by": gauge(
        "1 for what pauses the crawl, 0 for the others; absent if nothing does. Hours end by themselves.",
        None,
        name="pause_cause",
        label=Label("cause", PAUSES),
    ),
    "stopped": shown(None),
    "stopped_by": shown(None),
    "endless": shown(any),
    "elapsed_seconds": gauge("How long this run of the crawl has lasted.", most),
    "pages_per_second": gauge("Pages fetched per second, over the last seconds."),
    "time_left.seconds": gauge("Seconds to the end of the crawl, at least.", None),
    "slowest_host": shown(None),
    "urls_pending": gauge("URLs in the frontier that wait to be fetched."),
    "urls_in_flight": gauge("URLs handed out and not yet finished."),
    "urls_by_outcome": gauge("URLs by the outcome of their last visit.", label=Label("outcome")),
    "pages_by_status": gauge("Pages by the class of their status at the last visit.", label=Label("class")),
    "hosts_pending": gauge("Hosts with URLs that wait to be fetched.", whole),
    "hosts_by_state": gauge("Hosts by state, at the last count.", whole, name="hosts_in_state", label=Label("state")),
    "hosts_without_page": gauge("Hosts that gave no page, by the cause.", label=Label("cause")),
    "hosts_need_browser": shown(None),
    "hosts_overlooked.count": gauge(
        "Hosts that are due and have a free slot, but are not asked: a fault of the program.", name="hosts_overlooked"
    ),
    "hosts_overlooked.names": shown(names),
    "slots.total": gauge("Requests that the crawl may have in flight.", name="slots"),
    "slots.free": gauge("Slots that nothing holds."),
    "slots.quick": gauge("Slots that quick hosts hold."),
    "slots.new": gauge("Slots that hosts hold which have not answered yet."),
    "slots.slow": gauge("Slots that slow hosts hold."),
    "slots.due_wait_for": shown(of_all),
    "slots.reason": shown(of_all),
    "slots.shut_to": shown(common),
    "slots.slow_from_seconds": shown(most),
    "slots.rate": shown(total),
    "slots.rate_waiting": gauge("Requests that wait for politeness.rate.", name="rate_waiting_requests"),
    "render_cpu_seconds": counter("CPU time of the processes of rendered pages, without other ones of the browser."),
    "render_recall.value": ratio("Share of pages that need a browser that it rendered, estimated."),
    "render_recall.low": ratio("Lower end of the interval of this share."),
    "render_recall.high": ratio("Upper end of the interval of this share."),
    "render_recall.audits": gauge(
        "Pages rendered at random, to learn what is missed.", None, name="render_audited_pages"
    ),
    "render_recall.missed": gauge(
        "Pages that a browser should have rendered, estimated.", None, name="render_missed_pages"
    ),
    "harvest.rated": counter("Pages that code of the user was to score.", name="pages_rated"),
    "harvest.relevant": counter("Of these, the relevant ones.", name="pages_relevant"),
    "harvest.rate": ratio("Relevant pages for each page that was rated.", name="harvest"),
    "harvest.recent_pages": shown(total),
    "harvest.recent_rate": ratio("The same of the last 1,000 pages of this run.", name="harvest_recent"),
    "seeds_rejected": counter("Lines of the seeds that are not URLs."),
    "hooks.*.calls": counter("Calls of a function of the user in this run."),
    "hooks.*.failed": counter("Calls of this run that failed.", name="hook_failures"),
    "hooks.*.hanging": gauge("Calls that have not returned for 10 s, or half of what they may take."),
    "text_failed": counter("Pages of this run whose text could not be extracted."),
    "pages_parsed": counter(
        "Pages of this run whose links their tokens told, or why a tree was needed.", label=Label("by")
    ),
    "outputs.*.files": shown(total),
    "outputs.*.bytes": gauge("Bytes of an output."),
    "seen.hash.forgeable": gauge("1 if somebody can make a URL that the seen-set takes for another one.", any),
    "seen.slices": shown(None),
    "seen.slices.*.capacity": gauge("URLs the slice takes before the next begins.", unit="urls"),
    "seen.slices.*.count": gauge("URLs put into the slice.", name="seen_slice_urls"),
    "seen.slices.*.bits": gauge("Size of the slice.", name="seen_slice_bytes", scale=1 / 8),
    "seen.slices.*.hashes": gauge("Bits checked for one URL."),
    "seen.slices.*.fill": ratio("Share of the bits of the slice that are set."),
    "seen.slices.*.fpp_design": ratio("False-positive probability of the slice when it is full."),
    "seen.slices.*.fpp_estimated": ratio("False-positive probability now, estimated from the bits set."),
    "seen.count": gauge("URLs that the seen-set found new and added.", name="seen_urls"),
    "seen.count_estimated": gauge("URLs in the seen-set, estimated from the bits set.", name="seen_estimated_urls"),
    "seen.count_suspect": gauge(
        "1 while the two differ more than chance explains: chosen URLs, or damaged memory.", any, name="seen_suspect"
    ),
    "seen.fpp_target": ratio("False-positive probability asked for.", most),
    "seen.fpp_bound": ratio("False-positive probability that the design never exceeds.", most),
    "seen.fpp_estimated": ratio("False-positive probability now, estimated from the bits set."),
    "seen.fpp_measured.value": ratio("Share of URLs known to be new that the seen-set called seen."),
    "seen.fpp_measured.low": ratio("Lower end of the interval of the measured value."),
    "seen.fpp_measured.high": ratio("Upper end of the interval of the measured value."),
    "seen.fpp_measured.sample": gauge("URLs in the sample of the measurement.", None, name="seen_fpp_measured_urls"),
    "seen.expected_urls_skipped": gauge(
        "New URLs expected to have been skipped by mistake so far; 0 with a ledger.",
        whole,
        name="seen_expected_skipped_urls",
    ),
    "seen.bytes": gauge("Size of the seen-set in memory."),
    "seen.bits_per_url": gauge("Bytes of the seen-set for each URL in it.", None, name="seen_url_bytes", scale=1 / 8),
    "seen.compactions": counter("Times that one slice replaced all others."),
    "seen.ledger.waiting": gauge("URLs called seen that wait to be confirmed.", unit="urls"),
    "seen.ledger.confirmed": counter("URLs called seen that had been seen."),
    "seen.ledger.false_positives": counter("URLs called seen by mistake, and admitted later."),
    "seen_at_end.urls": gauge("URLs in the seen-set at the end of the crawl.", name="seen_end_urls"),
    "seen_at_end.fill": ratio("Share of its capacity in use then.", name="seen_end_fill"),
    "seen_at_end.fpp": ratio("False-positive probability then.", name="seen_end_fpp"),
    "seen_at_end.urls_skipped": gauge("URLs skipped by mistake by then.", name="seen_end_skipped_urls"),
    "seen_warning.cause": gauge(
        "1 for the cause of the warning about the seen-set, 0 for the others; absent without a warning.",
        None,
        name="advice_cause",
        label=Label("cause", CAUSES),
    ),
    "outage.now": gauge("1 while the crawl is paused because no host answers.", any, name="outage"),
    "outage.hosts": gauge("Hosts that have failed in the present outage."),
    "outage.count": counter("Outages in this run.", most, name="outages"),
    "outage.seconds": counter("Time of this run in outages.", most),
    "outage.probes": counter("Requests of this run that asked whether a host answers."),
    "proxies.failing": gauge("Proxies that failed when they were asked last.", None),
    "proxies.failures": counter("Requests of this run that a proxy failed.", name="proxy_failures"),
    "memory_bytes": gauge("Memory of the process that runs the crawl."),
    "disk_free_bytes": gauge("Bytes free on the disk that holds the job.", least),
    "loop_stall_seconds.p99": gauge(
        "Delay of the event loop, 99th percentile of the samples of this run.", most, name="loop_stall_p99_seconds"
    ),
    "loop_stall_seconds.longest": gauge(
        "Longest delay of the event loop in this run.", most, name="loop_stall_longest_seconds"
    ),
    "loop_stall_seconds.total": counter(
        "Time of this run in stalls of the event loop of a tenth of a second or longer.", name="loop_stalled_seconds"
    ),
    "loop_stalls.count": counter(
        "Stalls of the event loop in this run of a quarter of a second or longer.", name="loop_stalls"
    ),
    "messages_waiting.count": gauge(
        "Messages of a partition that are not durable yet where they belong.", name="messages_waiting"
    ),
    "messages_waiting.seconds": gauge("For how long some of them have waited without progress.", most),
    "commits": counter("Steps written to the store in this run."),
    "checkpoint.generation": gauge("Number of the last checkpoint.", None),
    "checkpoint.age_seconds": gauge("Time since the last checkpoint was complete.", None),
    "checkpoint.seconds": gauge("Time it took to write the last checkpoint.", None, name="checkpoint_duration_seconds"),
    "checkpoint.bytes": gauge("Bytes written for the last checkpoint.", None),
    "checkpoint.kept": gauge("Generations on disk.", None, name="checkpoint_generations"),
}

STATISTICS: dict[str, Statistic] = _OTHERS | _COUNTED
KEYS = tuple(dict.fromkeys(path.partition(".")[0] for path in STATISTICS))  # of ``stats --json``, of one job
