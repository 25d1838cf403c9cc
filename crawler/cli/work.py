"""``crawler work --store ADDRESS --dir DIR``: one worker of a partitioned crawl.

The store identifies the crawl and its carrier, which has the settings of the crawl. A worker started by ``crawler
--partitions`` gets all of this from that process.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from crawler.base.carrier.open_carrier import open_carrier
from crawler.base.carrier.verbs import Carrier, CarrierError, CarrierRefusedError
from crawler.base.clock import SteadyClock, boot_time
from crawler.base.disk import RealDisk
from crawler.base.figures import duration
from crawler.base.parent_death import end_with_parent
from crawler.base.say import say
from crawler.base.settings.load import SettingsError, as_tables, settings_from
from crawler.base.settings.parts import Settings
from crawler.cli.contact import is_unsaid, warned
from crawler.cli.crawl import build_settings
from crawler.cli.damaged_job import job_error_text, stopped_text
from crawler.cli.drain import drain
from crawler.cli.exit_codes import Exit, UsageError
from crawler.cli.named_seeds import NamedSeeds
from crawler.cli.options import FLAGS, add_flags, add_printing
from crawler.cli.reporting import hooks_of, report_end, show_log, shown_run, trouble_text
from crawler.cluster.agreement import (
    PRESENT_INTERVAL,
    Tables,
    check_present,
    joined,
    keep_present,
    keep_settings,
    kept_settings,
    passed_on,
    settings_of_crawl,
    usable,
)
from crawler.cluster.drain_file import at_work, is_asked
from crawler.cluster.member import Member
from crawler.cluster.member_options import MemberResult
from crawler.cluster.reach import Backoff
from crawler.cluster.stored_crawl import find_stored, stored_crawl
from crawler.cluster.time_left import TimeLeft
from crawler.cluster.worker_channel import Channel, Ended, Failed, Halt, Instructions, Refusal, Reread, Said
from crawler.engine.lifecycle import Stop
from crawler.engine.run import Run
from crawler.engine.seeds import SeedsError
from crawler.engine.user_code import UserCode
from crawler.job.bucket.address import open_objects
from crawler.job.bucket.objects import BucketError
from crawler.job.bucket.ownership import read_here
from crawler.job.crawl_file import CrawlFile, holds_crawl, partition_directory, read_crawl_file
from crawler.job.directory import JobError
from crawler.job.receiving import ForeignPartitionError
from crawler.job.store.rocks import StoreDamagedError
from crawler.job.stored_errors import DAMAGE
from crawler.seen.filters import NoMemoryError
from crawler.service.ending_signals import stopping_signals
from crawler.service.facade import Result
from crawler.service.notices import Notices
from crawler.service.opening import bucket_of
from crawler.service.progress.last_lines import left_over
from crawler.service.progress.supervisor import keep_reporting
from crawler.service.reloading import ConfigurationError
from crawler.service.worker_session import WorkOptions, work

if TYPE_CHECKING:
    from crawler.service.progress.live_line import Progress

log = logging.getLogger("crawler")

# Flags that a worker may set for itself; it gets all other settings from the crawl.
_OWN = {
    "when to stop": ("--max-time", "--fail-on-limit", "--min-free"),
    "politeness": ("--contact", "--rate", "--concurrency"),
    "network": ("--allow-private", "--allow-network", "--proxy"),
    "notices": ("--notify",),
}
_OF_WHOLE = (
    ("crawl", ("scope", "hops_outside", "order", "max_pages", "max_depth")),
    ("politeness", ("host_key",)),
    ("recrawl", ("enabled",)),
)
_REFUSED = (BucketError, CarrierRefusedError, SeedsError, SettingsError, UsageError)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s --store ADDRESS --dir DIR [FLAG...]\n       %(prog)s --drain --dir DIR"
    parser.description = (
        "Work on a partitioned crawl started by `crawler SEEDS --store ADDRESS --engine URL` until it has ended, a "
        "limit is reached or Ctrl-C. The worker gets the settings from the crawl."
    )
    group = parser.add_argument_group("the crawl")
    for flag in ("--store", "--engine", "--crawl"):
        group.add_argument(flag, **FLAGS[flag][2])
    group.add_argument(
        "--dir", type=Path, required=True, metavar="DIR", help="the partitions of this worker, and its output"
    )
    group.add_argument(
        "--drain",
        action="store_true",
        help="have the worker of DIR leave, and wait until the store has everything from DIR",
    )
    add_flags(group, "--workers")
    group.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML, overriding those of the crawl")
    for title, flags in _OWN.items():
        group = parser.add_argument_group(title)
        add_flags(group, *flags)
    add_printing(parser)
    parser.add_argument("--channel", type=int, help=argparse.SUPPRESS)  # channel to the process that started the worker
    parser.set_defaults(run=run, quits_at_once=True)


def run(arguments: argparse.Namespace) -> int:
    if arguments.drain:
        return drain(arguments.dir)
    if arguments.channel is not None:
        return asyncio.run(_started(arguments, socket.socket(fileno=arguments.channel)))
    kept = _find_crawl(arguments)
    arguments.job, arguments.parquet = arguments.dir, None
    local = arguments.engine.startswith("unix:")
    hint = "; a worker joins while the crawl runs: start it with `crawler SEEDS --job DIR --partitions N`"
    with shown_run(arguments, arguments.engine, hint if local else "") as view:
        tables = asyncio.run(_passed_on(arguments.engine, arguments.crawl, kept))
        arguments.beneath = usable(tables, needed=arguments.config is None)
        # The crawl's time limit and rate are enforced elsewhere; values given here apply to this worker only.
        arguments.beneath.get("crawl", {}).pop("max_time", None)
        rate = arguments.beneath.get("politeness", {}).pop("rate", None)
        settings = build_settings(arguments)
        _check_whole(settings, arguments.beneath)
        result, drained = asyncio.run(_by_hand(arguments, settings, rate, tables, view))
    if not result.stats and not arguments.quiet:
        say(sys.stderr, left_over(result.done, result.had, result.seconds))
    stats, done = result.stats, result.done
    others = {key: stats[key] - number for key, number in done.items()} if stats else {}
    # Another worker may have fetched the seeds, so it is not a failure if this worker has fetched none.
    ended = Result(result.reason, stats, others if any(others.values()) else None, 1, None)
    code = report_end(ended, arguments.dir, arguments.quiet, settings.crawl.fail_on_limit, drained)
    return Exit.FAILED if result.unstored else code


def _find_crawl(arguments: argparse.Namespace) -> Tables | None:
    """Fill in the arguments from the store. Returns the crawl's tables of settings, or None if none are stored. Raises
    UsageError."""
    directory: Path = arguments.dir
    here = read_here(directory)
    address = arguments.store or (None if here is None else here.address)
    if address is not None:
        shape = stored_crawl(open_objects(address, reading=True))
        for flag, used in (("crawl", shape.file.name), ("engine", shape.engine)):
            if used and getattr(arguments, flag) not in (None, used):
                raise UsageError(f"the workers of the crawl in {address} use --{flag} {used}: leave out --{flag}")
        arguments.engine = shape.engine or arguments.engine or ""
        if not shape.engine and not arguments.engine.startswith("unix:"):  # the first command's own carrier
            raise UsageError(
                f"the crawl in {address} has no engine: stop the command that started it, run it again with --engine "
                "URL, and then start this worker"
            )
        arguments.store, arguments.crawl = address, shape.file.name
        return shape.settings
    if not holds_crawl(directory):
        raise UsageError(
            f"{directory} holds no partitioned crawl: a worker on another machine needs the store in which the crawl "
            "lives, --store ADDRESS"
        )
    missing = [flag for flag in ("engine", "crawl") if getattr(arguments, flag) is None]
    if missing:
        raise UsageError(f"the following arguments are required: {', '.join(f'--{flag}' for flag in missing)}")
    return kept_settings(directory) if read_crawl_file(directory).name == arguments.crawl else None


async def _passed_on(engine: str, crawl: str, kept: Tables | None) -> Tables:
    """Return the crawl's settings from the carrier, or ``kept`` if the carrier has lost them."""
    carrier = await open_carrier(engine, crawl)
    try:
        return await passed_on(carrier, engine, kept)
    finally:
        await carrier.close()


