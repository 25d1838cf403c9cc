"""Soak: the real program on an endless site with many hosts, for an hour: does anything grow that should not?

    python benchmarks/durability/soak.py [--seconds 3600] [--hosts 100000] [--rate 100] [--dir DIR] [--out FILE]

Every host is an address of 127.0.0.0/8, so nothing but this machine can be asked. Every page links to new pages of
hosts drawn at random, so the crawl never ends. There are enough seeds to fill the frontier's window of waiting rows at
once. Every few seconds the script looks at the process from outside: memory, descriptors, threads, disk, and what
``live.json`` says. At the end, it sends SIGINT and runs ``verify``.

A line is fitted through the samples of the last quarter: until then memory grows, because a host takes more memory
once it has been asked, and at 100 requests a second, asking 100,000 hosts takes most of an hour. Exits with 1
if, along the line, memory without the seen-set grows by more than ``--allow`` percent, or descriptors or threads by
more than a few; or if the job is not whole. The seen-set is left out because it must grow with the URLs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import mmh3

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.kit.machine import describe_machine
from crawler.tools.bench.process_cost import module_environment

PACKAGES = ("aiohttp", "selectolax", "mmh3", "numpy", "bitarray", "rocksdict")
WINDOW = 400_000  # seeds: a little more than the rows that the frontier's window holds
LINKS = 4  # on each page
_FILLER = "Some text that a page has besides its links. " * 20
_FEW = 3  # descriptors or threads that may come and go
_PATIENCE = 300  # seconds for the start, the end and verify
_MIB = 2**20


def address(number: int) -> str:
    """Of a host: in 127.0.0.0/8 for all of the first seven million."""
    return f"127.{16 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"


# -- the site --------------------------------------------------------------------------------------------------------


class Visitor(asyncio.Protocol):
    """One connection. Every path is a page, and its links follow from its host and path alone."""

    def __init__(self, hosts: int) -> None:
        self._hosts, self._head = hosts, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._head += data
        while b"\r\n\r\n" in self._head:
            head, _, self._head = self._head.partition(b"\r\n\r\n")
            self._transport.write(self._answer(head.decode("latin-1")))

    def _answer(self, head: str) -> bytes:
        lines = head.split("\r\n")
        path = lines[0].split(" ")[1]
        host = next(line[6:] for line in lines if line[:6].lower() == "host: ")
        if path == "/robots.txt":
            return _response("text/plain", "User-agent: *\nDisallow: /private/\n")
        port = host.rpartition(":")[2]
        links = []
        for number in range(LINKS):
            where, name = mmh3.hash64(f"{host}{path}{number}", signed=False)
            links.append(f'<a href="http://{address(where % self._hosts)}:{port}/{name:x}">further</a>')
        return _response("text/html", f"<!doctype html><title>{host}{path}</title><p>{_FILLER}</p>" + "\n".join(links))


def _response(kind: str, text: str) -> bytes:
    body = text.encode()
    return f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def listening() -> socket.socket:
    """On all addresses of the loopback device, and on no other device."""
    taken = socket.socket()
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")
    taken.bind(("0.0.0.0", 0))
    taken.listen(4_096)
    return taken


async def serve(taken: socket.socket, hosts: int) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: Visitor(hosts), sock=taken)
    await server.serve_forever()


@contextmanager
def site(hosts: int) -> Iterator[int]:
    """Serve it from a process of its own; yields the port."""
    taken = listening()
    port = int(taken.getsockname()[1])
    pid = os.fork()
    if pid == 0:
        try:
            asyncio.run(serve(taken, hosts))
        finally:
            os._exit(1)
    taken.close()
    try:
        yield port
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


# -- what is looked at -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sample:
    """One look; sizes in MiB, times in seconds."""

    at: float
    rss: float
    pss: float
    descriptors: int
    threads: int
    disk: float
    cpu: float
    pages: int
    admitted: int
    pending: int
    hosts: int
    seen: float
    stall_p99: float
    stall_longest: float
    generation: int
    checkpoint: float

    @property
    def fixed(self) -> float:
        """Memory that must not grow."""
        return self.pss - self.seen


def look(pid: int, job: Path, at: float) -> Sample | None:
    """None until the crawl has said something, and after its end."""
    try:
        stats: dict[str, Any] = json.loads((job / "live.json").read_bytes())["stats"]
        process = Path("/proc", str(pid))
        status = _numbers(process / "status")
        rollup = _numbers(process / "smaps_rollup")
        descriptors = len(os.listdir(process / "fd"))
        times = (process / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    stall, checkpoint = stats["loop_stall_seconds"] or {}, stats["checkpoint"] or {}
    return Sample(
        at=at,
        rss=status["VmRSS"] / 1024,
        pss=rollup["Pss"] / 1024,
        descriptors=descriptors,
        threads=status["Threads"],
        disk=_disk(job) / _MIB,
        cpu=(int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK"),
        pages=stats["pages_fetched"],
        admitted=stats["urls_admitted"],
        pending=stats["urls_pending"],
        hosts=stats["hosts"],
        seen=stats["seen"]["bytes"] / _MIB,
        stall_p99=stall.get("p99", 0.0),
        stall_longest=stall.get("longest", 0.0),
        generation=checkpoint.get("generation", 0),
        checkpoint=checkpoint.get("seconds", 0.0),
    )


def _numbers(path: Path) -> dict[str, int]:
    """The lines ``Name:  number ...`` of a file of /proc."""
    found = {}
    for line in path.read_text().splitlines():
        name, _, rest = line.partition(":")
        word = rest.split()[:1]
        if word and word[0].isdigit():
            found[name] = int(word[0])
    return found


def _disk(directory: Path) -> int:
    """Bytes that are taken; a file that is removed meanwhile counts for nothing."""
    total = 0
    for home, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.lstat(os.path.join(home, name)).st_blocks * 512
            except FileNotFoundError:
                continue
    return total


# -- one run -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Soaked:
    samples: list[Sample]
    ended: int  # exit code
    stopping: float  # seconds from SIGINT to the end
    verified: int  # exit code
    verifying: float  # seconds
    said: str  # by both


def soak(home: Path, *, seconds: float, hosts: int, rate: float, interval: float) -> Soaked:
    job, seeds, log = home / "job", home / "seeds.txt", home / "log"
    with site(hosts) as port, log.open("wb") as sink:
        each = max(1, WINDOW // hosts) if hosts > 10_000 else 1
        with seeds.open("w") as stream:
            for number in range(each):
                name = "" if number == 0 else f"seed-{number}"
                stream.writelines(f"http://{address(host)}:{port}/{name}\n" for host in range(hosts))
        words = [str(seeds), "--job", str(job), "--allow-private", "--rate", str(rate), "--quiet"]
        crawl = subprocess.Popen(
            [sys.executable, "-m", "crawler", *words],
            env=module_environment(),
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
        )
        try:
            samples = watch(crawl, job, seconds, interval)
            asked = time.monotonic()
            crawl.send_signal(signal.SIGINT)
            ended = crawl.wait(_PATIENCE)
            stopping = time.monotonic() - asked
        finally:
            crawl.kill()
            crawl.wait()
    began = time.monotonic()
    verified = subprocess.run(
        [sys.executable, "-m", "crawler", "verify", str(job)],
        env=module_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=_PATIENCE,
    )
    said = log.read_text("utf-8", "replace") + verified.stdout + verified.stderr
    return Soaked(samples, ended, stopping, verified.returncode, time.monotonic() - began, said)


def watch(crawl: subprocess.Popen[bytes], job: Path, seconds: float, interval: float) -> list[Sample]:
    """Sample for that time, from the first sample on. Raises SystemExit if the crawl ends before, or says nothing."""
    samples: list[Sample] = []
    began = time.monotonic()
    while (now := time.monotonic() - began) < (seconds if samples else _PATIENCE):
        if crawl.poll() is not None:
            raise SystemExit(f"the crawl ended by itself with {crawl.returncode} after {now:.0f} s")
        sample = look(crawl.pid, job, now if samples else 0.0)
        if sample is not None:
            began += 0.0 if samples else now
            samples.append(sample)
            with (job.parent / "samples.jsonl").open("a") as stream:
                stream.write(json.dumps(asdict(sample)) + "\n")
        time.sleep(max(0.0, interval - (time.monotonic() - began) % interval))
    if not samples:
        raise SystemExit(f"the crawl said nothing in {_PATIENCE} s")
    return samples


# -- what it says ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Trend:
    """Of a figure over some time: its mean, and how far the fitted line rises in that time."""

    mean: float
    rise: float
    least: float
    most: float


def trend(samples: Sequence[Sample], name: str) -> Trend:
    values = [float(getattr(sample, name)) for sample in samples]
    times = [sample.at for sample in samples]
    slope = statistics.linear_regression(times, values).slope
    return Trend(statistics.fmean(values), slope * (times[-1] - times[0]), min(values), max(values))


def table(samples: Sequence[Sample], rows: int = 25) -> list[str]:
    head = (
        f"{'seconds':>8}{'RSS':>8}{'PSS':>8}{'seen':>7}{'rest':>8}{'fds':>6}{'threads':>9}{'disk':>8}{'pages':>10}"
        f"{'admitted':>11}{'pending':>11}{'p99 ms':>8}{'longest':>9}{'gen':>5}{'took s':>8}{'CPU %':>7}"
    )
    lines = [head]
    step = max(1, len(samples) // rows)
    shown = [*samples[:-1:step], samples[-1]]
    for before, one in zip([shown[0], *shown], shown, strict=False):
        passed = one.at - before.at
        busy = 100 * (one.cpu - before.cpu) / passed if passed else 0.0
        lines.append(
            f"{one.at:>8.0f}{one.rss:>8.1f}{one.pss:>8.1f}{one.seen:>7.1f}{one.fixed:>8.1f}{one.descriptors:>6}"
            f"{one.threads:>9}{one.disk:>8.1f}{one.pages:>10,}{one.admitted:>11,}{one.pending:>11,}"
            f"{1000 * one.stall_p99:>8.1f}{1000 * one.stall_longest:>9.1f}{one.generation:>5}{one.checkpoint:>8.2f}"
            f"{busy:>7.1f}"
        )
    return lines


def judge(soaked: Soaked, share: float, allow: float) -> tuple[list[str], list[str]]:
    """Lines to show, and what is wrong. ``share``: the last part of the samples, which is judged."""
    last = soaked.samples[-round(len(soaked.samples) * share) :]
    lines, wrong = [], []
    minutes = (last[-1].at - last[0].at) / 60
    lines.append(f"the last {minutes:.1f} minutes, {len(last)} samples, a line fitted through them:")
    lines.append(f"{'':<28}{'mean':>10}{'least':>10}{'most':>10}{'rise':>10}{'allowed':>10}")
    for name, label in (
        ("rss", "RSS, MiB"),
        ("pss", "PSS, MiB"),
        ("seen", "the seen-set's part, MiB"),
        ("fixed", "PSS without it, MiB"),
        ("descriptors", "descriptors"),
        ("threads", "threads"),
    ):
        found = trend(last, name)
        most = {"fixed": found.mean * allow / 100, "descriptors": _FEW, "threads": _FEW}.get(name)
        shown = "" if most is None else f"{most:>10.1f}"
        lines.append(f"{label:<28}{found.mean:>10.1f}{found.least:>10.1f}{found.most:>10.1f}{found.rise:>10.1f}{shown}")
        if most is not None and found.rise > most:
            wrong.append(f"{label} rose by {found.rise:.1f}")
    lines.append(f"SIGINT: exit {soaked.ended} after {soaked.stopping:.1f} s")
    lines.append(f"verify: exit {soaked.verified} after {soaked.verifying:.1f} s")
    lines += soaked.said.splitlines()
    if soaked.ended != 130:
        wrong.append(f"SIGINT ended it with {soaked.ended}")
    if soaked.verified != 0:
        wrong.append("the job is not whole")
    return lines, wrong


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3_600.0, help="of the crawl (3600)")
    parser.add_argument("--hosts", type=int, default=100_000, help="of the site (100,000)")
    parser.add_argument("--rate", type=float, default=100.0, help="requests a second (100)")
    parser.add_argument("--interval", type=float, default=15.0, help="seconds from sample to sample (15)")
    parser.add_argument("--allow", type=float, default=3.0, help="percent that memory may rise then (3)")
    parser.add_argument("--last", type=float, default=0.25, help="the part of the time that is judged (0.25)")
    parser.add_argument("--dir", type=Path, help="where the job is made")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args(words)
    lines = list(describe_machine(PACKAGES))
    lines.append(f"site      {chosen.hosts:,} hosts, endless; {chosen.rate:g} requests a second\n")
    with tempfile.TemporaryDirectory(dir=chosen.dir) as name:
        soaked = soak(
            Path(name), seconds=chosen.seconds, hosts=chosen.hosts, rate=chosen.rate, interval=chosen.interval
        )
    found, wrong = judge(soaked, chosen.last, chosen.allow)
    text = "\n".join([*lines, *table(soaked.samples), "", *found, *wrong])
    print(text)
    if chosen.out is not None:
        chosen.out.write_text(text + "\n")
    if wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
