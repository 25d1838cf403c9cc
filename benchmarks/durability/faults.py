"""Run the real program under a fault injector: each call that a disk can fail, with each error, at many moments.

    python benchmarks/durability/faults.py [--scenarios 120] [--seed N] [--only TEXT] [--out FILE]

A shared object (``injector.c``) is loaded between the process and the C library, so it also catches RocksDB's calls.
In each scenario a small site is crawled, and calls on files of the job fail, once or until the fault is healed; in some
the clock is set an hour forward or back instead. Then the same command runs without faults, ``verify`` reads the job,
and the records are compared with the site: none missing, none twice. A run that meets a fault must continue by itself,
or end with one line and exit code 1 or 2, not by a signal and not with a traceback. It must wait until a full disk has
room, unless fsync or fdatasync fails: then it ends, because the kernel may have dropped what it could not write.

Exits with 1 if anything is missing, twice or not whole, or a run ends in another way.
"""

from __future__ import annotations

import argparse
import errno
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from injector import FOR_EVER, Injector, build

from benchmarks.kit.machine import describe_machine
from crawler.base.disk import FULL
from tests.jobs import Verified, rows, verify
from tests.program import Ran, crawler, running
from tests.site import Site, tree

PACKAGES = ("aiohttp", "rocksdict")
PAGES = 60
HOUR = 3600.0
DELAY = 0.03  # seconds: the gap of the crawls whose clock is set
# Many generations and slices in the second or two that a crawl takes. Every page must be found.
_OFTEN = "[durability]\nsync_interval = 0.1\ncheckpoint_interval = 0.3\n[seen]\ncapacity = 16\nfpp = 1e-9\n"
_FAST = ("--delay", "0", "--per-host", "4", "--concurrency", "8")
_POLITE = ("--delay", str(DELAY), "--per-host", "1", "--concurrency", "8")
_FAULTY = 0.7  # seconds that a lasting fault lasts after the first call that it spoilt
_PATIENCE = 60.0  # seconds for a run to end: a hang
_FIRST_RUN = 20  # pages, of the run before the one that is spoilt on resuming
_CHANGING = ("write", "pwrite", "open", "rename", "ftruncate", "mkdir", "unlink")
_SLOW = 0.15  # seconds

# What a call may answer; "short" is no error, and "half" is a full disk that still takes half of the first write.
ERRORS = {
    "write": ("ENOSPC", "EDQUOT", "EIO", "EROFS", "short", "half", "slow"),
    "pwrite": ("ENOSPC", "EDQUOT", "EIO", "EROFS", "short", "half", "slow"),
    "fsync": ("EIO", "ENOSPC", "EDQUOT", "slow"),
    "fdatasync": ("EIO", "ENOSPC", "EDQUOT", "slow"),
    "open": ("EMFILE", "ENFILE", "ENOSPC", "EDQUOT", "EROFS", "EIO"),
    "rename": ("ENOSPC", "EDQUOT", "EROFS", "EIO"),
    "ftruncate": ("ENOSPC", "EROFS", "EIO"),
    "mkdir": ("ENOSPC", "EDQUOT", "EROFS", "EIO"),
    "unlink": ("EROFS", "EIO"),
    "read": ("EIO",),
    "all": ("ENOSPC", "EDQUOT", "EROFS", "EIO"),  # that change something
}
MOMENTS = ("start", "early", "late", "resume", "resumed")
_SHARES = {"early": 0.3, "late": 0.7, "resumed": 0.6}  # of the calls of a whole run


@dataclass(frozen=True, slots=True)
class Scenario:
    """``moment`` is the first call of a new job ("start") or of one that is resumed, or some later call."""

    call: str
    error: str
    moment: str
    lasting: bool

    def __str__(self) -> str:
        return f"{self.call} {self.error} {self.moment} {'until healed' if self.lasting else 'once'}"

    @property
    def waits(self) -> bool:
        """Whether the run must wait until the fault is healed."""
        if self.call in ("fsync", "fdatasync"):
            return False
        return self.error == "half" or getattr(errno, self.error, None) in FULL


