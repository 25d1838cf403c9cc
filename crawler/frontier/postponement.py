"""Moves a URL behind all others of its host, because the crawler died while it was reading the page at that URL.

Pure: changes stored rows before the frontier loads them.
"""

from __future__ import annotations

from crawler.base.kv import Batch, Family, Reader
from crawler.base.settings.parts import CLASSES
from crawler.frontier.entry import (
    CRASHES_MOST,
    Entry,
    decode_entry,
    encode_entry,
    fresh_slot,
    is_retry,
    pending_key,
    split_pending_key,
)
from crawler.frontier.host import decode_host, encode_host

_LAST_CLASS = CLASSES - 1
_LAST_RANK = 2**64 - 1


def postpone(store: Reader, key: bytes, number: int, batch: Batch) -> Entry | None:
    """Move the entry with that key to the end of its host's queue, and count the crash.

    ``number`` is the number of its new slot. Returns the new entry, or None if the store has no entry with that key.
    Raises EntryError and HostRecordError.
    """
    value = store.get(Family.PENDING, key)
    if value is None:
        return None
    name, slot = split_pending_key(key)
    stored = store.get(Family.HOSTS, name.encode("ascii"))
    if stored is None:
        return None  # reported by `check_counts`
    host, entry = decode_host(name, stored), decode_entry(value)
    entry = entry._replace(priority=_LAST_CLASS, crashes=min(entry.crashes + 1, CRASHES_MOST))
    behind = fresh_slot(number, _LAST_CLASS, _LAST_RANK)
    batch.delete(Family.PENDING, key)
    batch.put(Family.PENDING, pending_key(name, behind), encode_entry(entry))
    host.queue.complete = False  # makes encode_host store the cursor, which must not be past the entry
    host.queue.cursor = min(host.queue.cursor, behind)
    host.queue.retry_size -= is_retry(slot)
    batch.put(Family.HOSTS, name.encode("ascii"), encode_host(host))
    return entry
