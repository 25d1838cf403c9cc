"""The tools of ``crawler mcp``: what an agent may do with the crawls in one directory.

Each tool is a class: its fields are the arguments, its docstring is the description that agents read. An agent names
crawls, never paths or settings: what a crawl may fetch is decided by the operator who started the server. Each crawl is
a process of its own, which outlives the server. ``Crawl`` and ``Stop`` start and stop crawls; all other tools only
read.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from crawler.base.clock import SteadyClock
from crawler.base.disk import make_private_directory
from crawler.base.settings.parts import CrawlSettings, Depth, Settings
from crawler.cli.exit_codes import UsageError
from crawler.cli.launches import Launcher, alone, check_command, checked_seeds, directory_of, last_line
from crawler.inspect.broken_links import Findings, Result
from crawler.inspect.crawl_partitions import crawl_partitions, holds_any
from crawler.inspect.crawl_reader import stats_of
from crawler.inspect.explanation import explain_in
from crawler.inspect.page_texts import row_of_page, search_texts
from crawler.job.directory import LAUNCH_LOG
from crawler.job.job_lock import lock_holder
from crawler.job.run_settings import read_run
from crawler.service.commands import NOT_RUNNING, Command, Refused
from crawler.service.explanation_text import explanation_lines
from crawler.service.file_source import source_of
from crawler.service.job_seeds import command_seeds
from crawler.service.progress.summary import missed
from crawler.url.urls.canonicaliser import Canonical, Canonicaliser
from crawler.url.urls.typed import completed

KEPT = ("text", "links")  # outputs that the tools read
MOST_RUNNING = 4  # crawls that may run at the same time
MOST_SEEDS = 500  # seeds per call; a crawl's command line holds the seeds from all calls for that crawl
# The maximum that a call may request, unless the operator sets another one, and the default.
MOST_PAGES, PAGES = 10_000, 200
MOST_TIME, TIME = 3_600.0, 300.0  # seconds
_PAGES_SHOWN = 5  # pages listed for each broken link
_POLL = 0.2  # seconds between two checks
_LEAVING = 20.0  # seconds that a stopped crawl gets to end
# Keys of `crawler stats --json` that `status` shows.
_STATE = (
    *("state", "stopped_by", "stopped", "paused", "elapsed_seconds", "urls_pending", "urls_in_flight"),
    *("urls_by_outcome", "pages_by_status", "text_failed"),
)

Name = Annotated[str, Meta(description="Name of the crawl, as `crawl` returned it.")]
Wait = Annotated[float, Meta(ge=0, le=50, description="Maximum seconds to wait for the crawl to end.")]
Offset = Annotated[int, Meta(ge=0, le=2**48, description="Where to continue: `next_offset` of the previous answer.")]


class Answer(NamedTuple):
    """``facts`` are shown as JSON, ``text`` as it is."""

    facts: dict[str, Any]
    text: str = ""


class Crawls:
    """The crawls in a directory. ``words`` are the operator's flags for each crawl; ``settings`` are the settings that
    these flags give."""

    def __init__(self, directory: Path, words: Sequence[str], settings: Settings) -> None:
        self.directory = directory
        self._words = [*words, f"--output={','.join(dict.fromkeys((*settings.output.keep, *KEPT)))}", "--quiet"]
        self._limits: CrawlSettings = settings.crawl
        self._launcher = Launcher()

    def running(self) -> dict[str, bool]:
        """Return for each readable crawl, by its name, whether it is running. Raises OSError."""
        found = dict[str, bool]()
        for directory in sorted(self.directory.iterdir()):
            with suppress(OSError):  # another user's directory must not hinder the other crawls
                if self._is_crawl(directory):
                    found[directory.name] = lock_holder(directory) is not None
        return found

    def place(self, name: str) -> Path:
        """Return the directory of an existing crawl. Raises UsageError."""
        directory = directory_of(self.directory, name)
        if not self._is_crawl(directory):
            raise UsageError(f"there is no crawl {name!r}: `status` without a name lists all crawls")
        return directory

    async def start(self, asked: Crawl) -> tuple[Path, bool]:
        """Start or resume a crawl, unless it is running. Returns the crawl's directory, and True if this call has
        started it. Raises UserFault, OSError."""
        seeds, limits = checked_seeds(asked.seeds), self._limits_of(asked)
        directory = directory_of(self.directory, _name_of(seeds[0]) if asked.name is None else asked.name)
        async with alone(self.directory):
            command = await asyncio.to_thread(self._command, directory, seeds, limits)
            if command is not None:
                await self._launcher.launch(directory, command, Path.cwd())
        return directory, command is not None

    def _limits_of(self, asked: Crawl) -> list[str]:
        """Return a crawl's limits as flags. Raises UsageError for a limit that the operator does not allow."""
        limits = self._limits
        pages = _within("max_pages", asked.max_pages, limits.max_pages or MOST_PAGES, PAGES)
        time = _within("max_time", asked.max_time, limits.max_time or MOST_TIME, TIME)
        words = [f"--max-pages={pages}", f"--max-time={time}"]
        if asked.max_depth is not None:
            most = asked.max_depth if limits.max_depth is None else limits.max_depth
            words.append(f"--max-depth={_within('max_depth', asked.max_depth, most, most)}")
        return words

    def _command(self, directory: Path, seeds: Sequence[str], limits: Sequence[str]) -> list[str] | None:
        """Return the words that start a crawl with these seeds and the seeds that it already has. Returns None if the
        crawl is already running with all of them. Raises UserFault, OSError."""
        if directory.is_symlink():
            raise UsageError(f"{directory.name} is a symbolic link: choose another name")
        known = list(command_seeds(directory))
        if lock_holder(directory) is not None:
            if set(seeds).issubset(known):
                return None
            raise UsageError(
                f"{directory.name} is running with other seeds: stop it, then repeat this call to add these seeds"
            )
        known = list(dict.fromkeys((*known, *seeds)))
        self._check_hosts(directory.name, known)
        words = [*self._words, *limits, "--", *known]
        check_command([f"--job={directory}", *words])
        make_private_directory(directory, exist_ok=True)
        return words

    def _check_hosts(self, name: str, seeds: Iterable[str]) -> None:
        """Raise UsageError if too many other crawls are running, or if one of them has a seed on the host of one of
        these seeds: crawls do not coordinate their pauses between requests."""
        others = [each for each, is_running in self.running().items() if is_running and each != name]
        if len(others) >= MOST_RUNNING:
            raise UsageError(f"{MOST_RUNNING} crawls are running: wait for one to end or stop it ({', '.join(others)})")
        hosts = set(map(_host_of, seeds))
        for other in others:
            theirs = set(map(_host_of, command_seeds(self.directory / other)))
            if shared := hosts & (theirs or hosts):  # no seeds stored yet: assume the same hosts
                raise UsageError(f"{other} is crawling {min(shared)} now: wait for it to end, or stop it")

    def _is_crawl(self, directory: Path) -> bool:
        return holds_any(directory) and not directory.is_symlink()


