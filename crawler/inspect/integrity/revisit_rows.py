"""Rebuilds the schedule of revisits."""

from __future__ import annotations

import contextlib
from collections.abc import Collection

from crawler.base.kv import Batch, Family, Store
from crawler.frontier import PageError, due_key, pack_page, unpack_page
from crawler.inspect.integrity.change import Change, Done, Tell
from crawler.inspect.integrity.quarantine import Quarantine


def rebuild_schedule(store: Store, quarantine: Quarantine, tell: Tell, queued: Collection[bytes]) -> int:
    """Rebuild the schedule from the pages, and return how many pages are in it.

    ``queued`` holds the pages that are queued for a revisit. A page that is not queued and has no time is due at once.
    Raises OSError."""
    count, mended = 0, 0
    before = [key for key, _ in store.rows(Family.DUE)]
    wanted: set[bytes] = set()
    batch = Batch()
    for key, value in store.rows(Family.PAGES):
        try:
            page = unpack_page(value)
            if page.entry.href.encode("ascii") != key:
                raise PageError("of another page")
        except PageError:
            quarantine.keep_row(Family.PAGES, key, value)
            batch.delete(Family.PAGES, key)
            mended += 1
            continue
        due = None if key in queued else page.due or page.visited_at + page.interval
        if due != page.due:
            batch.put(Family.PAGES, key, pack_page(page._replace(due=due)))
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
        quarantine.flush()
        store.write(batch)
        tell(Change(Done.SCHEDULE_REBUILT, {"count": mended}))
    return count


def forget_answers(store: Store) -> None:
    """Forget what pages looked like: records of their visits are lost, and whoever keeps a copy of the site may lack
    what they said. The next visit of each page gets it whole and compares it with nothing. Raises OSError."""
    for rows in store.pages(Family.PAGES):
        batch = Batch()
        for key, value in rows:
            with contextlib.suppress(PageError):  # it is removed later
                page = unpack_page(value)
                if page != page.forgotten():
                    batch.put(Family.PAGES, key, pack_page(page.forgotten()))
        if batch.changes:
            store.write(batch)
