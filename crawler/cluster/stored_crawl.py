"""Starts or joins a partitioned crawl whose store of record is a bucket. The bucket holds everything that all workers
must agree on; the carrier, which passes links between the workers, may lose its data."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from crawler.base.carrier.verbs import Carrier
from crawler.base.disk import Disk
from crawler.base.settings.parts import Settings
from crawler.cluster.agreement import agree, check_same, known_crawl, shared_tables
from crawler.cluster.crawl_directory import check_crawl, crawl_in, join_crawl, new_crawl
from crawler.job.bucket.layout import CrawlObject, Shape, encode, read_shape, shape_key, standing
from crawler.job.bucket.objects import BucketError, Objects, put_own
from crawler.job.bucket.ownership import GROWS, Here, begin_crawl, find_crawl, read_here, running_at, write_here
from crawler.job.crawl_file import CrawlFile, holds_crawl
from crawler.job.directory import JobError


class Joining(Struct, frozen=True):
    """A crawl in a bucket that a directory may join. ``crawl``: the crawl file of the directory; ``shape``: what the
    bucket will have, under ``number`` if it must be put there."""

    objects: Objects
    found: CrawlObject
    crawl: CrawlFile
    shape: Shape
    number: int | None = None

    async def join(self, carrier: Carrier, disk: Disk, directory: Path, settings: Settings, where: str) -> CrawlFile:
        """Start or join the crawl with this directory. A refusal changes nothing. Raises CarrierError,
        CarrierRefusedError, BucketError, BucketDown, JobError, OSError."""
        self._check(await known_crawl(carrier, where), where)
        await asyncio.to_thread(self._put, disk, directory)
        self._check(await agree(carrier, self.crawl, where), where)  # another crawl may have taken the name meanwhile
        return join_crawl(disk, directory, self.crawl, settings)

    def _check(self, known: CrawlFile | None, where: str) -> None:
        """Raise CarrierRefusedError if ``known``, the carrier's crawl, is another one. The carrier may know this one as
        it was before a split: the store is authoritative."""
        if known is not None and known.secret != self.crawl.secret:
            check_same(self.crawl, known, where)

    def _put(self, disk: Disk, directory: Path) -> None:
        objects = self.objects
        begin_crawl(objects, self.found, directory, disk)
        if self.number is not None and not self._put_shape(self.number):
            raise BucketError(f"another command is starting or changing the crawl in {objects.address}: run only one")
        write_here(disk, directory, Here(objects.address, self.found.id))

    def _put_shape(self, number: int) -> bool:
        """Put the shape. Returns False if another command has put one, or is running the crawl with a carrier of its
        own."""
        objects, key, data = self.objects, shape_key(number), encode("shape", self.shape)
        if self.shape.engine:
            return put_own(objects, key, data)
        if not objects.put(key, data):
            return False
        time.sleep(GROWS)  # commands that started at the same time have put theirs, or have workers
        return read_shape(objects)[0] == number and running_at(objects, self.found, self.crawl.partitions) is None


def find_stored(objects: Objects, directory: Path, settings: Settings, *, begins: bool) -> Joining:
    """Return the crawl in the bucket that the directory may join. With ``begins``, the crawl may start here, and the
    bucket keeps the settings and the carrier's URL for workers that are added; the URL is empty if the carrier is local
    to one machine. Changes nothing. Raises BucketError (including when workers that use another carrier are running),
    BucketDown, CarrierRefusedError (if the settings do not fit the crawl), JobError, OSError."""
    if holds_crawl(directory) and read_here(directory) is None:
        raise JobError(
            f"{directory} holds a partitioned crawl that lives on this machine and cannot move into a store: leave "
            "out --store, or start another crawl"
        )
    found = find_crawl(objects, directory)
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
    check_crawl(directory, replace(settings, partitions=replace(settings.partitions, crawl=name)))
    crawl = crawl_in(directory, known, settings)
    check_same(crawl, known, objects.address)
    if begins:
        # Workers with another carrier or name and this process would repeatedly take partitions from each other.
        is_apart = number and (not engine or (engine, name) != (shape.engine, shape.file.name))
        if is_apart and (place := running_at(objects, found, known.partitions)) is not None:
            raise BucketError(
                f"the crawl in {objects.address} is running at {place}, but its workers use another engine or "
                "name: stop them, or give this command the same --engine and --crawl"
            )
        told = replace(Shape.of(known), engine=engine, settings=shared_tables(settings))
        if told != shape or not engine:
            return Joining(objects, found, crawl, told, number + 1)
    return Joining(objects, found, crawl, shape)


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
