"""``crawler crawl SEEDS``: starts or resumes a crawl."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import errno
import os
import sys
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crawler.base.disk import Expendable, read_regular
from crawler.base.faults import UserFault
from crawler.base.memory import is_limited
from crawler.base.say import keep_stdout, say
from crawler.base.settings.load import SettingsError, settings_from
from crawler.base.settings.parts import PartitionSettings, SeenSettings, Settings
from crawler.base.settings.sites import Sites
from crawler.cli.contact import is_unsaid, warned
from crawler.cli.damaged_job import job_error_text
from crawler.cli.exit_codes import UsageError
from crawler.cli.help_text import CRAWL_EXAMPLES, examples
from crawler.cli.named_seeds import NamedSeeds
from crawler.cli.options import COMMAND_LINE, DEFAULT_JOB, STDOUT, Giver, add_crawl_options, settings_tables, words_of
from crawler.cli.reporting import (
    NO_HOOKS,
    finish,
    hooks_of,
    report_end,
    shown_run,
    writes_after,
)
from crawler.cluster.crawl_directory import check_crawl
from crawler.engine.run import Run
from crawler.engine.seeds import AwaitedSeeds
from crawler.engine.user_code import UserCode
from crawler.job.crawl_file import check_whole, holds_crawl
from crawler.job.directory import JobError, check_vacant, holds_job
from crawler.job.identity import FixedSettingError, check_shape, over_shape, shaping_of
from crawler.job.job import Job
from crawler.job.last_command import COMMAND, LastCommand, write_command
from crawler.job.run_settings import read_run
from crawler.seen.exact.seen import check_room
from crawler.seen.filters import FilterError
from crawler.service.dashboard.token import access_of
from crawler.service.facade import Result
from crawler.service.notices import webhook_url
from crawler.service.reloading import Configuration, ConfigurationError
from crawler.service.session import RunOptions, run_crawl
from crawler.url.scope.rule_faults import rule_faults
from crawler.url.urls.canonicaliser import Canonical, Canonicaliser
from crawler.web.archive.gzip_member import slow_compression
from crawler.web.extract.text_pool import missing_library
from crawler.web.fetch import check_access

if TYPE_CHECKING:
    from crawler.engine.hooks.loaded import Hooks
    from crawler.service.progress.live_line import Progress

Tables = Mapping[str, Mapping[str, Any]]


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s SEEDS... [FLAG...]"
    parser.epilog = examples(CRAWL_EXAMPLES)
    parser.description = "Crawl from the seeds. If the job directory holds a crawl, the crawl resumes."
    parser.add_argument(
        "seeds",
        nargs="+",
        metavar="SEEDS",
        help="URLs, files with one URL per line and # comments (also compressed), or - for standard input",
    )
    add_crawl_options(parser)
    parser.set_defaults(run=run, quits_at_once=True)


def run(arguments: argparse.Namespace) -> int:
    take_standard_output(arguments)
    settings = build_settings(arguments)
    _say_hints(settings)
    canonicaliser = Canonicaliser(settings.canonical.rules)
    seeds = NamedSeeds.of(arguments.seeds, canonicaliser, quiet=arguments.quiet)
    arguments.seed_words = seeds.words()
    if settings.partitions.wanted:
        from crawler.cli.partitioned import run_partitioned  # noqa: PLC0415, most crawls use one process

        return run_partitioned(arguments, Configuration(settings, partial(read_again, arguments)), seeds)
    if settings.partitions != PartitionSettings():
        raise UsageError(
            "--partition-count, --workers, --crawl and other settings of [partitions] apply to a partitioned "
            "crawl: add --partitions N, or leave them out"
        )
    new = not holds_job(arguments.job)
    told = warned if is_unsaid(arguments.job, settings) else aiter
    if new and not seeds.begins_at_once:
        awaited = AwaitedSeeds(seeds.streams, canonicaliser)
        return crawl(arguments, settings, told(aiter(awaited)), awaited, finite=False)
    # The check applies to the default itself, not to an equal path that the user gave.
    checks = arguments.job is DEFAULT_JOB and seeds.begins_at_once
    check = partial(_refuse_other_seeds, seeds, canonicaliser) if checks else None
    return crawl(arguments, settings, told(seeds.batches()), finite=seeds.finite, check=check)


def build_settings(
    arguments: argparse.Namespace,
    own: Collection[str] = (),
    read: Callable[[Path], bytes] = Path.read_bytes,
    giver: Giver = COMMAND_LINE,
) -> Settings:
    """Return the settings, which combine the defaults, the TOML file, the flags and the stored shaping settings of a
    job.

    The directory of a new job may hold files with the names in ``own``. ``read`` returns the content of a file. Raises
    UsageError.
    """
    tables, source = settings_tables(arguments, read, giver)
    for table, values in _beneath(arguments).items():
        tables[table] = {**values, **tables.get(table, {})}
    directory: Path = arguments.job
    try:
        settings = settings_from(over_shape(directory, tables), source)
        check_shape(directory, shaping_of(settings))
        Canonicaliser(settings.canonical.rules)
        for fault in rule_faults(settings):
            place = settings.places.get(fault.place[:3], source.at(*fault.place))
            raise UsageError(f"{place}: {fault.text}")
        if settings.partitions.wanted:
            check_crawl(directory, settings)
        else:
            check_whole(directory)
        if not holds_job(directory) and not holds_crawl(directory):
            check_vacant(directory, own)
            _check_room(settings.seen)
        if settings.dashboard.listen is not None:
            access_of(settings.dashboard, directory)
        check_access(settings)
        webhook_url(settings.notify)
        if settings.hooks != NO_HOOKS:
            from crawler.engine.hooks.loaded import load_hooks  # noqa: PLC0415, most crawls call no user code

            load_hooks(settings.hooks, source)
        if writes_after(arguments, settings):
            from crawler.cli import after_run  # noqa: PLC0415, most crawls write no exports

            after_run.check(directory, settings, arguments.parquet)
        if Sites(settings).rendered:
            from crawler.web.browser.engines import find_engine  # noqa: PLC0415, few crawls render pages

            find_engine(settings.browser)
    except FixedSettingError as error:
        raise UsageError(f"{source.at(error.table, error.key)}: {job_error_text(error)}") from error
    except (SettingsError, JobError, ValueError) as error:
        raise UsageError(job_error_text(error)) from error
    if settings.text.extractor == "trafilatura" and (missing := missing_library()) is not None:
        raise UsageError(missing)
    return settings


def _beneath(arguments: argparse.Namespace) -> Tables:
    """Return this command's defaults, which apply to settings that neither a flag nor the file sets."""
    beneath: Tables = getattr(arguments, "beneath", {})
    wants_page = getattr(arguments, "open", False) or getattr(arguments, "keep_open", False)
    return {"dashboard": {"listen": "0"}, **beneath} if wants_page else beneath


