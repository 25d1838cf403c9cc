"""This crawler, the floor, Scrapy and Crawlee on the same synthetic web, in interleaved rounds.

    python benchmarks/crawl/compare.py [--pages N] [--hosts N] [--rounds N] [--no-peers] [--plot FILE] [--json] [...]

Each runs in a process that reaches nothing but this machine. Scrapy and Crawlee take part if they are installed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

import msgspec
from msgspec.structs import replace

import crawler
from benchmarks.crawl.contenders import OURS, SAMPLES, floor, ours, peers
from benchmarks.crawl.crawl_report import Sampled, Summary, bars, figures, summarise, svg, table
from benchmarks.crawl.made_certificates import CertificatesError, authority, make_certificates
from benchmarks.crawl.stage_samples import Taken
from benchmarks.kit.machine import describe_commit, describe_machine
from crawler.cli.bench import add_shape, shape_of
from crawler.cli.exit_codes import UsageError
from crawler.tools.bench.process_cost import module_environment
from crawler.tools.bench.synthetic_crawl import Contender, CrawlFailedError, measure
from crawler.tools.bench.synthetic_web import Serving, Shape, address_of

_PACKAGES = ("aiohttp", "ada-url", "selectolax", "mmh3", "numpy", "bitarray", "rocksdict", "scrapy", "crawlee")
_ROOT = Path(__file__).resolve().parents[2]
_FIRST = Shape(50, 2, port=0)  # a crawl that is not counted: it compiles all modules that a crawl loads


def main(words: Sequence[str]) -> int:
    chosen = _parsed(words)
    there, absent = ([], []) if chosen.no_peers else peers()
    machine, shape = describe_machine(_PACKAGES), chosen.shape
    web = _described(shape) + (", with an archive" if chosen.warc else "")
    if not chosen.json:
        print(
            *machine,
            f"web       {web}",
            *(f"peer      {name} is not installed: left out" for name in absent),
            "",
            sep="\n",
        )
    contenders = [floor(), ours("--output", "warc") if chosen.warc else ours(), *there]
    try:
        summaries = _measured(contenders, shape, chosen.rounds)
    except (CertificatesError, CrawlFailedError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if chosen.json:
        print(json.dumps({**_circumstances(chosen, machine, absent), **figures(summaries)}))
    else:
        print(*table(summaries, https=shape.serving.https), "", *bars(summaries), sep="\n")
    if chosen.plot is not None:
        chosen.plot.write_text(svg(summaries, web), "utf-8")
    return 0 if _is_right(next(each for each in summaries if each.name == OURS)) else 1


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_shape(parser)
    add = parser.add_argument
    add("--https", action="store_true", help="serve over TLS 1.3; openssl makes the certificates")
    text = "the share of requests that need a connection of their own: 0, 1/3, 1 (0)"
    add("--new-connections", type=_each, default=0, metavar="SHARE", help=text)
    add("--full-handshakes", action="store_true", help="with --https: the servers resume no TLS sessions")
    add("--rounds", type=int, default=1, metavar="N", help="runs of each, interleaved (1)")
    add("--warc", action="store_true", help="our crawl writes a web archive too")
    add("--no-peers", action="store_true", help="leave out Scrapy and Crawlee")
    add("--plot", type=Path, metavar="FILE", help="write a plot to FILE, as SVG")
    add("--json", action="store_true", help="print one line of JSON instead of the table")
    chosen = parser.parse_args(words)
    serving = Serving(chosen.https, chosen.new_connections, not chosen.full_handshakes)
    try:
        chosen.shape = replace(shape_of(chosen), serving=serving)
    except UsageError as error:
        parser.error(str(error))
    return chosen


def _each(word: str) -> int:
    """Return after how many requests a server closes a connection; 0: never."""
    share = Fraction(word)
    if share and share.numerator != 1:
        raise argparse.ArgumentTypeError(f"must be 0, 1, or a fraction such as 1/3, not {word!r}")
    return share.denominator if share else 0


def _measured(contenders: Sequence[Contender], shape: Shape, rounds: int) -> list[Summary]:
    """Interleave the rounds, so that whatever else the machine does meets all alike."""
    results: dict[str, list[Sampled]] = {contender.name: [] for contender in contenders}
    with tempfile.TemporaryDirectory(prefix="bench-crawl-") as kept:
        # An installation has compiled modules. Whether this one may write them or not, all start with the same.
        environment = {**module_environment(), "PYTHONPYCACHEPREFIX": kept}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        if shape.serving.https:
            make_certificates(Path(kept), map(address_of, range(max(shape.hosts, _FIRST.hosts))))
            shape = replace(shape, serving=replace(shape.serving, certificates=kept))
            environment["SSL_CERT_FILE"] = str(authority(Path(kept)))
        first = replace(_FIRST, mode=shape.mode, serving=shape.serving)
        for number in range(-1, rounds):
            for contender in contenders:
                measured = _one(contender, first if number < 0 else shape, environment)
                if number >= 0:
                    results[contender.name].append(measured)
    return [summarise(each) for each in results.values()]


def _one(contender: Contender, shape: Shape, environment: Mapping[str, str]) -> Sampled:
    with tempfile.TemporaryDirectory(prefix="bench-crawl-") as home:
        measured = measure(contender, shape, Path(home), dict(environment))
        samples = Path(home) / SAMPLES
        taken = msgspec.json.decode(samples.read_bytes(), type=Taken) if samples.exists() else None
        return Sampled(measured, taken)


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


def _circumstances(chosen: argparse.Namespace, machine: Sequence[str], absent: Sequence[str]) -> dict[str, object]:
    """Return what a figure depends on."""
    shape: Shape = chosen.shape
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": crawler.__version__,
        "commit": describe_commit(_ROOT),
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
        "archive": chosen.warc,
        "rounds": chosen.rounds,
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
        print(f"error: the crawl differs from the web: URLs {', '.join(said)}", file=sys.stderr)
    return not said


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
