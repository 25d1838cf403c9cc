"""All points at which the program can be killed (``failpoint``), by the part of it that passes them."""

from __future__ import annotations

CRAWL_POINTS = (  # of the crawl itself
    "begin.identity",  # job.json is written under its temporary name: the job does not exist yet
    "store.begun",  # its store is an empty directory under a temporary name
    "store.made",  # it is complete and durable under that name: the job has no store yet
    "store.placed",  # it has its own name, but that name is not durable
    "parsing",  # the URL of a page is recorded, but its body is not read
    "step.marked",  # bits are set and entries are queued in memory, but not written
    "pages.begun",  # a new file of records exists, and is empty
    "pages.compressed",  # a file of records is compressed under a temporary name
    "pages.renamed",  # the compressed file has its name, the other still exists
    "output.begun",  # an output file exists, and is empty
    "body.written",  # a body is written under its temporary name
    "body.placed",  # it has its name, but its page is not finished
    "step.kept",  # a part of the page is in its output, but its record is not
    "step.recorded",  # the record is in the output, but not in the journal
    "step.written",  # the batch has been passed to the operating system
    "sync.output",  # the output is durable, but the journal is not
    "sync.done",  # both are durable
    "checkpoint.begun",  # no file of the generation exists
    "checkpoint.segment",  # one segment is written and durable
    "checkpoint.sealed",  # a full slice is written for the last time
    "checkpoint.segments",  # all segments are written, but not the manifest
    "checkpoint.manifest",  # the manifest is written under its temporary name
    "checkpoint.done",  # the generation exists, but older ones are not pruned
    "checkpoint.pruned",  # older ones are pruned, but the journal is not trimmed
    "checkpoint.trimmed",  # the journal is trimmed
    "compaction.done",  # one slice replaces the chain, in memory only
    "resume.opened",  # lock and store are open, but nothing is restored
    "resume.postponed",  # the URL being read at a crash has been moved behind the others, but is still recorded
    "resume.restored",  # the seen-set is restored, but the output is not cut
    "resume.cut",  # the output is cut, but lost URLs are not queued again
    "resume.requeued",  # lost URLs are queued again
)

SIDE_POINTS = (  # of the commands that run next to a crawl
    "inbox.written",  # `add` has written its file under its temporary name: not confirmed yet
    "inbox.admitted",  # the URLs of a file are admitted and durable, but the result is not reported
    "inbox.answered",  # the result is reported, but the file still exists
    "repair.built",  # a new store is complete and durable under its temporary name
    "repair.ready",  # the new store has the name from which the next repair continues
    "repair.output",  # the remaining records have replaced the old ones
    "repair.aside",  # the damaged store and its seen-set are moved away: there is no store
    "repair.placed",  # the new store is in its place, without a seen-set
    "repair.done",  # there is a new seen-set, but the store is still marked as being repaired
)

BACKUP_POINTS = (  # of backups; a crawl kept in a bucket passes most of them too
    "snapshot.linked",  # all of the state but the store is hard-linked
    "snapshot.made",  # the snapshot is complete
    "backup.taken",  # same as above
    "object.written",  # an object of a directory is durable under its temporary name, invisible to readers
    "bucket.stored",  # all pieces are stored, but no snapshot names them
    "bucket.snapshot",  # the snapshot is stored, but older ones still exist
    "backup.done",  # the backup is valid, but older ones still exist
    "restore.copied",  # everything is restored under a temporary name
    "restore.done",  # it is in its place, and counts as interrupted
)

BUCKET_POINTS = (  # of a crawl kept in a bucket
    "bucket.fetched",  # what is to be restored is in a directory that held no job, and nothing else has changed
    "bucket.closed",  # the log of the previous owner is closed
    "bucket.owned",  # this process is the owner, but the directory is unchanged
    "bucket.brought",  # the directory has the bucket's state, but is not marked so
)

SPLIT_POINTS = (  # of `crawler split`
    "split.taken",  # all partitions are claimed, but nothing is stored
    "split.stored",  # all new partitions are stored, but the crawl has its old shape
    "split.shaped",  # the crawl has its new shape, but the old partitions are not released
)

PARTITION_POINTS = (  # of a crawl in partitions
    "acks.appended",  # the carrier knows that links are durable here; nothing was sent since
)

POINTS = (
    *CRAWL_POINTS,
    *SIDE_POINTS,
    *BACKUP_POINTS,
    *PARTITION_POINTS,
    *BUCKET_POINTS,
    *SPLIT_POINTS,
)
