"""Kill a crawl that keeps a web archive, the link graph and texts, and read the archive with the tools of others.

    python benchmarks/durability/archives.py [--kills 5] [--losses 1] [--seed N] [--out FILE]
    python benchmarks/durability/archives.py --seeds FILE --truth FILE [...]

Crawls a web with ``--output warc,links,text``: made files that it serves itself with nginx, or what FILE names, on this
machine. ``truth`` has a line for each URL there: status, kind, URL, with tabs between. After a random number of answers
the crawl is killed, or its disk loses power; the same command is given again, until the crawl ends by itself.

Then FastWARC reads the archive, and Python's gzip module each file to its last byte. Each URL must be there exactly
once, as a response or as a revisit whose capture is there, with one request and one metadata record; its body must be
what the server sends for the same request. Each edge of the link graph must be there once, as many of a page as its
record counts. Each page must have one text. ``verify`` must call the job whole.

A power loss needs no file system of its own here: ``synced.c`` writes down how long each file was when it was last
synced. The program is killed, and each file is cut somewhere behind that. Names of files are not lost: ``images.py``
takes them too, but has to mount. Exits with 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import gzip
import hashlib
import http.client
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "crawl"))
sys.path.append(str(Path(__file__).resolve().parents[2]))

from crawls import undisturbed
from fastwarc.warc import ArchiveIterator
from web import served

from benchmarks.durability.synced import Synced
from benchmarks.kit.machine import describe_machine
from benchmarks.kit.made_pages import make_files

HERE = Path(__file__).resolve().parent
PACKAGES = ("aiohttp", "rocksdict", "FastWARC", "isal")
PAGES = 600  # of the made web
FLAGS = "--allow-private --delay 0 --per-host 16 --concurrency 64 --quiet --output warc,links,text"
# Several generations, and several files of each output.
CONFIG = "[durability]\nsync_interval = 0.5\ncheckpoint_interval = 3\n[output]\nfile_size = 4_000_000\n"
_POLL = 0.005  # seconds between two looks at the records
_LATE = 0.2  # seconds from an answer to the kill, at most
_SHOWN = 5
_HTML = ("text/html", "application/xhtml+xml")
_MADE_UP = "made up by the crawler"  # what the record of a probe says

Captured = tuple[str, str]  # URL and date


@dataclass
class Capture:
    """One answer of the archive. ``refers``: what a revisit stands for."""

    url: str
    refers: Captured | None
    payload: str | None
    body: bytes
    request: bytes = b""


@dataclass
class Archive:
    """What FastWARC finds."""

    captures: dict[str, Capture] = field(default_factory=dict)  # by id of the record
    dated: dict[Captured, Capture] = field(default_factory=dict)  # the responses
    beside: Counter[tuple[str, str]] = field(default_factory=Counter)  # kind and id of the answer
    files: int = 0
    size: int = 0
    wrong: list[str] = field(default_factory=list)


@dataclass
class Crawl:
    """A job, and the command that starts and resumes it."""

    home: Path
    seeds: Path
    synced: Synced

    @property
    def job(self) -> Path:
        return self.home / "job"

    def records(self) -> int:
        try:
            return (self.job / "pages.jsonl").read_bytes().count(b"\n")
        except FileNotFoundError:
            return 0

    def start(self) -> subprocess.Popen[bytes]:
        config = self.home / "often.toml"
        config.write_text(CONFIG)
        words = [sys.executable, "-m", "crawler", self.seeds, "--job", self.job, "--config", config, *FLAGS.split()]
        root = str(HERE.parents[1])
        around = {**os.environ, "PYTHONPATH": root, **self.synced.environment}
        with (self.home / "log").open("ab") as log:
            return subprocess.Popen(list(map(str, words)), cwd=root, env=around, stdin=subprocess.DEVNULL, stderr=log)

    def killed_at(self, answers: int, late: float) -> bool:
        """Run until there are so many answers, and kill it; False if it ended by itself before."""
        with self.start() as process:
            while self.records() < answers and process.poll() is None:
                time.sleep(_POLL)
            time.sleep(late)
            process.kill()
            process.wait()
        return self._ended(process.returncode)

    def to_the_end(self) -> None:
        with self.start() as process:
            process.wait()
        self._ended(process.returncode)

    def _ended(self, code: int) -> bool:
        if code > 0:
            details = "".join(path.read_text()[-4000:] for path in self.job.glob("crash.txt"))
            raise SystemExit(f"it ended with {code}:\n{(self.home / 'log').read_text()[-2000:]}\n{details}")
        return code < 0


def read_archive(job: Path) -> Archive:
    """All records, as FastWARC finds them."""
    archive = Archive()
    for path in sorted((job / "warc").iterdir()):
        data = path.read_bytes()
        archive.files += 1
        archive.size += len(data)
        try:
            gzip.decompress(data)
        except (EOFError, OSError) as error:
            archive.wrong.append(f"{path.name} is torn: {error}")
        with path.open("rb") as stream:
            for record in ArchiveIterator(stream, parse_http=False):
                if "WARC-Block-Digest" in record.headers and not record.verify_block_digest():
                    archive.wrong.append(f"{path.name}: {record.record_id} is not what its digest says")
        with path.open("rb") as stream:
            for record in ArchiveIterator(stream, parse_http=False):
                _take(archive, str(record.record_type), dict(record.headers), record.reader.read())
    return archive


def _take(archive: Archive, kind: str, heads: dict[str, str], block: bytes) -> None:
    url, number = heads.get("WARC-Target-URI", ""), heads["WARC-Record-ID"]
    if kind in ("response", "revisit"):
        refers = (heads.get("WARC-Refers-To-Target-URI", ""), heads.get("WARC-Refers-To-Date", ""))
        body = block.partition(b"\r\n\r\n")[2]
        capture = Capture(url, refers if kind == "revisit" else None, heads.get("WARC-Payload-Digest"), body)
        archive.captures[number] = capture
        if kind == "response":
            archive.dated[url, heads["WARC-Date"]] = capture
            if capture.payload != digest(body):
                archive.wrong.append(f"{url}: the payload is not what its digest says")
        elif body:
            archive.wrong.append(f"{url}: a revisit with a body")
    elif kind in ("request", "metadata"):
        about = heads["WARC-Concurrent-To"]
        archive.beside[kind, about] += 1
        if about not in archive.captures or archive.captures[about].url != url:
            archive.wrong.append(f"{url}: a {kind} without its answer")
        elif kind == "request":
            archive.captures[about].request = block
    elif kind != "warcinfo":
        archive.wrong.append(f"a record of the kind {kind}")


def digest(body: bytes) -> str:
    return "sha1:" + base64.b32encode(hashlib.sha1(body, usedforsecurity=False).digest()).decode("ascii")


def ask(url: str, request: bytes) -> bytes:
    """What the server sends for a request, its transfer coding removed."""
    where = urllib.parse.urlsplit(url)
    lines = request.decode("latin-1").split("\r\n")
    connection = http.client.HTTPConnection(where.netloc, timeout=30)
    with contextlib.closing(connection):
        connection.putrequest("GET", lines[0].split(" ")[1], skip_host=True, skip_accept_encoding=True)
        for line in filter(None, lines[1:]):
            connection.putheader(*line.split(": ", 1))
        connection.endheaders()
        return connection.getresponse().read()


def judge_archive(archive: Archive, pages: Sequence[dict[str, object]], truth: set[str]) -> Iterator[str]:
    """What is wrong with it; nothing else is said."""
    yield from archive.wrong
    times = Counter(capture.url for capture in archive.captures.values())
    robots = {url for url in times if urllib.parse.urlsplit(url).path == "/robots.txt"}
    recorded = {str(page["url"]) for page in pages if page["status"] is not None}
    made_up = {str(page["url"]) for page in pages if str(page.get("error") or "").startswith(_MADE_UP)}
    yield from _named("missing", truth - times.keys())
    yield from _named("unknown", times.keys() - truth - robots - made_up)
    yield from _named("twice", {url for url, count in times.items() if count > 1})
    yield from _named("recorded, but not archived", recorded - times.keys())
    yield from _named("archived, but not recorded", times.keys() - recorded - robots)
    hosts = {urllib.parse.urlsplit(url).netloc for url in recorded}
    yield from _named("no robots.txt", hosts - {urllib.parse.urlsplit(url).netloc for url in robots})
    for number, capture in archive.captures.items():
        is_page = capture.url not in robots
        if (archive.beside["request", number], archive.beside["metadata", number]) != (1, int(is_page)):
            yield f"{capture.url}: not one request and one metadata record"
        there = capture if capture.refers is None else archive.dated.get(capture.refers)
        if there is None:
            yield f"{capture.url}: a revisit of {capture.refers}, which is not there"
        elif capture.payload != there.payload or ask(capture.url, capture.request) != there.body:
            yield f"{capture.url}: the body is not what the server sends"


def judge_links(job: Path, pages: Sequence[dict[str, object]]) -> tuple[int, list[str]]:
    """How many edges there are, and what is wrong with them."""
    edges = Counter[tuple[str, str]]()
    torn = []
    for path in sorted((job / "links").iterdir()):
        for line in path.read_bytes().splitlines(keepends=True):
            if not line.endswith(b"}\n"):
                torn.append(f"{path.name} is torn")
                continue
            row = json.loads(line)
            edges[row["from"], row["to"]] += 1
    wrong = [*torn, *_named("edges twice", {f"{a} -> {b}" for (a, b), count in edges.items() if count > 1})]
    of_page = Counter(page for page, _ in edges)
    counted = {str(page["url"]): page["links"] for page in pages if page["links"]}
    wrong += _named("pages without their edges", {url for url, links in counted.items() if of_page[url] != links})
    wrong += _named("edges of pages without a record", of_page.keys() - counted.keys())
    return edges.total(), wrong


def judge_texts(job: Path, pages: Sequence[dict[str, object]]) -> tuple[int, list[str]]:
    """How many texts there are, and what is wrong with them."""
    times, wrong = Counter[str](), []
    for path in sorted((job / "text").iterdir()):
        for line in path.read_bytes().splitlines(keepends=True):
            if line.endswith(b"}\n"):
                times[json.loads(line)["url"]] += 1
            else:
                wrong.append(f"{path.name} is torn")
    read = {
        str(page["url"])
        for page in pages
        if page["outcome"] == "fetched"
        and str(page["status"]).startswith("2")
        and page["content_type"] in _HTML
        and not str(page.get("error") or "").startswith(_MADE_UP)
    }
    wrong += _named("pages without a text", read - times.keys())
    wrong += _named("texts without a page", times.keys() - read)
    wrong += _named("texts twice", {url for url, count in times.items() if count > 1})
    return times.total(), wrong


def _named(what: str, urls: set[str]) -> Iterator[str]:
    if urls:
        yield f"{what}: {len(urls)}, such as {', '.join(sorted(urls)[:_SHOWN])}"


def shown(work: Iterator[str]) -> list[str]:
    found = list(work)
    return found if len(found) <= _SHOWN else [*found[:_SHOWN], f"and {len(found) - _SHOWN} more"]


def proof(crawl: Crawl, truth: set[str], kills: int, losses: int, chance: random.Random) -> tuple[list[str], list[str]]:
    """One life: the lines that describe it, and what is wrong."""
    lines: list[str] = []
    events = ["power loss"] * losses + ["SIGKILL"] * kills
    chance.shuffle(events)
    moments = sorted(chance.sample(range(1, max(len(truth) * 9 // 10, 2 * len(events))), len(events)))
    began = time.monotonic()
    for event, moment in zip(events, moments, strict=True):
        if not crawl.killed_at(moment, chance.uniform(0, _LATE)):
            raise SystemExit("the crawl ended before it was killed: more pages are needed")
        had = crawl.records()
        lost = crawl.synced.lose_power(crawl.job, chance) if event == "power loss" else 0
        lines.append(f"{event:<11} at {had:>5} answers" + (f", {lost:,} bytes lost" if lost else ""))
    crawl.to_the_end()
    lines.append(f"crawled in {time.monotonic() - began:.0f} s")
    pages = [json.loads(line) for line in (crawl.job / "pages.jsonl").read_text().splitlines()]
    archive = read_archive(crawl.job)
    wrong = shown(judge_archive(archive, pages, truth))
    twice = {url for url, count in Counter(page["url"] for page in pages).items() if count > 1}
    wrong += _named("recorded twice", twice)
    edges, wrong_links = judge_links(crawl.job, pages)
    texts, wrong_texts = judge_texts(crawl.job, pages)
    wrong += shown(iter(wrong_links)) + shown(iter(wrong_texts))
    words = [sys.executable, "-m", "crawler", "verify", str(crawl.job)]
    ran = subprocess.run(words, cwd=HERE.parents[1], capture_output=True, text=True, check=False)
    wrong += [f"verify: exit {ran.returncode}: {ran.stdout[-500:]}{ran.stderr[-500:]}"] if ran.returncode else []
    revisits = sum(capture.refers is not None for capture in archive.captures.values())
    kept = sum(len(capture.body) for capture in archive.captures.values())
    lines.append(f"URLs of the web {len(truth):,}, records {len(pages):,}")
    lines.append(
        f"archive: {len(archive.captures):,} answers, {revisits:,} of them revisits, bodies of {kept:,} bytes, "
        f"{archive.files} files of {archive.size:,} bytes"
    )
    lines.append(f"links: {edges:,} edges; texts: {texts:,}")
    return lines, wrong


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=5, help="by SIGKILL (5)")
    parser.add_argument("--losses", type=int, default=1, help="of power (1)")
    parser.add_argument("--pages", type=int, default=PAGES, help=f"of the made web ({PAGES})")
    parser.add_argument("--seeds", type=Path, help="of a web that is served already")
    parser.add_argument("--truth", type=Path, help="what there is in that web")
    parser.add_argument("--seed", type=int, default=1, help="of the moments (1)")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args(words)
    if (chosen.seeds is None) != (chosen.truth is None):
        parser.error("--seeds and --truth belong together")
    lines = [*describe_machine(PACKAGES), ""]
    print("\n".join(lines), flush=True)
    with contextlib.ExitStack() as around:
        home = Path(around.enter_context(tempfile.TemporaryDirectory()))
        seeds, truth = chosen.seeds, set[str]()
        if seeds is None:
            web = around.enter_context(served(make_files(home / "files", pages=chosen.pages), home / "nginx"))
            seeds = home / "seeds.txt"
            seeds.write_text("".join(f"{url}\n" for url in web.seeds))
            truth = undisturbed(seeds, home)
        else:
            truth = {line.split("\t")[2] for line in chosen.truth.read_text().splitlines()}
        crawl = Crawl(home, seeds.resolve(), Synced(home))
        told, wrong = proof(crawl, truth, chosen.kills, chosen.losses, random.Random(chosen.seed))
    lines += [*told, *(wrong or ["nothing is missing, twice, torn or different; verify calls the job whole"])]
    print("\n".join(lines[-len(told) - max(1, len(wrong)) :]))
    if chosen.out is not None:
        chosen.out.write_text("\n".join(lines) + "\n")
    if wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
