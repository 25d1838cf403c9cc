"""``crawler text``: extracts the text of the pages of a job again, from what it has kept."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

from crawler.base.clock import SteadyClock
from crawler.base.disk import FULL, no_room
from crawler.base.figures import counted
from crawler.base.say import say
from crawler.base.settings.parts import EXTRACTORS, Settings
from crawler.cli.damaged_job import changing, guarded
from crawler.cli.exit_codes import Exit, FailedError, UsageError
from crawler.cli.interruptible import run_interruptible
from crawler.cli.named_urls import named_urls
from crawler.cli.options import output_names
from crawler.engine.extracting_again import AGAIN, Counts, ExtractingAgain, Wanted
from crawler.inspect.crawl_partitions import crawl_partitions, holds_crawl
from crawler.job.crawl_at_rest import at_rest
from crawler.job.found import KEEP_ALL, Router
from crawler.job.job import Job
from crawler.job.partition.router import PartitionRouter
from crawler.job.run_settings import read_run
from crawler.url.urls.canonicaliser import Canonicaliser
from crawler.web.extract.text_pool import missing_library

_EVERY = 10.0  # seconds between two lines


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Extract text, Markdown and structured data of pages again, from the bodies or the web archive that the job "
        "keeps, without asking any server. The pages are those whose rows are missing, say why there is no text, or "
        "were made by another extractor or another version of it; or the URLs that are named. The new row of a page "
        "takes the place of the old one. The job must not be running. Run the same command again after an interruption."
    )
    parser.add_argument("job", type=Path, metavar="DIR")
    parser.add_argument("urls", nargs="*", metavar="URL", help="pages to be extracted again, whatever their rows say")
    parser.add_argument(
        "--output",
        type=output_names,
        metavar="LIST",
        help=f"what to extract, of {', '.join(AGAIN)} (what the last run kept of these)",
    )
    parser.add_argument("--extractor", choices=EXTRACTORS, help="the extractor (that of the last run)")
    parser.add_argument("--failed", action="store_true", help="leave rows of another extractor as they are")
    parser.set_defaults(run=guarded(run), takes_crawl=True)


def run(arguments: argparse.Namespace) -> int:
    directory, counts, clock = arguments.job, Counts(), SteadyClock()
    wanted: Wanted | None = None
    with changing(directory), at_rest(directory) if holds_crawl(directory) else contextlib.nullcontext():
        try:
            for job, router in _jobs(directory):
                settings = read_run(job).settings
                wanted = wanted or _wanted(arguments, settings)
                with closing(Job(job, settings, clock(), anchor=clock.anchor, router=router)) as opened:
                    again = ExtractingAgain(opened, settings, wanted, counts)
                    run_interruptible(partial(again.run, clock, _Reports(clock, counts)))
        except KeyboardInterrupt:
            say(sys.stderr, f"interrupted: {_words(counts)}; run the same command again to go on")
            raise
        except OSError as error:
            if error.errno not in FULL:
                raise
            kept = f"{_words(counts)}: make room and run the same command again"
            raise FailedError(f"stopped: {no_room(error)}; {kept}") from error
    print(_words(counts))
    if counts.not_kept:
        say(
            sys.stderr,
            f"crawler: the job has not kept the bodies of {counted(counts.not_kept, 'page')}: set --output bodies or "
            "warc for the next run, and have it fetch them again with `crawler retry`",
        )
    missing = set() if wanted is None else wanted.hrefs - counts.found
    for href in sorted(missing):
        say(sys.stderr, f"not a page of this job, or gone: {href}")
    return Exit.FAILED if missing else Exit.OK


def _jobs(directory: Path) -> Iterator[tuple[Path, Router]]:
    """The job, or the partitions of a crawl, one after the other."""
    if not holds_crawl(directory):
        yield directory, KEEP_ALL
        return
    crawl = crawl_partitions(directory)
    for partition in crawl.found:
        yield partition.directory, PartitionRouter(partition.number, crawl.placement)


def _wanted(arguments: argparse.Namespace, settings: Settings) -> Wanted:
    names = frozenset(arguments.output or set(AGAIN).intersection(settings.output.keep))
    if not names or not names.issubset(AGAIN):
        raise UsageError(f"name what to extract: --output {','.join(AGAIN)}, or some of these")
    extractor = arguments.extractor or settings.text.extractor
    if extractor == "trafilatura" and (missing := missing_library()) is not None:
        raise UsageError(missing)
    urls = named_urls(arguments.urls, Canonicaliser(settings.canonical.rules))
    return Wanted(names, extractor, frozenset(each.url.href for each in urls), arguments.failed)


def _words(counts: Counts) -> str:
    failed = f" ({counts.failed} without a text: their rows say why)" if counts.failed else ""
    return f"{counted(counts.extracted, 'page')} extracted again{failed}, {counts.up_to_date} up to date"


class _Reports:
    """Says every ten seconds how far it is."""

    def __init__(self, clock: SteadyClock, counts: Counts) -> None:
        self._clock = clock
        self._counts = counts
        self._next = clock() + _EVERY

    def __call__(self) -> None:
        if self._clock() >= self._next:
            self._next = self._clock() + _EVERY
            say(sys.stderr, _words(self._counts))
