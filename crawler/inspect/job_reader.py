"""Reads a job, running or not, without changing it.

The store is opened a second time as a RocksDB secondary. The seen-set is read from the newest complete generation and
the journal, as when a crawl resumes. A running crawl also writes ``live.json`` every second, with the URLs in flight.
"""

from __future__ import annotations

import contextlib
import datetime
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from crawler.base.disk import RealDisk
from crawler.base.kv import Family, Reader, Store
from crawler.base.memory import available_memory
from crawler.base.settings.parts import Settings
from crawler.base.settings.sites import Sites
from crawler.frontier.entry import FRESH_END, RETRY_START, Entry, decode_entry, pending_key, split_pending_key
from crawler.frontier.host import NO_PAGE_CAUSES, Host, host_name
from crawler.frontier.queues import read_host
from crawler.inspect.host_states import HostCount
from crawler.inspect.statistics import HostFigures, JobFigures, assemble
from crawler.job.checkpoint.envelope import EnvelopeError
from crawler.job.checkpoint.generations import KEPT, Generations
from crawler.job.clock_anchor import job_time
from crawler.job.directory import IDENTITY, LIVE, PAGES, SEEN, STORE
from crawler.job.history_file import read_history
from crawler.job.identity import Identity, read_identity
from crawler.job.job_lock import lock_holder
from crawler.job.live_status import read_live
from crawler.job.markdown_files import markdown_size
from crawler.job.metrics.catalogue import KILLED, Counters
from crawler.job.metrics.crawl_history import CrawlHistoryError
from crawler.job.metrics.outlook import SeenAhead, seen_after, seen_at_end, seen_warning
from crawler.job.output import lines_of, record_of
from crawler.job.output.body_files import BODY_SIZES, decode_sizes
from crawler.job.output.outputs import sizes_on_disk
from crawler.job.output.record_text import text_size
from crawler.job.recovery import RestoredSeen, SeenSpec, restore_seen, stored_counters
from crawler.job.run_settings import read_run
from crawler.job.seen_figures import SeenFigures, read_seen_figures
from crawler.job.store.rocks import RocksStore, StoreError, is_made
from crawler.seen.exact.ledger import LEDGER_COUNTS, LedgerCounts


class OpenJob(Struct, frozen=True):
    """A job opened for reading. ``settings`` are those of the last run. If those cannot be read, ``settings`` are the
    defaults, and ``settings_fault`` is the reason."""

    directory: Path
    settings: Settings
    settings_fault: str | None
    identity: Identity
    store: Store
    counters: Counters
    generations: Generations
    numbers: list[int]  # generations that existed before the store was opened
    store_fault: str | None = None  # why a run could not open the store; only set if it was opened as a run opens it

    def ledger(self) -> LedgerCounts | None:
        """The counts of the ledger of doubted URLs; None for a job without one. Raises FilterError."""
        if not self.settings.seen.ledger:
            return None
        return LedgerCounts.decode(self.store.get(Family.META, LEDGER_COUNTS))

    def restore_seen(self) -> RestoredSeen:
        """Load the seen-set into the memory of this process."""
        spec = SeenSpec(self.settings.seen, self.identity.hash)
        return restore_seen(self.generations, self.store, spec, self.numbers)

    def seen_figures(self) -> SeenFigures:
        """Return the statistics of the seen-set; for a crawl in a bucket, those of the snapshot, and what to expect of
        the URLs since. Raises EnvelopeError and the exceptions of ``restore_seen``."""
        known = read_seen_figures(self.directory)
        if known is None:
            return SeenFigures.of(self.restore_seen().seen)
        if self.numbers:
            self.generations.newest = self.generations.read_manifest(self.numbers[0])
        seen, more = known.statistics, max(0, self.counters.urls_admitted - known.statistics["count"])
        then = seen_after(seen, known.parameters, more, self.settings.seen.compact_slices)
        seen["count"] += more
        seen["count_estimated"] += more
        if then is not None:
            seen["fpp_estimated"], seen["expected_urls_skipped"] = then.fpp, then.urls_skipped
        return known


@contextlib.contextmanager
def open_job(directory: Path, *, as_run: bool = False) -> Iterator[OpenJob]:
    """Open a job for reading. With ``as_run``, the store is opened as a run opens it, if that is possible. Without it,
    or if that fails, everything readable is read. Raises JobError, OSError, JournalError."""
    identity = read_identity(directory)
    run = read_run(directory)
    settings = run.settings
    generations = Generations(directory / SEEN, KEPT, RealDisk())
    # Read these before the store: a generation written after the store was opened contains more than the store shows.
    numbers = generations.numbers()
    with tempfile.TemporaryDirectory(prefix="crawler-look-") as scratch:
        if is_unbegun(directory):
            store, fault = RocksStore(Path(scratch) / STORE), None
        else:
            store, fault = _open_store(directory / STORE, Path(scratch), as_run=as_run)
        try:
            counters = stored_counters(store)
            yield OpenJob(directory, settings, run.fault, identity, store, counters, generations, numbers, fault)
        finally:
            store.close()


