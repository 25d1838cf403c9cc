"""Kill crawls many times: at random moments, at every failpoint, and while a crawl must keep its politeness gaps.

    python benchmarks/durability/kills.py [--kills 200] [--beside] [--serve DIR[=PATH] ...] [--output NAMES] [--seed N]

Serves a web with its own nginx (made files, or the given directories, each a host whose first page is PATH). Its
access log shows what was requested and when, whatever the crawler reports. A crawl is killed after a random number of
requests, some before the first, and the same command is given again; a job that has ended is checked and a new one
started.
With ``--beside``, ``add``, ``tail``, ``stats``, ``verify``, a dashboard and POST work on the job at the same time: what
was called safe must be fetched, and ``tail`` must show each record once. Exits with 1 if anything is missing,
recorded twice, or requested too early.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "crawl"))
sys.path.append(str(Path(__file__).resolve().parents[2]))

from beside import Beside, Done, unlinked_pages
from crawls import ours, undisturbed
from run import PACKAGES
from web import Asked, Web, given_root, served

from benchmarks.kit.machine import describe_machine
from benchmarks.kit.made_pages import MADE_PAGES, make_files
from crawler.base.disk import CRASH_AT
from crawler.cli.exit_codes import Exit
from tests.asked import free_port
from tests.crash_points import CRAWL_POINTS
from tests.program import crawler, running

CONCURRENCY = 64
# Visits whose bodies wait for two seconds lend their slots, as they do on a machine that is very busy.
IN_FLIGHT = 2 * CONCURRENCY
DELAY = 0.02  # seconds, of the crawl that must keep its gaps
_RESOLUTION = 0.002  # seconds: nginx gives both times in whole milliseconds
_UNLINKED = 60  # pages of each host that only what is done beside leads to
_IN_USE = "is in use"  # what the program says where another one, as add, has the job
# Named places that only a crawl with an output comes to.
_OF_OUTPUTS = {"output.begun": "links", "step.kept": "links", "body.written": "bodies", "body.placed": "bodies"}
_POLL = 0.005  # seconds between two looks at a run
_EARLY = 0.2  # share of the kills at a moment before the first answer, or at one that is chosen by the clock
_SETTLE = 0.2  # seconds: nginx writes its line a moment after the answer
# Many generations, and slices that are sealed, in the few seconds that a crawl takes.
_OFTEN = (
    "[durability]\nsync_interval = 0.1\ncheckpoint_interval = 0.3\n[seen]\ncapacity = 16\n"
    "[output]\nfile_size = 500_000\n"
)
FAST = ("--delay", "0", "--per-host", "16", "--concurrency", str(CONCURRENCY))
POLITE = ("--delay", str(DELAY), "--per-host", "1", "--concurrency", str(CONCURRENCY))


@dataclass
class Account:
    """What became of the crawls."""

    jobs: int = 0
    kills: int = 0
    missing: int = 0
    twice: int = 0
    unsound: int = 0  # jobs that verify did not call whole
    again: list[int] = field(default_factory=list)  # for each kill: requests under way then, asked for again later
    retried: int = 0  # requests repeated within one run
    requests: int = 0
    overlaps: int = 0
    early: int = 0  # gaps too short
    shortest: float = float("inf")  # seconds


@dataclass(frozen=True)
class Moment:
    """When a run is killed: after so many answers, or, if that is none, so many seconds after its start. Answers are
    progress: seconds are none on a machine that has become slower than it was when they were chosen."""

    answers: int
    seconds: float

    def of(self, web: Web, position: int) -> Callable[[], bool]:
        """Whether it has come for the run that starts now, with the protocol at ``position``."""
        if self.answers:
            return lambda: web.answered(position) >= self.answers
        until = time.monotonic() + self.seconds
        return lambda: time.monotonic() >= until


@dataclass
class Bench:
    """The web, what there is to find on it, and a directory for jobs."""

    web: Web
    seeds: Path
    home: Path
    wanted: set[str]
    unlinked: list[str] = field(default_factory=list)  # URLs for what is done beside; nothing is, if there are none
    done: Done = field(default_factory=Done)
    port: int = field(default_factory=free_port)
    output: str = ""  # what is kept besides pages.jsonl; verify compares it

    @property
    def job(self) -> Path:
        return self.home / "job"

    def beside(self, chance: random.Random) -> Beside | None:
        if not self.unlinked:
            return None
        urls = chance.sample(self.unlinked, len(self.unlinked))
        return Beside(self.job, urls, self.port, random.Random(chance.random()), self.done)

    def command(self, flags: Sequence[str]) -> list[str]:
        config = self.home / "often.toml"
        config.write_text(_OFTEN)
        return [
            str(self.seeds),
            "--job",
            str(self.job),
            "--config",
            str(config),
            "--allow-private",
            "--quiet",
            *(("--dashboard", str(self.port)) if self.unlinked else ()),
            *(("--output", self.output) if self.output else ()),
            *flags,
        ]

    def start(self, flags: Sequence[str], kill_when: Callable[[], bool] | None = None, at: str = "") -> int:
        """One run; how it ended. Killed as soon as ``kill_when`` holds."""
        os.environ[CRASH_AT] = at
        try:
            with running(*self.command(flags)) as process:
                while process.poll() is None:
                    if kill_when is not None and kill_when():
                        process.kill()
                        kill_when = None
                    time.sleep(_POLL)
                with (self.home / "log").open("ab") as log:
                    log.write(process.communicate()[1])
                return int(process.returncode)
        finally:
            del os.environ[CRASH_AT]

    def hold_to_account(self, account: Account, safe: Set[str] = frozenset()) -> None:
        """The job has ended: compare its output with what there is, and with what was called safe, and remove it."""
        lines = Counter(ours().pages(self.home))
        account.jobs += 1
        account.missing += len((self.wanted | safe) - lines.keys())
        account.twice += lines.total() - len(lines)
        account.unsound += crawler("verify", self.job).code != 0
        shutil.rmtree(self.job)


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=200, help="at random moments (200)")
    parser.add_argument("--polite-kills", type=int, default=20, help="of a crawl that must keep its gaps (20)")
    parser.add_argument("--serve", nargs="+", metavar="DIR[=PATH]", default=[], help="directories, not made files")
    parser.add_argument("--pages", type=int, default=MADE_PAGES, help=f"of the made web ({MADE_PAGES})")
    parser.add_argument("--beside", action="store_true", help="with other commands at work on the job")
    parser.add_argument("--output", default="", metavar="NAMES", help="kept besides pages.jsonl, such as warc,links")
    parser.add_argument("--points", choices=("all", "none"), default="all", help="kill at the named places too (all)")
    parser.add_argument("--seed", type=int, default=1, help="of the moments (1)")
    chosen = parser.parse_args(words)
    if chosen.beside and chosen.serve:
        parser.error("--beside writes pages of its own: it takes no --serve")
    chance = random.Random(chosen.seed)
    for line in describe_machine(PACKAGES):
        print(line)
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        roots = [given_root(word) for word in chosen.serve] or make_files(home / "files", pages=chosen.pages)
        with served(roots, home / "nginx") as web:
            seeds = home / "seeds.txt"
            seeds.write_text("".join(f"{url}\n" for url in web.seeds))
            bench = Bench(web, seeds, home, undisturbed(seeds, home), output=chosen.output)
            if chosen.beside:
                paths = unlinked_pages([root for root, _ in roots], _UNLINKED)
                bench.unlinked = [url + path for url in web.seeds for path in paths]
            kind = "given directories" if chosen.serve else "made files"
            print(f"web       {kind}, {len(web.seeds)} hosts, {len(bench.wanted)} HTML pages; seed {chosen.seed}\n")
            print(f"{'':<28}" + "".join(f"{head:>10}" for head in _HEADS))
            accounts = [
                _show("random moments", at_random(bench, FAST, chosen.kills, chance)),
                _show("every named place", at_points(bench, chance, CRAWL_POINTS if chosen.points == "all" else ())),
                _show(f"per host 1, gap {DELAY} s", at_random(bench, POLITE, chosen.polite_kills, chance, gaps=True)),
            ]
    _distribution(accounts[0])
    for line in bench.done.lines() if chosen.beside else ():
        print(line)
    polite = accounts[2]
    print(
        f"gaps: {polite.requests} requests, {polite.overlaps} overlapping, {polite.early} earlier than {DELAY} s, "
        f"the shortest {polite.shortest:.3f} s"
    )
    bad = sum(a.missing + a.twice + a.unsound + a.retried + a.overlaps + a.early for a in accounts)
    bad += len(bench.done.wrong)
    most = max(max(account.again, default=0) for account in accounts)
    if bad or most > IN_FLIGHT:
        raise SystemExit(f"the contract was broken: {accounts} {bench.done.wrong}")


def at_random(bench: Bench, flags: Sequence[str], kills: int, chance: random.Random, *, gaps: bool = False) -> Account:
    """Kill until it was done ``kills`` times; the last job runs to its end."""
    account = Account()
    crawler("--version")  # what programs are forked from has begun by then
    _, position = bench.web.asked(0)
    began = time.monotonic()
    if bench.start(flags):
        raise SystemExit((bench.home / "log").read_text()[-2000:])
    whole = time.monotonic() - began
    time.sleep(_SETTLE)
    requests = bench.web.answered(position)
    bench.hold_to_account(Account())

    def moment() -> Moment:
        return Moment(0 if chance.random() < _EARLY else chance.randrange(1, 2 * requests), chance.uniform(0, whole))

    while account.kills < kills:
        with contextlib.ExitStack() as around:
            beside = bench.beside(chance)
            if beside is not None:
                around.enter_context(beside)
            for code in _until_it_ends(bench, flags, account, gaps, moment):
                account.kills += code < 0
        # What was added at the last moment is in the inbox of a crawl that has ended.
        if beside is not None and bench.start(flags):
            raise SystemExit((bench.home / "log").read_text()[-2000:])
        bench.hold_to_account(account, beside.safe if beside else frozenset())
    return account


def at_points(bench: Bench, chance: random.Random, points: Sequence[str]) -> Account:
    """One job for each named place: killed there, then given the same command until it ends."""
    account, asked = Account(), bench.output
    for point in points:
        if point.startswith("pages."):
            continue  # of a job with several files of records, which this bench does not read
        needed = _OF_OUTPUTS.get(point, "")
        bench.output = ",".join(dict.fromkeys(filter(None, (*asked.split(","), needed))))
        passes = iter(
            [f"step.written:{chance.randrange(2, len(bench.wanted) // 2)}"] if point.startswith("resume.") else []
        )
        first = chance.randrange(2, len(bench.wanted) // 2) if point.startswith("step.") else 1
        once = point.startswith(("resume.", "compaction."))
        ats = itertools.chain(passes, [point if once else f"{point}:{first}"])
        codes = list(_until_it_ends(bench, FAST, account, False, None, ats))
        account.kills += sum(code < 0 for code in codes)
        if codes[-2:-1] != [-9]:
            raise SystemExit(f"{point} was not reached: {codes}")
        bench.hold_to_account(account)
    bench.output = asked
    return account


def _until_it_ends(
    bench: Bench,
    flags: Sequence[str],
    account: Account,
    gaps: bool,
    moment: Callable[[], Moment] | None,
    ats: Iterator[str] | None = None,
) -> Iterator[int]:
    """Run one job until it ends by itself; how each run ended. Counts what was asked again because of each kill."""
    _, position = bench.web.asked(0)
    last: dict[str, int] = {}  # URL -> the last run that asked for it
    again: list[int] = []  # of each kill of this job
    all_asked: list[Asked] = []
    while True:
        kill_when = None if moment is None else moment().of(bench.web, position)
        code = bench.start(flags, kill_when, next(ats or iter(()), ""))
        time.sleep(_SETTLE)
        asked, position = bench.web.asked(position)
        urls = Counter(entry.url for entry in asked)
        account.retried += urls.total() - len(urls)
        for url in urls:
            # A run may be killed before it came to all that was under way when the one before it died.
            if url in last:
                again[last[url]] += 1
            last[url] = len(again)
        again.append(0)
        account.requests += urls.total()
        all_asked += asked
        yield code
        if code == Exit.USAGE and _IN_USE in (bench.home / "log").read_text()[-500:]:
            continue
        if code > 0:
            raise SystemExit(f"ended with {code}:\n{(bench.home / 'log').read_text()[-2000:]}")
        if code == 0:
            break
    account.again += again[:-1]
    if gaps:
        _measure_gaps(all_asked, account)


def _measure_gaps(asked: list[Asked], account: Account) -> None:
    hosts: defaultdict[str, list[Asked]] = defaultdict(list)
    for one in asked:
        hosts[one.url.split("/")[2]].append(one)
    for requests in hosts.values():
        requests.sort(key=lambda one: one.start)
        for earlier, later in itertools.pairwise(requests):
            gap = later.start - earlier.end
            account.overlaps += gap < -_RESOLUTION
            account.early += gap < DELAY - _RESOLUTION
            account.shortest = min(account.shortest, gap)


_HEADS = ("jobs", "kills", "missing", "twice", "unsound", "retried", "again", "at most")


def _show(name: str, account: Account) -> Account:
    figures = (
        account.jobs,
        account.kills,
        account.missing,
        account.twice,
        account.unsound,
        account.retried,
        sum(account.again),
        max(account.again, default=0),
    )
    print(f"{name:<28}" + "".join(f"{figure:>10}" for figure in figures), flush=True)
    return account


def _distribution(account: Account) -> None:
    print(f"\nrequests repeated after a kill at a random moment, at most {IN_FLIGHT} in flight:")
    ends = (0, 1, 2, 4, 8, 16, 32, 64)
    counts = [sum(low < one <= high for one in account.again) for low, high in itertools.pairwise((-1, *ends))]
    labels = [str(high) if high - low == 1 else f"{low + 1}-{high}" for low, high in itertools.pairwise((-1, *ends))]
    print("repeated  " + "".join(f"{label:>8}" for label in labels))
    print("kills     " + "".join(f"{count:>8}" for count in counts))


if __name__ == "__main__":
    main(sys.argv[1:])
