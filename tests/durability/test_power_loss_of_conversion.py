"""A power loss at any step of a conversion: the job is what it was, or the next run ends the conversion."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from crawler.base.disk import RealDisk
from crawler.base.kv import Family
from crawler.inspect.integrity.finding import Finding, Kind
from crawler.inspect.integrity.verifier import verify_job
from crawler.inspect.job_reader import OpenJob, open_job
from crawler.job.conversion import OLD, convert_job
from crawler.job.directory import IDENTITY, PAGES, SEEN, STORE
from crawler.job.durable_frontier import DurableFrontier, Options
from crawler.job.formats import KNOWN, Formats
from crawler.job.identity import read_identity
from crawler.job.platform import Platform
from crawler.job.recovery import kept_hash
from crawler.seen.filters import SEED_ZERO
from tests.durability.crash_states import Fate, RecordingDisk, State, state_after
from tests.job.converting import CONVERTING, MARK

URLS = [f"https://{host}.test/{number}" for host in "ab" for number in range(12)]
DONE = 8
ROUNDS = 4  # states of each call, besides the worst and the best
UNUSED = ("convert.old/", f"{IDENTITY}.part")  # whatever their files hold


def make(directory: Path, formats: Formats, kind: str = "scalable") -> Path:
    """A job of two sessions: some of its records are older than the journal."""
    options: Options = {"delay": 0, "seen": kind, "capacity": 16, "fpp": 1e-6}
    for urls in (URLS[:16], URLS[16:]):
        with DurableFrontier(directory, platform=Platform(formats=formats), **options) as frontier:
            frontier.add(urls)
            for _ in range(DONE // 2):
                lease = frontier.take()
                assert lease is not None
                frontier.finish(lease)
    return directory


def states(job: Path, formats: Formats) -> Iterator[tuple[str, State]]:
    """Convert the job. Yields the different states that a power loss may leave of it, and when it comes."""
    disk = RecordingDisk(job, STORE)
    try:
        convert_job(disk, job, formats)
        disk.end()
    finally:
        disk.close()
    known: set[frozenset[tuple[str, bytes]]] = set()
    for number, (call, events) in enumerate(disk.calls):
        for turn, fate in enumerate((Fate.LOST, Fate.KEPT, *[Fate.CHANCE] * ROUNDS)):
            state = state_after(disk.events[:events], random.Random(f"{number} {turn}"), fate)
            tree = state.tree()
            used = frozenset((name, data) for name, data in tree.items() if name[-1] == "/" or not _is_unused(name))
            if used not in known:
                known.add(used)
                yield f"{fate.name} at call {number}, {call}", state


def parts(state: State) -> dict[str, bytes]:
    """What the program that made the job has written."""
    mine = (IDENTITY, PAGES, f"{STORE}/", f"{SEEN}/")
    return {name: data for name, data in state.tree().items() if name.startswith(mine) and not _is_unused(name)}


def _is_unused(name: str) -> bool:
    return name.startswith(UNUSED)


def check_power_losses(job: Path, formats: Formats, check: Callable[[OpenJob], None], *wrong: Finding) -> None:
    """Convert the job, again and again with a power loss, and end each conversion that was not lost as a whole.
    ``wrong``: what is not mended by a conversion."""
    number = read_identity(job, formats).format
    unchanged: list[State] = []
    before: dict[str, bytes] = {}
    ended = 0
    for where, state in states(job, formats):
        before = before or parts(state)
        if parts(state) == before:
            unchanged.append(state)
            continue
        ended += 1
        resumed = job.with_name(f"resumed-{ended}")
        state.write(resumed)
        identity = read_identity(resumed, formats)
        assert (identity.format, identity.converting) in ((formats.usual, number), (formats.usual, None)), where
        assert (resumed / STORE).is_dir() or (resumed / OLD / STORE).is_dir(), f"{where}: a run calls it lost"
        convert_job(RealDisk(), resumed, formats)
        check_whole(resumed, formats, where, check, wrong)
    assert ended > 2
    # One of many: a copy that is not complete is removed, whatever it holds.
    again = job.with_name("again")
    unchanged[-1].write(again)
    convert_job(RealDisk(), again, formats)
    check_whole(again, formats, "again", check, wrong)


def check_whole(
    job: Path, formats: Formats, where: str, check: Callable[[OpenJob], None], wrong: tuple[Finding, ...]
) -> None:
    identity = read_identity(job, formats)
    assert (identity.format, identity.converting) == (formats.usual, None), where
    assert not list(job.glob("convert.*")), where
    with open_job(job, formats) as opened:
        assert opened.restore_seen().seen.contains_many(URLS) == [True] * len(URLS), f"{where}: is fetched twice"
        assert opened.counters.pending == len(URLS) - DONE, f"{where}: is lost"
        assert len(list(opened.store.rows(Family.PENDING))) == len(URLS) - DONE, f"{where}: is lost"
        check(opened)
    assert [finding for finding in verify_job(job, formats) if not finding.mends] == list(wrong), where


def check_keyed(job: OpenJob) -> None:
    assert job.identity.hash is not None
    assert job.identity.hash.keyed
    assert kept_hash(job.store) == job.identity.hash


def test_an_older_job_gets_a_secret(tmp_path: Path) -> None:
    check_power_losses(make(tmp_path / "job", Formats()), KNOWN, check_keyed)


def test_stored_bytes_change(tmp_path: Path) -> None:
    def check(job: OpenJob) -> None:
        assert job.store.get(Family.META, MARK) == b"x", "converted once"

    check_power_losses(make(tmp_path / "job", KNOWN), CONVERTING, check)


def test_a_copy_is_given_up(tmp_path: Path) -> None:
    """It is left from an earlier attempt, and the next one finds that the job is not whole."""
    job = make(tmp_path / "job", Formats())
    before = (job / IDENTITY).read_bytes()
    left = [state for _, state in states(job, KNOWN) if state.tree()[IDENTITY] == before]
    shutil.rmtree(job)
    left[-1].write(job)
    assert list(job.glob("convert.new/store/*.sst"))
    (job / PAGES).write_bytes((job / PAGES).read_bytes().replace(b"/0", b"/O", 1))
    (wrong,) = [finding for finding in verify_job(job) if not finding.mends]
    assert wrong.kind is Kind.FINISHED_NOT_SEEN

    def check(job: OpenJob) -> None:
        assert job.identity.hash == SEED_ZERO
        assert job.identity.unkeyed is not None

    check_power_losses(job, KNOWN, check, wrong)
