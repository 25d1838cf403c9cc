"""``crawler bench crawl``: rounds of crawls of one synthetic web, and what is printed of them."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

import crawler
from crawler.service.ending_signals import ending_signals
from crawler.tools.bench.child import module_environment
from crawler.tools.bench.contenders import OURS, Contender, floor, ours, peers
from crawler.tools.bench.crawl_report import Summary, bars, figures, summarise, svg, table
from crawler.tools.bench.machine import describe_commit, describe_machine
from crawler.tools.bench.made_certificates import CertificatesError
from crawler.tools.bench.synthetic_crawl import CrawlFailedError, Measured, WebServers, measure
from crawler.tools.bench.synthetic_web import Shape, SyntheticWeb

_PACKAGES = ("aiohttp", "ada-url", "selectolax", "mmh3", "numpy", "bitarray", "rocksdict", "scrapy", "crawlee")
_ROOT = Path(crawler.__file__).resolve().parent.parent


_FIRST = Shape(50, 2, port=0)  # a crawl that is not counted: it compiles all modules that a crawl loads


class Plan(Struct, frozen=True):
    """What is measured, and how it is told."""

    shape: Shape
    rounds: int = 1
    peers: bool = True
    plot: Path | None = None  # an SVG file
    as_json: bool = False
    archive: bool = False  # our crawl writes one


def bench_crawl(plan: Plan) -> bool:
    """Measure and print. Returns whether our crawl found what there is. Raises OSError."""
    there, absent = peers() if plan.peers else ([], [])
    machine, commit = describe_machine(_PACKAGES), describe_commit(_ROOT)
    shape = plan.shape
    web = _described(shape) + (", with an archive" if plan.archive else "")
    if not plan.as_json:
        _say(*machine, f"web       {web}", *(f"peer      {name} is not installed: left out" for name in absent), "")
    try:
        summaries = _measure([floor(), ours(archive=plan.archive), *there], plan)
    except (CertificatesError, CrawlFailedError) as error:
        sys.stderr.write(f"crawler: error: {error}\n")
        return False
    if plan.as_json:
        circumstances = {**_circumstances(plan, machine, absent), "commit": commit}
        _say(json.dumps({**circumstances, **figures(summaries)}))
    else:
        _say(*table(summaries, https=shape.serving.https), "", *bars(summaries))
    if plan.plot is not None:
        plan.plot.write_text(svg(summaries, web), "utf-8")
    return _is_right(next(each for each in summaries if each.name == OURS))


def serve_web(shape: Shape, seeds: Path) -> None:
    """Serve a web until a signal ends it. Raises OSError, CertificatesError, CrawlFailedError."""
    ended = threading.Event()
    with ending_signals(lambda _: ended.set()), WebServers(shape) as servers:
        web = SyntheticWeb(servers.shape)
        # Whoever waits for the file must find it whole.
        unfinished = seeds.with_name(f".{seeds.name}.new")
        unfinished.write_text("".join(f"{url}\n" for url in web.seeds), "ascii")
        unfinished.replace(seeds)
        if servers.trusted is not None:
            _say(f"certificates are signed by {servers.trusted}")
        _say(f"{shape.pages:,} pages on {shape.hosts:,} hosts, from {web.seeds[0]} on, until Ctrl-C")
        ended.wait()


def _measure(contenders: Sequence[Contender], plan: Plan) -> list[Summary]:
    """Interleave the rounds, so that whatever else the machine does meets all alike."""
    results: dict[str, list[Measured]] = {contender.name: [] for contender in contenders}
    with tempfile.TemporaryDirectory(prefix="bench-crawl-") as cache:
        # An installation has compiled modules. Whether this one may write them or not, all start with the same.
        environment = {**module_environment(), "PYTHONPYCACHEPREFIX": cache}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for number in range(-1, plan.rounds):
            for contender in contenders:
                with tempfile.TemporaryDirectory(prefix="bench-crawl-") as home:
                    shape = plan.shape
                    if number < 0:
                        shape = replace(_FIRST, mode=shape.mode, serving=shape.serving)
                    measured = measure(contender, shape, Path(home), environment)
                if number >= 0:
                    results[contender.name].append(measured)
    return [summarise(rounds) for rounds in results.values()]


def _described(shape: Shape) -> str:
    words = [f"{shape.pages:,} pages on {shape.hosts:,} hosts, {shape.mode.value}, seed {shape.seed}"]
    serving = shape.serving
    if shape.size:
        words.append(f"{shape.size:,} bytes each")
    if serving.https:
        words.append("https" if serving.resumes else "https without sessions")
    if serving.each:
        words.append(f"a new connection every {serving.each} requests")
    return ", ".join(words)


def _circumstances(plan: Plan, machine: Sequence[str], absent: Sequence[str]) -> dict[str, object]:
    """Return what a figure depends on."""
    shape = plan.shape
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": crawler.__version__,
        "machine": {words[0]: words[1] for words in (line.split(maxsplit=1) for line in machine)},
        "load_after": [round(value, 2) for value in os.getloadavg()],
        "web": {
            "pages": shape.pages,
            "hosts": shape.hosts,
            "seed": shape.seed,
            "mode": shape.mode.value,
            "page_size": shape.size,
            "https": shape.serving.https,
            "requests_a_connection": shape.serving.each,
            "sessions": shape.serving.https and shape.serving.resumes,
        },
        "archive": plan.archive,
        "rounds": plan.rounds,
        "absent": list(absent),
    }


def _is_right(ours: Summary) -> bool:
    """Say what is wrong with our crawl. Returns whether nothing is."""
    wrong = {
        "missing": ours.missing,
        "twice": ours.twice,
        "unexpected": ours.unexpected,
        "with a wrong end": ours.wrong,
        "requested although robots.txt disallows them": ours.private,
    }
    said = [f"{count:,} {name}" for name, count in wrong.items() if count]
    if said:
        sys.stderr.write(f"crawler: error: the crawl differs from the web: URLs {', '.join(said)}\n")
    return not said


def _say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()