def read_again(arguments: argparse.Namespace) -> Settings:
    """Return the settings that the crawl would have if it started now. Raises ConfigurationError, including when a file
    is a pipe (its content is gone, and waiting for its writer would keep the crawl from ending) or if the configuration
    file is empty (an editor may be about to write it)."""

    def read(path: Path) -> bytes:
        data = read_regular(path)
        if path == arguments.config and not data.strip():
            raise UsageError(f"configuration file {path} is empty: write a comment into it to return to the defaults")
        return data

    try:
        return build_settings(arguments, read=read)
    except UserFault as error:
        raise ConfigurationError(str(error)) from error


def _check_room(settings: SeenSettings) -> None:
    """Raise FilterError, with the names of the settings to change, if the seen-set does not fit into memory."""
    try:
        check_room(settings)
    except FilterError as error:
        asked = f"seen.kind {settings.kind}, seen.capacity {settings.capacity}, seen.fpp {settings.fpp}"
        cure = "raise the limit" if is_limited() else "choose others (`crawler plan` compares them)"
        raise FilterError(f"{asked}: {error}; {cure}") from error


def _refuse_other_seeds(seeds: NamedSeeds, canonicaliser: Canonicaliser, job: Job) -> None:
    """Refuse seeds for the default directory that have nothing to do with the crawl in it: a user who named no
    directory may not know about that crawl. Raises JobError if the job knows none of the seeds."""
    if not job.counters.urls_admitted:
        return  # the last run was killed before it had read its seeds
    for text in seeds.known():
        url = canonicaliser.canonicalise(text)
        if isinstance(url, Canonical) and url.key in job.seen:
            return
    raise JobError(
        f"{job.directory}, the default directory, holds a crawl with other seeds, none of them in {seeds}: "
        f"give another directory with --job to start a new crawl, or --job {job.directory} to add these seeds to it"
    )


