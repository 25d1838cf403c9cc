"""Begins the directory of a crawl in partitions, or says why that cannot be."""

from __future__ import annotations

import re
from pathlib import Path

from msgspec.structs import replace

from crawler.base import entropy
from crawler.base.disk import Disk
from crawler.base.settings.match import host_match
from crawler.base.settings.parts import CRAWL_NAME, Settings, SiteGroups
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

USUAL_PARTITIONS = 16
_USUAL_NAME = "crawl"


def check_crawl(directory: Path, settings: Settings) -> None:
    """Raise JobError if a crawl in partitions cannot begin or go on in the directory with these settings; nothing is
    changed. Raises OSError."""
    around = crawl_around(directory)
    if around is not None:
        raise JobError(f"{directory} is a partition of the crawl in {around}: go on with that one")
    if holds_job(directory):
        raise JobError(
            f"{directory} holds a crawl without partitions, and one in {_count_of(settings)} partitions was asked for: "
            "leave out --partitions to go on with the one that is there",
            new_job=True,
        )
    name = settings.partitions.crawl
    if name is not None and CRAWL_NAME.fullmatch(name) is None:
        raise JobError(f"{name!r} is no name of a crawl: 1 to 64 letters, digits, dots, dashes or underscores")
    if not holds_crawl(directory):
        return
    crawl = read_crawl_file(directory)
    _check_one_directory(directory, crawl)
    asked = settings.partitions.count
    if asked is not None and asked != crawl.partitions:
        raise JobError(
            f"{directory} has {crawl.partitions} partitions, which cannot become {asked} after the crawl began: "
            "leave out --partition-count",
            new_job=True,
        )
    by = settings.partitions.placed_by
    if by is not None and by != crawl.by:
        raise JobError(
            f"{directory} has its URLs in partitions by {crawl.by}, which cannot become by {by} after the crawl began: "
            "leave out partitions.placed_by",
            new_job=True,
        )
    if name is not None and name != crawl.name:
        raise JobError(f"{directory} holds the crawl {crawl.name!r}, not {name!r}: name another directory for that one")
    check_gaps(crawl, settings)
    if crawl.groups != groups_of(settings, crawl.partitions):
        raise JobError(
            f"{directory} has its hosts in partitions by the groups of [[site]], which cannot change after the crawl "
            f"began: restore {groups_text(crawl.groups)}",
            new_job=True,
        )
    check_suffixes(crawl, str(directory))
    check_none_gone(directory)
    for each in partition_directories(directory):
        check_partition(each, (int(each.name), crawl.partitions))  # it may have been moved by hand
    check_shape(directory, shaping_of(settings))


def _check_one_directory(directory: Path, crawl: CrawlFile) -> None:
    """Raise JobError if former programs have kept replicas here, or partitions of the crawl in other directories.
    Raises OSError."""
    homes = directory / "homes.json"
    ids = re.findall(rb'"([0-9a-f]{32})"', homes.read_bytes()) if homes.is_file() else []
    if (directory / "replicas").is_dir() or {each.decode() for each in ids} - {crawl.id}:
        raise JobError(
            f"{directory} is one of several directories of a crawl, which keep replicas for each other: finish it with "
            "commit c980fa46, the last that can"
        )


def check_suffixes(crawl: CrawlFile, where: str) -> None:
    """Raise JobError if this program would place hosts on other partitions than those that began the crawl."""
    own = suffixes()
    if crawl.suffixes != own:
        raise JobError(
            f"{where} began with the public suffix list {crawl.suffixes}, and this program has {own}: "
            "use the version of the package publicsuffixlist that it began with"
        )


def check_gaps(crawl: CrawlFile, settings: Settings) -> None:
    """Raise JobError if hosts that share a gap would be in several partitions of the crawl: each would keep the gap
    without regard to the others."""
    if crawl.partitions == 1:
        return
    politeness = settings.politeness
    if politeness.host_key == "address" or politeness.address_delay is not None:
        key = "address_delay" if politeness.address_delay is not None else 'host_key = "address"'
        raise JobError(
            f"politeness.{key} cannot hold over {crawl.partitions} partitions, as hosts of one address may be in "
            "several: leave it out, name such hosts in a group of [[site]], or crawl without --partitions"
        )
    if politeness.host_key == "domain" and crawl.by_host:
        raise JobError(
            'politeness.host_key = "domain" cannot hold over partitions by host, as hosts of one domain may be in '
            'several: leave it out, or begin the crawl with partitions.placed_by = "domain"'
        )
    for match, group in settings.site.groups:
        hosts = host_match(match)
        if hosts is not None and hosts.port is not None:
            whole = f"{'*.' if hosts.below else ''}{hosts.name}"
            raise JobError(
                f"[[site]] match = {match!r}: in a crawl in partitions the group {group!r} takes whole hosts: name it "
                f"in a table with match = {whole!r}"
            )


def groups_of(settings: Settings, partitions: int) -> SiteGroups:
    """The groups by which hosts are placed."""
    return settings.site.groups if partitions > 1 else ()


def groups_text(groups: SiteGroups) -> str:
    """The groups in words."""
    return ", ".join(f"{match} in {group}" for match, group in groups) or "none"


def new_crawl(settings: Settings) -> CrawlFile:
    """A crawl that begins now, with a secret of its own."""
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


def crawl_asked(known: CrawlFile, settings: Settings) -> CrawlFile:
    """A known crawl as the settings ask for it, in a new directory."""
    asked = settings.partitions.count or known.partitions
    return replace(
        known,
        id=new_id(),
        partitions=asked,
        shaping=shaping_of(settings),
        by_host=(settings.partitions.placed_by or known.by) == "host",
        groups=groups_of(settings, asked),
    )


def new_id() -> str:
    """An id for a directory."""
    return entropy.random_bytes(SECRET_BYTES).hex()


def join_crawl(disk: Disk, directory: Path, crawl: CrawlFile, settings: Settings) -> CrawlFile:
    """Make the directory one of this crawl, unless it is one already, and return what it holds. Raises JobError, also
    if another process has just begun a crawl there with other settings, and OSError."""
    check_crawl(directory, settings)
    found = begin_crawl_file(disk, directory, crawl)
    check_crawl(directory, settings)
    return found


def partitions_of(directory: Path, settings: Settings) -> int:
    """How many partitions the crawl in the directory has, or will have. Raises JobError, OSError."""
    return read_crawl_file(directory).partitions if holds_crawl(directory) else _count_of(settings)


def _count_of(settings: Settings) -> int:
    return settings.partitions.count or USUAL_PARTITIONS
