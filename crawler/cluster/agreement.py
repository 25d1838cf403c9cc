"""Values on which all workers of a crawl must agree, and which a joining worker reads from the carrier.

Values stored under the name ``crawl``:

    identity   ``crawl.json`` of a worker: name, number of partitions, secret, public suffix list, shaping settings, and
               the directory id (unique unless the crawl lives in a store)
    settings   the settings for workers that have none of their own, without tables that hold secrets: zlib-compressed
               JSON; empty if too long
    present    a worker's program version and wall clock, and a number that changes with each update

Running workers repeatedly store these values again, because a carrier may lose everything. The settings of the process
that started the crawl are authoritative; other workers only restore settings that the carrier has lost. ``present``
tells a joining worker whether others are running now: values left behind by ended workers are not binding.

``DIR/settings.json`` has the settings that the carrier last gave a worker. If the carrier loses them while the process
that started the crawl is not running, the worker uses this copy, and restores it for others.
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
from crawler.base.disk import Disk, replace_file
from crawler.base.settings.load import as_tables
from crawler.base.settings.parts import Settings
from crawler.cluster.crawl_directory import check_crawl, crawl_in, groups_text, join_crawl, new_crawl
from crawler.job.checkpoint.envelope import EnvelopeError, encode_envelope, read_envelope
from crawler.job.crawl_file import CrawlFile, decode_crawl, encode_crawl, holds_crawl
from crawler.job.directory import JobError, make_directory

Tables = dict[str, dict[str, Any]]

SETTINGS_FILE = "settings.json"  # in a worker's directory: an envelope that only its owner can read
_MAGIC = "crawler-settings"
_VERSION = 1
IDENTITY, SETTINGS, PRESENT = "identity", "settings", "present"
PRESENT_INTERVAL = 2.0  # seconds between two updates of ``present``
MOST_APART = 60.0  # maximum seconds by which two machines' clocks may differ: host state is stored in wall-clock time
_MOST_VALUE = 60 * 1024  # bytes; a carrier accepts up to 64 KB
_CLAIM = 5.0  # seconds for which a process that died while starting a crawl blocks others
_PAUSE = 0.1
# Tables that each machine sets for itself.
_OWN = ("partitions", "dashboard", "notify")
_KEPT_BACK = "kept back"  # marks that tables with headers or logins were left out


class Present(Struct, frozen=True):
    """The liveness value of a running worker."""

    program: str
    clock: float
    beat: str


_decoder = msgspec.json.Decoder(Present)


async def known_crawl(carrier: Carrier, where: str) -> CrawlFile | None:
    """Return the crawl that the carrier knows; None if it knows none. Raises CarrierError, CarrierRefusedError."""
    (data,) = await carrier.get([CRAWL], IDENTITY)
    try:
        return None if data is None else decode_crawl(data, f"the crawl at {where}")
    except JobError as error:
        raise CarrierRefusedError(str(error)) from error


async def agree(carrier: Carrier, crawl: CrawlFile, where: str) -> CrawlFile:
    """Store the crawl on the carrier unless the carrier already has a crawl of this name, and return the stored crawl.
    If several processes start the crawl at once, one wins. Raises CarrierError, CarrierRefusedError."""
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
    """Start or join the crawl of this name with this directory, without a store. A refusal changes nothing. Raises
    CarrierError, CarrierRefusedError, JobError, OSError."""
    check_crawl(directory, settings)
    known = await known_crawl(carrier, where)
    crawl = crawl_in(directory, known or new_crawl(settings), settings)
    if known is None:
        make_directory(directory, disk)  # first, so that an unusable directory takes no name
        known = await agree(carrier, crawl, where)
        if not holds_crawl(directory):
            # Another process may have started it at the same time.
            crawl = replace(crawl, id=known.id, secret=known.secret)
    check_same(crawl, known, where)
    if crawl.id != known.id:
        raise CarrierRefusedError(
            f"the crawl {known.name!r} at {where} uses another directory, and several directories need a store: give "
            "this crawl another name with --crawl, or start it with --store ADDRESS"
        )
    return join_crawl(disk, directory, crawl, settings)


def check_same(crawl: CrawlFile, known: CrawlFile, where: str) -> None:
    """Raise CarrierRefusedError if ``known``, the carrier's crawl, differs from the crawl of the directory."""
    at = f"the crawl {known.name!r} at {where}"
    if crawl.partitions != known.partitions:
        raise CarrierRefusedError(f"{at} has {known.partitions} partitions, not {crawl.partitions}")
    if crawl.by_host != known.by_host:
        raise CarrierRefusedError(f"{at} partitions its URLs by {known.by}, not by {crawl.by}")
    if crawl.groups != known.groups:
        raise CarrierRefusedError(
            f"{at} has the [[site]] groups {groups_text(known.groups)}, not {groups_text(crawl.groups)}: "
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
        raise CarrierRefusedError(f"{at} is another crawl: choose another name with --crawl, and an empty directory")


async def check_present(
    carrier: Carrier, clock: Callable[[], float], where: str, sleep: Callable[[float], Any] = asyncio.sleep
) -> None:
    """Raise CarrierRefusedError if a running worker has another program version or a clock too far from ours. Raises
    CarrierError."""
    first = await _present(carrier)
    if first is None:
        return
    if first.program == __version__ and abs(first.clock - clock()) <= MOST_APART:
        return
    await sleep(2 * PRESENT_INTERVAL)
    now = await _present(carrier)
    if now is None or now.beat == first.beat:
        return  # no worker is running
    if now.program != __version__:
        raise CarrierRefusedError(
            f"the workers at {where} run crawler {now.program}, but this is crawler {__version__}: "
            "all workers need the same version"
        )
    apart = abs(now.clock - clock())
    if apart > MOST_APART:
        raise CarrierRefusedError(
            f"the clocks of this machine and of another worker at {where} differ by {apart:.0f} seconds: "
            "synchronise them"
        )


async def _present(carrier: Carrier) -> Present | None:
    (data,) = await carrier.get([CRAWL], PRESENT)
    if data is None:
        return None
    try:
        return _decoder.decode(data)
    except msgspec.MsgspecError:  # written by another version
        return Present("of another version", 0.0, data.hex())


async def keep_present(
    carrier: Carrier, crawl: CrawlFile, settings: Callable[[], Settings] | Tables, clock: Callable[[], float]
) -> None:
    """Publish the crawl until cancelled. Workers that join get the current ``settings``. If ``settings`` are tables,
    this worker received them from the carrier; it then publishes them only if the carrier has lost them."""
    values = {IDENTITY: encode_crawl(crawl)}
    while True:
        present = Present(__version__, clock(), entropy.random_bytes(8).hex())
        # A carrier that is unreachable now may return later, and the working parts report a refusal.
        with contextlib.suppress(CarrierError, CarrierRefusedError):
            if not isinstance(settings, dict):
                values[SETTINGS] = shared_settings(settings())
            elif await carrier.get([CRAWL], SETTINGS) == [None]:
                values[SETTINGS] = _packed(settings)
            await carrier.put(CRAWL, {**values, PRESENT: msgspec.json.encode(present)})
            values.pop(SETTINGS, None)
        await asyncio.sleep(PRESENT_INTERVAL)


def shared_settings(settings: Settings) -> bytes:
    """Return the encoded settings for workers that have none of their own; empty if they are too long."""
    return _packed(shared_tables(settings))


def shared_tables(settings: Settings) -> Tables:
    """Return the tables of settings that are passed on. A table that contains headers or logins is not passed on at
    all."""
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
    """Return the usable tables of the crawl's settings; see ``usable``. Raises CarrierError, CarrierRefusedError."""
    return usable(await passed_on(carrier, where), needed=needed)


async def passed_on(carrier: Carrier, where: str, kept: Tables | None = None) -> Tables:
    """Return the tables published by the process that started the crawl, or ``kept`` if the carrier has lost them.
    Raises CarrierError, CarrierRefusedError."""
    (data,) = await carrier.get([CRAWL], SETTINGS)
    if data is None and kept is not None:
        return kept
    if data is None:
        raise CarrierRefusedError(
            f"{where} knows no crawl of that name: if the crawl has not started yet, start this worker later; "
            f"otherwise check the name, or start the crawl with `crawler SEEDS --job DIR --engine {where} --crawl NAME`"
        )
    try:
        tables = json.loads(zlib.decompress(data)) if data else {_KEPT_BACK: {}}
        return {str(table): dict(values) for table, values in tables.items()}
    except (ValueError, TypeError, AttributeError, zlib.error) as error:
        raise CarrierRefusedError(f"the crawl's settings at {where} are damaged: {error}") from error


def usable(tables: Tables, *, needed: bool) -> Tables:
    """Return the usable tables among those that were passed on. With ``needed``, the worker has no configuration of its
    own, so no table may be missing. Raises CarrierRefusedError."""
    if _KEPT_BACK in tables and needed:
        raise CarrierRefusedError(
            "the crawl's settings are too long to be passed on, or hold headers or logins: give the worker the "
            "same configuration with --config"
        )
    return {table: dict(values) for table, values in tables.items() if table != _KEPT_BACK}


def keep_settings(disk: Disk, directory: Path, tables: Tables) -> None:
    """Write the settings, unless the file already contains exactly these settings. Raises JobError, OSError."""
    if kept_settings(directory) != tables:
        replace_file(disk, directory / SETTINGS_FILE, encode_envelope(_MAGIC, _VERSION, {"settings": tables}))


def kept_settings(directory: Path) -> Tables | None:
    """Return the stored settings; None if there are none. Raises JobError, OSError."""
    path = directory / SETTINGS_FILE
    try:
        content = read_envelope(path, _MAGIC, _VERSION, str(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except EnvelopeError as error:
        raise JobError(str(error)) from error
    match content:
        case {"settings": dict(tables)} if all(isinstance(table, dict) for table in tables.values()):
            return tables
    raise JobError(f"{path}: not a crawl's settings")
