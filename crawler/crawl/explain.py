"""Everything the job knows of one URL, in sentences."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from crawler.crawl.look import OpenJob, find_record, open_job, queue
from crawler.crawl.robots_cache import RobotsCache, RobotsRecordError
from crawler.exact import rows_of
from crawler.filters import digest_keys
from crawler.frontier import Family, decode_host
from crawler.frontier.entry import is_retry, retry_time
from crawler.scope import Scope
from crawler.settings import SCOPES
from crawler.urls import Canonical, Canonicaliser, Rejected, host_key

_QUEUE_SHOWN = 1_000_000  # entries looked through for the position of a URL


def explain_url(directory: Path, text: str, now: float) -> Iterator[str]:
    """Lines that answer: how it was canonicalised, whether it is in scope, whether it was seen, which queue holds it,
    when it may go and why not now. Raises what ``open_job`` raises; a text that is no URL is explained too."""
    with open_job(directory) as job:
        canonicaliser = Canonicaliser(job.settings.canonical.rules)
        for step, value in canonicaliser.explain(text):
            yield f"{step}: {value}"
        url = canonicaliser.canonicalise(text)
        if isinstance(url, Rejected):
            yield f"not a URL to crawl: {url.reason}"
            return
        yield from _scope(job, url)
        yield from _seen(job, url)
        yield from _where(job, url, now)


def _scope(job: OpenJob, url: Canonical) -> Iterator[str]:
    for mode in SCOPES:
        prefix = f"scope/{mode}/".encode("ascii")
        rows = job.store.scan(Family.META, prefix, prefix[:-1] + b"0")
        if rows:
            scope = Scope(mode)
            scope.restore(key[len(prefix) :].decode("utf-8") for key, _ in rows)
            yield f"scope {mode}: {scope.explain(url.href)}"


def _seen(job: OpenJob, url: Canonical) -> Iterator[str]:
    seen = job.restore_seen().seen
    statistics = seen.statistics()
    if url.key in seen:
        yield (
            f"seen: yes, says the seen-set ({statistics['kind']}); for a URL never admitted it would say so with "
            f"probability {statistics['fpp_estimated']:.2g}"
        )
        if job.settings.seen.ledger:
            yield f"ledger: {_doubted(job, url)}"
    else:
        yield "seen: no; the seen-set has no false negatives"


def _doubted(job: OpenJob, url: Canonical) -> str:
    (row,) = rows_of([url.key], digest_keys([url.key]))
    if job.store.get(Family.SEEN, row) is not None:
        return "it was admitted, its digest says so"
    if job.store.get(Family.LEDGER, row) is not None:
        return "called seen, not confirmed yet; it is admitted if it never was"
    return "never admitted: when it is found the ledger will say so"


def _where(job: OpenJob, url: Canonical, now: float) -> Iterator[str]:
    name = host_key(url.href)
    stored = job.store.get(Family.HOSTS, name.encode("ascii"))
    if stored is None:
        yield f"host {name}: never admitted to"
        return
    host = decode_host(name, stored)
    yield f"host {name}: {host.size} pending, {host.fetched} fetched, {host.failed} failed"
    try:
        robots = RobotsCache(job.store, job.settings.robots, job.settings.fetch.user_agent).get(name)
    except RobotsRecordError as damage:
        yield f"robots: the record in store/ is damaged: {damage}"
    else:
        if robots is not None and not robots.rules.allowed(url.href):
            yield f"robots: {robots.refusal}"
    for position, (slot, entry) in enumerate(itertools.islice(queue(job.store, name), _QUEUE_SHOWN), 1):
        if entry.href != url.href:
            continue
        lane = "retry lane" if is_retry(slot) else "queue"
        yield (
            f"pending: number {position} in the {lane} of {name}, depth {entry.depth}, via {entry.via}, "
            f"{entry.tries} tries failed"
        )
        due = max(host.next_time, retry_time(slot) if is_retry(slot) else 0.0)
        if is_retry(slot) and due > host.next_time:
            yield f"next: not before {_moment(due)}, it failed and is asked again"
        elif due > now:
            yield f"next: its host not before {_moment(due)}: {host.rule.words}"
        else:
            yield "next: its host may be asked now; those before it in the queue come first"
        return
    record = find_record(job.directory, url.href)
    if record is None:
        yield "neither pending nor in pages.jsonl under this href"
        return
    status = "no response" if record["status"] is None else f"status {record['status']}"
    error = f": {record['error']}" if record["error"] else ""
    yield f"done: {record['outcome']}, {status}, {record['fetched_at']}{error}"


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
