"""Starts or joins a partitioned crawl whose store of record is a bucket. The bucket holds everything that all workers
must agree on; the carrier, which passes links between the workers, may lose its data."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from crawler.base.disk import Disk
from crawler.base.settings.parts import Settings
from crawler.cluster.agreement import check_same, shared_tables
from crawler.cluster.crawl_directory import check_crawl, check_gaps, crawl_asked, join_crawl, new_crawl, new_id
from crawler.job.bucket.layout import Shape, encode, read_shape, shape_key, standing
from crawler.job.bucket.objects import BucketError, Objects, put_own
from crawler.job.bucket.ownership import Here, begin_crawl, read_here, running_at, write_here
from crawler.job.crawl_file import CrawlFile, holds_crawl, read_crawl_file
from crawler.job.directory import JobError, make_directory


def join_store(
    objects: Objects, disk: Disk, directory: Path, settings: Settings, *, begins: bool
) -> tuple[CrawlFile, str]:
    """Join the crawl in the bucket with this directory. With ``begins``, the crawl may start here, and the bucket keeps
    the settings and the carrier's URL for workers that are added. Returns the crawl and that URL, which is empty if the
    carrier is local to one machine. Raises BucketError (including when workers that use another carrier are running),
    BucketDown, CarrierRefusedError (if the settings do not fit the crawl), JobError, OSError."""
    check_crawl(directory, settings)
    if holds_crawl(directory) and read_here(directory) is None:
        raise JobError(
            f"{directory} holds a partitioned crawl that lives on this machine and cannot move into a store: leave "
            "out --store, or start another crawl"
        )
    found = begin_crawl(objects, directory, disk)
    number, shape = read_shape(objects)
    if shape is None:
        if standing(objects, 0).epoch:
            raise BucketError(
                f"{objects.address} holds a crawl of one process: `crawler split {objects.address} --partitions N` "
                "partitions it"
            )
        if not begins:
            raise _nothing_in(objects)
        shape = Shape.of(replace(new_crawl(settings), name=found.id))
    name, engine = settings.partitions.crawl or shape.file.name, settings.partitions.engine or shape.engine
    known = replace(shape.file, name=name)
    crawl = read_crawl_file(directory) if holds_crawl(directory) else crawl_asked(known, settings)
    check_gaps(crawl, settings)
    check_same(crawl, known, objects.address)
    make_directory(directory, disk)
    if begins:
        # Workers with another carrier or name and this process would repeatedly take partitions from each other.
        is_apart = number and (not engine or (engine, name) != (shape.engine, shape.file.name))
        if is_apart and (place := running_at(objects, found, known.partitions)) is not None:
            raise BucketError(
                f"the crawl in {objects.address} is running at {place}, but its workers use another engine or "
                "name: stop them, or give this command the same --engine and --crawl"
            )
        told = replace(Shape.of(known), engine=engine, settings=shared_tables(settings))
        if told != shape and not put_own(objects, shape_key(number + 1), encode("shape", told)):
            raise BucketError(f"another command is starting or changing the crawl in {objects.address}: run only one")
    write_here(disk, directory, Here(objects.address, found.id))
    settings = replace(settings, partitions=replace(settings.partitions, crawl=name))
    return join_crawl(disk, directory, replace(crawl, id=crawl.id or new_id()), settings), engine


def stored_crawl(objects: Objects) -> Shape:
    """Return the partitioned crawl in the bucket. Raises BucketDown, and BucketError including when there is none."""
    _, shape = read_shape(objects)
    if shape is None:
        raise _nothing_in(objects)
    return shape


def _nothing_in(objects: Objects) -> BucketError:
    return BucketError(
        f"{objects.address} holds no partitioned crawl: start it with `crawler SEEDS --store {objects.address} "
        "--partitions N --engine URL`"
    )
