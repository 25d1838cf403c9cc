"""Kill crawls of pages that render, or a process of their browser, at random moments, and give the same command again.

    python benchmarks/browser/kills.py [--kills 200] [--pages 16] [--seed 1] [--settings TOML]

Every link is made by a script, on three hosts; /dev/shm and TMPDIR are the crawl's own. A job that has ended is
compared with what there is, and a new one is started. Ends with 1 if a page is lost or twice in the records, if a
process was there 5 s after its crawler was killed, or if a profile of a browser stays when the job has ended.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ground import PORT, WHEN, Asked, Reply, Servers, command, descendants, header, isolate, page, reap, records, start

HOSTS = [f"127.0.13.{number}:{PORT}" for number in range(1, 4)]
FEWER = 3  # links of a page
_OF_BROWSERS = ("*chrom*", "*profile*", "Local State", "SingletonLock", "DevToolsActivePort", "scoped_dir*")
_POLL = 0.02  # seconds


@dataclass
class Account:
    """What became of the crawls."""

    jobs: int = 0
    of_crawlers: int = 0
    of_browsers: int = 0
    lost: int = 0
    twice: int = 0
    raw: int = 0  # pages that no browser rendered
    left: list[str] = field(default_factory=list)
    profiles: list[str] = field(default_factory=list)

    @property
    def kills(self) -> int:
        return self.of_crawlers + self.of_browsers


class Web:
    """Pages 1 to N of each host; a page has the links of its children, by a script that asks for them."""

    def __init__(self, pages: int) -> None:
        self.pages = pages

    def answer(self, asked: Asked) -> Reply:
        if asked.path == "/robots.txt":
            return Reply("User-agent: *\nDisallow:\n", "text/plain")
        number = int(asked.path.rpartition("/")[2] or 1)
        if asked.path.startswith("/data/"):
            first = FEWER * (number - 1) + 2
            children = [f"/{child}" for child in range(first, first + FEWER) if child <= self.pages]
            return Reply(json.dumps(children), "application/json")
        return page(
            f"<div id=root></div><script>const root=document.querySelector('#root'),number={number};"
            "fetch('/data/'+number).then(r=>r.json()).then(l=>{root.innerHTML=`<p>This is page ${number}.</p>`+"
            "l.map(u=>`<a href=${u}>${u}</a>`).join(' ')})</script>"
        )

    def wanted(self) -> set[str]:
        return {
            f"http://{host}/{number if number > 1 else ''}" for host in HOSTS for number in range(1, self.pages + 1)
        }


def run(words: list[str], home: Path, moment: float | None, chance: random.Random, account: Account) -> int | None:
    """One run, disturbed every so many seconds until its crawler is killed; its exit code, None if it was killed."""
    temporary = home / "tmp"
    temporary.mkdir(exist_ok=True)
    with (home / "log").open("a+") as log:
        process = start(words, log, TMPDIR=str(temporary))
        began = time.monotonic()
        until = None if moment is None else began + chance.uniform(0, moment)
        while process.poll() is None:
            time.sleep(_POLL)
            if until is None or time.monotonic() < until:
                continue
            others = [
                pid
                for pid in descendants(process.pid)
                if b"--user-data-dir" in _words(pid) or b"--type=" in _words(pid)
            ]
            if others and chance.random() < 0.5:
                with suppress(ProcessLookupError):
                    os.kill(chance.choice(others), signal.SIGKILL)
                    account.of_browsers += 1
                until = time.monotonic() + chance.uniform(0, moment or 0)
                continue
            process.kill()
            process.wait()
            account.of_crawlers += 1
            account.left += reap(5.0)
            return None
    account.left += reap(5.0)
    return process.returncode


def _words(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def settle(job: Path, home: Path, wanted: set[str], account: Account) -> None:
    """The job has ended: compare its records with what there is, look for what browsers leave, and remove it."""
    rows = Counter(str(row["url"]) for row in records(job))
    account.jobs += 1
    account.lost += len(lost := wanted - rows.keys())
    if lost:
        print(f"lost: {sorted(lost)}; other than they should be:")
        print(*(row for row in records(job) if row.get("rendered") != "yes" or len(row["links"]) < FEWER), sep="\n")
    account.twice += rows.total() - len(rows)
    account.raw += sum(not row.get("rendered") for row in records(job))
    account.profiles += [str(path) for path in (home / "tmp").iterdir()]
    account.profiles += [str(path) for path in Path("/dev/shm").iterdir()]
    account.profiles += [str(path) for pattern in _OF_BROWSERS for path in job.rglob(pattern)]
    shutil.rmtree(job)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=200, help="(200)")
    parser.add_argument("--pages", type=int, default=16, help="of each of the three hosts (16)")
    parser.add_argument("--seed", type=int, default=1, help="of the moments (1)")
    parser.add_argument("--settings", default="", metavar="TOML", help="more settings of [browser]")
    chosen = parser.parse_args()
    isolate({})
    header(f"web       {len(HOSTS)} hosts, {chosen.pages} pages each; seed {chosen.seed}")
    chance, web, account = random.Random(chosen.seed), Web(chosen.pages), Account()
    settings = (
        "[durability]\nsync_interval = 0.1\ncheckpoint_interval = 0.3\n"
        f'[browser]\nwhen = "{WHEN}"\nno_sandbox = true\n{chosen.settings}\n'
    )
    with tempfile.TemporaryDirectory() as name, Servers([host.split(":")[0] for host in HOSTS], web.answer):
        home = Path(name)
        job = home / "job"
        words = command(job, [f"http://{host}/" for host in HOSTS], settings, ["--delay", "0", "--per-host", "4"])
        began = time.monotonic()
        code = run(words, home, None, chance, account)
        whole = time.monotonic() - began
        rendered = sum(bool(row.get("rendered")) for row in records(job))
        print(f"undisturbed: {whole:.1f} s, exit {code}, {rendered} of {len(web.wanted())} rendered", flush=True)
        settle(job, home, web.wanted(), account)
        while account.kills < chosen.kills:
            code = run(words, home, whole, chance, account)
            if code is not None and code != 0:
                print((home / "log").read_text()[-3_000:])
                print(f"exit {code}")
                return 1
            if code == 0:
                settle(job, home, web.wanted(), account)
                print(f"{account.kills} kills: lost {account.lost}, twice {account.twice}", flush=True)
        if job.exists():
            run(words, home, None, chance, account)
            settle(job, home, web.wanted(), account)
    print(
        f"{account.jobs} jobs, {account.of_crawlers} kills of the crawler, {account.of_browsers} of browser processes"
    )
    print(f"lost {account.lost}, twice {account.twice}, pages that were not rendered {account.raw}")
    print(f"processes left {account.left or 0}\nprofiles left {account.profiles or 0}")
    return int(bool(account.lost or account.twice or account.left or account.profiles))


if __name__ == "__main__":
    sys.exit(main())
