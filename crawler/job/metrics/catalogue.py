"""Declares every statistic of a crawl once: its name, its meaning, how the values of partitions are pooled, and its
metric.

The name is the key in ``stats --json``, with dots for nested keys, and ``*`` for any name or index. Statistics that the
job itself counts are the fields of ``Counters``, which are stored in this order; all others are in ``_OTHERS``. All
code that shows, stores, pools or exports statistics takes them from here, and a test compares the documentation with
them. Texts nested in other statistics, for example the name of a function, are not declared: a crawl has those of its
first partition.

Names of metrics follow https://prometheus.io/docs/practices/naming/: base units at their end (bytes, even for
statistics in bits), ``_total`` for counters, ``_ratio`` for shares between 0 and 1. Labels are bounded: a status class,
a state, the name of an output, the index of a slice (the chain grows with the logarithm of the URLs). Hosts and URLs
are never labels.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from msgspec import Struct, field
from msgspec.structs import asdict

from crawler.url.refusal.forbidden_targets import Rule
from crawler.url.scope.bounds import COUNTED, Limit

NAMED = 20  # maximum number of hosts or proxies listed by name
# The hooks other than ``on_page``.
HOOKS_ASKED = ("filter_link", "score_links", "score_page", "request_headers", "is_changed")
# The state of a crawl is the first one in this list that any of its partitions has.
STATES = ("running", "stopping", "paused", "stopped", "ended")
KILLED = "killed"  # the cause of a stop if the run itself could not report it
PAUSES = ("disk", "outage", "user", "schedule", "round", "hours")  # causes of a pause, the most urgent first
CAUSES = ("memory", "full")  # causes of a warning about the seen-set
# The state of a URL after a visit. Stored as indexes, so the order must not change.
URL_KINDS = ("ok", "redirects", "server_errors", "client_errors", "soft404", "failed", "blocked", "excluded")

# -- pooling the values of partitions -----------------------------------------------------------------------------

Pool = Callable[[Sequence[Any]], Any]


def present(values: Sequence[Any]) -> list[Any]:
    return [value for value in values if value is not None]


def total(values: Sequence[Any]) -> Any:
    """Return the sum of numbers, or of mappings of numbers by key, ignoring missing values; None if all are missing."""
    there = present(values)
    if there and isinstance(there[0], Mapping):
        return {
            key: total([each.get(key) for each in there]) for key in dict.fromkeys(key for one in there for key in one)
        }
    return sum(there) if there else None


def whole(values: Sequence[Any]) -> Any:
    """Like ``total``, but None if a value is missing, because the sum of the others would be misleading."""
    return None if None in values else total(values)


def most(values: Sequence[Any]) -> Any:
    return max(present(values), default=None)


def least(values: Sequence[Any]) -> Any:
    return min(present(values), default=None)


def first(values: Sequence[Any]) -> Any:
    return next(iter(present(values)), None)


def of_all(values: Sequence[Any]) -> Any:
    """Return the first value; None if any is missing."""
    return None if None in values else first(values)


def common(values: Sequence[Any]) -> list[Any]:
    return [each for each in values[0] if all(each in others for others in values)]


def names(values: Sequence[Any]) -> list[Any]:
    return [each for value in values for each in value][:NAMED]


# -- one statistic ------------------------------------------------------------------------------------------------


def value_at(stats: Mapping[str, Any], path: str) -> Any:
    """Return the value of a statistic; None if any part of the path is None or missing."""
    value: Any = stats
    for key in path.split("."):
        value = None if value is None else value.get(key)
    return value


class Label(NamedTuple):
    """The label of a metric, and its ``words``: the keys that a mapping always has, or the possible values of a
    word."""

    name: str
    words: tuple[str, ...] = ()


class Statistic(Struct, frozen=True):
    """One statistic.

    ``kind`` is the kind of its metric: "counter", "gauge", or empty for none. ``name`` is the metric's name if it
    differs from the statistic's, ``unit`` its suffix. With ``label`` the value is either a mapping, whose keys are the
    label's values, or one of its words, with 1 for that word and 0 for the others. The metric is the value times
    ``scale``. ``pool`` is None if a special rule pools the statistic."""

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
    """Return a statistic without a metric."""
    return Statistic(pool=pool)


Counts = dict[str, int]
RULE, LIMIT, HOOK = Label("rule", tuple(Rule)), Label("limit", COUNTED), Label("hook", HOOKS_ASKED)
CLASS = Label("class", ("2xx", "3xx", "4xx", "5xx"))
RENDERED, REQUEST = Label("outcome", ("yes", "partly", "no")), Label("outcome", ("made", "cached"))
_LEFT_OUT = "Links that a limit currently leaves out, or pages that it truncates, by limit."


class Counters(Struct, array_like=True, forbid_unknown_fields=True):
    """Counts of the job since it was created. Stored in every transaction, so they always agree with queue and journal.

    The stored form is a version byte and the fields in this order, as an array in MessagePack, to keep each transaction
    short. Fields that are statistics are annotated.
    """

    sequence: int = 0  # the next sequence number of the journal
    next_number: int = 0  # the frontier's next slot number
    trap_counts: int = 0  # sum of all counts that the traps keep
    seeds_fetched: int = 0
    rated: int = 0  # pages that the user's code was to score
    relevant: int = 0  # those of these pages whose score marks them as relevant
    render_ms: int = 0  # CPU time in milliseconds
    audited: list[int] = []  # data for the estimate of the browser's recall (``recall``)
    # By ``URL_KINDS``, at the last visit of each URL; the other counters count visits.
    urls: list[int] = field(default_factory=lambda: [0] * len(URL_KINDS))

    urls_admitted: Annotated[int, counter("New URLs put into the frontier.")] = 0
    urls_known: Annotated[int, counter("Links to URLs that an older seen-set contains.")] = 0
    urls_raised: Annotated[int, counter("URLs moved to an earlier class by a link with a better score.")] = 0
    urls_duplicate: Annotated[int, counter("Links whose URL had been seen before.")] = 0
    urls_excluded: Annotated[int, counter("Visits that were excluded by robots.txt or by a limit.")] = 0
    urls_held_back: Annotated[
        dict[Rule, int], gauge("URLs refused by a built-in rule of the crawler, by rule.", label=RULE)
    ] = {}
    links_left_out: Annotated[dict[Limit, int], gauge(_LEFT_OUT, label=LIMIT)] = {}
    pages_at_border: Annotated[int, gauge("Pages with links that a limit currently leaves out.")] = 0
    urls_returned: Annotated[int, counter("URLs that a rule refused earlier and that are now permitted.")] = 0
    pages_fetched: Annotated[int, counter("Visits with a complete response.")] = 0
    pages_failed: Annotated[int, counter("Visits without a complete response, after all tries.")] = 0
    pages_redirected: Annotated[int, counter("Visits that were redirected.")] = 0
    pages_soft404: Annotated[int, counter("Visits to soft-404 pages, which hosts send for nonexistent paths.")] = 0
    pages_blocked: Annotated[int, counter("Visits to pages that block the crawler or require payment.")] = 0
    internal_failures: Annotated[int, counter("Responses that could not be read because of a bug in the crawler.")] = 0
    pages_code_failed: Annotated[int, counter("Pages on which the user's code failed.")] = 0
    calls_code_failed: Annotated[Counts, counter("Failed calls to the user's code except on_page.", label=HOOK)] = {}
    status: Annotated[Counts, counter("Visits by the class of their final status.", name="responses", label=CLASS)] = {}
    throttled: Annotated[int, counter("Responses 429 and 503, which ask to slow down, also for robots.txt.")] = 0
    robots_fetched: Annotated[int, counter("Requests for robots.txt that were answered or given up.")] = 0
    robots_unreachable: Annotated[int, counter("Failed reads of robots.txt, after which everything is disallowed.")] = 0
    robots_stale: Annotated[int, counter("Failed reads of robots.txt, after which the last good copy is used.")] = 0
    robots_cut: Annotated[int, counter("robots.txt files of which only a part was read.")] = 0
    retries: Annotated[int, counter("Retries after transient failures.")] = 0
    bytes_fetched: Annotated[int, counter("Bytes of response bodies, decoded.", name="fetched_bytes")] = 0
    links_found: Annotated[int, counter("Links found on pages.")] = 0
    links_off_scope: Annotated[int, counter("Links that lead out of the scope.")] = 0
    links_not_included: Annotated[int, counter("Links that match no include pattern.")] = 0
    links_excluded: Annotated[int, counter("Links that match an exclude pattern.")] = 0
    links_rejected: Annotated[int, counter("Links that are not URLs that the crawler can fetch.")] = 0
    links_too_deep: Annotated[int, counter("Links beyond the maximum depth.")] = 0
    links_too_long: Annotated[int, counter("Links whose URL is longer than allowed.")] = 0
    links_filtered: Annotated[int, counter("Links that the user's code filtered out.")] = 0
    links_sent_elsewhere: Annotated[int, counter("Links sent to other partitions.")] = 0
    links_trapped: Annotated[int, counter("Links dropped because they lead into a closed trap.")] = 0
    sitemaps_read: Annotated[int, counter("Sitemaps and sitemap indexes that were read.")] = 0
    links_of_copies: Annotated[int, counter("Links not followed because their page is a copy.")] = 0
    links_of_soft404: Annotated[int, counter("Links not followed because their page is a soft 404.")] = 0
    soft404_probes: Annotated[int, counter("Paths that the crawler made up to detect soft 404s.")] = 0
    pages_copies: Annotated[int, counter("Pages with the same content as another page of their host.")] = 0
    pages_cut: Annotated[int, counter("Pages with more links than the limit for one page.")] = 0
    pages_rendered: Annotated[Counts, counter("Pages sent to a browser, by result of rendering.", label=RENDERED)] = {}
    render_requests: Annotated[
        Counts, counter("Requests of rendered pages: made, cached, or refused, by reason.", label=REQUEST)
    ] = {}
    revisits: Annotated[int, counter("Finished URLs that were queued again.")] = 0  # includes `urls_returned`
    revisits_changed: Annotated[int, counter("Revisits that found the page changed.")] = 0
    revisits_not_modified: Annotated[int, counter("Revisits answered with 304.")] = 0
    revisits_pending: Annotated[int, gauge("Revisits that are queued or in flight.")] = 0
    pages_scheduled: Annotated[int, gauge("Pages with a time for their next visit.")] = 0
    seeds: Annotated[int, counter("Lines of the seeds that are valid URLs.")] = 0
    hosts: Annotated[int, gauge("Hosts with at least one admitted URL.")] = 0
    pages_unstated: Annotated[int, counter("Kept pages that say nothing about a use in `purpose.uses`.")] = 0

    @property
    def pages(self) -> int:
        """The number of URLs whose last visits have the outcome ``fetched``."""
        return self.urls[0] + self.urls[2] + self.urls[3]

    @property
    def done(self) -> int:
        """The number of finished visits."""
        excluded, blocked = self.urls_excluded, self.pages_blocked
        return self.pages_fetched + self.pages_redirected + self.pages_failed + excluded + self.pages_soft404 + blocked

    @property
    def pending(self) -> int:
        """The number of URLs that were admitted or requeued and are not done, including those in flight."""
        return self.urls_admitted + self.revisits - self.done

    def statistics(self) -> dict[str, Any]:
        """Return the counters that are statistics, by name."""
        found = asdict(self)
        return {
            name: {**dict.fromkeys(map(str, each.label.words), 0), **found[name]} if each.label else found[name]
            for name, each in _COUNTED.items()
        }


# Annotations are not stored as strings here, so they need not be evaluated at each start.
_COUNTED: dict[str, Statistic] = {
    name: each.__metadata__[0] for name, each in Counters.__annotations__.items() if hasattr(each, "__metadata__")
}

_OTHERS: dict[str, Statistic] = {
    "state": gauge("1 for the state of the crawl, 0 for the other states.", None, label=Label("state", STATES)),
    "paused": shown(None),
    "paused_by": gauge(
        "1 for the cause of the pause, 0 for other causes; absent without a pause. A pause for hours ends by itself.",
        None,
        name="pause_cause",
        label=Label("cause", PAUSES),
    ),
    "stopped": shown(None),
    "stopped_by": shown(None),
    "endless": shown(any),
    "elapsed_seconds": gauge("Duration of this run of the crawl.", most),
    "pages_per_second": gauge("Pages fetched per second, measured over the last few seconds."),
    "time_left.seconds": gauge("Minimum time to the end of the crawl.", None),
    "slowest_host": shown(None),
    "urls_pending": gauge("URLs in the frontier that are waiting to be fetched."),
    "urls_in_flight": gauge("URLs that were handed out and are not finished yet."),
    "urls_retrying": gauge("Pending URLs that failed and wait for another try.", whole),
    "urls_by_outcome": gauge("URLs by the outcome of their last visit.", label=Label("outcome")),
    "pages_by_status": gauge("Pages by the class of their status at the last visit.", label=Label("class")),
    "hosts_pending": gauge("Hosts with URLs that are waiting to be fetched.", whole),
    "hosts_by_state": gauge("Hosts by state, at the last count.", whole, name="hosts_in_state", label=Label("state")),
    "hosts_without_page": gauge("Hosts that gave no page, by cause.", label=Label("cause")),
    "hosts_need_browser": shown(None),
    "slots.total": gauge("Number of requests that the crawl may have in flight.", name="slots"),
    "slots.free": gauge("Slots that are free."),
    "slots.quick": gauge("Slots held by quick hosts."),
    "slots.new": gauge("Slots held by hosts that have not answered yet."),
    "slots.slow": gauge("Slots held by slow hosts."),
    "slots.due_wait_for": shown(of_all),
    "slots.reason": shown(of_all),
    "slots.shut_to": shown(common),
    "slots.slow_from_seconds": shown(most),
    "slots.rate": shown(total),
    "slots.rate_waiting": gauge("Requests that wait because of politeness.rate.", name="rate_waiting_requests"),
    "render_cpu_seconds": counter(
        "CPU time of the processes that render pages, without other processes of the browser."
    ),
    "render_recall.value": ratio("Estimated share of the pages needing a browser that were rendered."),
    "render_recall.low": ratio("Lower end of the confidence interval of this share."),
    "render_recall.high": ratio("Upper end of the confidence interval of this share."),
    "harvest.rated": counter("Pages that the user's code was to score.", name="pages_rated"),
    "harvest.relevant": counter("Scored pages that are relevant.", name="pages_relevant"),
    "harvest.rate": ratio("Share of relevant pages among the scored ones.", name="harvest"),
    "harvest.recent_pages": shown(total),
    "harvest.recent_rate": ratio(
        "Share of relevant pages among the last 1,000 pages of this run.", name="harvest_recent"
    ),
    "seeds_rejected": counter("Lines of the seeds that are not valid URLs."),
    "hooks.*.calls": counter("Calls to the user's functions in this run."),
    "hooks.*.failed": counter("Failed calls to the user's functions in this run.", name="hook_failures"),
    "hooks.*.hanging": gauge(
        "Calls to the user's functions that have not returned after 10 s, or half their time limit."
    ),
    "text_failed": counter("Pages of this run whose text could not be extracted."),
    "pages_parsed": counter(
        "Pages of this run by parser: read from tokens, or the reason why a tree was needed.", label=Label("by")
    ),
    "outputs.*.files": shown(total),
    "outputs.*.bytes": gauge("Size of an output."),
    "seen.hash.forgeable": gauge("1 if an attacker can craft URLs that the seen-set mistakes for other URLs.", any),
    "seen.slices": shown(None),
    "seen.slices.*.capacity": gauge("URLs that the slice holds before the next one is started.", unit="urls"),
    "seen.slices.*.count": gauge("URLs put into the slice.", name="seen_slice_urls"),
    "seen.slices.*.bits": gauge("Size of the slice.", name="seen_slice_bytes", scale=1 / 8),
    "seen.slices.*.hashes": gauge("Bits checked for one URL."),
    "seen.slices.*.fill": ratio("Share of the bits of the slice that are set."),
    "seen.slices.*.fpp_design": ratio("False-positive probability of the slice when it is full."),
    "seen.slices.*.fpp_estimated": ratio("False-positive probability now, estimated from the bits set."),
    "seen.count": gauge("New URLs added to the seen-set.", name="seen_urls"),
    "seen.count_estimated": gauge("URLs in the seen-set, estimated from the bits set.", name="seen_estimated_urls"),
    "seen.count_suspect": gauge(
        "1 while count and estimate differ by more than chance explains: crafted URLs or bad memory.",
        any,
        name="seen_suspect",
    ),
    "seen.fpp_target": ratio("Configured false-positive probability.", most),
    "seen.fpp_bound": ratio("False-positive probability that the seen-set is designed never to exceed.", most),
    "seen.fpp_estimated": ratio("False-positive probability now, estimated from the bits set."),
    "seen.fpp_measured.value": ratio("Share of URLs known to be new that the seen-set reported as seen."),
    "seen.fpp_measured.low": ratio("Lower end of the confidence interval of the measured false-positive probability."),
    "seen.fpp_measured.high": ratio("Upper end of the confidence interval of the measured false-positive probability."),
    "seen.fpp_measured.sample": gauge(
        "Number of URLs in the sample of the measured value.", None, name="seen_fpp_measured_urls"
    ),
    "seen.expected_urls_skipped": gauge(
        "New URLs expected to have been skipped by mistake so far; 0 with a ledger.",
        whole,
        name="seen_expected_skipped_urls",
    ),
    "seen.bytes": gauge("Size of the seen-set in memory."),
    "seen.bits_per_url": gauge("Bytes of the seen-set for each URL in it.", None, name="seen_url_bytes", scale=1 / 8),
    "seen.compactions": counter("Number of compactions, in which one slice replaced all others."),
    "seen.ledger.waiting": gauge("URLs reported as seen that are waiting to be confirmed.", unit="urls"),
    "seen.ledger.confirmed": counter("URLs correctly reported as seen."),
    "seen.ledger.false_positives": counter("URLs reported as seen by mistake, and admitted later."),
    "seen_at_end.urls": gauge("Forecast number of URLs in the seen-set at the end of the crawl.", name="seen_end_urls"),
    "seen_at_end.fill": ratio("Forecast share of the seen-set's capacity in use at the end.", name="seen_end_fill"),
    "seen_at_end.fpp": ratio("Forecast false-positive probability at the end of the crawl.", name="seen_end_fpp"),
    "seen_at_end.urls_skipped": gauge(
        "Expected number of URLs skipped by mistake by the end of the crawl.", name="seen_end_skipped_urls"
    ),
    "seen_warning.cause": gauge(
        "1 for the cause of the warning about the seen-set, 0 for other causes; absent without a warning.",
        None,
        name="advice_cause",
        label=Label("cause", CAUSES),
    ),
    "outage.now": gauge("1 while the crawl is paused because no host answers.", any, name="outage"),
    "outage.hosts": gauge("Hosts that have failed in the current outage."),
    "outage.count": counter("Outages in this run.", most, name="outages"),
    "outage.seconds": counter("Time that this run has spent in outages.", most),
    "outage.probes": counter("Requests of this run that were made during outages to check whether a host answers."),
    "proxies.failing": gauge("Proxies that failed at their last request.", None),
    "proxies.failures": counter("Requests of this run that failed because of a proxy.", name="proxy_failures"),
    "memory_bytes": gauge("Memory of the process that runs the crawl."),
    "disk_free_bytes": gauge("Bytes free on the disk that holds the job.", least),
    "loop_stall_seconds.p99": gauge(
        "Delay of the event loop, 99th percentile of the samples of this run.", most, name="loop_stall_p99_seconds"
    ),
    "loop_stall_seconds.longest": gauge(
        "Longest delay of the event loop in this run.", most, name="loop_stall_longest_seconds"
    ),
    "loop_stall_seconds.total": counter(
        "Time that this run has spent in event loop stalls of 100 ms or longer.", name="loop_stalled_seconds"
    ),
    "loop_stalls.count": counter("Event loop stalls of 250 ms or longer in this run.", name="loop_stalls"),
    "messages_waiting.count": gauge(
        "Messages of a partition that are not yet durable at their target partitions.", name="messages_waiting"
    ),
    "messages_waiting.seconds": gauge("Longest time that messages of a partition have waited without progress.", most),
    "commits": counter("Steps written to the store in this run."),
    "checkpoint.generation": gauge("Number of the last checkpoint.", None),
    "checkpoint.age_seconds": gauge("Time since the last checkpoint was completed.", None),
    "checkpoint.seconds": gauge("Time taken to write the last checkpoint.", None, name="checkpoint_duration_seconds"),
    "checkpoint.bytes": gauge("Bytes written for the last checkpoint.", None),
    "checkpoint.kept": gauge("Generations on disk.", None, name="checkpoint_generations"),
}

STATISTICS: dict[str, Statistic] = _OTHERS | _COUNTED
KEYS = tuple(dict.fromkeys(path.partition(".")[0] for path in STATISTICS))  # keys of ``stats --json`` for one job
