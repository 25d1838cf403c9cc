"""A crawl in partitions whose store of record is a bucket: begins it there, or joins it. The bucket says what all
workers must agree on; what carries links between them may forget it."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from crawler.base.disk import Disk
from crawler.base.settings.parts import Settings
from crawler.cluster.agreement import check_same
from crawler.cluster.crawl_directory import check_crawl, check_gaps, crawl_asked, join_crawl, new_crawl, new_id
from crawler.job.bucket.layout import CrawlObject, Shape, encode, read_shape, shape_key, standing
from crawler.job.bucket.objects import BucketError, Objects, put_own
from crawler.job.bucket.ownership import Here, begin_crawl, read_here, write_here
from crawler.job.crawl_file import CrawlFile, holds_crawl, read_crawl_file
from crawler.job.directory import JobError


def join_store(
    objects: Objects, disk: Disk, directory: Path, settings: Settings, engine: str
) -> tuple[CrawlObject, CrawlFile]:
    """Begin the crawl in the bucket, or join it, with this directory. ``engine``: the URL of what carries its links,
    for workers that are added; empty: a socket of this machine. Raises BucketError, BucketDown, CarrierRefusedError if
    it is another crawl than the settings ask for, JobError, OSError."""
    check_crawl(directory, settings)
    if holds_crawl(directory) and read_here(directory) is None:
        raise JobError(
            f"{directory} holds a crawl in partitions that lives on this machine, and cannot move into a store: leave "
            "out --store, or begin another crawl"
        )
    found = begin_crawl(objects, directory, disk)
    number, shape = read_shape(objects)
    if shape is None:
        if standing(objects, 0).epoch:
            raise BucketError(
                f"{objects.address} holds a crawl of one process: `crawler split {objects.address} --partitions N` "
                "gives it partitions"
            )
        name = settings.partitions.crawl or found.id
        shape = Shape.of(replace(new_crawl(settings), name=name), engine)
        if not put_own(objects, shape_key(1), encode("shape", shape)):
            number, shape = read_shape(objects)
            assert shape is not None  # another worker has begun it at the same time
    elif engine and engine != shape.engine:
        put_own(objects, shape_key(number + 1), encode("shape", replace(shape, engine=engine)))
    known = shape.file
    crawl = read_crawl_file(directory) if holds_crawl(directory) else crawl_asked(known, settings)
    check_gaps(crawl, settings)
    check_same(crawl, known, objects.address)
    write_here(disk, directory, Here(objects.address, found.id))
    return found, join_crawl(disk, directory, replace(crawl, id=crawl.id or new_id()), settings)


def stored_crawl(objects: Objects) -> tuple[CrawlFile, str]:
    """The crawl in partitions in the bucket, and the URL of what carries its links. Raises BucketError, also if there
    is none; BucketDown, JobError."""
    _, shape = read_shape(objects)
    if shape is None:
        raise BucketError(
            f"{objects.address} holds no crawl in partitions: begin it with `crawler SEEDS --store {objects.address} "
            "--partitions N --engine URL`"
        )
    return shape.file, shape.engine