def _say_hints(settings: Settings) -> None:
    """Warn about settings that work, but could be improved."""
    if "warc" in settings.output.keep and (slow := slow_compression()) is not None:
        say(sys.stderr, f"crawler: warning: {slow}")
    if settings.hooks != NO_HOOKS:
        from crawler.engine.hooks.loaded import idle_settings  # noqa: PLC0415, as above

        for text in idle_settings(settings.hooks):
            say(sys.stderr, f"crawler: warning: {text}")


def crawl(
    arguments: argparse.Namespace,
    settings: Settings,
    seeds: AsyncIterator[list[str]],
    around: contextlib.AbstractAsyncContextManager[object] | None = None,
    finite: bool = True,
    check: Callable[[Job], None] | None = None,
) -> int:
    """Run the crawl and its view inside the context ``around``, and return the exit code. ``check`` may refuse to
    resume a job. Raises UsageError."""
    directory, known = arguments.job, Configuration(settings, partial(read_again, arguments))
    options = _options(arguments, settings, finite, check)

    async def whole(view: Progress | None) -> Result:
        async with around or contextlib.nullcontext():
            with view or contextlib.nullcontext():
                return await run_crawl(directory, known, seeds, view, options)

    with shown_run(arguments) as view:
        try:
            result = asyncio.run(whole(view))
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EADDRNOTAVAIL):
                raise
            at, why = settings.dashboard.listen, os.strerror(error.errno)
            raise UsageError(f"cannot serve the dashboard at {at}: {why}; choose another port") from error
        code = report_end(result, directory, arguments.quiet, settings.crawl.fail_on_limit)
        code = finish(arguments, settings, result, code)
        if options.keeps_open and result.address is not None and not result.signalled:
            from crawler.cli.serving import keep_open  # noqa: PLC0415, most crawls have no dashboard to keep

            keep_open(directory, settings.dashboard, result.address, arguments.quiet)
        return code


def _say_what_is_gone(directory: Path, settings: Settings) -> None:
    """Warn if this run drops outputs that the last run kept, or user functions that the last run called."""
    with contextlib.suppress(JobError, SettingsError):  # the run itself reports what is wrong with the job
        last = read_run(directory).settings
        if dropped := [name for name in last.output.keep if name not in settings.output.keep]:
            names, whole = ", ".join(dropped), ",".join([*settings.output.keep, *dropped])
            lost = f"the last run kept {names}, but this one does not"
            say(sys.stderr, f"crawler: warning: {lost}: to keep it, use --output {whole}")
        if last.hooks == NO_HOOKS:
            return
        from crawler.engine.hooks.loaded import functions_gone  # noqa: PLC0415, as above

        for text in functions_gone(last.hooks, settings.hooks):
            say(sys.stderr, f"crawler: warning: {text}")


def _options(
    arguments: argparse.Namespace, settings: Settings, finite: bool, check: Callable[[Job], None] | None
) -> RunOptions:
    """Build the options of the run. Raises UsageError."""
    if holds_job(arguments.job):
        _say_what_is_gone(arguments.job, settings)
    hooks = hooks_of(settings)
    return RunOptions(
        finite,
        check,
        getattr(arguments, "records_to", None),
        UserCode() if hooks is None else hooks.code,
        partial(_begin, arguments, hooks),
        opening=_opening(arguments.job) if arguments.open else None,
        keeps_open=arguments.keep_open,
    )


def _begin(arguments: argparse.Namespace, hooks: Hooks | None, run: Run) -> None:
    """Store the run's command, and start the hooks."""
    with Expendable(str(arguments.job / COMMAND)):
        store_command(arguments, run)
    if hooks is not None:
        hooks.begin(run)


def store_command(arguments: argparse.Namespace, run: Run) -> None:
    """Store the command of a run in its job, so that a dashboard can start it again. Raises OSError."""
    seeds = getattr(arguments, "seed_words", None)
    if seeds is None:
        return  # this is the demo, whose site ends with the process
    command = LastCommand.of(seeds, words_of(arguments), Path.cwd(), run.job.directory)
    write_command(run.job.disk, run.job.directory, command)


def _opening(job: Path) -> Callable[[str], object]:
    from crawler.cli.browser import open_in_browser  # noqa: PLC0415, few crawls are to open one

    return partial(open_in_browser, directory=job)


def take_standard_output(arguments: argparse.Namespace) -> None:
    """If records or the result of the run go to standard output, reserve it for them. Raises UsageError."""
    if STDOUT in getattr(arguments, "output", ()):
        if arguments.json:
            raise UsageError("--json and --output - both write to standard output: leave out one of them")
        arguments.records_to = keep_stdout()
    elif arguments.json:
        keep_stdout()
