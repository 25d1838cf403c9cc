"""A job: the durable state of a crawl, and the few transactions that change it.

Each transaction is synchronous and atomic: the seen-set's bits, the queue, the journal and the output change together,
with no ``await`` between them, and the store writes its part as one batch. After a crash a transaction is either
complete or absent; in the second case the work is repeated.

When the disk is full, a transaction stays unwritten and the job is *blocked*: no other may start (``room`` waits), and
the write of the same bytes is repeated until there is space. So memory is never more than one transaction ahead of the
disk.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from crawler.base.clock import Anchor
from crawler.base.disk import Disk, failpoint
from crawler.base.kv import Batch, Family, Store
from crawler.base.settings.parts import RecrawlSettings, Settings
from crawler.frontier import lease as ends
from crawler.frontier.entry import Entry
from crawler.frontier.frontier import Frontier
from crawler.frontier.lease import Lease
from crawler.frontier.limits import Limits
from crawler.frontier.order import Order
from crawler.frontier.page import Answer
from crawler.frontier.request_outcome import ANSWERED, FailureClass, RequestOutcome
from crawler.frontier.traps.copies import remember
from crawler.frontier.traps.soft404 import Lesson
from crawler.frontier.traps.traps import Traps
from crawler.job.admission import Admission, AdmissionPolicy, JournalSearch, KnownUrls
from crawler.job.checkpoint.generations import KEPT, Generations
from crawler.job.checkpointer import Checkpointer, CheckpointResult, Promises, drive_beside
from crawler.job.clock_anchor import follow_clock
from crawler.job.directory import SEEN, STORE, made_at
from crawler.job.event_log import tell_failed, tell_host
from crawler.job.found import KEEP_ALL, Brought, CopiedPage, Decided, Found, Router
from crawler.job.identity import shaping_of
from crawler.job.left_out import OwnRules
from crawler.job.metrics.events import Events
from crawler.job.open_files import OpenFiles
from crawler.job.output.body_files import BODY_SIZES, decode_sizes
from crawler.job.output.finished import Past
from crawler.job.parsing_notes import postpone_suspects
from crawler.job.partition.inlet import Verdict
from crawler.job.partition.link_batch_codec import Ack, LinkBatch
from crawler.job.partition.router import PartitionRouter
from crawler.job.platform import Platform
from crawler.job.receiving import (
    EPOCH,
    Content,
    Receipt,
    check_crawl_of,
    decode_epoch,
    encode_epoch,
    is_named,
    keep_crawl,
    read_content,
)
from crawler.job.records import (
    Aside,
    Kept,
    Outcome,
    PageRecord,
    count_done,
    count_rendered,
    encode_counters,
    result_of,
)
from crawler.job.recovery import (
    COUNTERS,
    Requeue,
    RestoredSeen,
    SeenSpec,
    check_counts,
    check_hash,
    check_output,
    keep_identity,
    note_faults,
    requeue,
    restore_seen,
    stored_counters,
)
from crawler.job.requeue import Returning
from crawler.job.revisit import Revisiting
from crawler.job.scope_state import Scopes
from crawler.job.seen_compaction import Compaction
from crawler.job.seen_figures import write_seen_figures
from crawler.job.snapshot import link_state, make_snapshot
from crawler.job.step_log import StepLog
from crawler.job.transaction import RecordSink, Transaction, TransactionWriter
from crawler.job.verdict import Draft, RobotsAnswer, Throttled
from crawler.seen.exact.ledger import Ledger
from crawler.seen.filters import SeenSet
from crawler.url.refusal.forbidden_targets import Refusal
from crawler.url.scope.modes import Scope
from crawler.url.scope.priority_rules import PriorityRules
from crawler.url.urls.canonicaliser import Canonical

T = TypeVar("T")

_JUDGED = 4_096  # hosts for which the verdict of the rules is cached


class Job:
    """A job in a directory, opened for writing. It must be closed."""

    def __init__(
        self,
        directory: Path,
        settings: Settings,
        now: float,
        platform: Platform | None = None,
        anchor: Anchor | None = None,
        router: Router = KEEP_ALL,
    ) -> None:
        """Create the job, or resume it.

        ``now`` is in seconds since 1970. ``anchor`` shows whether the clock was set since the last run, ``router``
        decides which URLs belong to this job. ``platform.line`` identifies its log of steps. Raises JobError (also for
        an unwritable directory), UnknownVersionError, OSError if the disk fails, and the codecs' errors
        (``stored_errors``) if stored bytes are damaged."""
        self.notes: list[str] = []
        self.events = Events()  # events of hosts and URLs; a display replaces this object
        platform = platform or Platform()
        if isinstance(router, PartitionRouter):
            platform = platform.of_partition(router.me, router.placement.partitions)
        self.files = OpenFiles(directory, shaping_of(settings), platform, settings.output)
        try:
            self.counters = stored_counters(self.files.store)
            if isinstance(router, PartitionRouter):
                check_crawl_of(directory, self.files.store, router.placement.secret)
                router.load(self.files.store, self.counters)
            self._load(settings, now, anchor, router)
            if self.partition is not None and self.epoch:
                # The previous process may have requested hosts, and lost the records of these requests in a power loss.
                self.frontier.resume()
            self.checkpointer.renewal = platform.renewal
        except BaseException:
            self.files.close()
            raise

    def _load(self, settings: Settings, now: float, anchor: Anchor | None, router: Router) -> None:
        files, store, outputs, say = self.files, self.files.store, self.files.outputs, self.notes.append
        for damage in files.dropped:
            say(f"{STORE}/{damage}: the log was read up to that point; later work is repeated")
        counters = self.counters
        generations = Generations(files.directory / SEEN, KEPT, files.disk)
        check_hash(store, files.identity.hash)
        restored = restore_seen(generations, store, SeenSpec(settings.seen, files.identity.hash))
        self.frontier = queues = Frontier(
            store,
            settings.politeness,
            Limits.of(settings),
            order=Order(settings.crawl.order),
            robots=not settings.robots.ignore,
        )
        records = RecordSink(outputs, files.look, logs=self.log.line != 0)
        self.writer = writer = TransactionWriter(records, self.log, store, self._seal, queues.written)
        writer.apply(partial(follow_clock, store, anchor, now, say))
        postpone_suspects(files.directory, store, counters, writer, say)
        queues.load(now, next_number=counters.next_number, hosts=counters.hosts)
        began = made_at(files.directory)
        self.revisiting = Revisiting(store, settings, queues, counters, began)
        self.left_out = self.revisiting.left_out
        ledger = Ledger(store) if settings.seen.ledger else None
        policy = AdmissionPolicy(Traps(settings.traps, store), PriorityRules.of_settings(settings), router)
        self._admission = Admission(restored.seen, ledger, queues, counters, policy, self._finish_record)
        rules = PriorityRules.of_settings(settings)
        self.returning = Returning(store, queues, counters, self.revisiting, rules)
        self.checkpointer = Checkpointer(generations, self._admission, writer, store, outputs.pages)
        self.checkpointer.replayed(restored.replayed)
        self._compaction = Compaction(restored.seen, store, settings.seen.compact_slices, say)
        check_counts(store, queues, counters)
        self._settle(restored, settings.recrawl, say)
        writer.apply(partial(self.revisiting.load, say))
        writer.apply(partial(keep_identity, store, files.identity))
        writer.apply(self.log.begin)
        self._scopes = Scopes(store, settings.crawl.scope, of_partition=isinstance(router, PartitionRouter))

    def _settle(self, restored: RestoredSeen, recrawl: RecrawlSettings, say: Callable[[str], None]) -> None:
        """Cut the outputs to match the store, and requeue URLs whose records are lost."""
        store, outputs, counters = self.store, self.files.outputs, self.counters
        outputs.bodies.size = decode_sizes(store.get(Family.META, BODY_SIZES))
        cut = check_output(store, outputs, restored.sequence)
        failpoint("resume.restored")
        self.notes += note_faults(restored, self.checkpointer.generations)
        cut.apply(outputs)
        failpoint("resume.cut")
        if cut.lost or cut.lost_asides:
            sizes = outputs.bodies.encoded_sizes()
            self.log.drop()  # a store elsewhere has data that is lost here
            self.writer.apply(partial(requeue, Requeue(store, self.frontier, counters, recrawl, sizes), cut))
        if cut.lost:
            say(f"finished URLs whose records were lost are pending again: {len(cut.lost)}")
        failpoint("resume.requeued")

    def enforce(self, rules: OwnRules) -> None:
        """Apply the crawler's own rules to the URLs that it finds, and ``lift`` limits. Without this call, the caller
        must apply the rules."""
        self._admission.origins = rules.origins
        self.frontier.refused.rule = lru_cache(_JUDGED)(rules.refusal_of_host)
        self.lift(rules)

    def lift(self, rules: OwnRules) -> None:
        """Apply the limits of this run to the URLs that earlier runs left out. On a full disk the job waits for space,
        as after any transaction. Raises OSError, BoundsError, LeftOutError."""
        with self.writer as transaction:
            self.left_out.load(rules, self._admission.policy.traps, transaction.batch)

    def leave_out(self, known: KnownUrls | None) -> None:
        """Ignore links to URLs that are in older seen-sets."""
        self._admission.policy = replace(self._admission.policy, known=known)

    def older_sets_that_know(self, url: Canonical) -> list[str]:
        """Return the names of the older seen-sets that contain the URL. Raises OSError."""
        known = self._admission.policy.known
        return [] if known is None else known.that_know(url)

    def change(self, settings: Settings) -> Iterator[None]:
        """Apply changed settings to a running crawl, including those for ``enforce``.

        The caller must exhaust the iterator, and may use the job between its steps. Raises TrapRecordError and the
        errors of ``enforce``."""
        rules = PriorityRules.of_settings(settings)
        traps = Traps(settings.traps, self.store)
        self._admission.policy = replace(self._admission.policy, traps=traps, classes=rules)
        self.returning.rules = rules
        self.revisiting.change(settings)
        self.enforce(OwnRules.of(settings, self.store))
        return self.frontier.change(settings.politeness, Limits.of(settings))

    # -- parts -------------------------------------------------------------------------------------------------

    @property
    def directory(self) -> Path:
        return self.files.directory

    @property
    def disk(self) -> Disk:
        return self.files.disk

    @property
    def store(self) -> Store:
        return self.files.store

    @property
    def seen(self) -> SeenSet:
        return self._admission.seen

    @property
    def ledger(self) -> Ledger | None:
        """The URLs that the seen-set reported as seen and that are not confirmed yet; None for a seen-set without a
        ledger."""
        return self._admission.ledger

    @property
    def traps(self) -> Traps:
        return self._admission.policy.traps

    @property
    def scope(self) -> Scope:
        return self._scopes.current

    def name_of_visit(self, entry: Entry) -> str:
        """Return a text that identifies this visit of this URL: unique in the job."""
        page = self.revisiting.state_of(entry)
        return f"{self.seen.hash.digest_keys([entry.href]).hex()}-{1 if page is None else page.visits + 1}"

    # -- transactions ------------------------------------------------------------------------------------------

    def widen(self, href: str) -> bool:
        """Add the URL to the scope. It is stored with the next transaction, which also reports it to other partitions.
        Returns True if the scope grew."""
        return self._scopes.widen(href)

    def is_own(self, url: Canonical) -> bool:
        """True if the URL belongs to this job, not to another partition."""
        return bool(self._admission.policy.router.keeps([url]))

    def admit(self, found: Found) -> int:
        """Admit the new URLs that belong to this job, in one transaction. Returns their number."""
        with self.writer as transaction:
            new = self._admit(found, transaction)
        return new

    def _admit(self, found: Found, transaction: Transaction) -> int:
        new = self._admission.admit(found, transaction)
        if found.candidates and found.found_at is not None:
            stated = {href: known.stated for href, known in found.candidates.items() if known.stated is not None}
            self.revisiting.heed(stated, found.found_at, transaction.batch)
        if found.seed:
            self.counters.seeds += new
        return new

    def called_seen(self, urls: Sequence[Canonical]) -> list[Canonical]:
        """Return the URLs of this job that the seen-set reports as seen, perhaps by mistake.

        Empty for an exact seen-set, which makes no mistakes, and with a ledger, which detects them."""
        if self.ledger is not None or self.seen.certain:
            return []
        urls = self._admission.policy.router.keeps(urls)
        seen = self.seen.contains_many([url.key for url in urls])
        return [url for url, known in zip(urls, seen, strict=True) if known]

    def search(self, urls: Sequence[Canonical]) -> JournalSearch:
        """Return a search of the journal for these URLs."""
        return JournalSearch(self.store, self.seen.digests([url.key for url in urls]))

    def admit_missed(self, found: Found, search: JournalSearch) -> int:
        """Admit the URLs of ``found`` that the seen-set reports as seen by mistake, in one transaction. Returns their
        number. Raises OSError."""
        with self.writer as transaction:
            missed = self._admission.admit_missed(found, search, transaction)
            if found.seed:
                self.counters.seeds += missed
        return missed

    @property
    def doubted(self) -> int:
        """The number of URLs that the seen-set reported as seen and that are not confirmed yet."""
        return 0 if self.ledger is None else self.ledger.counts.waiting

    def decide(self, limit: int, now: float) -> Decided:
        """Look up at most ``limit`` doubted URLs, and admit the new ones, in one transaction. Does nothing while a
        transaction is unwritten. Raises OSError."""
        if not self.doubted or self.writer.in_transaction:
            return Decided()
        with self.writer as transaction:
            return self._admission.decide(limit, transaction, now)

    def forget(self, keys: Sequence[str]) -> dict[int, str]:
        """Remove keys from the seen-set. Returns the positions of keys that were not removed, with reasons. Raises
        JobError for a kind of seen-set that cannot forget."""
        left: dict[int, str]
        with self.writer as transaction:
            left = self._admission.forget(keys, transaction.batch, self.store)
        return left

    def finish(self, lease: Lease, draft: Draft, now: float) -> int:
        """Finish a URL: its last links, its record and the end of its lease are one transaction. Returns the number of
        new links."""
        record, links = draft.record, draft.links
        entry = record.entry
        with self.writer as transaction:
            self.counters.internal_failures += draft.request.failure is FailureClass.INTERNAL
            self.counters.pages_code_failed += record.data_error is not None
            self.counters.pages_unstated += draft.unstated
            if draft.rendering is not None:
                count_rendered(self.counters, record.rendered, draft.rendering.requests)
            redirect = record.outcome is Outcome.REDIRECT
            found = Found(
                links.inside,
                entry.depth if redirect else entry.depth + 1,
                entry.href,
                entry.seed and redirect,
                entry.redirects + 1 if redirect else 0,
                None if entry.seed and redirect else now,
                entry.sitemap and redirect,
                self.frontier.share(lease),
                candidates=links.candidates,
                chain=draft.chain if redirect else b"",
            )
            if draft.paid is not None:
                draft.paid.put(transaction.batch)
            closed, counted = self.traps.note(entry.href, draft.sights, transaction.batch)
            self.counters.trap_counts += counted
            new = self._admission.admit(found, transaction)
            if draft.again is not None:
                self.revisiting.lead_back(draft.again, record, transaction.batch)
            if links.left_out and record.content is not None:
                copy = CopiedPage(entry.href, entry.depth, record.content.duplicate_of)
                self._admission.leave_out(links.left_out, copy, transaction, now)
            if draft.relevant is not None:
                self.counters.rated += 1
                self.counters.relevant += draft.relevant
            if draft.lesson is not None:
                self._learn(draft.lesson, draft.probe, entry, transaction)
            self._finish_record(record, transaction, draft.answer, draft.kept)
            dropped = self._admission.dropped.pop(entry.href, None)
            self.left_out.note(record, draft.left, transaction.batch, dropped)
            done = _done(record, draft.request if draft.requested else None)
            self.frontier.finish(lease, done, now, transaction.batch)
        tell_host(self.events, lease.host, draft.request, now)
        for words in closed:
            self.left_out.tell(words)
        return new

    def exchange(
        self,
        ended: Sequence[tuple[Lease, PageRecord]],
        brought: Sequence[Brought],
        also: Callable[[Batch], None],
        now: float,
    ) -> None:
        """Finish requests of an external fetcher, and queue its new ones, in one transaction.

        ``also`` adds that fetcher's own data to the transaction. The requests do not hold their hosts, because the
        fetcher controls its pace itself."""
        with self.writer as transaction:
            self._admission.admit_brought(brought, transaction)
            for lease, record in ended:
                self._finish_record(record, transaction)
                self.frontier.finish(lease, _done(record, ANSWERED), now, transaction.batch)
            also(transaction.batch)

    def put_back(
        self, batch: str, part: Sequence[Past], done: int, pending: Collection[str], priority: int | None = None
    ) -> int:
        """Requeue finished URLs, in one transaction, and record that ``done`` URLs of the batch are done.

        URLs in ``pending`` are already queued. With a ``priority`` the URLs are queued first in that class. Returns the
        number queued. Raises PageError, LeftOutError."""
        with self.writer as transaction:
            return self.returning.put_back(batch, part, done, pending, transaction.batch, priority)

    def _learn(self, lesson: Lesson, probe: Canonical | None, entry: Entry, transaction: Transaction) -> None:
        """Store what the page of the entry showed about its host, and queue the probe that it requires."""
        lesson.put(transaction.batch)
        if probe is not None:
            found = Found([probe], entry.depth + 1, entry.href, probe=True)
            self.counters.soft404_probes += self._admission.admit(found, transaction)

    def retry(self, lease: Lease, again: ends.Retry, now: float) -> None:
        """Return a URL to its host's queue after a transient failure."""
        with self.writer as transaction:
            self.counters.retries += 1
            self.frontier.finish(lease, again, now, transaction.batch)
        tell_host(self.events, lease.host, again.request, now)

    def take_back(self, lease: Lease, now: float) -> None:
        """End a lease whose request failed because the local network was down. Only the host's gap applies; otherwise
        the request counts as not made."""
        with self.writer as transaction:
            self.frontier.finish(lease, ends.TakenBack(), now, transaction.batch)

    def throttle(self, lease: Lease, verdict: Throttled, now: float) -> None:
        """Hold a host that answered 429 or 503."""
        with self.writer as transaction:
            self.counters.throttled += 1
            self.counters.retries += verdict.last is None
            if verdict.last is not None:
                self._finish_record(verdict.last.record, transaction, verdict.last.answer, verdict.last.kept)
            held = ends.Throttled(verdict.entry if verdict.last is None else None, verdict.request)
            self.frontier.finish(lease, held, now, transaction.batch)
        tell_host(self.events, lease.host, verdict.request, now)

    def robots_known(self, lease: Lease, answer: RobotsAnswer, now: float) -> None:
        """Store the outcome of a fetch of robots.txt or of terms, and admit the sitemaps that the file lists."""
        with self.writer as transaction:
            self.counters.robots_fetched += answer.sitemaps is not None
            self.counters.internal_failures += answer.request.failure is FailureClass.INTERNAL
            self.counters.throttled += answer.request.failure is FailureClass.THROTTLED
            if answer.sitemaps is not None:
                self._admission.admit(answer.sitemaps, transaction)
            if answer.kept:
                self._put_aside(lease.host.name, answer.kept, transaction)
            batch, request = transaction.batch, answer.request
            batch.put(Family.ROBOTS, lease.host.name.encode("ascii"), answer.stored)
            known = ends.RobotsKnown(answer.until, answer.crawl_delay, request, answer.closed)
            self.frontier.finish(lease, known, now, batch)
        tell_host(self.events, lease.host, request, now)

    def keep_again(self, visit: str, kept: Kept) -> None:
        """Add data newly derived from the page of a visit (``visit_name``) to the outputs."""
        with self.writer as transaction:
            self._put_aside(visit, kept, transaction)

    def _put_aside(self, owner: str, kept: Kept, transaction: Transaction) -> None:
        transaction.records.append((self.counters.sequence, Aside(owner), kept))
        self.counters.sequence += 1

    def robots_later(self, lease: Lease, wait: float, now: float, request: RequestOutcome) -> None:
        """Hold the host after a failed fetch of robots.txt, until the next try."""
        with self.writer as transaction:
            self.counters.throttled += request.failure is FailureClass.THROTTLED
            self.frontier.finish(lease, ends.RobotsLater(wait, request), now, transaction.batch)
        tell_host(self.events, lease.host, request, now)

    # -- partitions --------------------------------------------------------------------------------------------

    @property
    def partition(self) -> PartitionRouter | None:
        """The job's router as a partition of a crawl; None if it is not partitioned."""
        router = self._admission.policy.router
        return router if isinstance(router, PartitionRouter) else None

    @property
    def epoch(self) -> int:
        """The last epoch that the partition started; 0 if there was none. Raises OSError, JournalError."""
        return decode_epoch(self.store.get(Family.META, EPOCH))

    async def begin_epoch(self, epoch: int) -> None:
        """Start an epoch greater than all earlier ones, and make that durable, so that messages may be sent. Raises
        ValueError, OSError."""
        partition = self._as_partition()
        if epoch <= self.epoch:
            raise ValueError(f"epoch {epoch} does not follow {self.epoch}")
        await self.room()
        with self.writer as transaction:
            transaction.batch.put(Family.META, EPOCH, encode_epoch(epoch))
            keep_crawl(self.store, partition.placement.secret, transaction.batch)
        await self.room()
        await self.sync()
        partition.outbox.renumber(epoch)

    def receive(self, link_batches: Sequence[LinkBatch], now: float) -> list[Receipt]:
        """Admit batches from other partitions in one transaction. A batch is admitted only if it is its sender's next
        one. Raises OSError."""
        inlet, receipts = self._as_partition().inlet, list[Receipt]()
        with contextlib.ExitStack() as stack:
            transaction: Transaction | None = None
            for link_batch in link_batches:
                verdict = inlet.judge(link_batch)
                content = read_content(link_batch, now) if verdict is Verdict.ADMITTED else Receipt(verdict)
                if isinstance(content, Content):
                    transaction = transaction or stack.enter_context(self.writer)
                    inlet.admitted(link_batch, transaction.batch, self.writer.commits + 1)
                    content = self._receive(content, transaction, now)
                receipts.append(content)
        return receipts

    def _receive(self, content: Content, transaction: Transaction, now: float) -> Receipt:
        doubted: list[Found] = []
        new = 0
        for widened in content.widened:
            for href in widened.hrefs:
                self._scopes.hear(href)
            self._scopes.hear_entries(widened.mode, widened.entries)
        for found in content.found:
            if is_named(found) and (known := self.called_seen(found.urls)):
                doubted.append(found._replace(urls=known))
            if found.copy is None:
                new += self._admit(found, transaction)
                self._admission.dropped.pop(found.via, None)  # the page belongs to another partition
            else:
                self._admission.leave_out(found.urls, found.copy, transaction, now)
        return Receipt(Verdict.ADMITTED, new, doubted)

    def due_acks(self) -> list[Ack]:
        """Return, once each, acknowledgements of batches that have arrived again, or are now durable, also in the store
        of the crawl."""
        return self._as_partition().inlet.acks(self.promises.kept)

    def acknowledged(self, acks: Sequence[Ack], now: float) -> bool:
        """Remove acknowledged messages, which are durable at their targets, from the outbox in one transaction.

        Returns False, without a transaction, if the acknowledgements are not new. Raises OSError."""
        outbox = self._as_partition().outbox
        news = [ack for ack in acks if outbox.is_news(ack)]
        if news:
            with self.writer as transaction:
                for ack in news:
                    outbox.acknowledged(ack, now, transaction.batch)
        self._tell_again([ack.target for ack in acks if not ack.epoch])
        return bool(news)

    def _tell_again(self, targets: Sequence[int]) -> None:
        """Send the scope to partitions that were recreated and so lack it.

        If messages are waiting for such a partition, they are sent first; the partition then requests the scope
        again."""
        partition, scope = self._as_partition(), self.scope
        waiting = partition.outbox.waiting() if targets else {}
        lacking = [target for target in targets if target in partition.outbox.targets and target not in waiting]
        if lacking and (entries := scope.entries()):
            with self.writer as transaction:
                for target in lacking:
                    partition.tell_entries(scope.mode, entries, transaction.batch, target)

    def _as_partition(self) -> PartitionRouter:
        partition = self.partition
        if partition is None:
            raise RuntimeError(f"{self.directory} is not a partition")
        return partition

    # -- hosts and revisits ------------------------------------------------------------------------------------

    def meet(self, href: str) -> Refusal | None:
        """Count the server of a URL that a page's scripts request, as if a link led to it. Returns why it must not be
        requested, or None."""
        origins = self._admission.origins
        refused = None if origins is None else origins.refusal(href)
        if origins is not None and refused is None:
            with self.writer as transaction:
                self.counters.trap_counts += origins.refusals([href], transaction.batch)[1]
        return refused

    def change_hosts(self, change: Callable[[Batch], T]) -> T:
        """Apply a change of hosts or queues, in one transaction. Returns the result of ``change``."""
        with self.writer as transaction:
            return change(transaction.batch)

    def revisit(self, now: float) -> bool:
        """Queue pages whose next visit is due, in one transaction. Returns False if no page is due, or none can be
        queued now."""
        if self.writer.in_transaction or not self.revisiting.is_due(now):
            return False
        with self.writer as transaction:
            self.revisiting.begin(now, transaction.batch)
        return True

    def _finish_record(
        self, record: PageRecord, transaction: Transaction, answer: Answer | None = None, kept: Kept = ()
    ) -> None:
        self.revisiting.finish(record, answer, transaction.batch)
        transaction.records.append((self.counters.sequence, record, kept))
        self.counters.sequence += 1
        count_done(self.counters, record.outcome, record.status)
        self.counters.bytes_fetched += record.size or 0
        if record.content is not None and record.outcome is not Outcome.SOFT404:
            remember(record.entry.href, record.content, transaction.batch)
        self.left_out.add(record, transaction.batch)
        led_on = record.outcome is Outcome.FETCHED or record.is_dropped
        if record.entry.seed and not record.entry.revisit and led_on:
            self.counters.seeds_fetched += 1
        tell_failed(self.events, record)

    def _seal(self, batch: Batch) -> None:
        """Store the counters in every transaction, so that they always agree with queue and journal."""
        scopes = self._scopes
        scopes.store(batch)
        if scopes.untold or scopes.untold_entries:
            if (partition := self.partition) is not None:
                partition.tell_widened(scopes.untold, batch)
                partition.tell_entries(scopes.current.mode, scopes.untold_entries, batch)
            scopes.untold.clear()
            scopes.untold_entries.clear()
        self.counters.next_number = self.frontier.next_number
        self.counters.hosts = self.frontier.hosts
        batch.put(Family.META, COUNTERS, encode_counters(self.counters))

    # -- outside the transactions ------------------------------------------------------------------------------

    @property
    def blocked(self) -> str | None:
        """Why no transaction can be written at present (the disk is full), or None."""
        return self.writer.blocked

    def room(self) -> Awaitable[None]:
        """Wait until a transaction may start. After any other ``await``, wait again."""
        return self.writer.room()

    async def sync(self) -> None:
        """Make all transactions so far durable, in a thread. Raises OSError."""
        await drive_beside(self.checkpointer.sync(), self.files.executor)

    async def promise(self) -> None:
        """Make all transactions so far safe to report to others: durable, and in the store of the crawl if it has one.
        Raises OSError."""
        commits = self.writer.commits
        await self.sync()
        await self.promises.reach(commits)

    @property
    def promises(self) -> Promises:
        """The transactions that others may rely on: they are durable, and in the store of the crawl if it has one."""
        return self.checkpointer.promises

    @property
    def log(self) -> StepLog:
        """The data written by the job's transactions, for the store of the crawl."""
        return self.files.log

    async def checkpoint(self, now: float, *, whole: bool = False) -> CheckpointResult:
        """Write a generation in a thread; with ``whole``, one that needs no replay of the journal. A full disk makes
        the result ``refused``; any other OSError is raised."""
        outputs = self.files.outputs
        end = outputs.end_of("text")
        result = await drive_beside(self.checkpointer.checkpoint(now, whole=whole), self.files.executor)
        if result.refused is None:
            outputs.final_text = end
        return result

    async def at_rest(self) -> None:
        """Wait until all syncs and checkpoints in progress are finished."""
        await asyncio.get_running_loop().run_in_executor(self.files.executor, lambda: None)

    async def snapshot(self) -> None:
        """Create ``DIR/snapshot``, for a backup, in a thread. Raises OSError."""
        await self._hold_still(partial(make_snapshot, self.directory))

    async def hold_still(self, at: Path) -> None:
        """Create hard links to the files of the state in the directory ``at``, in a thread, and write the figures of
        the seen-set there. Raises OSError."""

        def make(copy_store: Callable[[str], None]) -> None:
            link_state(self.directory, at, copy_store)
            write_seen_figures(self.disk, at, self.seen)

        await self._hold_still(make)

    async def _hold_still(self, make: Callable[[Callable[[str], None]], None]) -> None:
        # Use the thread of syncs and checkpoints, so that no generation is written or removed meanwhile.
        await asyncio.get_running_loop().run_in_executor(self.files.executor, make, self.store.snapshot)

    async def compress_beside(self, interval: float) -> None:
        """Compress full files of records until cancelled, in the thread of syncs, one piece at a time. Checks for such
        files every ``interval`` seconds. Raises OSError."""
        while True:
            await self._compress_one(lambda: False)
            await asyncio.sleep(interval)

    async def compress_rest(self, is_enough: Callable[[], bool]) -> None:
        """Compress the remaining full files of records, in the thread of syncs, until ``is_enough`` returns True, and
        remove files left by an interrupted compression. Raises OSError."""
        while await self._compress_one(is_enough):
            pass
        self.files.outputs.pages.tidy()

    async def _compress_one(self, is_enough: Callable[[], bool]) -> bool:
        """Compress the next full file. Returns False if no file was compressed."""
        loop, compressed = asyncio.get_running_loop(), False
        with contextlib.closing(self.files.outputs.pages.compression()) as steps:
            for step in steps:
                if is_enough():
                    return False
                doing = loop.run_in_executor(self.files.executor, step)
                try:
                    await asyncio.shield(doing)
                except asyncio.CancelledError:
                    await asyncio.wait([doing])  # the files that it uses are closed next
                    doing.exception()  # the next compression will detect a full disk again
                    raise
                except OSError as error:
                    with contextlib.suppress(StopIteration):
                        steps.throw(error)
                    return False
                compressed = True
        return compressed

    def compact(self) -> bool:
        """Run a piece of a compaction of the seen-set; return False if there is nothing to do. Raises OSError."""
        # While a transaction is unwritten, its keys are in the seen-set but not in the journal.
        return not self.writer.in_transaction and self._compaction.advance()

    def close(self) -> None:
        """Release all files. Writes nothing."""
        self.files.close()


def _done(record: PageRecord, request: RequestOutcome | None) -> ends.Done:
    outcome = record.outcome
    result = result_of(outcome, record.status, record.error)
    return ends.Done(request, outcome is Outcome.FAILED, outcome is Outcome.EXCLUDED, result, record.needs_scripts)
