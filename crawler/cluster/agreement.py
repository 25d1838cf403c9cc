"""What all workers of a crawl must agree on, and how one that joins learns it from the carrier.

Values of the name ``crawl``:

    identity   ``crawl.json`` of a worker: name, number of partitions, secret, public suffix list, shaping settings; and
               the id of the directory, the only one unless the crawl lives in a store
    settings   those that a worker has which is given none, without tables that hold secrets: zlib, then JSON; empty if
               they are too long
    present    the version of the program and the wall clock of a worker, and a number that changes each time

Whoever is at work puts them back: a carrier may lose everything. Of the settings, those of whoever began the crawl
count; a worker puts back what it was given if the carrier has none. ``present`` tells a worker that joins
whether others are at work now: whatever they left behind when they ended binds nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from crawler import __version__
from crawler.base import entropy
from crawler.base.carrier.verbs import CRAWL, Carrier, CarrierError, CarrierRefusedError
from crawler.base.disk import Disk
from crawler.base.settings.load import as_tables
from crawler.base.settings.parts import Settings
from crawler.cluster.crawl_directory import (
    check_crawl,
    check_gaps,
    crawl_asked,
    groups_text,
    join_crawl,
    new_crawl,
)
from crawler.cluster.settings_file import Tables
from crawler.job.bucket.ownership import read_here
from crawler.job.crawl_file import CrawlFile, decode_crawl, encode_crawl, holds_crawl, read_crawl_file
from crawler.job.directory import JobError

IDENTITY, SETTINGS, PRESENT = "identity", "settings", "present"
PRESENT_INTERVAL = 2.0  # seconds between two of ``present``
MOST_APART = 60.0  # seconds between the clocks of two machines: what is stored of hosts is times of day
_MOST_VALUE = 60 * 1024  # bytes; a carrier takes 64 KB
_CLAIM = 5.0  # seconds: whoever dies while it begins a crawl holds up others so long
_PAUSE = 0.1
# What a machine decides for itself.
_OWN = ("partitions", "dashboard", "notify")
_KEPT_BACK = "kept back"  # stands for tables with headers or logins


class Present(Struct, frozen=True):
    """A worker that is at work."""

    program: str
    clock: float
    beat: str


_decoder = msgspec.json.Decoder(Present)


async def known_crawl(carrier: Carrier, where: str) -> CrawlFile | None:
    """What the carrier knows of the crawl. Raises CarrierError, CarrierRefusedError."""
    (data,) = await carrier.get([CRAWL], IDENTITY)
    try:
        return None if data is None else decode_crawl(data, f"what {where} holds of the crawl")
    except JobError as error:
        raise CarrierRefusedError(str(error)) from error


async def agree(carrier: Carrier, crawl: CrawlFile, where: str) -> CrawlFile:
    """Tell the carrier of the crawl, unless it knows one of this name, and return what it then holds. Of several that
    begin, one does. Raises CarrierError, CarrierRefusedError."""
    while True:
        known = await known_crawl(carrier, where)
        if known is not None:
            return known
        epoch = await carrier.claim(CRAWL, crawl.id, 0, _CLAIM)
        if epoch is None:
            await asyncio.sleep(_PAUSE)
            continue
        if await known_crawl(carrier, where) is None:
            await carrier.put(CRAWL, {IDENTITY: encode_crawl(crawl)})
        await carrier.renew(CRAWL, crawl.id, epoch, 0)


async def joined(carrier: Carrier, disk: Disk, directory: Path, settings: Settings, where: str) -> CrawlFile:
    """Begin the crawl of this name, or join it, with this directory. Nothing is changed if that is refused. Raises
    CarrierError, CarrierRefusedError, JobError, OSError."""
    check_crawl(directory, settings)
    known = await known_crawl(carrier, where)
    if holds_crawl(directory):
        crawl = read_crawl_file(directory)
    elif known is None:
        crawl = new_crawl(settings)
    else:
        crawl = crawl_asked(known, settings)
    check_gaps(crawl, settings)
    if known is None:
        known = await agree(carrier, crawl, where)
        if not holds_crawl(directory):
            # Somebody else may have begun it at the same time.
            crawl = replace(crawl, id=known.id, secret=known.secret)
    if read_here(directory) is None or crawl.secret != known.secret:  # else the store says what is true
        check_same(crawl, known, where)
    if crawl.id != known.id and read_here(directory) is None:
        raise CarrierRefusedError(
            f"the crawl {known.name!r} at {where} has another directory, and no store, which several would need: give "
            "another crawl another name with --crawl, or begin it with --store ADDRESS"
        )
    return join_crawl(disk, directory, crawl, settings)


def check_same(crawl: CrawlFile, known: CrawlFile, where: str) -> None:
    """Raise CarrierRefusedError if ``known``, of the carrier, is another crawl than that of the directory."""
    at = f"the crawl {known.name!r} at {where}"
    if crawl.partitions != known.partitions:
        raise CarrierRefusedError(f"{at} has {known.partitions} partitions, not {crawl.partitions}")
    if crawl.by_host != known.by_host:
        raise CarrierRefusedError(f"{at} has its URLs in partitions by {known.by}, not by {crawl.by}")
    if crawl.groups != known.groups:
        raise CarrierRefusedError(
            f"{at} has the groups of [[site]] {groups_text(known.groups)}, not {groups_text(crawl.groups)}: "
            "all workers need the same"
        )
    for table, values in crawl.shaping.items():
        for key, value in values.items():
            kept = known.shaping.get(table, {}).get(key)
            if kept != value:
                raise CarrierRefusedError(
                    f"{at} has {table}.{key} = {json.dumps(kept)}, not {json.dumps(value)}: all workers need the same"
                )
    if crawl.suffixes != known.suffixes:
        raise CarrierRefusedError(
            f"{at} places hosts by the public suffix list {known.suffixes}, not {crawl.suffixes}: "
            "all workers need the same version of the package publicsuffixlist"
        )
    if crawl.secret != known.secret:
        raise CarrierRefusedError(
            f"{at} is another crawl than the one in the directory: give it another name with --crawl, "
            "or name another directory"
        )


async def check_present(
    carrier: Carrier, clock: Callable[[], float], where: str, sleep: Callable[[float], Any] = asyncio.sleep
) -> None:
    """Raise CarrierRefusedError if a worker is at work whose program or clock does not fit ours. Raises
    CarrierError."""
    first = await _present(carrier)
    if first is None:
        return
    if first.program == __version__ and abs(first.clock - clock()) <= MOST_APART:
        return
    await sleep(2 * PRESENT_INTERVAL)
    now = await _present(carrier)
    if now is None or now.beat == first.beat:
        return  # nobody is at work
    if now.program != __version__:
        raise CarrierRefusedError(
            f"the workers at {where} are crawler {now.program}, and this is crawler {__version__}: "
            "all workers need the same version"
        )
    apart = abs(now.clock - clock())
    if apart > MOST_APART:
        raise CarrierRefusedError(
            f"the clocks of this machine and of another worker at {where} are {apart:.0f} seconds apart: set them"
        )


async def _present(carrier: Carrier) -> Present | None:
    (data,) = await carrier.get([CRAWL], PRESENT)
    if data is None:
        return None
    try:
        return _decoder.decode(data)
    except msgspec.MsgspecError:  # of another version
        return Present("of another version", 0.0, data.hex())


async def keep_present(
    carrier: Carrier, crawl: CrawlFile, settings: Callable[[], Settings] | Tables, clock: Callable[[], float]
) -> None:
    """Tell others of the crawl, until cancelled. Those that join get the ``settings`` of now. Tables are those that a
    worker was given: it only puts them back if they were lost."""
    values = {IDENTITY: encode_crawl(crawl)}
    while True:
        present = Present(__version__, clock(), entropy.random_bytes(8).hex())
        # Who cannot be reached now can be later. And a refusal is told by those who work.
        with contextlib.suppress(CarrierError, CarrierRefusedError):
            if not isinstance(settings, dict):
                values[SETTINGS] = shared_settings(settings())
            elif await carrier.get([CRAWL], SETTINGS) == [None]:
                values[SETTINGS] = _packed(settings)
            await carrier.put(CRAWL, {**values, PRESENT: msgspec.json.encode(present)})
            values.pop(SETTINGS, None)
        await asyncio.sleep(PRESENT_INTERVAL)


def shared_settings(settings: Settings) -> bytes:
    """The settings for workers that are given none; empty if they are too long."""
    return _packed(shared_tables(settings))


def shared_tables(settings: Settings) -> Tables:
    """The tables of settings that are passed on. Headers and logins stay on the machine, with all of their tables."""
    secret = set[str]()
    if any(site.headers or site.login for site in settings.site.tables):
        secret.add("site")
    if settings.fetch.proxy_login:
        secret.add("fetch")
    told = as_tables(settings)
    tables = {table: values for table, values in told.items() if table not in {*_OWN, *secret}}
    if secret:
        tables[_KEPT_BACK] = {}
    return tables


def _packed(tables: Tables) -> bytes:
    data = zlib.compress(json.dumps(tables).encode("utf-8"), 9)
    return data if len(data) <= _MOST_VALUE else b""


async def settings_of_crawl(carrier: Carrier, where: str, *, needed: bool = True) -> Tables:
    """The tables of settings that whoever began the crawl has put there; see ``usable``. Raises CarrierError,
    CarrierRefusedError."""
    return usable(await passed_on(carrier, where), needed=needed)


async def passed_on(carrier: Carrier, where: str, kept: Tables | None = None) -> Tables:
    """What whoever began the crawl has put there. ``kept`` counts if the carrier has lost it. Raises CarrierError,
    CarrierRefusedError."""
    (data,) = await carrier.get([CRAWL], SETTINGS)
    if data is None and kept is not None:
        return kept
    if data is None:
        raise CarrierRefusedError(
            f"{where} knows no crawl of that name: if it is about to begin, start this worker after that; else check "
            f"the name, or begin it with `crawler SEEDS --job DIR --engine {where} --crawl NAME`"
        )
    try:
        tables = json.loads(zlib.decompress(data)) if data else {_KEPT_BACK: {}}
        return {str(table): dict(values) for table, values in tables.items()}
    except (ValueError, TypeError, AttributeError, zlib.error) as error:
        raise CarrierRefusedError(f"what {where} holds of the crawl's settings is damaged: {error}") from error


def usable(tables: Tables, *, needed: bool) -> Tables:
    """The tables of settings among those that were passed on. ``needed``: the worker has no configuration of its own,
    so that all must be there. Raises CarrierRefusedError."""
    if _KEPT_BACK in tables and needed:
        raise CarrierRefusedError(
            "the settings of the crawl are too long to be passed on, or hold headers or logins: give the worker the "
            "same configuration with --config"
        )
    return {table: dict(values) for table, values in tables.items() if table != _KEPT_BACK}
