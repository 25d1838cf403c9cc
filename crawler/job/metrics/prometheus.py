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


def _counter(name: str, key: str, text: str) -> Metric:
    return Metric(name, "counter", text, (key,))


def _gauge(name: str, path: tuple[str, ...], text: str) -> Metric:
    return Metric(name, "gauge", text, path)


def _slice(name: str, field: str, text: str, scale: float = 1) -> Metric:
    return Metric(f"crawler_seen_slice_{name}", "gauge", text, ("seen", "slices"), "slice", field, scale)


METRICS: tuple[Metric, ...] = (
    Metric(
        "crawler_state",
        "gauge",
        "1 for the state the crawl is in, 0 for the others.",
        ("state",),
        "state",
        words=STATES,
    ),
    Metric(
        "crawler_pause_cause",
        "gauge",
        "1 for what pauses the crawl, 0 for the others; absent if nothing does. Hours end by themselves.",
        ("paused_by",),
        "cause",
        words=PAUSES,
    ),
    _gauge("crawler_elapsed_seconds", ("elapsed_seconds",), "How long this run of the crawl has lasted."),
    _counter("crawler_urls_admitted_total", "urls_admitted", "URLs found new and put into the frontier."),
    _counter("crawler_urls_known_total", "urls_known", "Links to URLs that an older seen-set knows."),
    _counter("crawler_urls_raised_total", "urls_raised", "URLs that a link with a better score let go earlier."),
    _counter("crawler_urls_duplicate_total", "urls_duplicate", "Links whose URL had been seen before."),
    _counter("crawler_urls_excluded_total", "urls_excluded", "URLs refused after admission: robots, limits."),
    Metric(
        "crawler_urls_held_back",
        "gauge",
        "URLs that a rule of the crawler itself refuses, by rule.",
        ("urls_held_back",),
        "rule",
    ),
    Metric(
        "crawler_links_left_out",
        "gauge",
        "Links that a limit leaves out now, by limit; for a limit that cuts a page off, such pages.",
        ("links_left_out",),
        "limit",
    ),
    _gauge("crawler_pages_at_border", ("pages_at_border",), "Pages some of whose links a limit leaves out now."),
    _counter("crawler_urls_returned_total", "urls_returned", "URLs that were held back and are permitted now."),
    _gauge("crawler_urls_pending", ("urls_pending",), "URLs in the frontier that wait to be fetched."),
    _gauge("crawler_urls_in_flight", ("urls_in_flight",), "URLs handed out and not yet finished."),
    _counter("crawler_pages_fetched_total", "pages_fetched", "URLs finished with a complete response."),
    _counter(
        "crawler_pages_failed_total", "pages_failed", "URLs finished without a complete response, after all tries."
    ),
    _counter("crawler_pages_redirected_total", "pages_redirected", "URLs finished with a redirect."),
    _counter(
        "crawler_pages_soft404_total", "pages_soft404", "Pages that their hosts send for paths that do not exist."
    ),
    _counter("crawler_pages_blocked_total", "pages_blocked", "Pages that bar the crawler from others."),
    _counter(
        "crawler_internal_failures_total",
        "internal_failures",
        "Answers that the crawler could not read because of a bug of its own.",
    ),
    _counter("crawler_pages_code_failed_total", "pages_code_failed", "Pages on which code of the user failed."),
    Metric(
        "crawler_calls_code_failed_total",
        "counter",
        "Calls of other functions of the user that failed.",
        ("calls_code_failed",),
        "hook",
    ),
    Metric("crawler_responses_total", "counter", "Responses by the class of their status.", ("status",), "class"),
    _counter("crawler_throttled_total", "throttled", "Answers that asked to slow down: 429 and 503."),
    _counter("crawler_robots_fetched_total", "robots_fetched", "robots.txt files answered or given up."),
    _counter("crawler_robots_unreachable_total", "robots_unreachable", "robots.txt not read; everything forbidden."),
    _counter("crawler_robots_stale_total", "robots_stale", "robots.txt not read; last good copy used."),
    _counter("crawler_robots_cut_total", "robots_cut", "robots.txt files read in part."),
    _counter("crawler_retries_total", "retries", "Tries repeated after a transient failure."),
    _counter("crawler_fetched_bytes_total", "bytes_fetched", "Bytes of response bodies, decoded."),
    _counter("crawler_links_found_total", "links_found", "Links found on pages."),
    _counter("crawler_links_off_scope_total", "links_off_scope", "Links that lead out of the scope."),
    _counter("crawler_links_not_included_total", "links_not_included", "Links that match no include pattern."),
    _counter("crawler_links_excluded_total", "links_excluded", "Links that match an exclude pattern."),
    _counter("crawler_links_rejected_total", "links_rejected", "Links that are not URLs the crawler can fetch."),
    _counter("crawler_links_too_deep_total", "links_too_deep", "Links beyond the maximum depth."),
    _counter("crawler_links_too_long_total", "links_too_long", "Links whose URL is longer than allowed."),
    _counter("crawler_links_filtered_total", "links_filtered", "Links that code of the user refused."),
    _counter("crawler_links_sent_elsewhere_total", "links_sent_elsewhere", "Links sent to other partitions."),
    _counter("crawler_links_trapped_total", "links_trapped", "Links dropped because they lead into a closed trap."),
    _counter("crawler_sitemaps_read_total", "sitemaps_read", "Sitemaps and sitemap indexes that were read."),
    _counter("crawler_links_of_copies_total", "links_of_copies", "Links not followed because their page is a copy."),
    _counter(
        "crawler_links_of_soft404_total", "links_of_soft404", "Links not followed because their page is a soft 404."
    ),
    _counter("crawler_soft404_probes_total", "soft404_probes", "Paths that the crawler made up to learn soft 404s."),
    _counter(
        "crawler_pages_copies_total", "pages_copies", "Pages with the same content as another page of their host."
    ),
    _counter("crawler_pages_cut_total", "pages_cut", "Pages with more links than the limit for one page."),
    _counter("crawler_revisits_total", "revisits", "Finished URLs that were queued again."),
    _counter("crawler_revisits_changed_total", "revisits_changed", "Revisits that found the page changed."),
    _counter("crawler_revisits_not_modified_total", "revisits_not_modified", "Revisits answered with 304."),
    _gauge("crawler_revisits_pending", ("revisits_pending",), "Revisits that are queued or in flight."),
    _gauge("crawler_pages_scheduled", ("pages_scheduled",), "Pages with a time for their next visit."),
    _counter("crawler_seeds_total", "seeds", "Lines of the seeds that are URLs."),
    _counter("crawler_seeds_rejected_total", "seeds_rejected", "Lines of the seeds that are not URLs."),
    _gauge("crawler_hosts", ("hosts",), "Hosts with at least one admitted URL."),
    _gauge("crawler_hosts_pending", ("hosts_pending",), "Hosts with URLs that wait to be fetched."),
    _gauge("crawler_pages_per_second", ("pages_per_second",), "Pages fetched per second, over the last seconds."),
    _gauge(
        "crawler_time_left_seconds",
        ("time_left", "seconds"),
        "Seconds to the end of the crawl, at least.",
    ),
    Metric(
        "crawler_hosts_in_state",
        "gauge",
        "Hosts by state, at the last count.",
        ("hosts_by_state",),
        "state",
    ),
    _gauge("crawler_slots", ("slots", "total"), "Requests that the crawl may have in flight."),
    _gauge("crawler_slots_free", ("slots", "free"), "Slots that nothing holds."),
    _gauge("crawler_slots_quick", ("slots", "quick"), "Slots that quick hosts hold."),
    _gauge("crawler_slots_new", ("slots", "new"), "Slots that hosts hold which have not answered yet."),
    _gauge("crawler_slots_slow", ("slots", "slow"), "Slots that slow hosts hold."),
    _gauge("crawler_rate_waiting_requests", ("slots", "rate_waiting"), "Requests that wait for politeness.rate."),
    _gauge("crawler_seen_urls", ("seen", "count"), "URLs that the seen-set found new and added."),
    _gauge(
        "crawler_seen_estimated_urls", ("seen", "count_estimated"), "URLs in the seen-set, estimated from the bits set."
    ),
    _gauge(
        "crawler_seen_suspect",
        ("seen", "count_suspect"),
        "1 while the two differ more than chance explains: chosen URLs, or damaged memory.",
    ),
    _gauge(
        "crawler_seen_hash_forgeable",
        ("seen", "hash", "forgeable"),
        "1 if somebody can make a URL that the seen-set takes for another one.",
    ),
    _gauge("crawler_seen_bytes", ("seen", "bytes"), "Size of the seen-set in memory."),
    Metric(
        "crawler_seen_url_bytes",
        "gauge",
        "Bytes of the seen-set for each URL in it.",
        ("seen", "bits_per_url"),
        scale=1 / 8,
    ),
    _gauge("crawler_seen_fpp_target_ratio", ("seen", "fpp_target"), "False-positive probability asked for."),
    _gauge(
        "crawler_seen_fpp_bound_ratio",
        ("seen", "fpp_bound"),
        "False-positive probability that the design never exceeds.",
    ),
    _gauge(
        "crawler_seen_fpp_estimated_ratio",
        ("seen", "fpp_estimated"),
        "False-positive probability now, estimated from the bits set.",
    ),
    _gauge(
        "crawler_seen_fpp_measured_ratio",
        ("seen", "fpp_measured", "value"),
        "Share of URLs known to be new that the seen-set called seen.",
    ),
    _gauge(
        "crawler_seen_fpp_measured_low_ratio",
        ("seen", "fpp_measured", "low"),
        "Lower end of the interval of the measured value.",
    ),
    _gauge(
        "crawler_seen_fpp_measured_high_ratio",
        ("seen", "fpp_measured", "high"),
        "Upper end of the interval of the measured value.",
    ),
    _gauge(
        "crawler_seen_fpp_measured_urls",
        ("seen", "fpp_measured", "sample"),
        "URLs in the sample of the measurement.",
    ),
    _gauge(
        "crawler_seen_expected_skipped_urls",
        ("seen", "expected_urls_skipped"),
        "New URLs expected to have been skipped by mistake so far; 0 with a ledger.",
    ),
    _gauge(
        "crawler_hosts_overlooked",
        ("hosts_overlooked", "count"),
        "Hosts that are due and have a free slot, but are not asked: a fault of the program.",
    ),
    Metric(
        "crawler_seen_compactions_total",
        "counter",
        "Times that one slice replaced all others.",
        ("seen", "compactions"),
    ),
    _gauge(
        "crawler_seen_ledger_waiting_urls", ("seen", "ledger", "waiting"), "URLs called seen that wait to be confirmed."
    ),
    Metric(
        "crawler_seen_ledger_confirmed_total",
        "counter",
        "URLs called seen that had been seen.",
        ("seen", "ledger", "confirmed"),
    ),
    Metric(
        "crawler_seen_ledger_false_positives_total",
        "counter",
        "URLs called seen by mistake, and admitted later.",
        ("seen", "ledger", "false_positives"),
    ),
    _slice("capacity_urls", "capacity", "URLs the slice takes before the next begins."),
    _slice("urls", "count", "URLs put into the slice."),
    _slice("bytes", "bits", "Size of the slice.", 1 / 8),
    _slice("hashes", "hashes", "Bits checked for one URL."),
    _slice("fill_ratio", "fill", "Share of the bits of the slice that are set."),
    _slice("fpp_design_ratio", "fpp_design", "False-positive probability of the slice when it is full."),
    _slice("fpp_estimated_ratio", "fpp_estimated", "False-positive probability now, estimated from the bits set."),
    _gauge("crawler_seen_end_urls", ("seen_at_end", "urls"), "URLs in the seen-set at the end of the crawl."),
    _gauge("crawler_seen_end_fill_ratio", ("seen_at_end", "fill"), "Share of its capacity in use then."),
    _gauge("crawler_seen_end_fpp_ratio", ("seen_at_end", "fpp"), "False-positive probability then."),
    _gauge("crawler_seen_end_skipped_urls", ("seen_at_end", "urls_skipped"), "URLs skipped by mistake by then."),
    Metric(
        "crawler_advice_cause",
        "gauge",
        "1 for the cause of the warning about the seen-set, 0 for the others; absent without a warning.",
        ("seen_warning", "cause"),
        "cause",
        words=CAUSES,
    ),
    _gauge("crawler_outage", ("outage", "now"), "1 while the crawl is paused because no host answers."),
    _gauge("crawler_outage_hosts", ("outage", "hosts"), "Hosts that have failed in the present outage."),
    Metric("crawler_outages_total", "counter", "Outages in this run.", ("outage", "count")),
    Metric("crawler_outage_seconds_total", "counter", "Time of this run in outages.", ("outage", "seconds")),
    Metric(
        "crawler_outage_probes_total",
        "counter",
        "Requests of this run that asked whether a host answers.",
        ("outage", "probes"),
    ),
    _gauge("crawler_proxies_failing", ("proxies", "failing"), "Proxies that failed when they were asked last."),
    Metric(
        "crawler_proxy_failures_total", "counter", "Requests of this run that a proxy failed.", ("proxies", "failures")
    ),
    _gauge("crawler_disk_free_bytes", ("disk_free_bytes",), "Bytes free on the disk that holds the job."),
    Metric(
        "crawler_text_failed_total",
        "counter",
        "Pages of this run whose text could not be extracted.",
        ("text_failed",),
    ),
    Metric(
        "crawler_hook_calls_total",
        "counter",
        "Calls of a function of the user in this run.",
        ("hooks",),
        "hook",
        "calls",
    ),
    Metric("crawler_hook_failures_total", "counter", "Calls of this run that failed.", ("hooks",), "hook", "failed"),
    Metric(
        "crawler_hook_hanging",
        "gauge",
        "Calls that have not returned for 10 s, or half of what they may take.",
        ("hooks",),
        "hook",
        "hanging",
    ),
    Metric("crawler_pages_rated_total", "counter", "Pages that code of the user was to score.", ("harvest", "rated")),
    Metric("crawler_pages_relevant_total", "counter", "Of these, the relevant ones.", ("harvest", "relevant")),
    _gauge("crawler_harvest_ratio", ("harvest", "rate"), "Relevant pages for each page that was rated."),
    _gauge("crawler_harvest_recent_ratio", ("harvest", "recent_rate"), "The same of the last 1,000 pages of this run."),
    Metric(
        "crawler_pages_parsed_total",
        "counter",
        "Pages of this run whose links their tokens told, or why a tree was needed.",
        ("pages_parsed",),
        "by",
    ),
    Metric("crawler_output_bytes", "gauge", "Bytes of an output.", ("outputs",), "output", "bytes"),
    _gauge(
        "crawler_loop_stall_p99_seconds",
        ("loop_stall_seconds", "p99"),
        "Delay of the event loop, 99th percentile of the samples of this run.",
    ),
    _gauge(
        "crawler_loop_stall_longest_seconds",
        ("loop_stall_seconds", "longest"),
        "Longest delay of the event loop in this run.",
    ),
    Metric(
        "crawler_loop_stalled_seconds_total",
        "counter",
        "Time of this run in stalls of the event loop of a tenth of a second or longer.",
        ("loop_stall_seconds", "total"),
    ),
    Metric(
        "crawler_loop_stalls_total",
        "counter",
        "Stalls of the event loop in this run of a quarter of a second or longer.",
        ("loop_stalls", "count"),
    ),
    _gauge(
        "crawler_messages_waiting",
        ("messages_waiting", "count"),
        "Messages of a partition that are not durable yet where they belong.",
    ),
    _gauge(
        "crawler_messages_waiting_seconds",
        ("messages_waiting", "seconds"),
        "For how long some of them have waited without progress.",
    ),
    _gauge("crawler_replicas_wanted", ("replicas", "wanted"), "Replicas wanted."),
    _gauge(
        "crawler_replicas_in_step", ("replicas", "in_step"), "Of these, replicas that keep pace: they can take over."
    ),
    _gauge("crawler_replica_lag_steps", ("replicas", "steps"), "Steps that the replica furthest behind does not have."),
    _gauge(
        "crawler_replica_lag_seconds",
        ("replicas", "seconds"),
        "For how long there have been steps that a replica does not have.",
    ),
    _counter("crawler_commits_total", "commits", "Steps written to the store in this run."),
    _gauge("crawler_checkpoint_generation", ("checkpoint", "generation"), "Number of the last checkpoint."),
    _gauge(
        "crawler_checkpoint_age_seconds", ("checkpoint", "age_seconds"), "Time since the last checkpoint was complete."
    ),
    _gauge(
        "crawler_checkpoint_duration_seconds", ("checkpoint", "seconds"), "Time it took to write the last checkpoint."
    ),
    _gauge("crawler_checkpoint_bytes", ("checkpoint", "bytes"), "Bytes written for the last checkpoint."),
    _gauge("crawler_checkpoint_generations", ("checkpoint", "kept"), "Generations on disk."),
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