def _check_whole(settings: Settings, beneath: dict[str, dict[str, Any]]) -> None:
    """Raise UsageError if the worker's own configuration changes a setting that the whole crawl shares."""
    own = as_tables(settings)
    for table, names in _OF_WHOLE:
        known = beneath.get(table, {})
        for name in names:
            if name in known and own[table].get(name) != known[name]:
                raise UsageError(f"{table}.{name} applies to the whole crawl: change it where the crawl was started")


# -- started manually -------------------------------------------------------------------------------------------------


async def _by_hand(
    arguments: argparse.Namespace, own: Settings, rate: float | None, tables: Tables, view: Progress | None
) -> tuple[MemberResult, bool]:
    """Run the worker with its ``own`` settings, and with the ``rate`` and the shared ``tables`` of the crawl. Returns
    the result, and True if the worker was asked to leave for good."""
    directory = arguments.dir
    engine, name, clock = own.partitions.engine or "", own.partitions.crawl or "", SteadyClock()
    settings, disk = _at_rate(own, rate), RealDisk()
    carrier = await open_carrier(engine, name)
    try:
        await check_present(carrier, clock, engine)
        objects, join = bucket_of(directory, settings), joined
        if objects is not None:
            join = (await asyncio.to_thread(find_stored, objects, directory, settings, begins=False)).join
        crawl = await join(carrier, disk, directory, settings, engine)
        keep_settings(disk, directory, tables)
        present = asyncio.create_task(keep_present(carrier, crawl, tables, clock))
        member, notices = _Stoppable(), Notices(own.notify, directory, clock)
        time = TimeLeft(carrier, None, boot_time)
        beside = [
            present,
            asyncio.create_task(keep_reporting(partial(_show, member, view, notices))),
            asyncio.create_task(_follow_rate(carrier, engine, settings, member)),
            asyncio.create_task(time.keep(partial(member.stop, Stop.MAX_TIME))),
        ]
        options = WorkOptions(begun=member.begun, stopped=lambda: member.reason, own_rate=own.politeness.rate)
        try:
            signals = stopping_signals(asyncio.get_running_loop(), member.stop)
            async with notices.delivering():
                with signals, at_work(directory):
                    result = await _worked(directory, crawl, carrier, settings, options)
                    if result.stats.get("pages_fetched"):
                        notices.end(result.reason, result.stats)
                    return result, is_asked(directory)  # read while the process that asked is still waiting
        finally:
            for task in beside:
                task.cancel()
    finally:
        await carrier.close()


