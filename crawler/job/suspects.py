"""Moves the pages that were being parsed when the process died to the end of the queue, before the job resumes.

One of them may have killed the process; the others are innocent. All are visited later, and parsed in a separate
process; a page fails only if it kills that process too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from crawler.base.disk import Expendable, failpoint
from crawler.base.kv import Batch, Family, Store
from crawler.frontier.entry import Entry, decode_entry
from crawler.frontier.postponement import postpone
from crawler.job.metrics.catalogue import Counters
from crawler.job.parsing_notes import PARSING, Note, NotesError, read_notes, remove_notes
from crawler.job.records import encode_counters
from crawler.job.recovery import COUNTERS
from crawler.job.transaction import TransactionWriter


def postpone_suspects(
    directory: Path, store: Store, counters: Counters, writer: TransactionWriter, say: Callable[[str], None]
) -> None:
    """Postpone the pages in the notes of the last run, each in its own batch, and remove the notes. The frontier must
    not be loaded yet. Raises OSError, EntryError and HostRecordError."""
    notes: list[Note] = []
    expendable = Expendable(str(directory / PARSING))
    with expendable:
        try:
            notes = read_notes(directory)
        except NotesError as error:
            say(f"{PARSING} is ignored: {error}")
    for note in notes:
        entry = writer.apply(partial(_postpone, note, store, counters))
        if entry is not None:
            failpoint("resume.postponed")
            say(f"visited last, because the crawler died while parsing the page: {entry.href}")
    with expendable:
        remove_notes(directory)


def _postpone(note: Note, store: Store, counters: Counters, batch: Batch) -> Entry | None:
    value = store.get(Family.PENDING, note.key)
    if value is None or not note.is_of(decode_entry(value).href):
        return None  # the page was finished
    entry = postpone(store, note.key, counters.next_number, batch)
    if entry is not None:
        counters.next_number += 1
        batch.put(Family.META, COUNTERS, encode_counters(counters))
    return entry
