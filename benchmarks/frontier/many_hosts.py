"""Two million URLs over 50,000 hosts, crawled by the real program through a proxy on loopback whose log decides.

    python benchmarks/frontier/many_hosts.py [--hosts 50000] [--urls 2000000] [--pages 2000]

The first process reads all seeds and crawls meanwhile. The second one goes on: how long until its first request for a
page, and how long its first answer to ``/api/hosts`` takes. The bounds are for CPU seconds of the second process,
because a busy machine stretches the others. No host may be asked for robots.txt twice, by both together. Ends with 1 if
one was, or if a figure is above its bound.

The first process stops in order, but a robots.txt that has not come after its five seconds of grace is asked for again.
That too counts here, so the machine must not be so busy that a loopback server takes so long.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.kit.machine import describe_machine
from tests.asked import free_port, knows, opened

RESTART_MOST, HOSTS_MOST = 5.0, 1.0  # CPU seconds
STOPPED = 3  # exit code of a crawl that a limit stopped


class Proxy:
    """Answers in the name of every host, and counts what each was asked for."""

    def __init__(self) -> None:
        self.robots: Counter[str] = Counter()
        self.pages: Counter[str] = Counter()
        self.asked_page = threading.Event()
        self.port = 0
        self._ready = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True).start()
        self._ready.wait()

    async def _run(self) -> None:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await server.serve_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                _, _, name, path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode().split("/", 3)
                if path == "robots.txt":
                    self.robots[name] += 1
                    kind, body = b"text/plain", b""
                else:
                    self.pages[name] += 1
                    self.asked_page.set()
                    kind, body = b"text/html", f"<p>{name} {path}".encode()
                head = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n"
                writer.write(head % (kind, len(body)) + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=50_000)
    parser.add_argument("--urls", type=int, default=2_000_000)
    parser.add_argument("--pages", type=int, default=2_000, help="that each process fetches at least (2000)")
    args = parser.parse_args()
    for line in describe_machine():
        print(line)
    print(f"\n{args.urls:,} URLs of {args.hosts:,} hosts")
    with tempfile.TemporaryDirectory(prefix="many-hosts-") as directory:
        if not measure(Path(directory), args.hosts, args.urls, args.pages):
            raise SystemExit(1)


def measure(directory: Path, hosts: int, urls: int, pages: int) -> bool:
    """Two processes. Returns whether all figures are within their bounds."""
    proxy, dashboard = Proxy(), free_port()
    seeds, job = directory / "seeds.txt", directory / "job"
    with seeds.open("w") as lines:
        lines.writelines(f"http://host{number % hosts}.test/{number // hosts}\n" for number in range(urls))
    began = time.monotonic()
    first = start(proxy, seeds, job, "--max-pages", str(pages))
    _, status, used = os.wait4(first.pid, 0)
    assert os.waitstatus_to_exitcode(status) in (0, STOPPED), status
    figures(f"first process, {time.monotonic() - began:.0f} s ({used.ru_utime + used.ru_stime:.0f} s of CPU)", proxy)

    proxy.asked_page.clear()
    known = directory / "known.txt"
    known.write_text("http://host0.test/0\n")
    began = time.monotonic()
    crawl = start(proxy, known, job, "--max-pages", str(2 * pages), "--dashboard", str(dashboard))
    assert proxy.asked_page.wait(600), "the second process asked for no page"
    restart, restart_cpu = time.monotonic() - began, cpu_seconds(crawl.pid)
    began = time.monotonic()
    opened(f"{knows(f'http://127.0.0.1:{dashboard}/', job)}api/hosts?limit=100", timeout=600).read()
    hosts_took, hosts_cpu = time.monotonic() - began, cpu_seconds(crawl.pid) - restart_cpu
    assert crawl.wait() in (0, STOPPED), crawl
    figures("both processes", proxy)
    most = max(proxy.robots.values())
    print(f"restart to the first page        {restart:8.2f} s, {restart_cpu:.2f} s of CPU   (at most {RESTART_MOST:g})")
    print(f"/api/hosts, first answer         {hosts_took:8.2f} s, {hosts_cpu:.2f} s of CPU   (at most {HOSTS_MOST:g})")
    print(f"robots.txt of a host             {most:8,}     (at most 1)")
    return restart_cpu <= RESTART_MOST and hosts_cpu <= HOSTS_MOST and most <= 1


def start(proxy: Proxy, seeds: Path, job: Path, *options: str) -> subprocess.Popen[bytes]:
    words = ["crawl", str(seeds), "--job", str(job), "--proxy", f"http://127.0.0.1:{proxy.port}", "--quiet"]
    return subprocess.Popen([sys.executable, "-m", "crawler", *words, *options])


def cpu_seconds(pid: int) -> float:
    """What a process has used so far, with all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def figures(name: str, proxy: Proxy) -> None:
    asked = len(proxy.robots | proxy.pages)
    print(
        f"{name}: {proxy.pages.total():,} pages, {proxy.robots.total():,} robots.txt, {asked:,} hosts asked", flush=True
    )


if __name__ == "__main__":
    main()
