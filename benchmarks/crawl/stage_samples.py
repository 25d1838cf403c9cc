"""Samples where a process spends its CPU time, by the stages of a crawl.

The kernel sends a signal each time that the process has used some milliseconds of CPU. Its handler looks at the stack
of the main thread, from the innermost frame outwards, for the first frame of a package that has a stage. A sample costs
some microseconds. C code is charged to the Python code that called it, and other threads to what the main thread does
meanwhile.
"""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path
from types import FrameType

from msgspec import Struct

import crawler

STAGES = ("start", "fetch", "parsers", "links", "admit", "store", "rest")
PARSERS = "parsers"  # what other processes of the crawl take: they parse pages
INTERVAL = 0.002  # seconds of CPU time; kernels that tick more slowly round it up
_ROOT = f"{Path(crawler.__file__).resolve().parent}/"
_LOADING = "<frozen importlib._bootstrap>"

# Packages and modules of ours whose work belongs to a stage.
_OURS = {
    "fetch": "web/fetch url/robots engine/robots_visit engine/robots_redirect",
    "links": "web/links web/parsing web/extract frontier/traps url/urls url/scope engine/discover engine/link_judge "
    "engine/page_reader engine/reading engine/judge",
    "admit": "seen/filters seen/slices seen/exact frontier job/admission",
    "store": "base/kv base/disk web/archive job",
}
PLACES = {name: stage for stage, names in _OURS.items() for name in names.split()}
_THEIRS = {
    "/aiohttp/": "fetch",
    "/yarl/": "fetch",
    "/multidict/": "fetch",
    "/asyncio/selector_events.py": "fetch",
    "/asyncio/sslproto.py": "fetch",
    "/selectolax/": "links",
}


class Taken(Struct, frozen=True):
    """Samples of a process by stage, and the CPU seconds of the processes that it started."""

    samples: dict[str, int] = {}
    others: float = 0.0


class StageSamples:
    """Counts of samples by stage."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._stages: dict[str, str | None] = {}  # by file

    def start(self) -> None:
        """Sample until the process ends or ``stop`` is called. Only in the main thread."""
        signal.signal(signal.SIGPROF, self._sample)
        signal.siginterrupt(signal.SIGPROF, False)
        signal.setitimer(signal.ITIMER_PROF, INTERVAL, INTERVAL)

    def stop(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)

    def _sample(self, number: int, frame: FrameType | None) -> None:
        self.counts[self.stage(frame)] += 1

    def stage(self, frame: FrameType | None) -> str:
        """Return the stage of the code that ``frame`` runs. Loading modules is ``start``, whatever asked for them."""
        found = "rest"
        decided = False
        while frame is not None:
            name = frame.f_code.co_filename
            if name == _LOADING:
                return "start"
            if not decided:
                if name not in self._stages:
                    self._stages[name] = stage_of(name)
                stage = self._stages[name]
                if stage is not None:
                    found, decided = stage, True
            frame = frame.f_back
        return found


def stage_of(file: str) -> str | None:
    """Return the stage of the code in a file; None: its caller decides."""
    if file.startswith(_ROOT):
        path = file.removeprefix(_ROOT).removesuffix(".py")
        words = path.split("/")
        above = ("/".join(words[:count]) for count in range(len(words), 0, -1))
        return next((PLACES[place] for place in above if place in PLACES), "rest")
    return next((stage for part, stage in _THEIRS.items() if part in file), None)
