"""``crawler check URL``: reports the broken links of a site, each with all pages that contain it."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from crawler.base.disk import RealDisk, replace_file
from crawler.base.figures import counted
from crawler.base.printable import one_line
from crawler.base.queued_stream import wait_for_reader
from crawler.base.say import say
from crawler.base.settings.parts import HTML, PartitionSettings, Settings
from crawler.cli import crawl
from crawler.cli.contact import is_unsaid, warned
from crawler.cli.damaged_job import guarded
from crawler.cli.exit_codes import Exit, UsageError
from crawler.cli.help_text import examples
from crawler.cli.named_seeds import NamedSeeds
from crawler.cli.options import add_flags, add_printing
from crawler.cli.reporting import NO_HOOKS, shown_run
from crawler.engine.lifecycle import Stop
from crawler.inspect.broken_links import SEED, Findings, Link, Result, check_anchors
from crawler.inspect.export.beside import ExportError, file_made_beside, free_file
from crawler.inspect.export.csv_file import csv_lines, csv_pieces
from crawler.job.checkpoint.envelope import EnvelopeError, encode_envelope, read_envelope
from crawler.job.directory import CHECK, check_vacant, holds_job, make_directory
from crawler.job.job_lock import LOCK, JobLock
from crawler.job.metrics.sentences import need_browser
from crawler.job.snapshot import remove_tree
from crawler.service.facade import Result as RunResult
from crawler.service.reloading import Configuration
from crawler.service.session import RunOptions, run_crawl
from crawler.url.scope.boundary import Outside
from crawler.url.urls.canonicaliser import Canonicaliser

_MAGIC = "crawler-check"
_VERSION = 1
_SHOWN = 10  # pages shown per URL
# The files of a job in its directory, except hidden ones. A check that has ended is removed only if its directory holds
# no other files.
_OF_A_JOB = re.compile(
    r"(pages(-\d+)?\.jsonl(\.zst)?|(job|run|live|history|check)\.json|parsing\.map|crash\.txt"
    r"|inbox|links|bodies|store|seen|dashboard-token|open-dashboard\.html|lock)(\.part)?"
)
# The files of a job in its subdirectories. `command.json` is not listed: only a crawl that ran here after the check
# writes it.
_WITHIN = {
    "inbox": re.compile(r"[^.]+\.(urls|command|answer)(\.part)?"),
    "links": re.compile(r"links-\d+\.jsonl(\.zst)?(\.part)?"),
    "bodies": re.compile(r"[0-9a-f]{2}"),
    "store": re.compile(r"\d+\.\w+|(CURRENT|IDENTITY|LOCK|LOG|MANIFEST|OPTIONS)\b.*|rocksdict-config\.json"),
    "seen": re.compile(r"damaged-.+|generation-\d+.*|.+\.g\d+.*"),
}
_OVER = (Stop.FINISHED, Stop.MAX_PAGES, Stop.MAX_TIME)
_CONTROLS = {code: ascii(chr(code))[1:-1] for code in (*range(9), 11, 12, *range(14, 32), *range(127, 160))}
_LEFT_OUT = {
    Outside.OFF_SCOPE: "outside --scope",
    Outside.TOO_DEEP: "beyond --max-depth",
    Outside.NOT_INCLUDED: "that no --include matches",
    Outside.EXCLUDED_BY_PATTERN: "that --exclude matches",
    Outside.TOO_LONG: "longer than links.max_url_length",
    "nofollow": "marked nofollow",
    "copy": "on copies of pages",
    "not_found": "on soft 404s",
    "application": "on a page that a single-page application sends for all paths",
}
# A check gives up on a dead or busy host after minutes rather than an hour, because the user is waiting for the list
# of broken links.
_BENEATH: crawl.Tables = {
    "retry": {"tries": 2},
    "politeness": {"backoff_first": 2.0, "patience": "short"},
    "output": {"store_types": list(HTML)},
}
_EXAMPLES = (
    ("crawler check https://example.org/ --contact you@example.org", "a site, and all its external links"),
    ("crawler check https://example.org/ --images --anchors --csv broken.csv", "more checks, and all pages as a table"),
    ("crawler check http://localhost:8000/ --allow-private --delay 0", "your own server, faster"),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s URL... [FLAG...]"
    parser.epilog = examples(_EXAMPLES)
    parser.description = (
        "Crawl a site and list its broken links, each with all pages that contain it. External links are fetched "
        "once each, and not followed. The exit code is 1 if a link is broken. Run the same command to resume an "
        "interrupted check; a check that has ended starts over."
    )
    parser.add_argument("seeds", nargs="+", metavar="URL", help="the start page of the site, or a file with URLs")
    group = parser.add_argument_group("what to check")
    group.add_argument("--images", action="store_true", help="also images, styles, scripts and other resources")
    group.add_argument("--anchors", action="store_true", help="also #fragments: the page must have such an element")
    group.add_argument("--no-external", action="store_true", help="leave out links to other sites")
    add_flags(group, "--scope", "--include", "--exclude", "--browser", "--max-pages", "--max-depth", "--max-time")
    group = parser.add_argument_group("politeness")
    add_flags(group, "--contact", "--user-agent", "--delay", "--per-host", "--concurrency")
    add_flags(parser.add_argument_group("network"), "--allow-private", "--allow-network", "--proxy")
    group = parser.add_argument_group("files")
    group.add_argument("--csv", type=Path, metavar="FILE", help="write a table with one row per link and page")
    group.add_argument(
        "--job",
        type=Path,
        default=Path("check-job"),
        metavar="DIR",
        help="where the check is kept (default: check-job)",
    )
    group.add_argument("--config", type=Path, metavar="FILE", help="settings in TOML; flags override them")
    add_printing(parser)
    parser.set_defaults(run=guarded(run), quits_at_once=True, parquet=None)


def run(arguments: argparse.Namespace) -> int:
    directory: Path = arguments.job
    seeds = NamedSeeds.of(arguments.seeds, Canonicaliser(), quiet=arguments.quiet)
    if not seeds.finite:
        raise UsageError("a check takes URLs and files, not pipes: the same command must be able to resume it")
    table = None if arguments.csv is None else _place_of(arguments.csv, directory)
    asked = {"seeds": seeds.words()} | {name: getattr(arguments, name) for name in ("images", "anchors", "no_external")}
    _make_room(directory, asked)
    settings = _settings(arguments)
    _note(directory, asked, ended=False)
    result = _crawl(arguments, settings, seeds)
    if result.reason in _OVER:  # the next check starts over even if this report fails
        _note(directory, asked, ended=True)
    findings = Findings(settings.canonical.rules)
    with contextlib.closing(findings):
        findings.gather(directory)
        if arguments.anchors:
            check_anchors(directory, findings)
        written = None if table is None else _written(table, findings)
        code = _report(findings, result)
    if isinstance(written, OSError):
        say(sys.stderr, f"crawler: error: {table} could not be written: {written}")
        return Exit.USAGE
    if written is not None and not arguments.quiet:
        say(sys.stderr, f"{arguments.csv}: {counted(written, 'row')}")
    return code


def _place_of(out: Path, job: Path) -> Path:
    """Return the path of the table. Raises UsageError if another kind of file has that path, or if no file can be
    created there."""
    try:
        place = free_file(out, job, _is_table)
        with tempfile.TemporaryDirectory(".part", f".{place.name}.", place.parent):
            return place
    except (ExportError, OSError) as error:
        raise UsageError(str(error)) from error


def _is_table(stream: BinaryIO) -> bool:
    heading = csv_lines(Link._fields, (), heading=True)
    return stream.read(len(heading)) == heading


def _make_room(directory: Path, asked: dict[str, Any]) -> None:
    """Remove the previous check if it has ended. Only a check is ever removed, and only if its directory holds no other
    files. Raises UsageError, JobError, OSError."""
    path = directory / CHECK
    try:
        known = read_envelope(path, _MAGIC, _VERSION, str(path))
    except FileNotFoundError:
        if holds_job(directory):
            raise UsageError(
                f"{directory} holds a crawl, not a check: use another directory with --job; nothing was changed"
            ) from None
        check_vacant(directory, (f"{CHECK}.part",))
        return
    except (EnvelopeError, OSError) as error:
        raise UsageError(f"{error}: choose another directory with --job") from error
    if not known.get("ended"):
        if known.get("asked") != asked:
            words = " ".join(map(str, known.get("asked", {}).get("seeds", ())))
            raise UsageError(
                f"{directory} holds an interrupted check of {words}: resume it with the same command, use another "
                "directory with --job, or remove this directory"
            )
        return
    if strange := sorted(_strange(directory)):
        raise UsageError(f"{directory} holds {strange[0]}, which no check created: move it, or use another --job")
    lock = JobLock(directory)
    try:
        # The note is removed last: while it exists, the next check removes the rest.
        for each in sorted(directory.iterdir(), key=lambda each: each.name == CHECK):
            if each.name != LOCK and _OF_A_JOB.fullmatch(each.name):
                remove_tree(each)
    finally:
        lock.release()


def _strange(directory: Path) -> Iterator[str]:
    """Yield the names of entries that neither a check nor the file system has created."""
    for each in directory.iterdir():
        if each.name.startswith(".") or each.name == "lost+found":
            continue
        if not _OF_A_JOB.fullmatch(each.name):
            yield each.name
        elif each.name in _WITHIN:
            names = os.listdir(each) if each.is_dir() and not each.is_symlink() else ()
            yield from (f"{each.name}/{name}" for name in names if not _WITHIN[each.name].fullmatch(name))


def _note(directory: Path, asked: dict[str, Any], *, ended: bool) -> None:
    """Record in the directory that it holds a check, and whether the check has ended. Raises OSError."""
    disk = RealDisk()
    make_directory(directory, disk)
    note = encode_envelope(_MAGIC, _VERSION, {"asked": asked, "ended": ended})
    replace_file(disk, directory / CHECK, note)


def _settings(arguments: argparse.Namespace) -> Settings:
    """Build the settings. Raises UsageError."""
    arguments.output = ["links", "bodies"] if arguments.anchors else ["links"]
    if arguments.images:
        arguments.embedded = "scope" if arguments.no_external else "any"
    arguments.beneath = {**_BENEATH, "links": {"external": not arguments.no_external}}
    settings = crawl.build_settings(arguments, (CHECK, f"{CHECK}.part"))
    again = settings.recrawl.enabled or settings.schedule.has_rounds
    if again or settings.hooks != NO_HOOKS or settings.partitions != PartitionSettings():
        raise UsageError(
            "a check is one process that visits each page once and calls no user code: leave out the settings of "
            "[recrawl], [schedule], [hooks] and [partitions]"
        )
    return settings


def _crawl(arguments: argparse.Namespace, settings: Settings, seeds: NamedSeeds) -> RunResult:
    directory = arguments.job
    batches = (warned if is_unsaid(directory, settings) else aiter)(seeds.batches())

    known = Configuration(settings, partial(crawl.read_again, arguments))
    with shown_run(arguments) as view, view or contextlib.nullcontext():
        result = asyncio.run(run_crawl(directory, known, batches, view, RunOptions()))
    wait_for_reader(sys.stderr)  # standard error is complete before the report is printed
    return result


def _written(table: Path, findings: Findings) -> int | OSError:
    """Write all links to a file, and return the number of rows. Returns an error instead of raising it, because an
    error here must not prevent the report."""
    rows = (_cells(link) for result in Result for link in findings.links(result))
    numbers = itertools.count()
    try:
        with file_made_beside(table) as part, open(part / table.name, "wb") as stream:
            stream.writelines(csv_pieces(Link._fields, (row for row, _ in zip(rows, numbers, strict=False))))
    except OSError as error:
        return error
    return next(numbers)


def _cells(link: Link) -> dict[str, Any]:
    return {
        name: value.translate(_CONTROLS) if isinstance(value, str) else value for name, value in link._asdict().items()
    }


def _report(findings: Findings, result: RunResult) -> int:
    """Print the findings, and return the exit code. Raises OSError."""
    for line in _lines(findings.links(Result.BROKEN)):
        print(line)
    broken, unchecked = (findings.count(each) for each in (Result.BROKEN, Result.UNCHECKED))
    if unchecked:
        print("could not be checked:\n")
        for line in _lines(findings.links(Result.UNCHECKED)):
            print(line)
    if findings.left_out:
        reasons = [f"{counted(n, 'link')} {_LEFT_OUT.get(why, why)}" for why, n in findings.left_out.most_common()]
        print("not checked:", ", ".join(reasons))
    print(
        f"{counted(findings.checked, 'link')} checked on {counted(findings.pages, 'page')}: {broken:,} broken, "
        f"{unchecked:,} could not be checked"
    )
    if not any((result.stats.get("pages_rendered") or {}).values()) and (
        scripted := need_browser(result.stats, afresh=True)
    ):
        print(scripted)
    pending = result.stats.get("urls_pending", 0)
    if result.reason not in _OVER:
        left = counted(pending, "URL is", "URLs are")
        say(sys.stderr, f"not the whole site: {left} pending; run the same command to resume")
        return Exit.INTERRUPTED if result.reason is Stop.INTERRUPTED else Exit.LIMIT
    if pending:
        print(f"not the whole site: a limit left out {counted(pending, 'URL')}")
    if result.no_seed is not None:
        say(sys.stderr, f"crawler: {one_line(result.no_seed)}")
        return Exit.FAILED
    return Exit.FAILED if broken else Exit.OK


def _lines(links: Iterator[Link]) -> Iterator[str]:
    """Yield the links as text, grouped by URL."""
    for url, group in itertools.groupby(links, key=lambda link: link.url):
        number = 0
        for number, link in enumerate(group, 1):
            if number == 1:
                to = f"redirects to {link.target}: " if link.target else ""
                yield f"{one_line(url)}\n  {one_line(to + link.reason)}"
            if number <= _SHOWN:
                yield _line(link)
        yield f"  and {counted(number - _SHOWN, 'more page', 'more pages')}\n" if number > _SHOWN else ""


def _line(link: Link) -> str:
    if link.kind == SEED:
        return "  given on the command line"
    kind = "" if link.kind == "a" else f" ({link.kind})"
    return one_line(f"  on {link.page}{kind}{': ' if link.text else ''}{link.text}")
