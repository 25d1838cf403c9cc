"""The secret of a job's hash: it is in three places, told nowhere, and restored when it is lost."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from crawler.base.kv import Family
from crawler.inspect.integrity.repairer import repair_job
from crawler.inspect.integrity.verifier import verify_job
from crawler.job.checkpoint.envelope import encode_envelope
from crawler.job.directory import IDENTITY, PAGES, JobError, OtherFormatError
from crawler.job.durable_frontier import DurableFrontier
from crawler.job.identity import MAGIC, VERSION, read_identity
from crawler.job.recovery import HASH_KEPT, kept_hash
from crawler.seen.filters import KeyHash
from tests.jobs import store_of
from tests.program import crawler

URLS = [f"https://{host}.test/{number}" for host in "abc" for number in range(100)]
FEW = URLS[::10]  # where how many says nothing
DONE = 8  # in each session


def finish(frontier: DurableFrontier, most: int) -> list[str]:
    """Of so many URLs, each of which leads to another."""
    taken = []
    while len(taken) < most and (lease := frontier.take()) is not None:
        taken.append(lease.url)
        frontier.finish(lease, [f"{lease.url}/link"])
    return taken


def done_of(job: Path) -> list[str]:
    return [json.loads(line)["url"] for line in (job / PAGES).read_bytes().splitlines()]


def check_whole(job: Path, urls: list[str]) -> None:
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


def test_an_unknown_hash_is_refused_and_left_alone(tmp_path: Path) -> None:
    old = tmp_path / "job"
    with DurableFrontier(old, delay=0):
        pass
    content = json.loads((old / IDENTITY).read_bytes().partition(b"\n")[2])
    content["hash"]["algorithm"] = "blake4"
    (old / IDENTITY).write_bytes(encode_envelope(MAGIC, VERSION, content))
    before = (old / IDENTITY).read_bytes()
    with pytest.raises(OtherFormatError, match=r"hashed with blake4; this program, .* knows blake2b and mmh3"):
        DurableFrontier(old)
    for command in ("stats", "verify", "repair"):
        ran = crawler(command, old)
        assert (ran.code, ran.out) == (2, ""), ran
        assert "blake4" in ran.err
    assert (old / IDENTITY).read_bytes() == before


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


def other_secret(job: Path) -> None:
    content = json.loads((job / IDENTITY).read_bytes().partition(b"\n")[2])
    content["hash"]["secret"] = "00" * 15 + "01"
    (job / IDENTITY).write_bytes(encode_envelope(MAGIC, VERSION, content))


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
    "lose", [lose_in_file, lose_in_store, damage_in_store, other_secret], ids=lambda lose: lose.__name__
)
def test_a_secret_that_is_lost_is_restored(
    tmp_path: Path, with_a_secret: tuple[Path, KeyHash], lose: Callable[[Path], None]
) -> None:
    made, secret = with_a_secret
    job = Path(shutil.copytree(made, tmp_path / "job"))
    lose(job)
    assert repair_job(job, 0.0, lambda _: None).left == []
    assert read_identity(job).hash == secret
    with store_of(job) as store:
        if lose is not lose_in_store:
            assert kept_hash(store) == secret
    check_whole(job, FEW)


@pytest.mark.parametrize("lose", [lose_in_store, damage_in_store], ids=lambda lose: lose.__name__)
def test_a_secret_that_is_lost_twice_needs_a_backup(
    tmp_path: Path, with_a_secret: tuple[Path, KeyHash], lose: Callable[[Path], None]
) -> None:
    job = Path(shutil.copytree(with_a_secret[0], tmp_path / "job"))
    lose_in_file(job)
    lose(job)
    with pytest.raises(JobError, match="restore a backup"):
        repair_job(job, 0.0, lambda _: None)


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


def test_the_secret_is_for_its_owner_alone(tmp_path: Path) -> None:
    job = tmp_path / "job"
    with DurableFrontier(job, delay=0):
        pass
    assert job.stat().st_mode & 0o777 == 0o700
    for path in (job, job / "store", job / "seen"):
        path.chmod(0o755)
    with DurableFrontier(job, delay=0):
        pass
    assert (job / IDENTITY).stat().st_mode & 0o777 == 0o600
    assert (job / "store").stat().st_mode & 0o777 == 0o700
    assert (job / "seen").stat().st_mode & 0o777 == 0o700
