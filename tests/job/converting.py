"""Opens a job as a later version of the program would: ``python -m tests.job.converting DIRECTORY``.

The formats are made up. The first one after the program's own is additive, the second must convert what is stored."""

from __future__ import annotations

import sys
from pathlib import Path

from crawler.base.kv import Family
from crawler.job.durable_frontier import DurableFrontier
from crawler.job.formats import KNOWN, AddedSetting, Format, Formats, JobCopy
from crawler.job.platform import Platform

MARK = b"converted"  # of META: as many bytes as there were conversions
BEFORE = 0.5  # not the default of today


def convert(copy: JobCopy) -> None:
    """Each row of a family is written again, and what must be done once is done."""
    store = copy.store
    batch = store.batch()
    for key, value in store.rows(Family.HOSTS):
        batch.put(Family.HOSTS, key, value)
    batch.put(Family.META, MARK, (store.get(Family.META, MARK) or b"") + b"x")
    store.write(batch)
    assert not store.scan(Family.LEDGER, b""), "the family is there, and empty"
    made = copy.seen / "converted"
    made.write_text(made.read_text() + "x" if made.exists() else "x")


ADDITIVE = Formats((*KNOWN.later, Format(frozenset({Family.LEDGER}), (AddedSetting("seen", "tightening", BEFORE),))))
CONVERTING = Formats((*ADDITIVE.later, Format(convert=convert)))


def main() -> None:
    with DurableFrontier(Path(sys.argv[1]), platform=Platform(formats=CONVERTING)) as frontier:
        sys.stdout.write("".join(f"{note}\n" for note in frontier.job.notes))


if __name__ == "__main__":
    main()
