"""What a replica without bodies lacks when it becomes the job: the outputs that hold what was fetched.

The records of all pages are there, and name parts and bodies that never came. A repair makes the URLs of these pending
again, takes their records and edges out, so that each comes once, and forgets the robots.txt whose capture did not
come. What it takes out is kept in ``damaged-N``. No page is asked for again whose record needs no part, and no URL is
lost: the queue and the seen-set are those of the last step.
"""

from __future__ import annotations

from pathlib import Path

from crawler.base.disk import Disk
from crawler.inspect.integrity.change import Change, Done
from crawler.inspect.integrity.repairer import repair_job
from crawler.job.directory import LACKS_BODIES, JobError


def fetch_left_out(directory: Path, now: float, disk: Disk) -> int:
    """Make the pages pending again of which the replica in the directory, which nobody has open, lacks what was
    fetched. Returns how many there are; 0 also for a directory that lacks nothing, as any job. After an interruption
    the next call does the rest. ``now`` is in seconds since 1970.

    Takes time for each page, also for those that stay. Raises JobError if the directory is damaged beyond that,
    OSError."""
    if not (directory / LACKS_BODIES).exists():
        return 0
    again = 0

    def note(change: Change) -> None:
        nonlocal again
        count = change.details.get("count")
        if change.done is Done.URLS_PENDING_AGAIN and isinstance(count, int):
            again += count

    repaired = repair_job(directory, now, note, disk)
    if repaired.left:
        raise JobError(f"{directory} lacks more than bodies ({repaired.left[0].kind.value}): `crawler verify` lists it")
    return again
