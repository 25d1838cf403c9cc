"""An older job gets a secret: every digest is made anew, and nothing is lost, done twice or hidden."""

from __future__ import annotations

import functools
import itertools
import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from crawler.base.disk import FULL, RealDisk
from crawler.base.disk.failpoints import CONVERT_POINTS, REKEY_POINTS, VARIABLE
from crawler.base.kv import Family
from crawler.base.settings import SeenSettings, Settings
from crawler.cli import main
from crawler.inspect.integrity.repairer import repair_job
from crawler.inspect.integrity.verifier import verify_job
from crawler.inspect.job_reader import open_job
from crawler.job.checkpoint import encode_envelope
from crawler.job.conversion import Progress, convert_job
from crawler.job.directory import IDENTITY, PAGES, JobError
from crawler.job.durable_frontier import DurableFrontier, Options
from crawler.job.formats import FIRST, KNOWN, Formats
from crawler.job.found import Found
from crawler.job.identity import MAGIC, OtherFormatError, read_identity
from crawler.job.job import Job
from crawler.job.platform import Platform
from crawler.job.recovery import HASH_KEPT, REPAIRING, kept_hash
from crawler.seen.filters import SEED_ZERO, UNKEYED, KeyHash
from crawler.url.urls import Canonical, Canonicaliser
from tests.jobs import store_of
from tests.program import Ran, crawler
from tests.small_disk import small_disk

URLS = [f"https://{host}.test/{number}" for host in "abc" for number in range(100)]
FEW = URLS[::10]  # where how many says nothing
SESSIONS = 4
DONE = 8  # in each session
_STEP = 96 * 1024  # bytes
OLD = Platform(formats=Formats())
KINDS = ["scalable", "bloom", "counting", "cuckoo", "digest", "bitmap"]


def old_job(directory: Path, **options: object) -> Path:
    """A job as the first format has it, with records that the journal no longer names."""
    shape: Options = {"delay": 0, "capacity": 64, "fpp": 1e-6, **options}  # type: ignore[typeddict-item]
    if shape.get("seen", "scalable") != "scalable":
        shape["capacity"] = 1024
    if shape.get("seen") == "bitmap":
        shape["fpp"] = 0.01
    for session in range(SESSIONS):
        with DurableFrontier(directory, platform=OLD, **shape) as frontier:
            frontier.add(URLS[session::SESSIONS])
            finish(frontier, DONE)
    return directory


def finish(frontier: DurableFrontier, most: int) -> list[str]:
    """Of so many URLs, each of which leads to another."""
    taken = []
    while len(taken) < most and (lease := frontier.take()) is not None:
        taken.append(lease.url)
        frontier.finish(lease, [f"{lease.url}/link"])
    return taken


def done_of(job: Path) -> list[str]:
    return [json.loads(line)["url"] for line in (job / PAGES).read_bytes().splitlines()]


def check_whole(job: Path, urls: list[str] = URLS) -> None:
    """Every URL is known, and each is finished once."""
    with DurableFrontier(job, delay=0) as frontier:
        again = frontier.add(urls)
        assert (again.admitted, again.known) == (0, len(urls))
        assert frontier.add("https://new.test/").admitted == 1
        while (lease := frontier.take()) is not None:
            frontier.finish(lease)
        assert not len(frontier)
    done = done_of(job)
    assert len(done) == len(set(done))
    assert set(urls) < set(done)
    assert [finding for finding in verify_job(job) if not finding.mends] == []


