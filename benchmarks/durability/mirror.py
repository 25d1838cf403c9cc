"""Keep copies of a web that changes, and kill both sides again and again: the crawler, and the programs that copy.

    python benchmarks/durability/mirror.py [--kills 100] [--pages 40] [--seed N]

Serves a site on loopback whose pages appear, change, move, vanish and come back all the time, and crawls it with
``--recrawl``. Beside it, the two programs of docs/how-to/keep-a-copy.md, word for word, bring their copies up to date,
in SQLite and in DuckDB. The crawler is killed ``--kills`` times, after a random number of answers, and so are the two
programs together: at a random moment, or as soon as a transaction of theirs is on the disk. Then the site rests until
each of its URLs was asked for once more, the crawl is stopped, the copies are brought up to date, and both must equal
the site. Exits with 1 if a page is missing, stale, there twice or undead, or if a change was applied twice or never.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

import duckdb
from aiohttp import web

import crawler
from benchmarks.kit.machine import describe_machine
from tests.program import crawler as ran
from tests.program import running
from tests.site import Handler, Site, linked

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "how-to" / "keep-a-copy.md"
_POLL = 0.002  # seconds between two looks at a process
_REST = 0.05  # seconds between two looks for new records
_NAMES = 4  # times as many URLs as there are pages at a time, at most
# Many generations, and visits that come at once: a page is as old as its last visit.
_CONFIG = """
[durability]
sync_interval = 0.05
checkpoint_interval = 0.3
[recrawl]
mean_interval = 0.1
min_interval = 0.1
mean_interval = 1.0
max_interval = 2.0
"""
_FLAGS = ("--recrawl", "--allow-private", "--delay", "0", "--per-host", "8", "--concurrency", "16", "--quiet")
# What the copy in SQLite was told, in its own transactions.
_LOG = """
CREATE TABLE pages (url TEXT PRIMARY KEY, fetched_at TEXT, bytes INT, digest TEXT);
CREATE TABLE told (number INTEGER PRIMARY KEY, url TEXT, fetched_at TEXT);
CREATE TRIGGER tell AFTER INSERT ON pages BEGIN
    INSERT INTO told (url, fetched_at) VALUES (new.url, new.fetched_at);
