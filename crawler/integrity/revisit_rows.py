"""The rows that say when pages are visited again: checked against one another and the queue, and made to agree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from crawler.frontier import EntryError, PageError, decode_entry, due_key, pack_page, split_due_key, unpack_page
from crawler.integrity.quarantine import Quarantine
from crawler.kv import Batch, Family, Reader, Store
from crawler.records import Counters


def _queued(store: Reader) -> set[bytes]:
    """The addresses of pages that are queued once more: few at a time."""
    found = set()
    for _, value in store.rows(Family.PENDING):
        try:
            entry = decode_entry(value)
        except EntryError:
            continue  # named among the pending ones
        if entry.revisit:
            found.add(entry.href.encode("ascii"))
    return found


def schedule_faults(store: Reader, counters: Counters) -> Iterator[str]:
    """What does not agree, a line each: a page has a time and a row among the due ones, or it is queued."""
    queued = _queued(store)
    if len(queued) != counters.revisits_pending:
        yield f"store/: {counters.revisits_pending} revisits counted as pending, the queues hold {len(queued)}"
    for key, value in store.rows(Family.PAGES):
        try:
            page = unpack_page(value)
        except PageError as error:
            yield f"store/: page {key!r}: {error}"
            continue
        if page.entry.href.encode("ascii") != key:
            yield f"store/: page {key!r}: it is the record of {page.entry.href}"
        elif page.due is None and key not in queued:
            yield f"store/: page {page.entry.href} has no time for its next visit and is not queued"
        elif page.due is not None and store.get(Family.DUE, due_key(page.due, page.entry.href)) is None:
            yield f"store/: page {page.entry.href} is not among the due ones"
    count = 0
    for key, _ in store.rows(Family.DUE):
        count += 1
        try:
            due, href = split_due_key(key)
            value_of = store.get(Family.PAGES, href.encode("ascii"))
            known = value_of is not None and unpack_page(value_of).due == due
        except PageError as error:
            yield f"store/: due {key!r}: {error}"
            continue
        if not known:
            yield f"store/: due {href}: no page with that time"
    if count != counters.scheduled:
        yield f"store/: {counters.scheduled} pages counted as scheduled, {count} are due one day"


def mend_schedule(store: Store, aside: Quarantine, say: Callable[[str], None]) -> int:
    """Make the due ones anew from the pages; a page that is neither queued nor has a time is due at once. Returns how
    many have a time. Raises OSError."""
    queued, count, mended = _queued(store), 0, 0
    before = [key for key, _ in store.rows(Family.DUE)]
    wanted: set[bytes] = set()
    batch = Batch()
    for key, value in store.rows(Family.PAGES):
        try:
            page = unpack_page(value)
            if page.entry.href.encode("ascii") != key:
                raise PageError("of another page")
        except PageError:
            aside.keep_row(Family.PAGES, key, value)
            batch.delete(Family.PAGES, key)
            mended += 1
            continue
        due = None if key in queued else page.due or page.visited_at + page.interval
        if due != page.due:
            batch.put(Family.PAGES, key, pack_page(replace(page, due=due)))
            mended += 1
        if due is not None:
            count += 1
            wanted.add(due_key(due, page.entry.href))
    for key in wanted.difference(before):
        batch.put(Family.DUE, key, b"")
        mended += 1
    for key in set(before).difference(wanted):
        batch.delete(Family.DUE, key)
        mended += 1
    if mended:
        aside.flush()
        store.write(batch)
        say(f"{mended} rows of the schedule of revisits did not agree: made anew")
    return count
