"""Creates the directory of a partitioned crawl, or raises an error that says why it cannot."""

from __future__ import annotations

import re
from pathlib import Path

from msgspec.structs import replace

from crawler.base import entropy
from crawler.base.disk import Disk
from crawler.base.settings.match import host_match
from crawler.base.settings.parts import CRAWL_NAME, PARTITIONS_MOST, Settings, SiteGroups
from crawler.job.bucket.ownership import read_here
from crawler.job.crawl_file import (
    SECRET_BYTES,
    CrawlFile,
    begin_crawl_file,
    check_none_gone,
    crawl_around,
    holds_crawl,
    partition_directories,
    read_crawl_file,
)
from crawler.job.directory import JobError, holds_job
from crawler.job.identity import check_partition, check_shape, shaping_of
from crawler.job.partition.placement import suffixes

_PARTITIONS_OF_WORKER = 2  # so that the number of workers can double before the crawl must be split
_USUAL_NAME = "crawl"


def check_crawl(directory: Path, settings: Settings) -> None:
    """Raise JobError if a partitioned crawl cannot start or resume in the directory with these settings. Changes
    nothing. Raises OSError."""
    around = crawl_around(directory)
    if around is not None:
        raise JobError(f"{directory} is a partition of the crawl in {around}: run that crawl instead")
    if holds_job(directory):
        here, way_out = read_here(directory), "leave out --partitions to resume the existing crawl"
        if here is not None:
            way_out = f"divide it with `crawler split {here.address}`, if you have not, and use an empty directory"
        raise JobError(f"{directory} holds a crawl without partitions: {way_out}", new_job=here is None)
    name = settings.partitions.crawl
    if name is not None and CRAWL_NAME.fullmatch(name) is None:
        raise JobError(f"{name!r} is not a valid crawl name: use 1 to 64 letters, digits, dots, dashes or underscores")
    if not holds_crawl(directory):
        return
    crawl = read_crawl_file(directory)
    _check_one_directory(directory, crawl)
    asked = settings.partitions.count
    if asked is not None and asked != crawl.partitions:
        raise JobError(
            f"{directory} has {crawl.partitions} partitions, whose number cannot become {asked} after "
            "the crawl has started: leave out --partition-count",
            new_job=True,
        )
    by = settings.partitions.placed_by
    if by is not None and by != crawl.by:
        raise JobError(
            f"{directory} partitions its URLs by {crawl.by}, which cannot become {by} after the crawl has started: "
            "leave out partitions.placed_by",
            new_job=True,
        )
    if name is not None and name != crawl.name:
        raise JobError(f"{directory} holds the crawl {crawl.name!r}, not {name!r}: use another directory for that one")
    check_gaps(crawl, settings)
    if crawl.groups != groups_of(settings, crawl.partitions):
        raise JobError(
            f"{directory} partitions its hosts by the groups of [[site]], which cannot change after the crawl has "
            f"started: restore {groups_text(crawl.groups)}",
            new_job=True,
        )
    check_suffixes(crawl, str(directory))
    check_none_gone(directory)
    for each in partition_directories(directory):
        check_partition(each, (int(each.name), crawl.partitions))  # the directory may have been moved by hand
    check_shape(directory, shaping_of(settings))


def _check_one_directory(directory: Path, crawl: CrawlFile) -> None:
    """Raise JobError if an older program stored replicas here, or kept partitions of the crawl in other directories.
    Raises OSError."""
    homes = directory / "homes.json"
    ids = re.findall(rb'"([0-9a-f]{32})"', homes.read_bytes()) if homes.is_file() else []
    if (directory / "replicas").is_dir() or {each.decode() for each in ids} - {crawl.id}:
        raise JobError(
            f"{directory} is one of several directories of a crawl, which keep replicas for each other: finish it with "
            "commit c980fa46, the last version that supports replicas"
        )