def _at_rate(settings: Settings, rate: float | None) -> Settings:
    return replace(settings, politeness=replace(settings.politeness, rate=rate))


async def _follow_rate(carrier: Carrier, engine: str, settings: Settings, member: _Stoppable) -> None:
    """Apply the crawl's request rate to the worker whenever the rate changes."""
    while True:
        await asyncio.sleep(PRESENT_INTERVAL)
        with contextlib.suppress(CarrierError, CarrierRefusedError):  # the worker itself reports the error
            politeness = (await settings_of_crawl(carrier, engine, needed=False)).get("politeness")
            if politeness is not None and politeness.get("rate") != settings.politeness.rate:
                settings = _at_rate(settings, politeness.get("rate"))
                member.change(settings)


def _show(member: _Stoppable, view: Progress | None, notices: Notices) -> tuple[str, bool]:
    """Show the work on the terminal, and update the notices. Returns the status for the service manager."""
    stats = member.stats()
    pages = stats.get("pages_fetched", 0)
    if pages:  # no notices without pages: another worker may have fetched the seeds
        notices.look(stats)
    if stats and view is not None:
        view.update(stats)
    return f"{pages} pages, {len(member.partitions)} partitions", member.reason is not None


async def _worked(
    directory: Path, crawl: CrawlFile, carrier: Carrier, settings: Settings, options: WorkOptions
) -> MemberResult:
    """Run the worker with the user's functions."""
    hooks = hooks_of(settings)
    begin: Callable[[Run], None] = (lambda _: None) if hooks is None else hooks.begin
    code = UserCode() if hooks is None else hooks.code
    return await work(directory, crawl, carrier, settings, replace(options, code=code, begin=begin))


# -- started by the first process --------------------------------------------------------------------------------------


async def _started(arguments: argparse.Namespace, end: socket.socket) -> int:
    """Follow the first process's instructions, report the result to that process, and end when it ends. Returns the
    exit code."""
    end_with_parent()
    # The first process decides when to stop: it also receives Ctrl-C and the hang-up of the terminal.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    channel = await Channel.over(end)
    instructions = await channel.heard()
    if not isinstance(instructions, Instructions):
        return Exit.FAILED  # the first process has already ended
    show_log(lambda text: channel.tell(Said(text)))
    member = _Stoppable()
    first = _First(channel, member)
    listening = asyncio.create_task(first.listen())
    code = Exit.FAILED
    try:
        result = await _instructed(arguments, instructions, member, first.reread)
        channel.tell(Ended(result.reason, result.seeds_fetched, result.last_seed_error))
        code = Exit.OK
    except CarrierError as error:
        channel.tell(Failed(f"cannot reach {arguments.engine}: {error}", final=False))
    except NoMemoryError as error:
        channel.tell(Failed(str(error), final=False))
    except JobError as error:
        channel.tell(Failed(job_error_text(error), final=isinstance(error, ForeignPartitionError)))
    except (StoreDamagedError, *DAMAGE) as error:
        channel.tell(Failed(stopped_text(arguments.dir, error), final=False, damaged=True))
    except Exception as error:  # reported where the user sees it  # noqa: BLE001
        final = isinstance(error, _REFUSED)
        channel.tell(Failed(str(error) if final else trouble_text(error, arguments.dir), final))
    listening.cancel()
    await channel.close()
    return code


