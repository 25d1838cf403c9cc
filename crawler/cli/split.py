"""``crawler split STORE --partitions N``: splits a crawl in a store into more partitions."""

from __future__ import annotations

import argparse
import tempfile
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from crawler.base.clock import SteadyClock
from crawler.base.figures import counted
from crawler.base.settings.load import settings_from
from crawler.cli.exit_codes import Exit, FailedError, UsageError
from crawler.cluster.agreement import shared_tables
from crawler.cluster.crawl_directory import check_gaps, check_suffixes, groups_of, new_crawl
from crawler.cluster.member_options import Crawl
from crawler.inspect.crawl_backup import bucket_at
from crawler.job.bucket.crawl_split import Plan, Split
from crawler.job.bucket.layout import Shape, read_crawl
from crawler.job.bucket.objects import BucketDown
from crawler.job.identity import shaping_of
from crawler.job.run_settings import read_run
from crawler.job.stored_errors import DAMAGE
from crawler.seen.filters import NoMemoryError
from crawler.service.file_limit import allow_files


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Split a crawl that lives in a store, and is not running, into more partitions. It resumes with "
        "`crawl --store STORE --partitions N`, on one machine or more, without fetching any page again. Needs as much "
        "space for temporary files (TMPDIR) as the whole job takes."
    )
    parser.add_argument("store", metavar="STORE", help="where the crawl lives, as given to `crawl --store`")
    text = "the new number: 2, 3, 4, ... times the current one, which is 1 for a crawl of one process"
    parser.add_argument("--partitions", metavar="N", type=int, required=True, help=text)
    text = "if the crawl has 1 partition now: keep each domain (default) or each host in one partition"
    parser.add_argument("--placed-by", choices=("domain", "host"), help=text)
    text = "split the crawl even if its last process has not released it, because its machine is gone"
    parser.add_argument("--take-over", action="store_true", help=text)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    address: str = arguments.store
    try:
        found = read_crawl(bucket_at(address, reading=True))
        name = "" if found is None else found.id
        with tempfile.TemporaryDirectory(prefix="crawler-split-") as directory:
            split = Split(bucket_at(address), arguments.partitions, Path(directory), SteadyClock()())
            allow_files(1, arguments.partitions // split.was + 1)
            parts = split.run(partial(_planned, arguments, name), take_over=arguments.take_over)
    except BucketDown as error:
        raise FailedError(f"error: {error}: run the same command again, with --take-over") from error
    except NoMemoryError as error:
        raise FailedError(f"error: {error}; the crawl was not split") from error
    except DAMAGE as error:
        raise FailedError(f"error: the crawl in {address} is damaged, and was not split: {error}") from error
    for part in parts:
        counters = part.counters
        print(f"partition {part.number}: {counted(counters.pending, 'URL')} pending, {counted(counters.hosts, 'host')}")
    print(f"{address}: {split.was} -> {arguments.partitions} partitions")
    return Exit.OK


def _planned(arguments: argparse.Namespace, name: str, job: Path, was: Shape | None) -> Plan:
    """Return the plan of the new crawl, called ``name`` unless the settings name it. Raises JobError, UsageError."""
    settings, count, by = read_run(job).settings, arguments.partitions, arguments.placed_by
    if was is None:
        own = settings.partitions
        asked = replace(own, count=count, placed_by=by or own.placed_by, crawl=own.crawl or name)
        crawl = new_crawl(replace(settings, partitions=asked))
        was = replace(Shape.of(crawl), settings=shared_tables(settings))
    else:
        known = was.file
        check_suffixes(known, arguments.store)
        if by not in (None, known.by):
            raise UsageError(f"{arguments.store} partitions its URLs by {known.by}: leave out --placed-by")
        groups = known.groups if known.partitions > 1 else groups_of(settings, count)
        crawl = replace(known, partitions=count, groups=groups)
    check_gaps(crawl, settings)
    whole = settings_from(crawl.shaping, arguments.store)
    shape = replace(was, crawl=Shape.of(crawl).crawl)
    return Plan(shape, shaping_of(Crawl.of(job, crawl).settings_of_partition(whole)))