def _within(name: str, asked: float | None, most: float, usual: float) -> float:
    """Return the limit to use. Raises UsageError if the agent asks for more than the operator allows."""
    if asked is not None and asked > most:
        raise UsageError(f"{name} is at most {most:g} here")
    return min(usual, most) if asked is None else asked


def _host_of(seed: str) -> str:
    url = Canonicaliser(()).canonicalise(completed(seed) or seed)
    return url.host if isinstance(url, Canonical) else ""


def _name_of(seed: str) -> str:
    """Return a name for a crawl that the agent did not name: the host of its first seed, with the port if it is not the
    default."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", urlsplit(seed).netloc).strip("-.")[:64]


async def _until_ended(directory: Path, wait: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(wait):
            while lock_holder(directory) is not None:  # noqa: ASYNC110, another process
                await asyncio.sleep(_POLL)


async def _state_of(directory: Path) -> Answer:
    stats = await asyncio.to_thread(stats_of, directory)
    state: dict[str, Any] = {"name": directory.name, "running": lock_holder(directory) is not None}
    state |= {key: stats[key] for key in _STATE if stats.get(key) is not None} | {"notes": missed(stats)}
    if state.get("stopped"):
        state["stopped"] = re.sub(r"--max-(pages|time)\b", r"max_\1", state["stopped"])  # agents use no flags
    said = last_line(directory / LAUNCH_LOG)
    return Answer(state | ({"log": said.replace(str(directory), directory.name)} if said else {}))


class Tool(Struct, forbid_unknown_fields=True):
    async def run(self, crawls: Crawls) -> Answer:
        """Run the tool. Raises UserFault, OSError, and the errors that reading a job raises."""
        raise NotImplementedError


class Crawl(Tool):
    """Crawl web sites and keep the text and links of their pages. Follows links on the hosts of the seeds only, obeys
    robots.txt and pauses between two requests to a host, usually for a second. Returns the state of the crawl when it
    has ended, or after `wait` seconds if it is still running; then use `status`. Pages can be searched and read during
    the crawl. The same call with the same name resumes a crawl that was stopped or killed, or reached a limit (raise
    max_pages to get more); no finished page is fetched again, and new seeds are added."""

    seeds: Annotated[list[str], Meta(min_length=1, max_length=MOST_SEEDS, description="URLs to start from.")]
    name: Annotated[str, Meta(description="Name for the crawl (default: the host of the first seed).")] | None = None
    max_pages: Annotated[int, Meta(ge=1, description=f"Page limit of the crawl (default: {PAGES}).")] | None = None
    max_time: Annotated[float, Meta(gt=0, description=f"Time limit of this run in seconds ({TIME:g}).")] | None = None
    max_depth: Annotated[Depth, Meta(ge=0, description="Links to follow from a seed (default: any).")] | None = None
    wait: Wait = 30

    async def run(self, crawls: Crawls) -> Answer:
        deadline = asyncio.get_running_loop().time() + self.wait
        while True:
            directory, started = await crawls.start(self)
            await _until_ended(directory, deadline - asyncio.get_running_loop().time())
            state = await _state_of(directory)
            if started or state.facts.get("stopped_by") != "killed":
                return state


class Status(Tool):
    """Get the state and counts of a crawl, running or not: URLs by outcome, pages by status, pending URLs, and URLs
    that limits or robots.txt left out. Without a name, list all crawls and whether each is running."""

    name: Name | None = None
    wait: Wait = 0

    async def run(self, crawls: Crawls) -> Answer:
        if self.name is None:
            return Answer({"running": crawls.running()})
        directory = crawls.place(self.name)
        await _until_ended(directory, self.wait)
        return await _state_of(directory)


class Stop(Tool):
    """Stop a running crawl. Nothing is lost: `crawl` with the same name resumes it."""

    name: Name

    async def run(self, crawls: Crawls) -> Answer:
        directory = crawls.place(self.name)
        source = await asyncio.to_thread(source_of, directory, SteadyClock())
        refused = await source.perform(Command("stop"))
        if isinstance(refused, Refused) and refused != NOT_RUNNING:
            raise UsageError(refused.text)
        await _until_ended(directory, _LEAVING)
        return await _state_of(directory)


class Search(Tool):
    """Find pages of a crawl whose text or title contains all words of the query (also inside longer words, in any
    case), the best ones first."""

    name: Name
    query: Annotated[str, Meta(description="Words, separated by spaces.")]
    limit: Annotated[int, Meta(ge=1, le=50)] = 10
    offset: Offset = 0

    async def run(self, crawls: Crawls) -> Answer:
        end = self.offset + self.limit
        number, hits = await asyncio.to_thread(search_texts, crawls.place(self.name), self.query, end)
        return Answer({"pages": number, "results": hits[self.offset :], "next_offset": end if number > end else None})


class Read(Tool):
    """Read the main text of one page of a crawl, a part at a time."""

    name: Name
    url: Annotated[str, Meta(description="URL of the page, such as one that `search` found.")]
    limit: Annotated[int, Meta(ge=1, le=50_000, description="Characters.")] = 10_000
    offset: Offset = 0

    async def run(self, crawls: Crawls) -> Answer:
        row = await asyncio.to_thread(row_of_page, crawls.place(self.name), self.url)
        text, end = str(row["text"]), self.offset + self.limit
        facts: dict[str, Any] = {key: row.get(key) for key in ("url", "title", "fetched_at")}
        facts |= {"characters": len(text), "next_offset": end if len(text) > end else None}
        return Answer(facts, text[self.offset : end])


class BrokenLinks(Tool):
    """List the broken links that a crawl has found so far, each with pages that contain it. Links to hosts outside the
    crawl are not checked."""

    name: Name
    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    offset: Offset = 0

    async def run(self, crawls: Crawls) -> Answer:
        return await asyncio.to_thread(self._found, crawls.place(self.name))

    def _found(self, directory: Path) -> Answer:
        run = read_run(crawl_partitions(directory).jobs[0])
        with closing(Findings(run.settings.canonical.rules)) as findings:
            findings.gather(directory)
            end, number = self.offset + self.limit, findings.count(Result.BROKEN)
            by_url = itertools.groupby(findings.links(Result.BROKEN), lambda link: (link.url, link.status, link.reason))
            shown = []
            for (url, status, reason), links in itertools.islice(by_url, self.offset, end):
                pages = [{"page": link.page or "seed", "text": link.text} for link in links]
                found = {"url": url, "status": status, "reason": reason, "on_pages": len(pages)}
                shown.append(found | {"pages": pages[:_PAGES_SHOWN]})
            facts = {"checked": findings.checked, "broken": number, "links": shown}
            return Answer(facts | {"next_offset": end if number > end else None})


class Explain(Tool):
    """Explain why a URL was fetched, was refused, failed, was not followed or is still waiting: its scope, robots.txt,
    place in the queue and result in this crawl."""

    name: Name
    url: str

    async def run(self, crawls: Crawls) -> Answer:
        found = await asyncio.to_thread(explain_in, crawls.place(self.name), completed(self.url) or self.url)
        if found.rejected is not None:
            raise UsageError(f"{self.url!r} is not a URL to crawl: {found.rejected}")
        lines = (f"{what}: {text}" if text else what for what, text in explanation_lines(found))
        return Answer({"url": found.href or self.url}, "\n".join(lines))


TOOLS: dict[str, type[Tool]] = {
    "crawl": Crawl,
    "status": Status,
    "stop": Stop,
    "search": Search,
    "read": Read,
    "broken_links": BrokenLinks,
    "explain": Explain,
}
CHANGING = ("crawl", "stop")  # tools that start or stop crawls