def _settings_in(given: Instructions) -> Settings:
    return replace(settings_from(given.tables), places={tuple(place): text for *place, text in given.places})


async def _instructed(
    arguments: argparse.Namespace,
    given: Instructions,
    member: _Stoppable,
    reread: Callable[[], Awaitable[Settings]],
) -> MemberResult:
    settings = _settings_in(given)
    crawl = read_crawl_file(arguments.dir)
    named = NamedSeeds(given.urls, [Path(file) for file in given.files])
    told = warned if is_unsaid(partition_directory(arguments.dir, 0), settings) else aiter

    def seeds() -> AsyncIterator[list[str]]:
        return told(named.batches())

    carrier = await _found_again(arguments.engine, arguments.crawl, member)
    if carrier is None:
        assert member.reason is not None
        return MemberResult(member.reason, {}, 0, None)
    options = WorkOptions(seeds, given.expected, reread=reread, begun=member.begun, stopped=lambda: member.reason)
    try:
        with at_work(arguments.dir):
            return await _worked(arguments.dir, crawl, carrier, settings, options)
    finally:
        await carrier.close()


async def _found_again(engine: str, crawl: str, member: _Stoppable) -> Carrier | None:
    """Return the carrier, which the first process has already reached. A replacement worker waits for the carrier if it
    is unreachable. Returns None if the worker was stopped while waiting. Raises CarrierRefusedError, and CarrierError
    if the first process itself does not answer."""
    backoff, boot = Backoff(), boot_time()
    has_said = False
    while member.reason is None:
        try:
            carrier = await open_carrier(engine, crawl)
        except CarrierError as error:
            if engine.startswith("unix:"):
                raise
            if not has_said:
                log.warning("%s; nothing is lost, and this worker starts when the server answers", error)
                has_said = True
            await backoff.rest()
        else:
            if has_said:
                log.warning("%s answers after %s: this worker starts", engine, duration(boot_time() - boot))
            return carrier
    return None


class _Stoppable:
    """A handle that can stop its member even before the member exists."""

    def __init__(self) -> None:
        self._member: Member | None = None
        self._reason: Stop | None = None

    @property
    def reason(self) -> Stop | None:
        """Why the member must stop, or None."""
        return self._reason

    def begun(self, member: Member) -> None:
        self._member = member
        if self._reason is not None:
            member.stop(self._reason)

    def stop(self, reason: Stop = Stop.INTERRUPTED) -> None:
        """Stop the member, so that others take over its partitions."""
        self._reason = reason
        if self._member is not None:
            self._member.stop(reason)

    def change(self, settings: Settings) -> None:
        """Apply changed settings. Raises OSError."""
        if self._member is not None:
            self._member.change(settings)

    def stats(self) -> dict[str, Any]:
        return {} if self._member is None else self._member.stats()

    @property
    def partitions(self) -> Sequence[int]:
        """The open partitions."""
        return [] if self._member is None else list(self._member.runs)


class _First:
    """The first process, at the other end of the channel."""

    def __init__(self, channel: Channel, member: _Stoppable) -> None:
        self._channel = channel
        self._member = member
        self._answers = asyncio.Queue[Instructions | Refusal]()

    async def listen(self) -> None:
        """Act on messages from the first process, and exit when it ends."""
        while (message := await self._channel.heard()) is not None:
            if isinstance(message, Halt):
                self._member.stop(message.reason)
            elif isinstance(message, Instructions | Refusal):
                self._answers.put_nowait(message)
        os._exit(Exit.FAILED)

    async def reread(self) -> Settings:
        """Return the current settings of the configuration. Raises ConfigurationError."""
        self._channel.tell(Reread())
        answer = await self._answers.get()
        if isinstance(answer, Refusal):
            raise ConfigurationError(answer.text)
        return _settings_in(answer)
