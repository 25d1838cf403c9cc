"""Exposes the statistics as metrics, for Prometheus and anything else that reads OpenMetrics.

Names and units follow https://prometheus.io/docs/practices/naming/: base units (bytes, even for what the statistics
count in bits), ``_total`` for counters, ``_ratio`` for shares between 0 and 1. Labels are bounded: a status class, a
state, the name of an output, the index of a slice (the chain grows with the logarithm of the URLs). Hosts and URLs are
never labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from crawler.job.metrics.outlook import CAUSES

OPENMETRICS = "application/openmetrics-text"
PAUSES = ("user", "disk", "outage", "hours", "schedule", "round")
STATES = ("running", "paused", "stopping", "ended", "stopped")


class Metric(Struct, frozen=True):
    """One metric, and where the statistics hold its value.

    With ``label``, ``path`` leads to one of three things: a mapping, whose keys are the label's values; a list, whose
    indices are the label's values; or one of ``words``, with 1 for that word and 0 for the others. The elements of a
    mapping or list may hold the value in ``field``. The value is multiplied by ``scale``.
    """

    name: str
    kind: str  # "counter" or "gauge"
    help: str
    path: tuple[str, ...]
    label: str | None = None
    field: str | None = None
    scale: float = 1
    words: tuple[str, ...] = ()


def _gauge(name: str, text: str, path: str = "", **more: Any) -> Metric:
    """``path``: where the value is, with dots; under ``name`` if it is not given."""
    return Metric(f"crawler_{name}", "gauge", text, tuple((path or name).split(".")), **more)


def _counter(name: str, text: str, path: str = "", **more: Any) -> Metric:
    return Metric(f"crawler_{name}_total", "counter", text, tuple((path or name).split(".")), **more)


def _slice(name: str, field: str, text: str, scale: float = 1) -> Metric:
    return _gauge(f"seen_slice_{name}", text, "seen.slices", label="slice", field=field, scale=scale)


METRICS: tuple[Metric, ...] = (
    _gauge("state", "1 for the state the crawl is in, 0 for the others.", label="state", words=STATES),
    _gauge(
        "pause_cause",
        "1 for what pauses the crawl, 0 for the others; absent if nothing does. Hours end by themselves.",
        "paused_by",
        label="cause",
        words=PAUSES,
    ),
    _gauge("elapsed_seconds", "How long this run of the crawl has lasted."),
    _counter("urls_admitted", "URLs found new and put into the frontier."),
    _counter("urls_known", "Links to URLs that an older seen-set knows."),
    _counter("urls_raised", "URLs that a link with a better score let go earlier."),
    _counter("urls_duplicate", "Links whose URL had been seen before."),
    _counter("urls_excluded", "Visits that robots.txt or a limit excluded."),
    _gauge("urls_held_back", "URLs that a rule of the crawler itself refuses, by rule.", label="rule"),
    _gauge(
        "links_left_out",
        "Links that a limit leaves out now, by limit; for a limit that cuts a page off, such pages.",
        label="limit",
    ),
    _gauge("pages_at_border", "Pages some of whose links a limit leaves out now."),
    _counter("urls_returned", "URLs that were held back and are permitted now."),
    _gauge("urls_pending", "URLs in the frontier that wait to be fetched."),
    _gauge("urls_in_flight", "URLs handed out and not yet finished."),
    _gauge("urls_by_outcome", "URLs by the outcome of their last visit.", label="outcome"),
    _gauge("pages_by_status", "Pages by the class of their status at the last visit.", label="class"),
    _counter("pages_fetched", "Visits with a complete response."),
    _counter("pages_failed", "Visits without a complete response, after all tries."),
    _counter("pages_redirected", "Visits that were redirected."),
    _counter("pages_soft404", "Visits of pages that their hosts send for paths that do not exist."),
    _counter("pages_blocked", "Visits of pages that bar the crawler from others, or that cost something."),
    _counter("internal_failures", "Answers that the crawler could not read because of a bug of its own."),
    _counter("pages_code_failed", "Pages on which code of the user failed."),
    _counter("calls_code_failed", "Calls of other functions of the user that failed.", label="hook"),
    _counter("responses", "Visits by the class of the status that they ended with.", "status", label="class"),
    _counter("throttled", "Answers that asked to slow down: 429 and 503, for robots.txt too."),
    _counter("robots_fetched", "robots.txt files answered or given up."),
    _counter("robots_unreachable", "robots.txt not read; everything forbidden."),
    _counter("robots_stale", "robots.txt not read; last good copy used."),
    _counter("robots_cut", "robots.txt files read in part."),
    _counter("retries", "Tries repeated after a transient failure."),
    _counter("fetched_bytes", "Bytes of response bodies, decoded.", "bytes_fetched"),
    _counter("links_found", "Links found on pages."),
    _counter("links_off_scope", "Links that lead out of the scope."),
    _counter("links_not_included", "Links that match no include pattern."),
    _counter("links_excluded", "Links that match an exclude pattern."),
    _counter("links_rejected", "Links that are not URLs the crawler can fetch."),
    _counter("links_too_deep", "Links beyond the maximum depth."),
    _counter("links_too_long", "Links whose URL is longer than allowed."),
    _counter("links_filtered", "Links that code of the user filtered out."),
    _counter("links_sent_elsewhere", "Links sent to other partitions."),
    _counter("links_trapped", "Links dropped because they lead into a closed trap."),
    _counter("sitemaps_read", "Sitemaps and sitemap indexes that were read."),
    _counter("links_of_copies", "Links not followed because their page is a copy."),
    _counter("links_of_soft404", "Links not followed because their page is a soft 404."),
    _counter("soft404_probes", "Paths that the crawler made up to learn soft 404s."),
    _counter("pages_copies", "Pages with the same content as another page of their host."),
    _counter("pages_cut", "Pages with more links than the limit for one page."),
    _counter("pages_rendered", "Pages that a browser rendered, partly, or could not.", label="outcome"),
    _counter("render_cpu_seconds", "CPU time of the browser."),
    _counter("render_requests", "Requests of rendered pages: made, cached, or refused, by why.", label="outcome"),
    _counter("revisits", "Finished URLs that were queued again."),
    _counter("revisits_changed", "Revisits that found the page changed."),
    _counter("revisits_not_modified", "Revisits answered with 304."),
    _gauge("revisits_pending", "Revisits that are queued or in flight."),
    _gauge("pages_scheduled", "Pages with a time for their next visit."),
    _counter("seeds", "Lines of the seeds that are URLs."),
    _counter("seeds_rejected", "Lines of the seeds that are not URLs."),
    _gauge("hosts", "Hosts with at least one admitted URL."),
    _gauge("hosts_pending", "Hosts with URLs that wait to be fetched."),
    _gauge("pages_per_second", "Pages fetched per second, over the last seconds."),
    _gauge("time_left_seconds", "Seconds to the end of the crawl, at least.", "time_left.seconds"),
    _gauge("hosts_in_state", "Hosts by state, at the last count.", "hosts_by_state", label="state"),
    _gauge("hosts_without_page", "Hosts that gave no page, by the cause.", label="cause"),
    _gauge("slots", "Requests that the crawl may have in flight.", "slots.total"),
    _gauge("slots_free", "Slots that nothing holds.", "slots.free"),
    _gauge("slots_quick", "Slots that quick hosts hold.", "slots.quick"),
    _gauge("slots_new", "Slots that hosts hold which have not answered yet.", "slots.new"),
    _gauge("slots_slow", "Slots that slow hosts hold.", "slots.slow"),
    _gauge("rate_waiting_requests", "Requests that wait for politeness.rate.", "slots.rate_waiting"),
    _gauge("seen_urls", "URLs that the seen-set found new and added.", "seen.count"),
    _gauge("seen_estimated_urls", "URLs in the seen-set, estimated from the bits set.", "seen.count_estimated"),
    _gauge(
        "seen_suspect",
        "1 while the two differ more than chance explains: chosen URLs, or damaged memory.",
        "seen.count_suspect",
    ),
    _gauge(
        "seen_hash_forgeable",
        "1 if somebody can make a URL that the seen-set takes for another one.",
        "seen.hash.forgeable",
    ),
    _gauge("seen_bytes", "Size of the seen-set in memory.", "seen.bytes"),
    _gauge("seen_url_bytes", "Bytes of the seen-set for each URL in it.", "seen.bits_per_url", scale=1 / 8),
    _gauge("seen_fpp_target_ratio", "False-positive probability asked for.", "seen.fpp_target"),
    _gauge("seen_fpp_bound_ratio", "False-positive probability that the design never exceeds.", "seen.fpp_bound"),
    _gauge(
        "seen_fpp_estimated_ratio", "False-positive probability now, estimated from the bits set.", "seen.fpp_estimated"
    ),
    _gauge(
        "seen_fpp_measured_ratio",
        "Share of URLs known to be new that the seen-set called seen.",
        "seen.fpp_measured.value",
    ),
    _gauge("seen_fpp_measured_low_ratio", "Lower end of the interval of the measured value.", "seen.fpp_measured.low"),
    _gauge(
        "seen_fpp_measured_high_ratio", "Upper end of the interval of the measured value.", "seen.fpp_measured.high"
    ),
    _gauge(
        "render_recall_ratio", "Share of pages that need a browser that it rendered, estimated.", "render_recall.value"
    ),
    _gauge("render_recall_low_ratio", "Lower end of the interval of this share.", "render_recall.low"),
    _gauge("render_recall_high_ratio", "Upper end of the interval of this share.", "render_recall.high"),
    _gauge("render_audited_pages", "Pages rendered at random, to learn what is missed.", "render_recall.audits"),
    _gauge("render_missed_pages", "Pages that a browser should have rendered, estimated.", "render_recall.missed"),
    _gauge("seen_fpp_measured_urls", "URLs in the sample of the measurement.", "seen.fpp_measured.sample"),
    _gauge(
        "seen_expected_skipped_urls",
        "New URLs expected to have been skipped by mistake so far; 0 with a ledger.",
        "seen.expected_urls_skipped",
    ),
    _gauge(
        "hosts_overlooked",
        "Hosts that are due and have a free slot, but are not asked: a fault of the program.",
        "hosts_overlooked.count",
    ),
    _counter("seen_compactions", "Times that one slice replaced all others.", "seen.compactions"),
    _gauge("seen_ledger_waiting_urls", "URLs called seen that wait to be confirmed.", "seen.ledger.waiting"),
    _counter("seen_ledger_confirmed", "URLs called seen that had been seen.", "seen.ledger.confirmed"),
    _counter(
        "seen_ledger_false_positives", "URLs called seen by mistake, and admitted later.", "seen.ledger.false_positives"
    ),
    _slice("capacity_urls", "capacity", "URLs the slice takes before the next begins."),
    _slice("urls", "count", "URLs put into the slice."),
    _slice("bytes", "bits", "Size of the slice.", 1 / 8),
    _slice("hashes", "hashes", "Bits checked for one URL."),
    _slice("fill_ratio", "fill", "Share of the bits of the slice that are set."),
    _slice("fpp_design_ratio", "fpp_design", "False-positive probability of the slice when it is full."),
    _slice("fpp_estimated_ratio", "fpp_estimated", "False-positive probability now, estimated from the bits set."),
    _gauge("seen_end_urls", "URLs in the seen-set at the end of the crawl.", "seen_at_end.urls"),
    _gauge("seen_end_fill_ratio", "Share of its capacity in use then.", "seen_at_end.fill"),
    _gauge("seen_end_fpp_ratio", "False-positive probability then.", "seen_at_end.fpp"),
    _gauge("seen_end_skipped_urls", "URLs skipped by mistake by then.", "seen_at_end.urls_skipped"),
    _gauge(
        "advice_cause",
        "1 for the cause of the warning about the seen-set, 0 for the others; absent without a warning.",
        "seen_warning.cause",
        label="cause",
        words=CAUSES,
    ),
    _gauge("outage", "1 while the crawl is paused because no host answers.", "outage.now"),
    _gauge("outage_hosts", "Hosts that have failed in the present outage.", "outage.hosts"),
    _counter("outages", "Outages in this run.", "outage.count"),
    _counter("outage_seconds", "Time of this run in outages.", "outage.seconds"),
    _counter("outage_probes", "Requests of this run that asked whether a host answers.", "outage.probes"),
    _gauge("proxies_failing", "Proxies that failed when they were asked last.", "proxies.failing"),
    _counter("proxy_failures", "Requests of this run that a proxy failed.", "proxies.failures"),
    _gauge("disk_free_bytes", "Bytes free on the disk that holds the job."),
    _counter("text_failed", "Pages of this run whose text could not be extracted."),
    _counter("hook_calls", "Calls of a function of the user in this run.", "hooks", label="hook", field="calls"),
    _counter("hook_failures", "Calls of this run that failed.", "hooks", label="hook", field="failed"),
    _gauge(
        "hook_hanging",
        "Calls that have not returned for 10 s, or half of what they may take.",
        "hooks",
        label="hook",
        field="hanging",
    ),
    _counter("pages_rated", "Pages that code of the user was to score.", "harvest.rated"),
    _counter("pages_relevant", "Of these, the relevant ones.", "harvest.relevant"),
    _gauge("harvest_ratio", "Relevant pages for each page that was rated.", "harvest.rate"),
    _gauge("harvest_recent_ratio", "The same of the last 1,000 pages of this run.", "harvest.recent_rate"),
    _counter("pages_parsed", "Pages of this run whose links their tokens told, or why a tree was needed.", label="by"),
    _gauge("output_bytes", "Bytes of an output.", "outputs", label="output", field="bytes"),
    _gauge(
        "loop_stall_p99_seconds",
        "Delay of the event loop, 99th percentile of the samples of this run.",
        "loop_stall_seconds.p99",
    ),
    _gauge("loop_stall_longest_seconds", "Longest delay of the event loop in this run.", "loop_stall_seconds.longest"),
    _counter(
        "loop_stalled_seconds",
        "Time of this run in stalls of the event loop of a tenth of a second or longer.",
        "loop_stall_seconds.total",
    ),
    _counter(
        "loop_stalls", "Stalls of the event loop in this run of a quarter of a second or longer.", "loop_stalls.count"
    ),
    _gauge(
        "messages_waiting",
        "Messages of a partition that are not durable yet where they belong.",
        "messages_waiting.count",
    ),
    _gauge(
        "messages_waiting_seconds",
        "For how long some of them have waited without progress.",
        "messages_waiting.seconds",
    ),
    _gauge("replicas_wanted", "Replicas wanted.", "replicas.wanted"),
    _gauge("replicas_in_step", "Of these, replicas that keep pace: they can take over.", "replicas.in_step"),
    _gauge("replica_lag_steps", "Steps that the replica furthest behind does not have.", "replicas.steps"),
    _gauge(
        "replica_lag_seconds", "For how long there have been steps that a replica does not have.", "replicas.seconds"
    ),
    _counter("commits", "Steps written to the store in this run."),
    _gauge("checkpoint_generation", "Number of the last checkpoint.", "checkpoint.generation"),
    _gauge("checkpoint_age_seconds", "Time since the last checkpoint was complete.", "checkpoint.age_seconds"),
    _gauge("checkpoint_duration_seconds", "Time it took to write the last checkpoint.", "checkpoint.seconds"),
    _gauge("checkpoint_bytes", "Bytes written for the last checkpoint.", "checkpoint.bytes"),
    _gauge("checkpoint_generations", "Generations on disk.", "checkpoint.kept"),
)


def exposition(stats: Mapping[str, Any], accept: str = "", *others: Collector) -> tuple[bytes, str]:
    """Return the statistics and what ``others`` collect, as text, and its Content-Type.

    The text is OpenMetrics 1.0.0 if ``accept``, a request's header, names it; otherwise it is the Prometheus text
    format, version 0.0.4. A metric whose value is null is absent.
    """
    registry = CollectorRegistry(auto_describe=False)
    for collector in (_Statistics(stats), *others):
        registry.register(collector)
    # Negotiate only the kind: the library raises TypeError for a version that is not a number, and accepts any higher
    # version that a client names.
    encode, content_type = choose_encoder(OPENMETRICS if OPENMETRICS in accept else "")
    return encode(registry), content_type


class _Statistics(Collector):
    def __init__(self, stats: Mapping[str, Any]) -> None:
        self._stats = stats

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        for metric in METRICS:
            labels = [metric.label] if metric.label else []
            family: CounterMetricFamily | GaugeMetricFamily
            if metric.kind == "counter":
                family = CounterMetricFamily(metric.name, metric.help, labels=labels)
            else:
                family = GaugeMetricFamily(metric.name, metric.help, labels=labels)
            for values, number in _samples(metric, self._stats):
                family.add_metric(values, number * metric.scale)
            if family.samples:
                yield family


def _samples(metric: Metric, stats: Mapping[str, Any]) -> Iterator[tuple[list[str], float]]:
    value: Any = stats
    for key in metric.path:
        value = None if value is None else value.get(key)
    if value is None:
        return
    field = metric.field
    if metric.label is None:
        yield [], value
    elif metric.words:
        yield from (([word], float(word == value)) for word in metric.words)
    elif isinstance(value, Mapping):
        for key, number in value.items():
            yield [key], number if field is None else number[field]
    elif field is not None:
        for label, element in _numbered(value):
            if element[field] is not None:
                yield [label], element[field]


def _numbered(elements: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each element with its index; in a crawl of partitions with that in its partition, behind the number of it: so it
    stays the same when another partition gets a further one."""
    seen: Counter[int | None] = Counter()
    for element in elements:
        partition = element.get("partition")
        index = seen[partition]
        seen[partition] += 1
        yield str(index) if partition is None else f"{partition:02}-{index}", element
