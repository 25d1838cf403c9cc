"""Measures a crawler on a synthetic web, in a process separate from the servers."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from crawler.tools.bench.crawl_truth import ALL, Found, Verdict, judge_crawl
from crawler.tools.bench.process_cost import Cost, module_environment, run
from crawler.tools.bench.synthetic_server import Requested
from crawler.tools.bench.synthetic_web import Kind, Shape, SyntheticWeb

_PATIENCE = 20.0  # seconds that a server may take to exit
_FLAGS = ("--allow-private", "--delay", "0", "--per-host", "16", "--concurrency", "64", "--quiet")


class CrawlFailedError(Exception):
    """The crawler or a server of the web failed. The message is one line for the user."""


class Contender(Struct, frozen=True):
    """A crawler to measure. ``words(seeds, home)`` returns the module and the arguments of a crawl that writes to
    ``home``. ``found(home)`` yields the URLs that the crawl found, which should be all URLs of these ``kinds``."""

    name: str
    words: Callable[[Path, Path], list[str]]
    found: Callable[[Path], Iterator[Found]]
    kinds: Kind = ALL


class Latency(Struct, frozen=True):
    """Quantiles of the duration of requests in milliseconds; -1 if unknown."""

    median: float = -1.0
    most: float = -1.0  # 95th percentile


class Measured(Struct, frozen=True):
    """One crawl of a synthetic web."""

    name: str
    verdict: Verdict
    cost: Cost
    latency: Latency
    requested: Requested

    @property
    def microseconds(self) -> float:
        """The CPU time per page."""
        return 1e6 * self.cost.cpu / max(1, self.verdict.pages)

    @property
    def pages_a_second(self) -> float:
        return self.verdict.pages / self.cost.wall


def ours(*more: str) -> Contender:
    """Return this program as a crawler to measure, with its default settings and ``more`` flags."""

    def words(seeds: Path, home: Path) -> list[str]:
        return ["crawler", "crawl", str(seeds), "--job", str(home / "job"), *_FLAGS, *more]

    return Contender("crawler", words, lambda home: records(home / "job" / "pages.jsonl"))


def records(path: Path) -> Iterator[Found]:
    """Yield the URLs in a file that has one JSON object per URL."""
    with path.open("rb") as lines:
        for line in lines:
            row = json.loads(line)
            # Skip probes: URLs invented by the crawler to see how a host responds to missing pages.
            if not row.get("probe"):
                yield Found(row["url"], row["status"], row.get("seconds"))


def measure(contender: Contender, shape: Shape, home: Path, environment: dict[str, str]) -> Measured:
    """Serve and crawl the whole web of a shape. Writes to the existing directory ``home``. ``environment`` contains the
    environment variables of the crawl.

    Raises CrawlFailedError, OSError.
    """
    seeds, log = home / "seeds.txt", home / "log"
    with WebServers(shape) as servers:
        web = SyntheticWeb(servers.shape)
        seeds.write_text("".join(f"{url}\n" for url in web.seeds), "ascii")
        command = [sys.executable, "-P", "-m", *contender.words(seeds, home)]
        cost = run(command, log, home, env=environment)
        requested = servers.stop()
    if cost.code:
        last = log.read_text("utf-8", "replace").strip().splitlines()[-1:]
        raise CrawlFailedError(f"{contender.name} ended with exit code {cost.code}: {' '.join(last)}")
    times = list[float]()
    verdict = judge_crawl(web, _timed(contender.found(home), times), contender.kinds)
    latency = Latency(*map(float, np.percentile(times, (50, 95)))) if times else Latency()
    return Measured(contender.name, verdict, cost, latency, requested)


def _timed(output: Iterable[Found], times: list[float]) -> Iterator[Found]:
    """Yield the URLs of ``output``, and append the durations of their requests, in milliseconds, to ``times``."""
    for found in output:
        if found.seconds is not None:
            times.append(1000 * found.seconds)
        yield found


class WebServers:
    """The server processes of a web, each with a share of its hosts: one process for every two cores."""

    def __init__(self, shape: Shape, shares: int = 0) -> None:
        self.shape = shape
        self._shares = min(shape.hosts, shares or max(1, (os.cpu_count() or 1) // 2))
        self._processes: list[subprocess.Popen[str]] = []

    def __enter__(self) -> WebServers:
        try:
            for share in range(self._shares):
                self.shape = replace(self.shape, port=self._start(share))
        except BaseException:
            self._kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._kill()

    def stop(self) -> Requested:
        """Stop the servers. Returns the counts of the requests that they received. Raises CrawlFailedError."""
        total = Requested()
        for process in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                told, _ = process.communicate(timeout=_PATIENCE)
            if process.returncode != 0:
                raise CrawlFailedError(f"a server of the synthetic web ended with exit code {process.returncode}")
            total += msgspec.json.decode(told, type=Requested)
        return total

    def _start(self, share: int) -> int:
        """Start a server. Returns its port."""
        words = [sys.executable, "-P", "-m", "crawler.tools.bench.synthetic_server", str(share), str(self._shares)]
        process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=module_environment(),
            start_new_session=True,  # Ctrl-C must not reach the server, which exits when its input closes
        )
        self._processes.append(process)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(msgspec.json.encode(self.shape).decode() + "\n")
        process.stdin.flush()
        port = process.stdout.readline().strip()
        if not port:
            raise CrawlFailedError("a server of the synthetic web ended before it was ready")
        return int(port)

    def _kill(self) -> None:
        for process in self._processes:
            with process:
                if process.poll() is None:
                    process.kill()
