"""A crawl that lives in a store: what burns of its machine lose, and what the store costs.

    python benchmarks/durability/bucket.py burns [--store ADDRESS] [--times N] [--burns N] [--seed N] [--chains N]
    python benchmarks/durability/bucket.py machines [--store ADDRESS] [--times N] [--burns N] [--machines N] [--seed N]
    python benchmarks/durability/bucket.py cost [--store ADDRESS] [--rounds N] [--partitions N] [--chains N] [--steps N]
    python benchmarks/durability/bucket.py cost [--store ADDRESS] [--rounds N] [--pace S] --seeds FILE | --synthetic
    python benchmarks/durability/bucket.py split [--pages N] [--partitions N]
    python benchmarks/durability/bucket.py pending [--pages N] [--times N]
    python benchmarks/durability/bucket.py moves [--store ADDRESS]

The web is one of chains (``benchmarks/partitions/chain_web.py``): a single lost link loses the rest of its chain.
``burns``: so many times a crawl with WARC, text and bodies is killed (SIGKILL) at random moments, each time its
directory is removed and the same command runs again, the last time to its end. Judged by the server's log, the records,
the archive and ``crawler verify``. ``again`` are pages that were answered and asked for again, ``first`` the seconds
from the command to its first request, ``short`` the gaps of a host below ``--delay``.
``machines``: the same of a crawl that several machines share over Redis, each of them a directory with one process:
one, two or all burn in the same second, half of the times with all that Redis has, and new ones take their places.
``cost``: the CPU time of the crawler with a store and without, in turns, net of a crawl of 40 pages; with
``--partitions N`` that with a store is of N processes over Redis. ``--steps`` is the length of a chain: chains that are
long and few leave a worker waiting for links most of the time. ``--seeds`` crawls another web, whole, which must be on
loopback; ``--synthetic`` that of ``benchmarks/partitions/steady.py``: 8,000 pages on 40 hosts. ``--pace`` is the gap of
the crawl without a store: a crawl that waits for links is slower, and in a slower crawl each page takes more CPU time.
``split``: a crawl with WARC is split when it is half done, and when it has ended, and runs to its end in
``--partitions`` processes. ``fpp`` is the share of a million unknown keys that each partition calls seen (0.01 is
asked for), ``differ`` the sums of ``crawler stats`` that a split changes.
``pending``: a crawl whose seeds wait (``--pages``, on a thousand hosts) burns: how long until it asks again?
``moves``: how long a host is idle, beyond its gap, when a machine joins, is drained, and burns.

Without ``--store`` it is a directory; for s3:// the environment names the server. Exits with 1 if anything is lost or
twice.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import itertools
import json
import math
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "partitions"))  # it has a module kills, as this directory
sys.path.append(str(Path(__file__).resolve().parents[2]))

import steady

from benchmarks.kit.machine import describe_machine
from crawler.inspect.job_reader import open_job
from crawler.job.bucket.address import open_objects
from tests.base.carrier.redis_server import redis_server

ROOT = Path(__file__).resolve().parents[2]
DELAY = 0.02  # seconds
KEEP = ("--output", "warc,text,bodies")
LEAVES = 1_999
SYNTHETIC = 8_000  # pages
UNKNOWN = 1_000_000  # keys
OF_FILES = {"files", "slices", "bytes", "bits_per_url", "compactions", "disk_free_bytes", "checkpoint", "partitions"}
OF_FILES |= {"stopped", "stopped_by", "pages_parsed"}


class Web:
    """The chain web in a process of its own."""

    def __init__(self, home: Path, chains: int, *, steps: int = 50, busy: int = 0, hosts: int = 20) -> None:
        """``busy`` hosts have ``LEAVES`` pages each, named by the first of them."""
        self.log, self.seeds = home / "log", home / "seeds.txt"
        words = ["--log", self.log, "--seeds", self.seeds, "--chains", str(chains), "--steps", str(steps)]
        words += ["--hosts", str(hosts), "--busy", str(busy), "--leaves", str(LEAVES)]
        script = ROOT / "benchmarks/partitions/chain_web.py"
        self.pages = chains * steps + busy * (LEAVES + 1)
        self._process = subprocess.Popen([sys.executable, script, *words], stdin=subprocess.PIPE)
        while not self.seeds.exists():
            time.sleep(0.05)
        self.port = self.seeds.read_text().split("/")[2].partition(":")[2]

    def asked(self) -> list[tuple[str, str, float, float]]:
        rows = (line.split(" ") for line in self.log.read_text().splitlines())
        return [(row[0], row[1], float(row[2]), float(row[3])) for row in rows]

    def pages_asked(self, start: int) -> list[str]:
        return [f"{host}:{self.port}{path}" for host, path, *_ in self.asked()[start:] if path != "/robots.txt"]

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@contextlib.contextmanager
def served(chains: int, **shape: int) -> Iterator[tuple[Web, Path]]:
    with tempfile.TemporaryDirectory(prefix="bucket-") as name:
        web = Web(Path(name), chains, **shape)
        try:
            yield web, Path(name)
        finally:
            web.end()


def command(web: Web, job: Path, *more: str) -> list[str]:
    options = ("--allow-private", "--quiet", "--concurrency", "32", *more)
    return [sys.executable, "-m", "crawler", str(web.seeds), "--job", str(job), *options]


def burn(chosen: argparse.Namespace) -> bool:
    """Whether nothing was lost."""
    chance, good = random.Random(chosen.seed), True
    print(f"{'time':>4} {'asked':>6} {'lost':>5} {'twice':>5} {'again':>5} {'short':>5}  first request, s")
    for number in range(chosen.times):
        with served(chosen.chains) as (web, home):
            store = f"{chosen.store or f'file:{home}/store'}/{os.getpid()}-{number}"
            job, firsts = home / "job", list[float]()
            words = command(web, job, "--store", store, "--delay", str(DELAY), *KEEP)
            for left in reversed(range(chosen.burns + 1)):
                before, began = len(web.asked()), time.monotonic()
                process = subprocess.Popen(words, cwd=ROOT)
                while len(web.asked()) == before and process.poll() is None:
                    time.sleep(0.02)
                firsts.append(time.monotonic() - began)
                if not left:
                    process.wait()
                    break
                until = chance.uniform(0.1, 0.9) * web.pages / (chosen.burns + 1)
                while len(web.asked()) < before + until and process.poll() is None:
                    time.sleep(0.02)
                process.send_signal(signal.SIGKILL)
                process.wait()
                shutil.rmtree(job)
            asked = [each for each in web.asked() if each[1] != "/robots.txt"]
            rows = Counter(json.loads(line)["url"] for line in (job / "pages.jsonl").read_text().splitlines())
            archived = archived_in(job / "warc")
            whole = subprocess.run([sys.executable, "-m", "crawler", "verify", str(job)], cwd=ROOT, check=False)
            lost, twice = web.pages - len(rows), sum(rows.values()) - len(rows)
            short = gaps_below(asked, DELAY)
            good = good and not (lost or twice or short or whole.returncode or process.returncode)
            good = good and archived == rows
            times = " ".join(f"{first:.1f}" for first in firsts)
            print(
                f"{number:4} {len(asked):6} {lost:5} {twice:5} {len(asked) - web.pages:5} {short:5}  {times}",
                flush=True,
            )
    return good


def burn_machines(chosen: argparse.Namespace) -> bool:
    """Whether nothing was lost."""
    chance, good = random.Random(chosen.seed), True
    print(f"{'time':>4} {'asked':>6} {'lost':>5} {'twice':>5} {'again':>5} {'short':>5}  burnt; seconds to the end")
    for number in range(chosen.times):
        with served(chosen.chains) as (web, home), redis_server(home / "redis") as redis:
            store = f"{chosen.store or f'file:{home}/store'}/{os.getpid()}-{number}"
            fleet = Fleet(web, home, store, redis.url)
            fleet.complete(chosen.machines)
            burnt = list[str]()
            for _ in range(chosen.burns):
                until = len(web.asked()) + chance.uniform(0.3, 0.9) * web.pages / (chosen.burns + 1)
                fleet.wait(until)
                victims = chance.choice([1, 2, chosen.machines])
                empties = chance.random() < 0.5
                fleet.burn(chance.sample(sorted(fleet.machines), victims))
                if empties:
                    redis.say("FLUSHALL")
                burnt.append(f"{victims}{'+Redis' if empties else ''}")
                fleet.complete(chosen.machines)
            began = time.monotonic()
            codes = fleet.end()
            seconds = time.monotonic() - began
            restored = home / "restored"
            made = subprocess.run([sys.executable, "-m", "crawler", "restore", store, restored], cwd=ROOT, check=False)
            whole = subprocess.run([sys.executable, "-m", "crawler", "verify", restored], cwd=ROOT, check=False)
            asked = [each for each in web.asked() if each[1] != "/robots.txt"]
            texts = (path.read_text() for path in restored.glob("partitions/*/pages.jsonl"))
            rows = Counter(json.loads(line)["url"] for text in texts for line in text.splitlines())
            archived = sum(map(archived_in, restored.glob("partitions/*/warc")), Counter[str]())
            lost, twice = web.pages - len(rows), sum(rows.values()) - len(rows)
            short = gaps_below(asked, DELAY)
            is_right = not (lost or twice or short or any(codes) or made.returncode or whole.returncode)
            good = good and is_right and archived == rows
            print(
                f"{number:4} {len(asked):6} {lost:5} {twice:5} {len(asked) - web.pages:5} {short:5}  "
                f"{' '.join(burnt)}; {seconds:.0f}{'' if archived == rows else ' the archive differs'}",
                flush=True,
            )
    return good


class Fleet:
    """The machines of a crawl by name, each the process that one would start there."""

    def __init__(self, web: Web, home: Path, store: str, engine: str, delay: float = DELAY) -> None:
        self.machines: dict[str, subprocess.Popen[bytes]] = {}
        self._web = web
        self._home = home
        self._store = store
        self._engine = engine
        self._delay = delay
        self._number = 0

    def complete(self, count: int) -> None:
        """Start machines until there are so many; the first one is given the seeds."""
        while len(self.machines) < count:
            name = f"m{self._number}"
            self._number += 1
            if any("seeds" in str(process.args) for process in self.machines.values()):
                words = [sys.executable, "-m", "crawler", "work", "--store", self._store, "--quiet"]
                words += ["--dir", str(self._home / name)]
                self._wait_for_shape()
            else:
                shared = ("--store", self._store, "--engine", self._engine, "--partitions", "1")
                words = command(self._web, self._home / name, "--delay", str(self._delay), *KEEP, *shared)
            self.machines[name] = subprocess.Popen(words, cwd=ROOT)

    def _wait_for_shape(self) -> None:
        while not any(open_objects(self._store).list("shape/")):
            time.sleep(0.1)

    def wait(self, until: float) -> None:
        """Wait for so many requests."""
        while len(self._web.asked()) < until and any(each.poll() is None for each in self.machines.values()):
            time.sleep(0.05)

    def burn(self, names: Sequence[str]) -> None:
        """End these with all of their processes, and remove their disks."""
        for name in names:
            self.machines[name].send_signal(signal.SIGKILL)  # its workers end with it
        for name in names:
            self.machines.pop(name).wait()
            time.sleep(0.1)
            shutil.rmtree(self._home / name, ignore_errors=True)

    def end(self) -> list[int]:
        """Wait for the end of the crawl."""
        return [process.wait() for process in self.machines.values()]


def run(*words: str) -> str:
    """What a command prints, which must succeed."""
    return subprocess.run([sys.executable, "-m", "crawler", *words], cwd=ROOT, stdout=-1, text=True, check=True).stdout


def differing(before: dict[str, Any], after: dict[str, Any], name: str = "") -> dict[str, tuple[Any, Any]]:
    """The figures that are not the same, apart from those of files, memory and the last run."""
    found = dict[str, tuple[Any, Any]]()
    for key, was in before.items():
        path, now = f"{name}{key}", after.get(key)
        if key in OF_FILES:
            continue
        if isinstance(was, dict) and isinstance(now, dict):
            found |= differing(was, now, f"{path}.")
        elif was != now and not (isinstance(was, float) and isinstance(now, float) and math.isclose(was, now)):
            found[path] = was, now
    return found


def fpp_of(partition: Path) -> float:
    """The share of keys that it has not seen, and says that it has."""
    with open_job(partition) as job:
        return sum(job.restore_seen().seen.contains_digests(os.urandom(16 * UNKNOWN))) / UNKNOWN


def archived_in(directory: Path) -> Counter[str]:
    """The pages in the archive, by how many responses they have."""
    found = list[bytes]()
    for path in directory.iterdir():
        with gzip.open(path) as stream:
            found += re.findall(rb"WARC-Type: response\r\n(?:[^\r]+\r\n)*?WARC-Target-URI: ([^\r]+)", stream.read())
    return Counter(url for each in found if not (url := each.decode()).endswith("/robots.txt"))


def gaps_below(asked: Sequence[tuple[str, str, float, float]], delay: float) -> int:
    """How often a host was asked sooner after an answer than it may be."""
    hosts = defaultdict[str, list[tuple[float, float]]](list)
    for host, _, came, answered in asked:
        hosts[host].append((came, answered))
    pairs = (pair for times in hosts.values() for pair in itertools.pairwise(sorted(times)))
    return sum(later[0] < earlier[1] + 0.95 * delay for earlier, later in pairs)


def cost(chosen: argparse.Namespace) -> bool:
    with served(chosen.chains, steps=chosen.steps) as (web, home), contextlib.ExitStack() as stack:
        shared = ("--partitions", str(chosen.partitions)) if chosen.partitions > 1 else ()
        whole = None if chosen.seeds or chosen.synthetic else web.pages
        web.seeds = chosen.seeds or web.seeds
        if chosen.synthetic:
            web.seeds, _ = stack.enter_context(steady.served(home / "web", SYNTHETIC))

        def used(pages: int | None, *more: str) -> float:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            job = home / "job"
            shutil.rmtree(job, ignore_errors=True)
            limit = ("--max-pages", str(pages)) if pages else ()
            subprocess.run(command(web, job, "--delay", "0", *limit, *more), cwd=ROOT, check=True)
            web.pages = sum(path.read_bytes().count(b"\n") for path in job.rglob("pages.jsonl"))
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

        stores = (f"{chosen.store or f'file:{home}/store'}/cost-{os.getpid()}-{number}" for number in itertools.count())
        ratios = list[float]()
        for _ in range(chosen.rounds):
            paced = ("--delay", str(chosen.pace))
            without = -used(40, *paced) + used(whole, *paced)
            address = next(stores)
            with redis_server(home / f"redis-{len(ratios)}") if shared else contextlib.nullcontext() as redis:
                over = (*shared, "--engine", redis.url) if redis else ()
                with_it = -used(40, "--store", next(stores), *over) + used(whole, "--store", address, *over)
            objects = open_objects(address)
            log = [each.size for each in objects.list("log/")]
            ratios.append(with_it / without)
            print(
                f"CPU without {without:.2f} s, with a store {with_it:.2f} s, {ratios[-1]:.3f} times; "
                f"log {sum(log) / web.pages:.0f} bytes a page in {len(log)} objects, {web.pages} records",
                flush=True,
            )
        print(f"median {median(ratios):.3f} times")
    return True


def split(chosen: argparse.Namespace) -> bool:
    """Whether nothing was lost or asked for again, and all sums stayed."""
    good, partitions, own = True, str(chosen.partitions), list[str]()
    shape = {"steps": chosen.pages // 2 // chosen.chains, "busy": chosen.pages // 2 // (LEAVES + 1)}
    with served(chosen.chains, **shape) as (web, home):
        store, most = home / "store", {"half done": web.pages // 2, "finished": web.pages}
        rest = ("--delay", "0", "--output", "warc", "--fpp", "0.01", "--capacity", "16384")
        print(f"{'split':>9} {'asked':>7} {'lost':>5} {'twice':>5} {'again':>5}  split, s; fpp; differ")
        for moment, pages in most.items():
            before = len(web.asked())
            words = command(web, home / "job", "--store", f"file:{store}", *rest, "--max-pages", str(pages))
            run(*words[3:])
            own += web.pages_asked(before)
            home_of = home / moment
            address = f"file:{shutil.copytree(store, home_of / 'store')}"
            stats, began = json.loads(run("stats", str(home / "job"), "--json")), time.monotonic()
            run("split", address, "--partitions", partitions)
            took = time.monotonic() - began
            differ = differing(stats, json.loads(run("stats", address, "--json")))
            known = json.loads(run("explain", address, f"http://{own[-1]}", "--json"))
            before = len(web.asked())
            words = command(web, home_of / "job", "--store", address, *rest, "--partitions", partitions)
            run(*words[3:], "--max-pages", str(web.pages))
            asked = Counter([*own, *web.pages_asked(before)])
            run("restore", address, str(home_of / "restored"))
            run("verify", str(home_of / "restored"))
            parts = sorted(home_of.glob("restored/partitions/*"))
            texts = ((part / "pages.jsonl").read_text() for part in parts)
            rows = Counter(json.loads(line)["url"] for text in texts for line in text.splitlines())
            archived = sum(map(archived_in, home_of.glob("restored/partitions/*/warc")), Counter[str]())
            lost, twice, again = web.pages - len(rows), rows.total() - len(rows), asked.total() - len(asked)
            good = good and archived == rows and bool(known["record"]) and not (lost or twice or again or differ)
            print(
                f"{moment:>9} {asked.total():7} {lost:5} {twice:5} {again:5}  {took:.0f}; "
                f"{' '.join(f'{fpp_of(part):.4f}' for part in parts)}; {differ}",
                flush=True,
            )
    return good


def move(chosen: argparse.Namespace) -> bool:
    """Whether no host was idle for more than 6 seconds when its partition was given up in order."""
    with served(40, steps=1, busy=20) as (web, home), redis_server(home / "redis") as redis:
        fleet = Fleet(web, home, chosen.store or f"file:{home}/store", redis.url, delay=1.0)
        fleet.complete(2)
        fleet.wait(300)
        idle = dict[str, float]()
        for what in ("nothing", "join", "drain", "burn"):
            began = time.monotonic()
            if what == "join":
                fleet.complete(3)
            elif what == "drain":
                run("work", "--drain", "--dir", str(home / "m1"))
            elif what == "burn":
                fleet.burn(["m2"])
            time.sleep(40.0)
            hosts = defaultdict[str, list[tuple[float, float]]](list)
            for host, path, came, answered in web.asked():
                if "/l/" in path and came > began - 1.0:
                    hosts[host].append((came, answered))
            gaps = (later[0] - earlier[1] for times in hosts.values() for earlier, later in itertools.pairwise(times))
            idle[what] = max(gaps) - 1.0
            print(f"{what:>8}: {len(hosts)} hosts, idle for {idle[what]:.1f} s at most", flush=True)
        for process in fleet.machines.values():
            process.kill()
        fleet.end()
    return max(idle["join"], idle["drain"]) <= 6.0


def wait_for_pending(chosen: argparse.Namespace) -> bool:
    """Whether each crawl asks again."""
    print(f"{'time':>4} {'pending':>9} {'to load, s':>10} {'first request, s':>16} {'CPU, s':>6} {'store, MB':>9}")
    for number in range(chosen.times):
        with served(1_000, hosts=1_000) as (web, home):
            urls = (f"http://127.20.{n % 1_000 // 250}.{n % 250 + 1}:{web.port}/{n}\n" for n in range(chosen.pages))
            web.seeds.write_text("".join(urls))
            job, store = home / "job", home / "store"
            words = command(web, job, "--store", f"file:{store}", "--delay", "1", "--rate", "5")
            began, pending = time.monotonic(), 0
            process = subprocess.Popen(words, cwd=ROOT)
            while pending < 0.99 * chosen.pages and process.poll() is None:
                time.sleep(1.0)
                with contextlib.suppress(FileNotFoundError):
                    pending = json.loads((job / "live.json").read_text())["stats"]["urls_pending"]
            loaded = time.monotonic() - began
            time.sleep(5.0)
            process.kill()
            process.wait()
            shutil.rmtree(job)
            before, began = len(web.asked()), time.monotonic()
            process = subprocess.Popen(words, cwd=ROOT)
            while len(web.asked()) == before and process.poll() is None:
                time.sleep(0.05)
            first = time.monotonic() - began
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            used = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            process.kill()
            process.wait()
            size = sum(path.stat().st_size for path in store.rglob("*") if path.is_file()) / 1e6
            print(f"{number:4} {pending:9} {loaded:10.0f} {first:16.1f} {used:6.1f} {size:9.0f}", flush=True)
    return True


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=tuple(_DOES))
    parser.add_argument("--store")
    parser.add_argument("--seeds", type=Path)
    parser.add_argument("--synthetic", action="store_true")
    parser.add_argument("--pace", type=float, default=0.0, help="seconds")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--burns", type=int, default=2)
    parser.add_argument("--machines", type=int, default=3)
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--pages", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--chains", type=int, default=160, help="with fewer, not every host is a seed's, and in scope")
    chosen = parser.parse_args(words)
    for line in describe_machine(("obstore",)):
        print(line)
    return 0 if _DOES[chosen.what](chosen) else 1


_DOES = {
    "burns": burn,
    "machines": burn_machines,
    "cost": cost,
    "split": split,
    "pending": wait_for_pending,
    "moves": move,
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
