"""Jobs of a small real site, stopped half-way, to be damaged and carried on."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import re
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crawler.base.disk import RealDisk
from crawler.base.kv import Family, Reader
from crawler.base.settings.parts import Settings
from crawler.cli import main
from crawler.frontier.entry import fresh_slot
from crawler.frontier.host import decode_host, encode_host, host_name
from crawler.inspect.integrity.finding import Finding
from crawler.inspect.integrity.inventory import Inventory, Source
from crawler.inspect.integrity.verifier import SeenCheck
from crawler.job.checkpoint.generations import Generations, Manifest
from crawler.job.metrics.catalogue import Counters
from crawler.job.output import lines_of
from crawler.job.recovery import kept_hash
from crawler.job.store.rocks import RocksStore
from crawler.seen.filters import SEED_ZERO
from tests.program import Ran, crawler, running, wait_until
from tests.site import Site, tree

PAGES = 60
# A first slice of 16 URLs: the seen-set of a small site is then a chain with sealed slices, and stays one. All
# of its pages must be found: a false positive would skip one, as it should.
CHAIN = "[seen]\ncompact_slices = 0\n"
SHAPE = ("--capacity", "16", "--fpp", "1e-9")
OPTIONS = ("--allow-private", "--delay", "0", "--per-host", "4", "--concurrency", "8", "--quiet", *SHAPE)


@dataclass(frozen=True)
class Stopped:
    """A site, and a job of it that was stopped by a limit; to be copied, not touched."""

    site: Site
    seeds: Path
    job: Path

    def copy(self, to: Path) -> Path:
        shutil.copytree(self.job, to)
        return to

    def resume(self, job: Path, *options: str) -> Ran:
        config = self.seeds.with_name("chain.toml")
        config.write_text(CHAIN)
        return crawler(self.seeds, "--job", job, "--config", config, *OPTIONS, *options)

    def asked_since(self, moment: float) -> int:
        """Pages asked for since then (monotonic seconds); what a killed crawl had in flight may end later."""
        return sum(asked.start >= moment and asked.path != "/robots.txt" for asked in self.site.asked)

    def carries_on_to_the_end(self, job: Path) -> Ran:
        """Resume, and hold that every page of the site stands in the output once, and that the job is whole."""
        ran = self.resume(job)
        assert ran.code == 0, ran.err
        assert "Traceback" not in ran.err
        assert Counter(row["url"] for row in rows(job)) == Counter(self.site.url(path) for path in tree(PAGES))
        checked = verify(job)
        assert checked.code == 0, checked
        return ran


@contextmanager
def stopped_job(directory: Path, *limits: int) -> Iterator[Stopped]:
    """A job run once for each limit of pages: as many generations, up to the two that are kept."""
    with Site(tree(PAGES)) as site:
        made = Stopped(site, directory / "seeds.txt", directory / "job")
        made.seeds.write_text(site.url("/") + "\n")
        for limit in limits:
            ran = made.resume(made.job, "--max-pages", str(limit))
            assert ran.code == 0, ran.err
        yield made


@dataclass(frozen=True)
class Verified:
    """What ``crawler verify --json`` or ``crawler repair --json`` says."""

    code: int
    said: dict[str, Any]  # nothing where the job is refused
    err: str

    @property
    def findings(self) -> list[dict[str, Any]]:
        """What is wrong; after a repair, what is left. A job that cannot be read at all has one finding."""
        if "error" in self.said:
            return [{"kind": "unreadable", "severity": "damaged", "place": ".", "error": self.said["error"]}]
        return list(self.said.get("findings", []))

    @property
    def kinds(self) -> set[str]:
        return {finding["kind"] for finding in self.findings}

    def find(self, kind: str, **details: object) -> list[dict[str, Any]]:
        """The findings, or changes, of a kind; text in ``details`` is a pattern."""
        named = [*self.findings, *self.said.get("changes", [])]
        return [each for each in named if kind in (each.get("kind"), each.get("done")) and _fits(each, details)]

    @property
    def done(self) -> set[str]:
        """What a repair has done."""
        return {change["done"] for change in self.said.get("changes", [])}


def _fits(found: dict[str, Any], details: dict[str, object]) -> bool:
    return all(
        re.search(wanted, str(found[name])) if isinstance(wanted, str) else found[name] == wanted
        for name, wanted in details.items()
    )


def verify(job: Path) -> Verified:
    """``crawler verify``, in this process: an exception that it lets through fails the test."""
    return _here("verify", job)


def repair(job: Path) -> Verified:
    """``crawler repair``, in the same way."""
    return _here("repair", job)


def _here(command: str, job: Path) -> Verified:
    out, err = io.StringIO(), io.StringIO()
    with tempfile.TemporaryFile("w+") as error, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        before = os.dup(1)
        os.dup2(error.fileno(), 1)  # an error is written to the descriptor
        try:
            code = main([command, str(job), "--json"])
        finally:
            os.dup2(before, 1)
            os.close(before)
        error.seek(0)
        said = json.loads(out.getvalue() or error.read())
    assert err.getvalue().endswith(f"crawler: error: {said['error']}\n" if "error" in said else ""), "the same line"
    return Verified(code, {} if code == 2 else said, err.getvalue())


def explain(job: Path, url: str) -> dict[str, Any]:
    """What ``crawler explain --json`` says of a URL."""
    ran = crawler("explain", job, url, "--json")
    assert ran.err == "", ran.err
    found: dict[str, Any] = json.loads(ran.out)
    assert ran.code == (found["damage"] is not None)
    return found


def rows(job: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for _, line in lines_of(job / "pages.jsonl")]


def manifests(job: Path) -> list[Manifest]:
    """Newest first."""
    generations = Generations(job / "seen", 2, RealDisk())
    return [generations.read_manifest(number) for number in generations.numbers()]


@contextmanager
def store_of(job: Path) -> Iterator[RocksStore]:
    store = RocksStore(job / "store")
    yield store
    store.close()


def change(job: Path, family: Family, pick: Callable[[list[tuple[bytes, bytes]]], tuple[bytes, bytes | None]]) -> None:
    """Replace the value of a key of the family, or delete it (None)."""
    with store_of(job) as store:
        key, value = pick(store.scan(family, b""))
        batch = store.batch()
        if value is None:
            batch.delete(family, key)
        else:
            batch.put(family, key, value)
        store.write(batch)
        store.sync()


def flip(path: Path, at: int) -> None:
    """Change one bit of the byte at an offset, counted from the end where it is negative."""
    data = bytearray(path.read_bytes())
    data[at] ^= 0x04
    path.write_bytes(data)


@contextmanager
def killed_job(directory: Path, checkpoint_interval: float, sync_interval: float = 0.01) -> Iterator[Stopped]:
    """A job that was killed half-way with SIGKILL, after two generations if these are frequent."""
    # Pages that are not answered: however late the kill comes on a busy machine, the crawl has not ended.
    last: dict[str, Any] = dict.fromkeys(list(tree(PAGES))[2 * PAGES // 3 :], lambda _: asyncio.sleep(3_600))
    with Site(tree(PAGES) | last, latency=0.02) as site:
        made = Stopped(site, directory / "seeds.txt", directory / "job")
        made.seeds.write_text(site.url("/") + "\n")
        config = directory / "often.toml"
        config.write_text(
            f"[durability]\nsync_interval = {sync_interval}\ncheckpoint_interval = {checkpoint_interval}\n{CHAIN}"
        )
        with running(made.seeds, "--job", made.job, "--config", config, *OPTIONS) as process:
            least = 2 if checkpoint_interval < 1 else 0
            # Counted, not read: the crawl removes old ones meanwhile.
            written = Generations(made.job / "seen", 2, RealDisk()).numbers
            wait_until(lambda: _half_way(made.job) and len(written()) >= least, "half of it")
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert PAGES / 3 < len(rows(made.job)) < PAGES
        site.pages, site.latency = tree(PAGES), 0
        yield made


def _half_way(job: Path) -> bool:
    path = job / "pages.jsonl"
    return path.exists() and path.read_bytes().count(b"\n") > PAGES / 3


def hide_behind_the_cursor(job: Path) -> None:
    """Set the place from which a host's queue is read behind everything that stands in it."""

    def pick(found: list[tuple[bytes, bytes]]) -> tuple[bytes, bytes]:
        key, value = found[-1]
        host = decode_host(host_name(key), value)
        host.queue.cursor = fresh_slot(2**40, 7)
        return key, encode_host(host)

    change(job, Family.HOSTS, pick)


def findings(job: Path, store: Reader, counters: Counters, settings: Settings | None = None) -> list[Finding]:
    """What verify would find in a store of the test's own."""
    inventory = Inventory(
        Source(job, settings or Settings(), kept_hash(store) or SEED_ZERO, store, counters),
        SeenCheck(),
    )
    return [finding for part in inventory.parts() for finding in part]
