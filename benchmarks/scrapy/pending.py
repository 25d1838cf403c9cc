"""Requests that wait: the memory of a spider, and what each takes.

    python benchmarks/scrapy/pending.py [--requests N] [--hosts N] [--scheduler NAME]

A spider enqueues N requests to as many hosts, all on loopback, while its only request is under way. Then it says how
much memory its process has, and how much it had at most, and ends.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path += [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parents[1] / "crawl")]

from crawls import SCHEDULERS, peer_versions

from benchmarks.kit.machine import describe_machine
from crawler.tools.bench.process_cost import module_environment

_SPIDER = """
import os, time
from pathlib import Path
from scrapy import Request, Spider

class Pending(Spider):
    name = "pending"
    start_urls = ["data:,"]

    def parse(self, response):
        began, before = time.process_time(), memory()
        requests, hosts = int(self.requests), int(self.hosts)
        for number in range(requests):
            host = number % hosts
            site = f"http://127.{host >> 16 & 255}.{host >> 8 & 255}.{host & 255}:9"
            url = f"{site}/section/{number // 100}/page-{number}.html"
            self.crawler.engine.crawl(Request(url, callback=self.page, meta={"number": number}))
        seconds = time.process_time() - began
        after = memory()
        print(f"enqueued  {requests:,} requests to {hosts:,} hosts, {seconds * 1e6 / requests:.0f} us of CPU each")
        print(f"memory    {before[0]:.0f} MiB before, {after[0]:.0f} MiB after, {after[1]:.0f} MiB at most", flush=True)
        os._exit(0)

    def page(self, response):
        pass

def memory():
    lines = Path("/proc/self/status").read_text().splitlines()
    found = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines if line.startswith(("VmRSS", "VmHWM"))}
    return found["VmRSS"], found["VmHWM"]
"""


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--requests", type=int, default=1_000_000, help="that wait (1000000)")
    parser.add_argument("--hosts", type=int, default=1_000, help="(1000)")
    parser.add_argument("--scheduler", choices=SCHEDULERS, default="Scrapy on ours")
    chosen = parser.parse_args(words)

    for line in describe_machine(("rocksdict", "numpy")):
        print(line)
    print(f"peer      {peer_versions(Path(sys.executable))}")
    print(f"scheduler {chosen.scheduler}")
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        (home / "pending_spider.py").write_text(_SPIDER)
        options = ["-a", f"requests={chosen.requests}", "-a", f"hosts={chosen.hosts}", "-s", "LOG_LEVEL=ERROR"]
        for key, value in {"JOBDIR": str(home / "job"), **SCHEDULERS[chosen.scheduler]}.items():
            options += ["-s", f"{key}={value}"]
        command = [sys.executable, "-m", "scrapy", "runspider", "pending_spider.py", *options]
        sys.stdout.flush()
        subprocess.run(command, cwd=home, env=module_environment(), check=True)
        size = sum(os.stat(path).st_size for path in (home / "job").rglob("*") if path.is_file())
        print(f"disk      {size / chosen.requests:.0f} bytes a request")


if __name__ == "__main__":
    main(sys.argv[1:])
