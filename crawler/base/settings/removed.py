"""Keys that are no longer settings, each with the sentence that tells the user what applies instead."""

from __future__ import annotations

_SLOW = "a host is slowed down by its failures, not by its response time"
_PATIENCE = 'politeness.patience sets how many chances failing hosts get ("usual", "short", "endless")'
_BACKOFF = "politeness.backoff_first sets the scale of all pauses after failures"
_ALL_CLASSES = "retry.tries and retry.first_wait apply to all failures (TLS is tried once)"
_SHARES = "new and slow hosts may always hold a quarter of the slots; a host with a latency above 10 s is slow"
_SESSION = "a host keeps its turn for at most 10 URLs and at most a minute"
_BUDGETS = "the only budgets are host_pages, host_bytes and domain_pages"
_ROBOTS = "a robots.txt is used for a day; if it is unreachable, it is fetched again after an hour"
_SLICES = "each slice has twice the capacity of the previous one, and 0.85 times its false-positive probability"
_FIRST = "the second visit comes after mean_interval, but not before min_interval and not after max_interval"
_ADAPTED = "an interval grows by 40% after a visit without a change, and shrinks by 20% after one with a change"
_STORE = "several machines share a crawl that is kept in a store (--store)"
_FAULTS = ("dns", "refused", "unreachable", "tls", "timeout", "cut_off", "server_error")

REMOVED = {
    "partitions.replicas": _STORE,
    "partitions.replica_bodies": _STORE,
    "politeness.max_retry_after": f"a longer Retry-After is cut to an hour; {_PATIENCE}",
    "politeness.backoff_max": f"a back-off grows to 120 times the first; {_BACKOFF}",
    "politeness.jitter": "back-offs and snoozes are up to a tenth longer",
    "politeness.adaptive": _SLOW,
    "politeness.adaptive_min": _SLOW,
    "politeness.adaptive_max": _SLOW,
    "politeness.errors_min": _BACKOFF,
    "politeness.errors_max": _BACKOFF,
    "politeness.snooze_after": _PATIENCE,
    "politeness.snooze_first": _BACKOFF,
    "politeness.snooze_max": _BACKOFF,
    "politeness.retire_after": _PATIENCE,
    "politeness.retire_throttled": _PATIENCE,
    "politeness.slow_after": _SHARES,
    "politeness.slow_share": _SHARES,
    "politeness.session_pages": _SESSION,
    "politeness.session_seconds": _SESSION,
    "retry.throttled_tries": "a URL with a 429 or 503 response gets three times the retries that retry.tries allows",
    "retry.growth": "each wait is four times as long as the previous one, up to retry.max_wait",
    "retry.jitter": "waits are up to a tenth longer",
    "retry.lasting_statuses": "responses with status 501 or 505 are not retried; those with any other 5xx status are",
    "fetch.idle_timeout": "a connection is closed after 20 s without a byte",
    "fetch.body_memory": "bodies above 512 KiB share 64 MiB while they are read and parsed",
    "fetch.max_headers": "response headers may have up to 256 KiB, as in Chromium",
    "fetch.partial": "a body that is truncated on both the first and the last try is always used",
    "budget.host_seconds": _BUDGETS,
    "budget.domain_bytes": _BUDGETS,
    "budget.domain_seconds": _BUDGETS,
    "robots.max_bytes": "the first 500 KiB of a robots.txt are read",
    "robots.ttl": _ROBOTS,
    "robots.unreachable_ttl": _ROBOTS,
    "robots.last_good_ttl": _ROBOTS,
    "robots.cache_bytes": "parsed rules use at most 64 MiB of memory",
    "seen.growth": _SLICES,
    "seen.tightening": _SLICES,
    "links.max_sitemap_bytes": "the first 50 MiB of a sitemap are read: the protocol permits no more",
    "traps.max_segments": "a path may have up to 32 segments",
    "traps.max_repeats": "a segment may occur up to 4 times in a path",
    "traps.max_query_shapes": "a path may have up to 1000 sets of parameter names",
    "traps.domain_factor": "the hosts of a domain together may have 50 times the limit of one host",
    "traps.max_ports": "a host name may have up to 16 ports",
    "traps.max_id_copies": "a form of URLs is closed after 8 visits that found the same pages under other ids",
    "traps.max_records": "a trap writes up to 100 `excluded` records; further exclusions are only counted",
    "recrawl.share": "revisits get half of the turns of a host while first visits wait too",
    "recrawl.first_interval": _FIRST,
    "recrawl.increase": _ADAPTED,
    "recrawl.decrease": _ADAPTED,
    "recrawl.feeds": "feeds are read if links.sitemaps is true",
    "recrawl.gone_after": "a page is no longer visited after three 404 or 410 responses in a row",
    "browser.max_requests": "a page may make up to 50 requests",
    "browser.max_seconds": "a page may take up to 20 s, not counting the time waiting for responses",
    "browser.memory": "the browser is restarted when it uses more than 2 GiB",
    "hooks.on_page_workers": "up to crawl.concurrency calls run at a time; in processes, one per core",
    "hooks.on_page_statuses": "on_page is called with 2xx pages",
    "durability.generations": "the last two generations are kept",
    "partitions.copy_rate": "each process sends at most 40 MB of copies per second",
    "text.memory": "the processes that extract text share 512 MiB",
    "site.max_crawl_delay": "politeness.max_crawl_delay applies to all hosts",
    "site.connect_timeout": "fetch.connect_timeout applies to all hosts",
    "site.idle_timeout": "a connection is closed after 20 s without a byte",
    "site.host_seconds": _BUDGETS,
    "site.first_interval": _FIRST,
    **{f"retry.{fault}_{key}": _ALL_CLASSES for fault in _FAULTS for key in ("tries", "wait")},
}
