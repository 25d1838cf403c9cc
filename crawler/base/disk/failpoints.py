"""Named places at which a test may kill the program, to check that nothing is lost there.

``CRAWLER_CRASH_AT=name`` or ``name:n`` in the environment kills the process (SIGKILL, as from outside) when it reaches
the place for the first or n-th time. ``name:n:SIGTERM`` sends another signal. Without the variable, a place costs one
function call.
"""

from __future__ import annotations

import os
import signal

VARIABLE = "CRAWLER_CRASH_AT"

CRAWL_POINTS = (  # of the crawl itself
    "begin.identity",  # job.json is written under its temporary name: the job does not exist yet
    "store.begun",  # its store is an empty directory under a temporary name
    "store.made",  # it is complete and durable under that name: the job has no store yet
    "store.placed",  # it has its own name, and that name is not durable
    "parsing",  # the URL of a page is noted, its body is not read
    "step.marked",  # bits are set and entries are queued in memory, nothing is written
    "pages.begun",  # another file of records exists, and is empty
    "pages.compressed",  # a file of records is compressed under a temporary name
    "pages.renamed",  # the compressed one has its name, the other is still there
    "output.begun",  # a file of an output exists, and is empty
    "body.written",  # a body is written under its temporary name
    "body.placed",  # it has its name, its page is not finished
    "step.kept",  # a part of the page is in its output, its record is not
    "step.recorded",  # the record is in the output, but not in the journal
    "step.written",  # the operating system has the batch
    "sync.output",  # the output is durable, the journal is not
    "sync.done",  # both are durable
    "checkpoint.begun",  # no file of the generation exists
    "checkpoint.segment",  # one segment is written and durable
    "checkpoint.sealed",  # a full slice is written for good
    "checkpoint.segments",  # all segments are written, the manifest is missing
    "checkpoint.manifest",  # the manifest is written under its temporary name
    "checkpoint.done",  # the generation exists, older ones are not pruned
    "checkpoint.pruned",  # older ones are pruned, the journal is not trimmed
    "checkpoint.trimmed",  # the journal is trimmed
    "compaction.done",  # one slice replaces the chain, in memory only
    "resume.opened",  # lock and store are open, nothing is restored
    "resume.postponed",  # the URL whose page was being read at a crash is behind the others, and still noted
    "resume.restored",  # the seen-set is restored, the output is not cut
    "resume.cut",  # the output is cut, lost URLs are not queued again
    "resume.requeued",  # lost URLs are queued again
)

SIDE_POINTS = (  # of the commands beside it
    "inbox.written",  # `add` has written its file under its temporary name: nothing was promised yet
    "inbox.admitted",  # the URLs of a file are admitted and durable, but not answered
    "inbox.answered",  # they are answered, the file still exists
    "repair.built",  # a new store is complete and durable under its temporary name
    "repair.ready",  # it has the name from which the next repair continues
    "repair.output",  # the records that stay have taken the place of the others
    "repair.aside",  # the damaged store and its seen-set are moved away: there is no store
    "repair.placed",  # the new one is in its place, without a seen-set
    "repair.done",  # there is a new seen-set, the store still says that it is being repaired
)

BACKUP_POINTS = (  # of backups; a crawl that lives in a bucket passes most of them too
    "snapshot.linked",  # the state has second names, but its store
    "snapshot.made",  # it is held still
    "backup.taken",  # the same
    "object.written",  # an object of a directory is durable under its temporary name: nobody sees it
    "bucket.stored",  # all pieces are there, no snapshot names them
    "bucket.snapshot",  # it is there, older ones too
    "backup.done",  # the backup counts, older ones are still there
    "restore.copied",  # everything is restored under a temporary name
    "restore.done",  # it has its place, and counts as interrupted
)

BUCKET_POINTS = (  # of a crawl that lives in a bucket
    "bucket.closed",  # the log of the last owner is closed
    "bucket.owned",  # this process is the owner, the directory is as it was
    "bucket.brought",  # it has what the bucket has, and does not say so
)

SPLIT_POINTS = (  # of `crawler split`
    "split.taken",  # every partition is ours, nothing is stored
    "split.stored",  # all new partitions are stored, and the crawl has its old shape
    "split.shaped",  # it has the new one, and the old partitions are not released
)

PARTITION_POINTS = (  # of a crawl in partitions
    "acks.appended",  # what carries messages has the word that links are durable here; nothing was sent since
)

POINTS = (
    *CRAWL_POINTS,
    *SIDE_POINTS,
    *BACKUP_POINTS,
    *PARTITION_POINTS,
    *BUCKET_POINTS,
    *SPLIT_POINTS,
)

_at, _times, _signal = (*os.environ.get(VARIABLE, "").split(":", 2), "", "")[:3]
_left = int(_times) if _times.isdecimal() else 1
_number = signal.Signals[_signal or "SIGKILL"]
if _at and _at not in POINTS:
    raise ValueError(f"{VARIABLE}: no crash point is called {_at!r}")


def failpoint(name: str) -> None:
    """Mark a place. Kills the process, or sends it the signal, if it was asked to."""
    global _left  # noqa: PLW0603  # noqa: PLW0603  # the process, not an object, dies after so many passes
    if name == _at:
        _left -= 1
        if _left == 0:
            os.kill(os.getpid(), _number)