def check_suffixes(crawl: CrawlFile, where: str) -> None:
    """Raise JobError if this program's public suffix list would place hosts in other partitions."""
    own = suffixes()
    if crawl.suffixes != own:
        raise JobError(
            f"{where} was started with the public suffix list {crawl.suffixes}, but this program has {own}: "
            "use the version of the package publicsuffixlist that started it"
        )


def check_gaps(crawl: CrawlFile, settings: Settings) -> None:
    """Raise JobError if hosts that must share a gap could be in several partitions, because each partition keeps its
    own gap."""
    if crawl.partitions == 1:
        return
    politeness = settings.politeness
    if politeness.host_key == "address":
        raise JobError(
            f'politeness.host_key = "address" does not work with {crawl.partitions} partitions, because hosts of one '
            "address may be in several: leave it out, name such hosts in a group of [[site]], or crawl without "
            "--partitions"
        )
    if politeness.host_key == "domain" and crawl.by_host:
        raise JobError(
            'politeness.host_key = "domain" does not work with partitions by host, because hosts of one domain may be '
            'in several: leave it out, or start the crawl with partitions.placed_by = "domain"'
        )
    for match, group in settings.site.groups:
        hosts = host_match(match)
        if hosts is not None and hosts.port is not None:
            whole = f"{'*.' if hosts.below else ''}{hosts.name}"
            raise JobError(
                f"[[site]] match = {match!r}: in a partitioned crawl, the group {group!r} takes whole hosts: name it "
                f"in a table with match = {whole!r}"
            )


def groups_of(settings: Settings, partitions: int) -> SiteGroups:
    """The groups by which hosts are placed."""
    return settings.site.groups if partitions > 1 else ()


def groups_text(groups: SiteGroups) -> str:
    """Return the groups of hosts as text for messages."""
    return ", ".join(f"{match} in {group}" for match, group in groups) or "none"


def new_crawl(settings: Settings) -> CrawlFile:
    """Return a crawl that starts now, with a new secret."""
    return CrawlFile(
        name=settings.partitions.crawl or _USUAL_NAME,
        id=new_id(),
        partitions=_count_of(settings),
        secret=entropy.random_bytes(SECRET_BYTES),
        suffixes=suffixes(),
        shaping=shaping_of(settings),
        by_host=settings.partitions.placed_by == "host",
        groups=groups_of(settings, _count_of(settings)),
    )


def crawl_in(directory: Path, known: CrawlFile, settings: Settings) -> CrawlFile:
    """Return the crawl file that the directory has or will have: a new directory gets the ``known`` crawl, adapted to
    the values that the settings specify. Raises JobError, OSError."""
    if holds_crawl(directory):
        return read_crawl_file(directory)
    asked = settings.partitions.count or known.partitions
    crawl = replace(
        known,
        id=new_id(),
        partitions=asked,
        shaping=shaping_of(settings),
        by_host=(settings.partitions.placed_by or known.by) == "host",
        groups=groups_of(settings, asked),
    )
    check_gaps(crawl, settings)
    return crawl


def new_id() -> str:
    """Return a random directory id."""
    return entropy.random_bytes(SECRET_BYTES).hex()


def join_crawl(disk: Disk, directory: Path, crawl: CrawlFile, settings: Settings) -> CrawlFile:
    """Make the directory, which ``check_crawl`` has accepted, part of this crawl, unless it already is, and return the
    crawl file it then holds. Raises JobError (including when another process has just started a crawl there with other
    settings) and OSError."""
    found = begin_crawl_file(disk, directory, crawl)
    check_crawl(directory, settings)
    return found


def partitions_of(directory: Path, settings: Settings) -> int:
    """Return the number of partitions that the crawl in the directory has or will have. Raises JobError, OSError."""
    return read_crawl_file(directory).partitions if holds_crawl(directory) else _count_of(settings)


def _count_of(settings: Settings) -> int:
    asked = settings.partitions
    usual = _PARTITIONS_OF_WORKER * max(asked.processes or 1, asked.workers or 1)
    return asked.count or min(usual, PARTITIONS_MOST)
