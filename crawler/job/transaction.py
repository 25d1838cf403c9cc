"""A transaction: one atomic change of a job."""

from __future__ import annotations

from dataclasses import dataclass, field

from crawler.kv import Batch
from crawler.records import PageRecord

# How the note begins that says so of a checkpoint.
NO_CHECKPOINT = "no checkpoint, the journal stands for it"


@dataclass(slots=True)
class Transaction:
    """What goes to the store, and the records (with their journal numbers) that go to the output before it."""

    batch: Batch = field(default_factory=Batch)
    records: list[tuple[int, PageRecord]] = field(default_factory=list)
