"""``crawler work --drain --dir DIR``: has the worker of a directory leave, and waits until it has."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from crawler.base.carrier.local_frames import SOCKET_NAME
from crawler.base.disk import RealDisk
from crawler.base.figures import counted
from crawler.base.say import say
from crawler.cli.exit_codes import Exit, UsageError
from crawler.cluster.drain_file import asked, is_at_work
from crawler.cluster.moves import STUCK
from crawler.engine.lifecycle import State
from crawler.inspect.crawl_reader import stats_of
from crawler.job.crawl_file import holds_crawl, partition_directories
from crawler.job.job_lock import lock_holder
from crawler.job.replica_moves import replicas_here
from crawler.job.run_settings import read_run

_LOOK = 0.5  # seconds between two looks


def drain(directory: Path) -> int:
    """Returns the exit code. Raises UsageError, OSError, and what reading a crawl raises."""
    if not holds_crawl(directory):
        raise UsageError(f"{directory} holds no crawl in partitions")
    had, worked = _partitions(directory), _is_busy(directory)
    if worked:
        _check_possible(directory)
        with asked(RealDisk(), directory):
            _wait(directory)
    left = _partitions(directory)
    text = _stayed(directory, left, worked=worked) if left else _empty(directory, had=bool(had), worked=worked)
    if worked and not left and (kept := replicas_here(directory)):
        text += (
            f". Its replicas, of {_named(kept)}, are made again in other directories, if there are others: no second "
            "machine may be lost until `crawler stats --engine --crawl` has all of them in step"
        )
    say(sys.stderr, f"crawler: {text}" if left else text)
    return Exit.FAILED if left else Exit.OK


def _is_busy(directory: Path) -> bool:
    """Whether a worker runs there, or the process that began the crawl, which starts workers."""
    return is_at_work(directory) or lock_holder(directory) is not None


def _is_still_busy(directory: Path) -> bool:
    try:
        return _is_busy(directory)
    except FileNotFoundError as error:
        raise UsageError(
            f"{directory} was removed while it was drained: what had not moved is lost, unless other directories have "
            "replicas of it"
        ) from error


def _check_possible(directory: Path) -> None:
    """Raise UsageError, before anybody is asked to leave, if nothing of what runs there can."""
    first = lock_holder(directory)
    if first is not None and (directory / SOCKET_NAME).exists():
        raise UsageError(
            f"process {first} carries the crawl from {directory} for all of its workers, which would end with it: a "
            "directory can be drained if the crawl has an `--engine`"
        )
    settings = [read_run(path).settings.partitions for path in partition_directories(directory)]
    why = other = ""
    if any(not each.replicas for each in settings):
        why, other = "the crawl has no replicas (`--replicas 0`)", "`--replicas 1`"
    elif any(not each.replica_bodies for each in settings):
        why, other = "replicas lack what was fetched (`partitions.replica_bodies = false`)", "`true`"
    if why:
        numbers = _partitions(directory)
        raise UsageError(
            f"{_named(numbers)} of {directory} cannot move, because {why}: the worker goes on. To change that, stop "
            f"all workers, and give the command that began the crawl again with {other}; or stop this worker, and keep "
            f"the directory for when {'it is' if len(numbers) == 1 else 'they are'} to go on"
        )


def _named(partitions: Sequence[int]) -> str:
    return f"partition{'' if len(partitions) == 1 else 's'} {', '.join(map(str, partitions))}"


def _empty(directory: Path, *, had: bool, worked: bool) -> str:
    if not worked:
        return f"no worker runs with {directory}, which has no partition: there is nothing to hand over"
    if not had:
        return f"the worker of {directory} has ended: it had no partition, and the directory can be removed"
    return f"{directory} has no partition any more: it can be removed"


def _stayed(directory: Path, left: Sequence[int], *, worked: bool) -> str:
    one = len(left) == 1
    named = _named(left)
    if stats_of(directory)["state"] == State.ENDED:  # whether the whole crawl has, this directory does not know
        done = f"{'has' if one else 'have'} nothing left to do, as at the end of a crawl"
        return f"{named} {done}, and stay{'s' if one else ''} in {directory}, with all records"
    them = "it" if one else "them"
    why = f"no other directory could take {them} for {STUCK:.0f} seconds, or the worker was stopped before that"
    if not worked:
        why = "no worker runs with it: start it, then drain it"
    return f"{named} {'is' if one else 'are'} still in {directory}: {why}"


def _wait(directory: Path) -> None:
    """Wait until its processes have ended, and all that take their places. Say how many partitions are left. Raises
    UsageError if the directory goes meanwhile."""
    told = -1
    while _is_still_busy(directory):
        left = len(_partitions(directory))
        if left != told and (left or told > 0):
            say(sys.stderr, f"{counted(left, 'partition')} left")
        told = left
        time.sleep(_LOOK)


def _partitions(directory: Path) -> Sequence[int]:
    return [int(path.name) for path in partition_directories(directory)]
