"""Uses a job while its crawl is killed again and again: ``add``, ``tail``, ``stats``, ``verify``, and a dashboard that
is read and takes URLs by POST."""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.asked import asked, knows
from tests.program import Ran, crawler, running

_PATIENCE = 30.0  # seconds: for an answer, and for the last records to be shown
_PAUSE = 0.15  # seconds between two things that are done


@dataclass
class Done:
    """What was done beside all crawls, and what came of it: "add: 0", "POST: 200"."""

    came: Counter[str] = field(default_factory=Counter)
    safe: int = 0  # URLs that add, or the answer to a POST, called safe
    shown: int = 0  # records that tail printed
    wrong: list[str] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        told = ", ".join(f"{what} {count}" for what, count in sorted(self.came.items()))
        yield f"beside: {told}"
        yield f"beside: {self.safe} URLs called safe, {self.shown} records shown by tail"
        yield from self.wrong


class Beside:
    """Does one thing after the other with the job in ``directory`` until it is left; ``urls`` are pages that no link
    leads to. ``tail`` follows the job over all its runs."""

    def __init__(self, directory: Path, urls: list[str], port: int, chance: random.Random, done: Done) -> None:
        self._directory, self._urls, self._address = directory, urls, knows(f"http://127.0.0.1:{port}", directory)
        self._chance, self._done = chance, done
        self._over = threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._work, self._follow)]
        self._lines: list[str] = []
        self.safe: set[str] = set()

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
        self._done.safe += len(self.safe)
        if kind is None:
            self._compare()

    def _until(self, true: Callable[[], bool]) -> bool:
        """Wait for it; False if everything is over before."""
        while not true():
            if self._over.wait(0.02):
                return False
        return True

    # -- tail --------------------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        output = self._directory / "pages.jsonl"
        if not self._until(output.exists) and not output.exists():
            return
        with running("tail", self._directory, "--all", "--follow") as process:
            reader = threading.Thread(target=self._read, args=(process.stdout,), daemon=True)
            reader.start()
            self._over.wait()
            deadline = time.monotonic() + _PATIENCE
            wanted = output.read_bytes().count(b"\n")
            while len(self._lines) < wanted and time.monotonic() < deadline and process.poll() is None:
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            code = process.wait(_PATIENCE)
            reader.join()
            if code != 130:
                self._done.wrong.append(f"tail ended with {code}: {process.stderr.read().decode()[-300:]}")

    def _read(self, stream: Any) -> None:
        self._lines.extend(line.decode() for line in stream)

    def _compare(self) -> None:
        """What tail showed is the output, each record once and in its order."""
        self._done.shown += len(self._lines)
        there = (self._directory / "pages.jsonl").read_text("utf-8").splitlines(keepends=True)
        if self._lines != there:
            extra, lacking = Counter(self._lines) - Counter(there), Counter(there) - Counter(self._lines)
            self._done.wrong.append(f"tail: {extra.total()} records more, {lacking.total()} fewer than the output has")

    # -- the rest ----------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        if not self._until((self._directory / "live.json").exists):
            return
        works = (self._add, self._leave, self._post, self._stats, self._verify, self._look)
        while not self._over.wait(_PAUSE):
            self._chance.choice(works)()

    def _count(self, what: str, ran: Ran) -> bool:
        """Whether it did its work."""
        self._done.came[f"{what}: {ran.code}"] += 1
        if "Traceback" in ran.err or ran.code < 0:
            self._done.wrong.append(f"{what} ended with {ran.code}: {ran.err[-300:]}")
        return ran.code == 0

    def _add(self, *flags: str) -> None:
        if self._urls:
            url = self._urls.pop()
            if self._count("add", crawler("add", self._directory, url, *flags)):
                self.safe.add(url)

    def _leave(self) -> None:
        self._add("--no-wait")

    def _stats(self) -> None:
        self._count("stats", crawler("stats", self._directory, "--json"))

    def _verify(self) -> None:
        self._count("verify", crawler("verify", self._directory))

    def _post(self) -> None:
        if self._urls and (self._directory / "dashboard-token").exists():
            url = self._urls.pop()
            body = json.dumps({"urls": [url]}).encode()
            if self._ask("POST", "/api/urls", body, {"Content-Type": "application/json"}) == 200:
                self.safe.add(url)

    def _look(self) -> None:
        self._ask("GET", self._chance.choice(("/api/stats", "/api/hosts", "/api/events", "/metrics", "/")), None, {})

    def _ask(self, method: str, path: str, body: bytes | None, heads: dict[str, str]) -> int:
        """The status; 0 if nobody answers, or dies before the end of the answer."""
        status = 0
        with contextlib.suppress(http.client.HTTPException, OSError):
            status, _ = asked(self._address + path, method, body, **heads)
        self._done.came[f"{method}: {status}"] += 1
        return status


def unlinked_pages(roots: list[Path], count: int) -> list[str]:
    """Write pages that no link leads to, ``count`` below each root; their paths."""
    paths = [f"unlinked/page-{number}.html" for number in range(count)]
    for root in roots:
        (root / "unlinked").mkdir()
        for path in paths:
            (root / path).write_text(
                '<!doctype html><title>unlinked</title><p>Nothing leads here.</p><a href="/">up</a>'
            )
    return paths