def is_unbegun(directory: Path) -> bool:
    """True if the job has no store because its first run has not created one yet, or was killed before it did. Raises
    OSError."""
    if is_made(directory / STORE):
        return False
    return not text_size(directory / PAGES) and not Generations(directory / SEEN, 1, RealDisk()).numbers()


def _open_store(path: Path, scratch: Path, *, as_run: bool) -> tuple[RocksStore, str | None]:
    """Return the store, and the reason if ``as_run`` was set but a run could not open it. Raises StoreError."""
    fault = None
    if as_run:
        try:
            return RocksStore(path, secondary=scratch / "as-run", as_run=True), None
        except StoreError as error:
            if error.errno is not None:
                raise
            fault = str(error)
    return RocksStore(path, secondary=scratch / "beside"), fault


def _of_last_run(job: OpenJob, now: float) -> dict[str, Any]:
    """Return how the last run parsed pages and what stopped it; empty if this is unknown."""
    if (job.directory / LIVE).exists():
        return {"stopped_by": KILLED}
    try:
        history = read_history(job.directory, now)
    except (EnvelopeError, CrawlHistoryError, OSError):  # reported by the dashboard and `crawler verify`
        return {}
    return {"pages_parsed": history.parsed} | history.stopped


def job_stats(directory: Path) -> dict[str, Any]:
    """Return the dictionary that ``stats --json`` prints. Raises the exceptions of ``open_job``."""
    read_identity(directory)
    live = read_live(directory)
    if live is not None:
        return dict(live.stats)
    with open_job(directory) as job:
        seen, ledger = job.seen_figures(), job.ledger()
        pending, now, sites = 0, job_time(job.store), Sites(job.settings)
        found, silent = HostCount.begin(job.settings, job.store, now), dict.fromkeys(NO_PAGE_CAUSES, 0)
        for host in hosts(job.store):
            pending += host.queue.size > 0
            if host.no_page is not None:
                silent[host.no_page] += 1
            found.add(host, sites, now)
        left = job.counters.pending or (ledger and ledger.waiting) or job.settings.recrawl.enabled
        last = None if lock_holder(directory) is not None else _of_last_run(job, now)
        # A run that was stopped before it had read its seeds may not have any URLs yet.
        shown = "running" if last is None else "stopped" if left or last.get("stopped_by") else "ended"
        return assemble(
            JobFigures(
                job.counters,
                seen.statistics,
                job.generations.newest,
                ledger,
                generations=len(job.numbers),
                disk_free=shutil.disk_usage(directory).free,
                outputs=sizes_on_disk(directory / PAGES, decode_sizes(job.store.get(Family.META, BODY_SIZES)))
                | markdown_size(directory),
                endless=job.settings.recrawl.enabled,
            ),
            HostFigures(pending, silent, found),
            None,
            state=shown,
            now=now,
            ahead=SeenAhead(
                None if left else seen_at_end(seen.statistics, seen.parameters, 0, None),
                seen_warning(seen.statistics, seen.parameters, available_memory(), job.settings.seen.compact_slices),
            ),
        ) | (last or {})


def hosts(store: Reader) -> Iterator[Host]:
    """Yield all hosts of the job, by name."""
    for key, value in store.rows(Family.HOSTS):
        yield read_host(store, host_name(key), value)


def queue(store: Reader, host: str) -> Iterator[tuple[bytes, Entry]]:
    """Yield the slot and entry of each URL of one host, in queue order, including URLs in flight."""
    for key, value in store.rows(Family.PENDING, pending_key(host, RETRY_START), pending_key(host, FRESH_END)):
        yield split_pending_key(key)[1], decode_entry(value)


def began_at(directory: Path, now: float) -> float:
    """Return when the job started, in seconds since 1970: the modification time of ``job.json``, or the time of the
    first record if that is earlier, as a repair may have rewritten ``job.json``. Raises OSError."""
    moment = min(now, (directory / IDENTITY).stat().st_mtime)
    for _, line in lines_of(directory / PAGES, 1):
        finished = (record_of(line) or {}).get("fetched_at")
        with contextlib.suppress(ValueError):
            moment = min(moment, datetime.datetime.fromisoformat(str(finished)).timestamp())
    return moment
