"""``crawler text``: extracts the text of a job's pages again, from the stored responses."""

from __future__ import annotations

import argparse
import contextlib
import sys
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from crawler.base.clock import SteadyClock
from crawler.base.figures import counted
from crawler.base.say import say
from crawler.base.settings.parts import EXTRACTORS, Settings
from crawler.cli.damaged_job import changing, guarded
from crawler.cli.exit_codes import Exit, UsageError
from crawler.cli.interruptible import run_interruptible
from crawler.cli.named_urls import named_urls
from crawler.cli.options import output_names
from crawler.engine.extracting_again import AGAIN, Counts, ExtractingAgain
from crawler.inspect.crawl_partitions import crawl_partitions
from crawler.job.job import Job
from crawler.job.job_lock import at_rest
from crawler.job.run_settings import read_run
from crawler.url.urls.canonicaliser import Canonicaliser
from crawler.web.extract.text_pool import missing_library


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Extract text, Markdown and structured data again from the bodies or the web archive that a job keeps, without "
        "sending requests. Without URLs, this covers the pages whose rows are missing, contain an error, or came from "
        "another extractor or version. A page's new row replaces the old one. The job must be stopped. After an "
        "interruption, run the same command again."
    )
    parser.add_argument("job", type=Path, metavar="DIR", help="the job, or a partitioned crawl")
    parser.add_argument("urls", nargs="*", metavar="URL", help="pages to extract again in any case")
    kept = f"what to extract: {', '.join(AGAIN)} (default: those that the last run kept)"
    parser.add_argument("--output", type=output_names, metavar="LIST", help=kept)
    parser.add_argument("--extractor", choices=EXTRACTORS, help="the extractor (default: that of the last run)")
    parser.set_defaults(run=guarded(run), takes_crawl=True)


def run(arguments: argparse.Namespace) -> int:
    directory, clock, counts, hrefs = arguments.job, SteadyClock(), Counts(), frozenset[str]()
    with changing(directory), at_rest(directory):
        try:
            crawl = crawl_partitions(directory)
            for partition in crawl.found:
                job, router = partition.directory, crawl.router(partition)
                settings = _settings(arguments, job)
                urls = named_urls(arguments.urls, Canonicaliser(settings.canonical.rules))
                hrefs = frozenset(each.url.href for each in urls)
                with contextlib.closing(Job(job, settings, clock(), anchor=clock.anchor, router=router)) as opened:
                    again = ExtractingAgain(opened, settings, settings.output.keep, hrefs, counts)
                    run_interruptible(partial(again.run, clock, lambda: say(sys.stderr, _words(counts))))
        except KeyboardInterrupt:
            say(sys.stderr, f"interrupted: {_words(counts)}; run the same command to continue")
            raise
    print(_words(counts))
    if counts.not_kept:
        lack = f"the job has not kept the responses of {counted(counts.not_kept, 'page')}"
        how = "run `crawler retry DIR --host HOST`, then the crawl with warc added to --output (or bodies, if no "
        how += "browser renders them)"
        say(sys.stderr, f"crawler: {lack}: {how}")
    for href in sorted(hrefs - counts.found):
        say(sys.stderr, f"not a page of this job, or gone: {href}")
    return Exit.OK if hrefs <= counts.found else Exit.FAILED


def _settings(arguments: argparse.Namespace, job: Path) -> Settings:
    """Return the settings of the last run, overridden by the command line."""
    settings = read_run(job).settings
    names = set(arguments.output or set(AGAIN).intersection(settings.output.keep))
    if not names or not names.issubset(AGAIN):
        raise UsageError(f"choose what to extract with --output: {', '.join(AGAIN)}")
    extractor = arguments.extractor or settings.text.extractor
    if extractor == "trafilatura" and (missing := missing_library()) is not None:
        raise UsageError(missing)
    text, output = replace(settings.text, extractor=extractor), replace(settings.output, keep=tuple(names))
    return replace(settings, text=text, output=output)


def _words(counts: Counts) -> str:
    failed = f" ({counts.failed} without a text: their rows give the reason, or are unchanged)" if counts.failed else ""
    return f"{counted(counts.extracted, 'page')} extracted again{failed}, {counts.up_to_date} up to date"
