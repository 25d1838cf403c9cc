"""A crawl of hostile hosts beside an innocent one, and what must hold whatever they do."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tests.hostile import world
from tests.hostile.memory import PeakMemory
from tests.hostile.server import Pages, Server
from tests.program import PATIENCE, Ran, Started, crawler
from tests.site import Asked, Site, tree

EVIL, INNOCENT = "evil.test", "innocent.test"
PAGES = 30  # of the innocent site
MEMORY_MOST = 300 * 2**20  # bytes
STALL_MOST = 0.25  # seconds of processor time
# Waits are part of the behaviour; a test has no minutes. A healthy host keeps these time limits also on a busy machine:
# a test of slowness sets lower ones.
QUICK: Mapping[str, Any] = {
    "crawl.concurrency": 16,
    "politeness.delay": 0.02,
    "politeness.backoff_first": 0.05,
    "retry.first_wait": 0.05,
    "retry.max_wait": 0.05,
    "retry.tries": 2,
    "fetch.connect_timeout": 2.0,
    "fetch.headers_timeout": 2.0,
    "fetch.body_timeout": 2.0,
}


class Hostile:
    """Hosts that misbehave at one port, a healthy site at another, and a job that crawls both.

    ``pages[EVIL]`` are those of the first host; ``host`` adds others.
    """

    def __init__(self, directory: Path, pages_of_innocent: int = PAGES) -> None:
        self.directory = directory
        self.job = directory / "job"
        self.names = {EVIL: "127.0.1.1", INNOCENT: "127.0.0.2"}
        self.server = Server({EVIL: {}})
        self.innocent = Site(tree(pages_of_innocent), address=("127.0.0.2", 0))

    def __enter__(self) -> Self:
        self.innocent.__enter__()
        self.server.__enter__()
        self.server.listen(self.names[EVIL])
        return self

    def __exit__(self, *_: object) -> None:
        self.server.__exit__()
        self.innocent.__exit__()

    @property
    def pages(self) -> dict[str, Pages]:
        return self.server.pages

    def host(self, name: str, pages: Pages, address: str | None = None) -> str:
        """Add a host, at an address of its own unless one is given; returns the begin of its URLs. ``*.wild.test`` is
        every name below. An address that is not loopback is known to the resolver and never dialled."""
        if address is None:
            address = f"127.0.1.{len(self.names)}"
            self.server.listen(address)
        self.names[name] = address
        self.pages[name] = pages
        return f"http://{name}:{self.server.port}"

    def url(self, path: str, host: str = EVIL) -> str:
        port = self.innocent.hosts[0].rpartition(":")[2] if host == INNOCENT else self.server.port
        return f"http://{host}:{port}{path}"

    def crawl(
        self,
        *words: str | Path,
        seeds: Sequence[str] = ("/",),
        settings: Mapping[str, Any] | None = None,
        codes: Sequence[int] = (0,),
    ) -> Crawled:
        """Crawl to the end, and hold what must hold always. ``seeds`` are paths of ``EVIL`` or URLs; the innocent site
        is always one. ``settings`` as ``{"fetch.max_body": 1000}`` go over ``QUICK``."""
        with self.running(*words, seeds=seeds, settings=settings) as program:
            crawled = program.end()
        assert crawled.ran.code in codes, (crawled.ran.code, crawled.ran.err)
        crawled.hold()
        return crawled

    @contextmanager
    def running(
        self, *words: str | Path, seeds: Sequence[str] = ("/",), settings: Mapping[str, Any] | None = None
    ) -> Iterator[Running]:
        """The same, while the test goes on: to kill it, to ask its dashboard. Killed at the end if it still runs."""
        listed = [self.url(seed) if seed.startswith("/") else seed for seed in seeds]
        (self.directory / "seeds.txt").write_text("\n".join([*listed, self.url("/", INNOCENT), ""]))
        (self.directory / "settings.toml").write_text(_toml({**QUICK, **(settings or {})}))
        stall = world.stall_file(self.directory / "stall")
        line = [
            *("crawl", self.directory / "seeds.txt", "--job", self.job, "--allow-private", "--quiet"),
            *("--config", self.directory / "settings.toml", *words),
        ]
        process = Started(
            [str(word) for word in line],
            os.environ,
            subprocess.DEVNULL,
            world={"names": self.names, "stall": str(stall)},
        )
        try:
            with PeakMemory(process.pid) as memory:
                yield Running(self, process, memory, time.monotonic())
        finally:
            process.close()


@dataclass
class Running:
    """The program at work."""

    web: Hostile
    process: Started
    memory: PeakMemory
    began: float

    def end(self, timeout: float = PATIENCE) -> Crawled:
        """Wait for the end. Does not judge what it did."""
        out, err = self.process.communicate(timeout=timeout)
        code = self.process.returncode
        assert code is not None
        ran = Ran(code, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))
        stall = world.read_stall(self.web.directory / "stall")
        peak = max(self.memory.most, self.process.peak_of_each)
        return Crawled(self.web, ran, time.monotonic() - self.began, peak, stall)


@dataclass
class Crawled:
    """What came of a crawl. ``peak``: bytes that the program and its children held at most. ``stall``: the processor
    time in seconds for which it kept its loop from turning at most, see ``world``."""

    web: Hostile
    ran: Ran
    seconds: float
    peak: int
    stall: float
    rows: list[dict[str, Any]] = field(init=False)

    def __post_init__(self) -> None:
        self.rows = [json.loads(line) for line in (self.web.job / "pages.jsonl").read_bytes().splitlines()]

    def of(self, host: str = EVIL) -> dict[str, dict[str, Any]]:
        """The records of a host by path."""
        begin = self.web.url("", host)
        return {row["url"].removeprefix(begin): row for row in self.rows if row["url"].startswith(f"{begin}/")}

    def row(self, path: str, host: str = EVIL) -> dict[str, Any]:
        return self.of(host)[path]

    def outcomes(self, host: str = EVIL) -> Counter[str]:
        return Counter(row["outcome"] for row in self.of(host).values())

    def host(self, name: str = EVIL) -> dict[str, Any]:
        """The row of ``crawler hosts --json``."""
        ran = crawler("hosts", self.web.job, "--json", "--sort", "host", "--limit", "1000")
        assert ran.code == 0, ran.err
        key = self.web.url("", name).removeprefix("http://")
        (row,) = [row for row in json.loads(ran.out)["hosts"] if row["host"] == key]
        return dict(row)

    def hold(self) -> None:
        """What holds whatever the hosts do."""
        assert "Traceback" not in self.ran.err, self.ran.err
        assert not (self.web.job / "crash.txt").exists()
        twice = [url for url, count in Counter(row["url"] for row in self.rows).items() if count > 1]
        assert not twice, "pages stand twice in the output"
        self.hold_innocent()
        assert self.peak < MEMORY_MOST, f"{self.peak / 2**20:.0f} MB"
        assert self.stall < STALL_MOST, f"the loop computed for {self.stall:.3f} s in one turn"

    def hold_innocent(self) -> None:
        """The innocent site came in whole, each page with one request, and nothing is held against it."""
        pages = self.web.innocent.pages
        assert {path: row["outcome"] for path, row in self.of(INNOCENT).items()} == dict.fromkeys(pages, "fetched")
        asked = Counter(asked.path for asked in self.web.innocent.asked)
        assert asked == Counter(["/robots.txt", *pages])
        host = self.host(INNOCENT)
        assert (host["fetched"], host["failed"], host["errors"]) == (len(pages), 0, {}), host
        assert host["state"] == "idle", host

    def innocent_gaps(self) -> list[float]:
        """Seconds between two requests to the innocent site, by its own log."""
        asked: list[Asked] = sorted(self.web.innocent.asked, key=lambda asked: asked.start)
        return [later.start - earlier.start for earlier, later in itertools.pairwise(asked)]


def _toml(settings: Mapping[str, Any]) -> str:
    """TOML of settings by dotted name. JSON writes numbers, strings, booleans and lists as TOML does."""
    tables: dict[str, list[str]] = {}
    for name, value in settings.items():
        table, _, key = name.partition(".")
        tables.setdefault(table, []).append(f"{key} = {json.dumps(value)}\n")
    return "".join(f"[{table}]\n{''.join(lines)}" for table, lines in tables.items())