def check_keyed(job: Path) -> None:
    identity = read_identity(job)
    assert (identity.format, identity.converting, identity.unkeyed) == (KNOWN.usual, None, None)
    assert identity.hash is not None
    assert identity.hash.describe() == {"algorithm": "blake2b", "keyed": True, "forgeable": False}
    with store_of(job) as store:
        assert kept_hash(store) == identity.hash
    assert not list(job.glob("convert.*"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return old_job(tmp_path_factory.mktemp("old") / "job")


@pytest.fixture
def old(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "job"))


def test_an_older_job_is_read_as_it_is(old: Path) -> None:
    assert read_identity(old).format == FIRST
    with open_job(old) as job:
        assert job.identity.hash is None
        seen = job.restore_seen().seen
        assert seen.hash == SEED_ZERO
        assert seen.statistics()["hash"]["forgeable"]
        assert seen.contains_many(URLS) == [True] * len(URLS)
    assert [finding for finding in verify_job(old) if not finding.mends] == []
    ran = crawler("stats", old)
    assert ran.code == 0, ran.err
    assert "mmh3 without a secret" in ran.out
    assert "Its hash, mmh3, can be forged: a page can hide another URL from it." in ran.out
    ran = crawler("explain", old, URLS[0])
    assert "forgeable" in ran.out
    assert json.loads(crawler("explain", old, URLS[0], "--json").out)["seen"]["forgeable"]


@pytest.fixture(scope="module")
def made_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Such a job for a kind of seen-set, made once; to be copied."""
    return functools.cache(lambda kind: old_job(tmp_path_factory.mktemp(kind) / "job", seen=kind))


@pytest.mark.parametrize("kind", KINDS)
def test_an_older_job_gets_a_secret(made_of: Callable[[str], Path], tmp_path: Path, kind: str) -> None:
    job = Path(shutil.copytree(made_of(kind), tmp_path / "job"))
    before = (job / PAGES).read_bytes()
    with DurableFrontier(job, delay=0) as frontier:
        notes = frontier.job.notes
        assert notes[0] == f"converted from format version 1 to {KNOWN.usual}"
        assert "rebuilt with a secret" in notes[1]
        assert frontier.job.seen.statistics()["hash"]["keyed"]
        assert len(frontier.job.seen) == frontier.job.counters.admitted
    assert (job / PAGES).read_bytes() == before
    check_keyed(job)
    check_whole(job)
    with DurableFrontier(job, delay=0) as frontier:
        assert frontier.job.notes == [], "once"


def test_doubted_urls_move_with_the_ledger(tmp_path: Path) -> None:
    directory = tmp_path / "job"
    settings = Settings(seen=SeenSettings(kind="bloom", fpp=0.3, capacity=32, ledger=True))
    urls = [canonical(url) for url in URLS]
    job = Job(directory, settings, 0.0, OLD)
    try:
        for at in range(0, len(urls), 20):
            job.admit(Found(urls[at : at + 20], 0))
        doubted = job.doubted
        job.decide(3, 0.0)
        assert doubted > 10
    finally:
        job.close()
    job = Job(directory, settings, 0.0)
    try:
        assert "rebuilt with a secret" in job.notes[1]
        assert job.doubted == doubted - 3
        while job.doubted:
            assert job.decide(10, 0.0).looked_up
        assert job.counters.admitted == len(URLS), "each false positive was found out"
        assert job.admit(Found(urls, 0)) == 0
        while job.doubted:
            assert job.decide(100, 0.0).looked_up
        assert job.counters.admitted == len(URLS)
    finally:
        job.close()
    check_keyed(directory)
    assert [finding for finding in verify_job(directory) if not finding.mends] == []


def test_a_long_takeover_says_how_long_it_will_be(caplog: pytest.LogCaptureFixture) -> None:
    times = iter([0.0, 1.0, 6.0, 7.0, 12.0])
    progress = Progress(lambda: next(times))
    for done in (100_000, 600_000, 700_000, 1_200_000):
        progress(done, 9_600_000)
    assert [record.getMessage().split(": ")[1] for record in caplog.records] == [
        "600,000 of 9,600,000 URLs, about 1 min 30 s left",
        "1,200,000 of 9,600,000 URLs, about 1 min 24 s left",
    ]


def test_an_exact_job_needs_none(tmp_path: Path) -> None:
    job = old_job(tmp_path / "job", seen="exact")
    with DurableFrontier(job, delay=0) as frontier:
        assert frontier.job.seen.statistics()["hash"] == {"algorithm": "blake2b", "keyed": False, "forgeable": False}
    assert read_identity(job).hash == UNKEYED
    check_whole(job)


@pytest.mark.parametrize("kind", ["counting", "cuckoo"])
def test_what_was_forgotten_stays_so(made_of: Callable[[str], Path], tmp_path: Path, kind: str) -> None:
    job = Path(shutil.copytree(made_of(kind), tmp_path / "job"))
    gone, back, twice = (key(url) for url in done_of(job)[:3])
    with DurableFrontier(job, delay=0, platform=OLD) as frontier:
        assert frontier.job.forget([gone, back, twice]) == {}
        frontier.add([back, twice])
        assert frontier.job.forget([twice]) == {}
        frontier.add([twice])
    with DurableFrontier(job, delay=0) as frontier:
        assert "rebuilt with a secret" in frontier.job.notes[1]
        assert frontier.job.seen.contains_many([gone, back, twice]) == [False, True, True]
        assert frontier.add([gone, back, twice]).admitted == 1
        assert frontier.job.forget([gone, back]) == {}
        assert frontier.job.seen.contains_many([gone, back, twice]) == [False, False, True]
    check_keyed(job)
    assert [finding for finding in verify_job(job) if not finding.mends] == []


def canonical(url: str) -> Canonical:
    found = Canonicaliser(()).canonicalise(url)
    assert isinstance(found, Canonical)
    return found


def key(url: str) -> str:
    return canonical(url).key


def test_records_that_a_power_loss_took_are_fetched_again(old: Path) -> None:
    whole = done_of(old)
    with store_of(old) as store:
        assert store.scan(Family.DONE, b""), "the journal names the last records"
    lines = (old / PAGES).read_bytes().splitlines(keepends=True)
    (old / PAGES).write_bytes(b"".join(lines[:-3]) + lines[-3][:10])
    with DurableFrontier(old, delay=0) as frontier:
        assert "rebuilt with a secret" in frontier.job.notes[1]
        assert frontier.job.counters.pending
    assert done_of(old) == whole[:-3]
    check_keyed(old)
    check_whole(old)


def damage_line(job: Path) -> None:
    data = (job / PAGES).read_bytes()
    (job / PAGES).write_bytes(b"#" + data[1:])


def other_url(job: Path) -> None:
    data = (job / PAGES).read_bytes()
    (job / PAGES).write_bytes(data.replace(b".test/", b".tent/", 1))


def drop_line(job: Path) -> None:
    """What somebody who edits the file does; its length stays what the journal says."""
    lines = (job / PAGES).read_bytes().splitlines(keepends=True)
    lines[1] = lines[1][:-1] + b" " * len(lines[0]) + b"\n"
    (job / PAGES).write_bytes(b"".join(lines[1:]))


def strange_url(job: Path) -> None:
    data = (job / PAGES).read_bytes()
    (job / PAGES).write_bytes(data.replace(b'"https://', b'"http:a@b', 1))


@pytest.mark.parametrize("damage", [damage_line, other_url, drop_line, strange_url])
def test_a_job_that_is_not_whole_keeps_its_hash_and_says_so(old: Path, damage: Callable[[Path], None]) -> None:
    damage(old)
    with DurableFrontier(old, delay=0) as frontier:
        (_, note) = frontier.job.notes
        assert "keeps its hash without a secret" in note
        assert frontier.job.seen.hash == SEED_ZERO
        assert frontier.add(URLS).admitted == 0, "nothing is fetched again"
    identity = read_identity(old)
    assert identity.hash == SEED_ZERO
    assert identity.unkeyed is not None
    assert PAGES in identity.unkeyed
    with DurableFrontier(old, delay=0) as frontier:
        assert frontier.job.notes == [], "tried once"
        assert frontier.job.seen.statistics()["hash"]["forgeable"]
    assert not list(old.glob("convert.*"))


@pytest.mark.parametrize("visit", [1, 2])
def test_the_first_visits_of_pages_count(old: Path, visit: int) -> None:
    data = (old / PAGES).read_bytes()
    before, after = b',"error":null', b',"visit":%d' % visit
    (old / PAGES).write_bytes(data.replace(before, after.ljust(len(before)), 1))
    with DurableFrontier(old, delay=0) as frontier:
        (_, note) = frontier.job.notes
        assert frontier.add(URLS).admitted == 0
    assert ("rebuilt with a secret" if visit == 1 else "hold 331 of 332 admitted URLs") in note


def test_addresses_that_json_escapes(tmp_path: Path) -> None:
    urls = [f"https://a.test/?{number}\\{number}" for number in range(20)]
    with DurableFrontier(tmp_path / "job", platform=OLD, delay=0) as frontier:
        frontier.add(urls)
        assert finish(frontier, 10)[0] == urls[0]
    assert b"\\\\" in (tmp_path / "job" / PAGES).read_bytes()
    with DurableFrontier(tmp_path / "job", delay=0) as frontier:
        assert "rebuilt with a secret" in frontier.job.notes[1]
        assert frontier.add(urls).admitted == 0


def test_a_job_that_a_run_refuses_keeps_its_chance(old: Path) -> None:
    whole = (old / PAGES).read_bytes()
    (old / PAGES).write_bytes(b"")
    with pytest.raises(JobError, match=r"has 0 bytes, but \d+ were durable: restore the file"):
        DurableFrontier(old, delay=0)
    assert read_identity(old).format == FIRST
    (old / PAGES).write_bytes(whole)
    with DurableFrontier(old, delay=0) as frontier:
        assert "rebuilt with a secret" in frontier.job.notes[1]
    check_whole(old)


def test_a_job_whose_cache_was_taken_away(old: Path) -> None:
    shutil.rmtree(old / "seen")
    with DurableFrontier(old, delay=0):
        pass
    check_keyed(old)
    check_whole(old)


def test_a_job_that_had_not_begun(made: Path, tmp_path: Path) -> None:
    job = tmp_path / "job"
    job.mkdir()
    shutil.copy(made / IDENTITY, job)
    with DurableFrontier(job, delay=0) as frontier:
        frontier.add(URLS)
    check_keyed(job)


def test_a_repair_gives_it_another_chance(old: Path) -> None:
    damage_line(old)
    with DurableFrontier(old, delay=0):
        pass
    assert read_identity(old).hash == SEED_ZERO
    assert not repair_job(old, 0.0, lambda _: None).was_whole
    assert read_identity(old).hash is None
    with DurableFrontier(old, delay=0) as frontier:
        assert "rebuilt with a secret" in frontier.job.notes[0]
    check_keyed(old)
    assert [finding for finding in verify_job(old) if not finding.mends] == []


def test_an_interrupted_repair_is_finished_first(old: Path) -> None:
    with store_of(old) as store:
        batch = store.batch()
        batch.put(Family.META, REPAIRING, b"")
        store.write(batch)
    with pytest.raises(JobError, match="a repair was interrupted here"):
        DurableFrontier(old)
    assert read_identity(old).format == FIRST


def resume(job: Path, point: str = "") -> Ran:
    """Open it with the program."""
    return crawler("add", job, "https://new.test/added", env={VARIABLE: point} if point else {})


# Without "convert.step", of formats that change other bytes.
POINTS = [*REKEY_POINTS, "rekey.named:2", *(point for point in CONVERT_POINTS if point != "convert.step")]


@pytest.mark.parametrize("point", [*POINTS, "convert.aside:2", "convert.placed:2"])
def test_killed_at_any_moment_the_next_run_goes_on(old: Path, point: str) -> None:
    assert resume(old, point).code == -signal.SIGKILL, f"{point} was not reached"
    ran = resume(old)
    assert ran.code == 0, ran.err
    check_keyed(old)
    check_whole(old)


class StoppedError(Exception):
    """Raised where a process would have been killed."""


class Stopping(RealDisk):
    """Stops before anything of the copy is durable, or after so many moves."""

    def __init__(self, moves: int | None) -> None:
        self.left = moves

    def sync_file(self, path: Path) -> None:
        if self.left is None:
            raise StoppedError
        super().sync_file(path)

    def move(self, source: Path, target: Path) -> None:
        if not self.left:
            raise StoppedError
        self.left -= 1
        super().move(source, target)


def stop(_: object) -> None:
    raise StoppedError


def test_a_job_that_is_being_taken_over_is_shown_as_it_is(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Until the new state is complete, it is the old job; from then on its parts may be anywhere."""
    commands = (["stats", str(old)], ["verify", str(old)], ["explain", str(old), URLS[0]])
    before = [(main(words), capsys.readouterr().out) for words in commands]
    assert [code for code, _ in before] == [0, 0, 0]
    with pytest.raises(StoppedError):
        convert_job(Stopping(None), old, KNOWN)
    assert list(old.glob("convert.new"))
    assert [(main(words), capsys.readouterr().out) for words in commands] == before
    with pytest.raises(StoppedError):
        convert_job(Stopping(2), old, KNOWN)
    for words in commands:
        assert main(words) == 2
        ran = capsys.readouterr()
        assert ran.out == ""
        assert (
            f"is being converted from format version 1 to {KNOWN.usual}: the command that resumes the crawl" in ran.err
        )


def contents(job: Path) -> dict[str, bytes]:
    mine = [path for path in job.rglob("*") if path.is_file() and not path.name.startswith(("LOG", "LOCK"))]
    return {str(path.relative_to(job)): path.read_bytes() for path in mine if path.suffix != ".part"}


def test_a_full_disk_leaves_the_job_as_it_was(made: Path, tmp_path: Path) -> None:
    """Or, when the new state is complete, a conversion that the next run ends."""
    with small_disk(tmp_path / "disk", 16) as disk:
        job = Path(shutil.copytree(made, disk.path / "job"))
        before = contents(job)
        for room in itertools.count(0, _STEP):
            disk.fill()
            disk.leave(room)
            try:
                convert_job(RealDisk(), job, KNOWN)
                break
            except OSError as error:
                assert error.errno in FULL  # noqa: PT017  # it need not fail
            if read_identity(job).converting is None:
                assert contents(job) == before
        assert room > 2 * _STEP
        disk.free()
        check_keyed(job)
        check_whole(job)


# Store and seen-set go aside, and the new ones into their places: 4 moves.
@pytest.mark.parametrize(("moves", "known"), [(0, True), (3, True), (1, False)])
def test_a_repair_finishes_what_was_interrupted(old: Path, moves: int, known: bool) -> None:
    """Also if ``job.json`` is lost: a part that is out of the way tells that the copy is complete."""
    with pytest.raises(StoppedError):
        convert_job(Stopping(moves), old, KNOWN)
    with pytest.raises(OtherFormatError, match=f"is being converted from format version 1 to {KNOWN.usual}"):
        list(verify_job(old))
    if not known:
        (old / IDENTITY).write_bytes(b"")
    assert not repair_job(old, 0.0, lambda _: None).left
    check_keyed(old)
    check_whole(old)


@pytest.mark.parametrize("lost", ["a host", "job.json"])
def test_a_repair_never_lets_a_copy_pass_for_the_job(old: Path, lost: str) -> None:
    """A copy lies beside the job from an attempt that was killed; then the job is damaged, and its repair is killed."""
    with pytest.raises(StoppedError):
        convert_job(Stopping(None), old, KNOWN)
    with store_of(old / "convert.new") as store:
        batch = store.batch()
        batch.delete_range(Family.PENDING, b"", b"\xff")
        batch.delete_range(Family.ADMITTED, b"", b"\xff")
        store.write(batch)
    if lost == "job.json":
        (old / IDENTITY).write_bytes(b"")
    else:
        with store_of(old) as store:
            batch = store.batch()
            ((key, _), *_) = store.scan(Family.HOSTS, b"")
            batch.delete(Family.HOSTS, key)
            store.write(batch)
    with pytest.raises(StoppedError):
        repair_job(old, 0.0, stop)
    with pytest.raises(JobError, match=r"a repair was interrupted|not a crawler-job file"):
        DurableFrontier(old)
    assert not repair_job(old, 0.0, lambda _: None).left
    with DurableFrontier(old, delay=0):
        pass
    check_keyed(old)
    check_whole(old)


def test_an_older_job_json_over_a_job_with_a_secret(old: Path) -> None:
    before = (old / IDENTITY).read_bytes()
    with DurableFrontier(old, delay=0) as frontier:
        secret = frontier.job.seen.hash
    (old / IDENTITY).write_bytes(before)
    with DurableFrontier(old, delay=0) as frontier:
        assert frontier.job.seen.hash == secret
    check_whole(old)


def test_an_unknown_hash_is_refused_and_left_alone(old: Path) -> None:
    with DurableFrontier(old, delay=0):
        pass
    content = json.loads((old / IDENTITY).read_bytes().partition(b"\n")[2])
    content["hash"]["algorithm"] = "blake4"
    (old / IDENTITY).write_bytes(encode_envelope(MAGIC, KNOWN.usual, content))
    before = (old / IDENTITY).read_bytes()
    with pytest.raises(OtherFormatError, match=r"hashed with blake4; this program, .* knows blake2b and mmh3"):
        DurableFrontier(old)
    for command in ("stats", "verify", "repair"):
        ran = crawler(command, old)
        assert (ran.code, ran.out) == (2, ""), ran
        assert "blake4" in ran.err
    assert (old / IDENTITY).read_bytes() == before


# -- the secret is damaged or gone -----------------------------------------------------------------------------


def lose_in_file(job: Path) -> None:
    (job / IDENTITY).write_bytes(b"")


def lose_in_store(job: Path) -> None:
    with store_of(job) as store:
        batch = store.batch()
        batch.delete(Family.META, HASH_KEPT)
        store.write(batch)


def damage_in_store(job: Path) -> None:
    with store_of(job) as store:
        batch = store.batch()
        batch.put(Family.META, HASH_KEPT, b"{}")
        store.write(batch)


def lose_generations(job: Path) -> None:
    for path in (job / "seen").iterdir():
        path.unlink()


def other_secret(job: Path) -> None:
    content = json.loads((job / IDENTITY).read_bytes().partition(b"\n")[2])
    content["hash"]["secret"] = "00" * 15 + "01"
    (job / IDENTITY).write_bytes(encode_envelope(MAGIC, KNOWN.usual, content))


@pytest.fixture(scope="module", params=["scalable", "exact"])
def with_a_secret(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, KeyHash]:
    """A job of two runs, and its secret; to be copied."""
    job = tmp_path_factory.mktemp("secret") / "job"
    for _ in range(2):
        with DurableFrontier(job, delay=0, seen=request.param) as frontier:
            frontier.add(FEW)
            finish(frontier, DONE)
            secret = frontier.job.seen.hash
    assert secret.keyed
    return job, secret


@pytest.mark.parametrize(
    ("losses", "same"),
    [
        ([lose_in_file], True),
        ([lose_in_store], True),
        ([damage_in_store], True),
        ([other_secret], True),
        ([lose_in_file, lose_in_store], False),
        ([lose_in_file, damage_in_store, lose_generations], False),
    ],
)
def test_a_secret_that_is_lost_is_restored_or_replaced(
    tmp_path: Path, with_a_secret: tuple[Path, KeyHash], losses: list[Callable[[Path], None]], same: bool
) -> None:
    made, secret = with_a_secret
    job = Path(shutil.copytree(made, tmp_path / "job"))
    for lose in losses:
        lose(job)
    said: list[str] = []
    repaired = repair_job(job, 0.0, lambda change: said.append(change.done.value))
    assert repaired.left == []
    found = read_identity(job).hash
    assert found is not None
    assert (found == secret) is same
    assert same or ("secret-lost" in said and found.keyed)
    with store_of(job) as store:
        if losses != [lose_in_store]:
            assert kept_hash(store) == found
    check_whole(job, FEW)


def test_two_secrets_are_refused_until_a_repair(tmp_path: Path) -> None:
    job = tmp_path / "job"
    with DurableFrontier(job, delay=0) as frontier:
        frontier.add(FEW)
    other_secret(job)
    with pytest.raises(JobError, match="have different secrets"):
        DurableFrontier(job)
    assert "hash-differs" in [finding.kind for finding in verify_job(job)]
    assert repair_job(job, 0.0, lambda _: None).left == []
    check_whole(job, FEW)


def test_the_secret_is_told_nowhere(tmp_path: Path) -> None:
    job = tmp_path / "job"
    with DurableFrontier(job, delay=0) as frontier:
        frontier.add(URLS)
        finish(frontier, DONE)
        secret = frontier.job.seen.hash.secret.hex()
        assert secret not in repr(frontier.job.seen.hash)
    for words in (("stats", job, "--json"), ("stats", job), ("explain", job, URLS[0], "--json"), ("verify", job)):
        ran = crawler(*words)
        assert ran.code == 0, ran
        assert secret not in ran.out + ran.err
    for name in (PAGES, "run.json"):
        assert secret not in (job / name).read_text()
    assert secret in (job / IDENTITY).read_text()


def test_mmh3_has_a_seed_of_its_own_and_is_named(tmp_path: Path) -> None:
    seeds = set()
    for name in "ab":
        with DurableFrontier(tmp_path / name, delay=0, hash="mmh3") as frontier:
            seeds.add(frontier.job.seen.hash)
            assert frontier.job.seen.statistics()["hash"] == {"algorithm": "mmh3", "keyed": True, "forgeable": True}
    assert len(seeds) == 2
    with pytest.raises(JobError, match=r"seen\.hash cannot change"):
        DurableFrontier(tmp_path / "a", hash="blake2b")


def test_the_secret_is_for_its_owner_alone(old: Path, tmp_path: Path) -> None:
    with DurableFrontier(tmp_path / "new", delay=0):
        pass
    for path in (old, old / "store", old / "seen"):
        path.chmod(0o755)
    (old / IDENTITY).chmod(0o644)
    with DurableFrontier(old, delay=0):
        pass
    for job in (tmp_path / "new", old):
        assert (job / IDENTITY).stat().st_mode & 0o777 == 0o600
        assert (job / "store").stat().st_mode & 0o777 == 0o700
        assert (job / "seen").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