@dataclass(frozen=True, slots=True)
class ClockScenario:
    """``when``: in the middle of the run, or between two."""

    hours: float
    when: str

    def __str__(self) -> str:
        return f"clock {self.hours:+g} h {self.when}"


@dataclass(frozen=True, slots=True)
class Outcome:
    hits: int  # calls that were spoilt
    spoilt: Ran
    after: Ran
    missing: int
    twice: int
    checked: Verified
    wrong: list[str] = field(default_factory=list)


class Bench:
    """A site, a directory for one job after the other, and the injector of the program that crawls it."""

    def __init__(self, home: Path, site: Site, injector: Injector) -> None:
        self.job, self.site, self.injector = home / "job", site, injector
        self._seeds, self._config = home / "seeds.txt", home / "often.toml"
        self._seeds.write_text(site.url("/") + "\n")
        self._config.write_text(_OFTEN)
        self._wanted = {site.url(path) for path in tree(PAGES)}

    def words(self, *flags: str) -> tuple[str | Path, ...]:
        return (self._seeds, "--job", self.job, "--config", self._config, "--allow-private", "--quiet", *flags)

    def calls_of_a_run(self, resumed: bool) -> dict[str, int]:
        """How many calls of each kind an undisturbed run makes."""
        if resumed:
            crawler(*self.words(*_FAST, "--max-pages", str(_FIRST_RUN)))
        before = self.injector.calls()
        ran = crawler(*self.words(*_FAST))
        if ran.code:
            raise SystemExit(f"the undisturbed crawl ended with {ran.code}: {ran.err}")
        counted = {kind: number - before[kind] for kind, number in self.injector.calls().items()}
        counted["all"] = sum(counted[kind] for kind in _CHANGING)
        shutil.rmtree(self.job)
        return counted

    def spoil(self, scenario: Scenario, first: int) -> Outcome | None:
        """None if no call was spoilt: the run ended before."""
        if scenario.moment in ("resume", "resumed"):
            crawler(*self.words(*_FAST, "--max-pages", str(_FIRST_RUN)))
        error = getattr(errno, scenario.error, errno.ENOSPC if scenario.error == "half" else 0)
        slow = scenario.error == "slow"
        self.injector.arm(
            _CHANGING if scenario.call == "all" else (scenario.call,),
            error,
            first=first,
            last=first + 8 * slow if slow or not scenario.lasting else FOR_EVER,
            halve=scenario.error in ("short", "half"),
            delay=_SLOW if slow else 0.0,
        )
        spoilt = self._run_spoilt(_FAST)
        hits = self.injector.hit
        return self._account(hits, spoilt, scenario.waits) if hits else self._forget()

    def _run_spoilt(self, flags: Sequence[str]) -> Ran:
        """Run until it ends by itself; the fault is healed a while after it first struck."""
        with running(*self.words(*flags)) as process:
            struck = ended = None
            began = time.monotonic()
            while (now := time.monotonic()) - began < _PATIENCE:
                ended = process.poll()
                if ended is not None:
                    break
                if struck is None and self.injector.hit:
                    struck = now
                if struck is not None and now - struck > _FAULTY:
                    self.injector.heal()
                time.sleep(0.01)
            self.injector.heal()
            process.kill()
            _, err = process.communicate()
        return Ran(-signal.SIGALRM if ended is None else ended, "", err.decode("utf-8", "replace"))

    def set_clock(self, scenario: ClockScenario) -> Outcome:
        """A run during which, or after which, the clock is set; and another in which it is right again."""
        self.site.asked.clear()
        with running(*self.words(*_POLITE)) as process:
            self._until_records(PAGES // 3)
            if scenario.when == "between":
                process.send_signal(signal.SIGKILL)
                process.wait()
            self.injector.set_clock(scenario.hours * HOUR)
            if scenario.when == "during":
                self._until_records(2 * PAGES // 3)
                process.send_signal(signal.SIGKILL)
            spoilt = Ran(process.wait(_PATIENCE), "", process.communicate()[1].decode("utf-8", "replace"))
        if scenario.when == "during":
            self.injector.set_clock(0)
        outcome = self._account(1, Ran(0, "", spoilt.err), False, _POLITE)
        self.injector.set_clock(0)
        asked = sorted(self.site.asked, key=lambda one: one.start)
        shortest = min(later.start - earlier.end for earlier, later in itertools.pairwise(asked))
        if shortest < 0.9 * DELAY:
            outcome.wrong.append(f"a gap of {shortest:.3f} s")
        return outcome

    def _until_records(self, number: int) -> None:
        output = self.job / "pages.jsonl"
        deadline = time.monotonic() + _PATIENCE
        while not output.exists() or output.read_bytes().count(b"\n") < number:
            if time.monotonic() > deadline:
                raise SystemExit(f"{number} records have not come: the crawl hangs")
            time.sleep(0.01)

    def _account(self, hits: int, spoilt: Ran, waits: bool, flags: Sequence[str] = _FAST) -> Outcome:
        """Carry on without faults, compare, and remove the job."""
        wrong = []
        crash = self.job / "crash.txt"
        if crash.exists():
            wrong.append("taken for a bug: " + crash.read_text().strip().splitlines()[-1])
        try:
            after = crawler(*self.words(*flags), timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            after = Ran(-signal.SIGALRM, "", "")
        found = Counter(row["url"] for row in rows(self.job)) if (self.job / "pages.jsonl").exists() else Counter()
        missing, twice = len(self._wanted - found.keys()), found.total() - len(found)
        checked = verify(self.job)
        wrong += _faults(spoilt)
        if waits and spoilt.code:
            wrong.append("a full disk ended it")
        if after.code:
            wrong.append(f"carrying on: exit {after.code}: {_last(after.err)}")
        if missing or twice or found.keys() - self._wanted:
            wrong.append(f"{missing} missing, {twice} twice")
        if checked.code:
            wrong.append(f"verify: exit {checked.code}: {json.dumps(checked.findings)[:300]}")
        shutil.rmtree(self.job)
        return Outcome(hits, spoilt, after, missing, twice, checked, wrong)

    def _forget(self) -> None:
        shutil.rmtree(self.job, ignore_errors=True)


def _last(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]


def _faults(ran: Ran) -> list[str]:
    """What is wrong with how a spoilt run ended."""
    wrong = []
    if ran.code == -signal.SIGALRM:
        wrong.append(f"it hung for {_PATIENCE:g} s")
    elif ran.code not in (0, 1, 2):
        wrong.append(f"it ended with {ran.code}")
    if "Traceback" in ran.err:
        wrong.append("a traceback: " + _last(ran.err))
    ends = [line for line in ran.err.splitlines() if line.startswith("crawler: ") and "warning" not in line]
    if ran.code in (1, 2) and len(ends) != 1:
        wrong.append(f"{len(ends)} lines say why it ended, not one: {ran.err.strip()[-300:]}")
    return wrong


def scenarios(chance: random.Random, number: int) -> Iterator[Scenario]:
    """``number`` different ones: each call with each error first, then what is left of all, both in drawn order."""
    pairs = [(call, error) for call, errors in ERRORS.items() for error in errors]
    chance.shuffle(pairs)
    lasting = [error not in ("short", "slow") and chance.random() < 0.5 for _, error in pairs]
    made = [
        Scenario(call, error, MOMENTS[place % len(MOMENTS)], lasts)
        for place, ((call, error), lasts) in enumerate(zip(pairs, lasting, strict=True))
    ]
    every = [
        Scenario(call, error, moment, lasts)
        for call, error in pairs
        for moment in MOMENTS
        for lasts in ((False,) if error in ("short", "slow") else (False, True))
    ]
    chance.shuffle(every)
    yield from itertools.islice(dict.fromkeys((*made, *every)), number)


CLOCKS = tuple(ClockScenario(hours, when) for hours in (1.0, -1.0) for when in ("during", "between"))


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--scenarios", type=int, default=120, help="drawn from all of them (120)")
    parser.add_argument("--clocks", type=int, default=3, help="times that each clock scenario runs (3)")
    parser.add_argument("--only", nargs="+", metavar="TEXT", default=[""], help="those with one of these in their name")
    parser.add_argument("--seed", type=int, default=1, help="of the drawing (1)")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args(words)
    chance = random.Random(chosen.seed)
    lines = list(describe_machine(PACKAGES))
    print("\n".join(lines), flush=True)
    with tempfile.TemporaryDirectory() as name, Site(tree(PAGES), latency=0.01) as site:
        home = Path(name).resolve()
        with Injector(build(home), home / "control", home / "job") as injector:
            # Programs are forked from a process that was started with these: see tests/program.py.
            os.environ.update(injector.environment)
            bench = Bench(home, site, injector)
            said, wrong = run(bench, chance, chosen)
    text = "\n".join([*lines, *said])
    if chosen.out is not None:
        chosen.out.write_text(text + "\n")
    if wrong:
        raise SystemExit(1)


def run(bench: Bench, chance: random.Random, chosen: argparse.Namespace) -> tuple[list[str], int]:
    """All scenarios; what was printed, and how many went wrong."""
    lines: list[str] = []
    ends, sums, unreached = Counter[str](), Counter[str](), 0

    def say(line: str) -> None:
        print(line, flush=True)
        lines.append(line)

    def show(number: int, scenario: Scenario | ClockScenario, outcome: Outcome) -> None:
        ends["carried on by itself" if outcome.spoilt.code == 0 else f"ended with {outcome.spoilt.code}"] += 1
        sums["missing"] += outcome.missing
        sums["twice"] += outcome.twice
        sums["not whole"] += outcome.checked.code != 0
        sums["wrong"] += bool(outcome.wrong)
        verdict = "; ".join(outcome.wrong) or "ok"
        end = _last(outcome.spoilt.err).replace(str(bench.job), "JOB")
        say(f"{number:>4} {scenario!s:<38}{outcome.hits:>6}{outcome.spoilt.code:>6}  {verdict}  {end}")

    calls = {False: bench.calls_of_a_run(False), True: bench.calls_of_a_run(True)}
    for resumed, counted in calls.items():
        told = ", ".join(f"{kind} {number}" for kind, number in counted.items() if kind != "all")
        say(f"calls of an undisturbed {'resumed run' if resumed else 'run'}: {told}")
    say(f"\n{'':<5}{'call, error, moment':<38}{'hit':>6}{'exit':>6}  verdict and last line")
    number = 0
    for scenario in scenarios(chance, chosen.scenarios):
        if any(text in str(scenario) for text in chosen.only):
            whole = calls[scenario.moment.startswith("resume")][scenario.call]
            first = max(1, round(whole * _SHARES.get(scenario.moment, 0) * chance.uniform(0.7, 1.3)))
            outcome = bench.spoil(scenario, first)
            if outcome is None:
                unreached += 1
                continue
            number += 1
            show(number, scenario, outcome)
    for clock in CLOCKS * chosen.clocks:
        if any(text in str(clock) for text in chosen.only):
            number += 1
            show(number, clock, bench.set_clock(clock))
    say(f"\nscenarios  {number:>6}   {unreached} more were over before the call came")
    for end, count in sorted(ends.items()):
        say(f"{end:<24}{count:>6}")
    for what in ("missing", "twice", "not whole", "wrong"):
        say(f"{what:<24}{sums[what]:>6}")
    return lines, sums["wrong"]


if __name__ == "__main__":
    main(sys.argv[1:])
