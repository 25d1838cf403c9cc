"""Named places at which a test may kill the program, to see that nothing is lost there.

``CRAWLER_CRASH_AT=name`` or ``name:n`` in the environment kills the process (SIGKILL, as from outside) when it reaches
the place for the first or n-th time. Without the variable a place costs one function call.
"""

from __future__ import annotations

import os
import signal

VARIABLE = "CRAWLER_CRASH_AT"

CRAWL_POINTS = (  # of the crawl itself
    "begin.identity",  # job.json is written under its passing name: the job does not exist yet
    "step.marked",  # bits are set and entries queued in memory, nothing is written
    "step.recorded",  # the record stands in the output, the journal does not know of it
    "step.written",  # the batch is with the operating system
    "sync.output",  # the output is durable, the journal not yet
    "sync.done",  # both are
    "checkpoint.begun",  # no file of the generation exists
    "checkpoint.segment",  # one segment is written and durable
    "checkpoint.sealed",  # a full slice is, for good
    "checkpoint.segments",  # all are, the manifest is not there
    "checkpoint.manifest",  # the manifest is written under its passing name
    "checkpoint.done",  # the generation exists, older ones are not pruned
    "checkpoint.pruned",  # they are, the journal is not trimmed
    "checkpoint.trimmed",  # it is
    "compaction.done",  # one slice stands for the chain, in memory only
    "resume.opened",  # lock and store are held, nothing is restored
    "resume.restored",  # the seen-set is, the output is not cut
    "resume.cut",  # the output is cut, lost URLs are not queued again
    "resume.requeued",  # they are
)

SIDE_POINTS = (  # of the commands beside it
    "inbox.written",  # `add` has written its file under its passing name: nothing was promised yet
    "inbox.admitted",  # the URLs of a file are admitted and durable, nobody was told
    "inbox.answered",  # who left them was, the file is still there
    "repair.salvaged",  # a new store is filled and durable under its passing name
    "repair.ready",  # it has the name that the next repair goes on from
    "repair.aside",  # the damaged store is out of its way: there is no store
    "repair.placed",  # the new one is in its place
    "repair.marked",  # the store says that it is being repaired
    "repair.queued",  # what is to be fetched again is queued, its record stands in the output
    "repair.output",  # the output is replaced, the journal has events of the old one
    "repair.counted",  # queue, journal and counters agree, the rows beside the seen-set do not
    "repair.mended",  # they do, the seen-set is the old one
    "repair.cleared",  # its generations are set aside, there is no new one
    "repair.done",  # there is, the store still says that it is being repaired
)

POINTS = CRAWL_POINTS + SIDE_POINTS

_at, _, _times = os.environ.get(VARIABLE, "").partition(":")
_left = int(_times) if _times.isdecimal() else 1
if _at and _at not in POINTS:
    raise ValueError(f"{VARIABLE}: no crash point is called {_at!r}")


def failpoint(name: str) -> None:
    """This place is reached; ends the process if it was asked for."""
    global _left  # noqa: PLW0603  # the number of passes left belongs to the process, as its end does
    if name == _at:
        _left -= 1
        if _left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