END;
"""


@dataclass
class World:
    """The pages of a site, which change. No two versions of any pages have one size."""

    most: int
    chance: random.Random
    pages: dict[str, bytes | int | None] = field(default_factory=dict)  # body, status, or None: it has moved to "/"
    steps: Counter[str] = field(default_factory=Counter)
    asked: dict[str, int] = field(default_factory=dict)  # path -> the last answer
    answers: int = 0
    _size: int = 1_000

    def __post_init__(self) -> None:
        for _ in range(self.most):
            self._put(f"/p/{len(self.pages)}")
        self._link()

    def step(self) -> None:
        """Let one thing change."""
        there = [path for path, body in self.pages.items() if isinstance(body, bytes) and path != "/"]
        away = [path for path, body in self.pages.items() if not isinstance(body, bytes)]
        step = self.chance.choice(["appear", "change", "change", "vanish", "move", "come back"])
        if step == "appear" and len(there) < self.most and len(self.pages) < _NAMES * self.most:
            self._put(f"/p/{len(self.pages)}")
        elif step == "change" and there:
            self._put(self.chance.choice(there))
        elif step == "vanish" and len(there) > 1:
            self.pages[self.chance.choice(there)] = self.chance.choice([404, 410])
        elif step == "move" and len(there) > 1:
            self.pages[self.chance.choice(there)] = None
        elif step == "come back" and away:
            self._put(self.chance.choice(away))
        else:
            return
        self.steps[step] += 1
        self._link()

    def truth(self, site: Site) -> dict[str, int]:
        return {site.url(path): len(body) for path, body in self.pages.items() if isinstance(body, bytes)}

    def get(self, path: str) -> Handler | None:
        return partial(self._answer, path) if path in self.pages else None

    def _put(self, path: str) -> None:
        self._size += 1
        self.pages[path] = linked(["/"]).encode().ljust(self._size, b".")

    def _link(self) -> None:
        self._size += 1
        self.pages["/"] = linked(path for path in self.pages if path != "/").encode().ljust(20_000 + self._size, b".")

    async def _answer(self, path: str, request: web.Request) -> web.StreamResponse:
        body, self.answers = self.pages[path], self.answers + 1
        self.asked[path] = self.answers
        if body is None:
            return web.Response(status=302, headers={"Location": "/"})
        if isinstance(body, int):
            return web.Response(status=body, text=f"{path} is no more", content_type="text/html")
        etag = f'"{len(body)}"'
        if request.headers.get("If-None-Match") == etag:
            return web.Response(status=304, headers={"ETag": etag})
        return web.Response(body=body, content_type="text/html", headers={"ETag": etag})


@dataclass
class Copier:
    """A program of the page, run again and again."""

    program: str
    home: Path
    journal: Path  # there while a transaction is under way, or new
    chance: random.Random
    kills: int = 0
    runs: int = 0

    def run(self, may_kill: Callable[[], bool]) -> None:
        """Run it once. It is killed at a chosen moment, unless it ends before."""
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        began, before = time.monotonic(), self._state()
        at_commit, moment = self.chance.random() < 0.5, self.chance.uniform(0.0, 2.0)
        with subprocess.Popen(
            [sys.executable, self.program], cwd=self.home, env=environment, stderr=subprocess.PIPE
        ) as process:
            while process.poll() is None:
                due = self._state() not in (before, None) if at_commit else time.monotonic() - began > moment
                if due and may_kill():
                    process.kill()
                    self.kills += process.wait() < 0
                    break
                time.sleep(_POLL)
            _, said = process.communicate()
        self.runs += 1
        if process.returncode > 0:
            raise SystemExit(f"{self.program}: {said.decode()}")

    def _state(self) -> tuple[int, int] | None:
        try:
            found = self.journal.stat()
        except FileNotFoundError:
            return None
        return found.st_size, found.st_mtime_ns


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=100, help="of the crawler, and of those that copy (100)")
    parser.add_argument("--pages", type=int, default=40, help="of the site at a time (40)")
    parser.add_argument("--seed", type=int, default=1, help="of the moments and changes (1)")
    chosen = parser.parse_args(words)
    chance = random.Random(chosen.seed)
    for line in describe_machine(("aiohttp", "rocksdict", "duckdb")):
        print(line)
    world = World(chosen.pages, random.Random(chance.random()))
    with tempfile.TemporaryDirectory() as name, Site(world, latency=0.002) as site:  # type: ignore[arg-type]
        home = Path(name)
        copiers = [
            _copier(home, "copy_sqlite.py", "copy.sqlite-journal", chance),
            _copier(home, "copy_duckdb.py", "copy.duckdb.wal", chance),
        ]
        with sqlite3.connect(home / "copy.sqlite") as copy:
            copy.executescript(_LOG)
        copy.close()
        crawl = Crawl(home, site, world, chance)
        crawl.begin()
        over = threading.Event()
        threads = [
            threading.Thread(target=_copy, args=(copier, chosen.kills, copiers, over), daemon=True)
            for copier in copiers
        ]
        for thread in threads:
            thread.start()
        while crawl.kills < chosen.kills or sum(copier.kills for copier in copiers) < chosen.kills:
            crawl.run(kill=crawl.kills < chosen.kills)
            if not all(thread.is_alive() for thread in threads):
                raise SystemExit("a program that copies has failed")
        crawl.settle()
        over.set()
        for thread in threads:
            thread.join()
        for copier in copiers:
            copier.run(lambda: False)
        _judge(home, site, world, crawl, copiers)


def _copier(home: Path, program: str, journal: str, chance: random.Random) -> Copier:
    """Write the program as the page has it."""
    found = re.search(rf'^```python title="{program}"\n(.*?)^```$', PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert found is not None, f"{PAGE} has no {program}"
    (home / program).write_text(found[1])
    return Copier(program, home, home / journal, random.Random(chance.random()))


def _copy(copier: Copier, kills: int, all_of_them: Sequence[Copier], over: threading.Event) -> None:
    output, size = copier.home / "news" / "pages.jsonl", 0
    while not over.is_set():
        if output.stat().st_size == size:
            over.wait(_REST)
            continue
        size = output.stat().st_size
        copier.run(lambda: sum(each.kills for each in all_of_them) < kills)


@dataclass
class Crawl:
    """The crawl, and what changes while it runs."""

    home: Path
    site: Site
    world: World
    chance: random.Random
    kills: int = 0
    runs: int = 0

    @property
    def job(self) -> Path:
        return self.home / "news"

    @property
    def command(self) -> list[str]:
        (self.home / "often.toml").write_text(_CONFIG)
        (self.home / "seeds.txt").write_text(self.site.url("/") + "\n")
        job, config = str(self.job), str(self.home / "often.toml")
        return [str(self.home / "seeds.txt"), "--job", job, "--config", config, *_FLAGS]

    def begin(self) -> None:
        """There is a job to copy from."""
        ended = ran(*self.command, "--max-pages", "1")
        if ended.code != 0:
            raise SystemExit(ended.err)

    def run(self, *, kill: bool) -> None:
        """Run until so many answers were given, while the site changes. The run is killed, or stopped in order."""
        answers = self.world.answers + self.chance.randrange(1, 12 * self.world.most)
        step = self.world.answers
        self.runs += 1
        with running(*self.command) as process:
            while process.poll() is None and self.world.answers < answers:
                if self.world.answers >= step:
                    self.world.step()
                    step += self.chance.randrange(1, 12)
                time.sleep(_POLL)
            if process.poll() is not None:
                raise SystemExit(process.communicate()[1].decode())
            if kill:
                process.kill()
                self.kills += 1
            else:
                process.terminate()
            process.communicate()

    def settle(self) -> None:
        """Let the site rest until each of its URLs was asked for once more, and stop the crawl."""
        rest = self.world.answers
        with running(*self.command) as process:
            while any(self.world.asked.get(path, 0) <= rest for path in self.world.pages):
                if process.poll() is not None:
                    raise SystemExit(process.communicate()[1].decode())
                time.sleep(_POLL)
            process.terminate()
            process.communicate()
        checked = ran("verify", self.job)
        if checked.code:
            raise SystemExit(checked.out)


def _judge(home: Path, site: Site, world: World, crawl: Crawl, copiers: Sequence[Copier]) -> None:
    truth, records = world.truth(site), list(crawler.Job(crawl.job).changes())
    changes = Counter(record["change"] for record in records)
    print(f"web       {len(truth)} pages at the end, {len(world.pages)} URLs, {world.answers} answers")
    print(f"steps     {', '.join(f'{number} {step}' for step, number in sorted(world.steps.items()))}")
    print(f"records   {len(records)}: {', '.join(f'{changes[each]} {each}' for each in sorted(changes))}")
    print(f"crawler   {crawl.runs} runs, {crawl.kills} kills")
    print(f"\n{'':<16}" + "".join(f"{head:>9}" for head in ("runs", "kills", *_FAULTS, "pages")))
    copy = sqlite3.connect(home / "copy.sqlite")
    rows = [copy.execute("SELECT url, bytes FROM pages").fetchall()]
    told = copy.execute("SELECT url, fetched_at FROM told ORDER BY number").fetchall()
    copy.close()
    with duckdb.connect(str(home / "copy.duckdb")) as other:
        rows.append(other.execute("SELECT url, bytes FROM pages").fetchall())
    bad = 0
    for copier, found in zip(copiers, rows, strict=True):
        there = dict(found)
        faults = (
            len(truth.keys() - there.keys()),
            sum(there[url] != size for url, size in truth.items() if url in there),
            len(found) - len(there),
            len(there.keys() - truth.keys()),
        )
        bad += sum(faults)
        figures = (copier.runs, copier.kills, *faults, len(found))
        print(f"{copier.program:<16}" + "".join(f"{figure:>9}" for figure in figures))
    wanted = [(row["url"], row["fetched_at"]) for row in records if row["change"] in ("insert", "update")]
    print(f"\nSQLite was told {len(told)} pages, each once and in order: {'yes' if told == wanted else 'no'}")
    if bad or told != wanted:
        raise SystemExit("a copy differs from the web")


_FAULTS = ("missing", "stale", "twice", "undead")


if __name__ == "__main__":
    main(sys.argv[1:])
