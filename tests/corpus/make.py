"""Make the jobs and filter files that later versions must open: ``python -m tests.corpus.make DIRECTORY``.

They are made by the ``crawler`` that Python finds, which may be an older one than that of this checkout: put its
checkout first on PYTHONPATH and this one behind it. Each job is stopped half-way: by a limit, so that a generation
stands for all of it, or by SIGKILL, so that the journal must be replayed.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from crawler.job.output import lines_of
from tests.corpus.web import ROOT, site
from tests.program import wait_until

OPTIONS = ("--allow-private", "--delay", "0", "--per-host", "4", "--concurrency", "8", "--quiet")
# One small filter each; a chain of several slices, sealed ones among them, where the kind is one that grows.
JOBS = {
    "scalable-stopped": ("--max-pages", "30", "--seen", "scalable", "--capacity", "16", "--fpp", "1e-9"),
    "scalable-killed": ("--seen", "scalable", "--capacity", "16", "--fpp", "1e-9"),
    "exact-killed": ("--seen", "exact", "--capacity", "64"),
    "ledger-killed": ("--seen", "bloom", "--capacity", "1000", "--fpp", "1e-9", "--ledger"),
    "counting-stopped": ("--max-pages", "30", "--seen", "counting", "--capacity", "1000", "--fpp", "1e-9"),
    "cuckoo-stopped": ("--max-pages", "30", "--seen", "cuckoo", "--capacity", "1000", "--fpp", "1e-6"),
    "digest-killed": ("--seen", "digest", "--capacity", "1000"),
    "recrawl-stopped": ("--max-pages", "30", "--recrawl"),
    "mmh3-killed": ("--hash", "mmh3"),
    "text-stopped": ("--max-pages", "30", "--recrawl"),
    "links-killed": ("--output", "links"),
    "warc-killed": ("--output", "warc"),
    "rotated-killed": (),
    "limits-stopped": ("--max-pages", "16", "--max-depth", "3"),
}
REQUESTS = "requests-killed.tar.gz"  # not among the jobs that `crawler crawl` resumes
PARTITION = "partition-killed.tar.gz"  # nor is this one
LOGGED = "logged-killed.tar.gz"  # the same, whose steps replicas may follow
CONFIGS = {
    "text-stopped": '[recrawl]\ncompare = "text"\n',
    "rotated-killed": "[durability]\nsync_interval = 0.05\ncheckpoint_interval = 0.05\n[output]\npages_size = 3000\n",
}
FILTERS = {
    "scalable": ("--capacity", "256", "--fpp", "1e-6"),
    "bloom": ("--capacity", "2048", "--fpp", "1e-6"),
    "counting": ("--capacity", "2048", "--fpp", "1e-6"),
    "cuckoo": ("--capacity", "2048", "--fpp", "1e-6"),
    "digest": ("--capacity", "2048"),
    "bitmap": ("--capacity", "2048", "--fpp", "0.01"),
    # Their slices multiply digests. Programs older than these files know no other hash than this one.
    "cuckoo-mmh3": ("--capacity", "2048", "--fpp", "1e-6", "--hash", "mmh3"),
    "digest-mmh3": ("--capacity", "2048", "--hash", "mmh3"),
}
LINES = [f"line {number}" for number in range(0, 3_000, 3)]
_KILLED_AFTER = 25  # records
# Notes for people and what belongs to a process that is gone.
_LEFT_OUT = ("LOG", "LOG.old.", "live.json", "events.log")


def main() -> None:
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, site():
        seeds = Path(scratch, "seeds.txt")
        seeds.write_text(f"{ROOT}/\n")
        for name, words in JOBS.items():
            job = Path(scratch, name)
            options = words
            if name in CONFIGS:
                config = Path(scratch, f"{name}.toml")
                config.write_text(CONFIGS[name])
                options = (*words, "--config", str(config))
            _crawl(seeds, job, options)
            _pack(job, target / f"{name}.tar.xz")
            shutil.rmtree(job)
        job = Path(scratch, "requests")
        _requests(job)
        _pack(job, target / REQUESTS)
        for archive, line in ((PARTITION, 0), (LOGGED, 9)):
            job = Path(scratch, archive)
            _partition(job, line)
            _pack(job, target / archive)
        for kind, words in FILTERS.items():
            _filter(target / f"{kind}.filter", kind, words)


def _crawl(seeds: Path, job: Path, words: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "crawler", str(seeds), "--job", str(job), *OPTIONS, *words]
    if "--max-pages" in words:
        ran = subprocess.run(command, check=False)
        assert ran.returncode == 3, ran
        return
    with subprocess.Popen([*command, "--rate", "40"]) as process:
        wait_until(lambda: _records(job) >= _KILLED_AFTER, "records")
        process.send_signal(signal.SIGKILL)


def _requests(job: Path) -> None:
    """A job of another fetcher: of 20 requests on 2 hosts 8 are done, and 4 are out when it is killed."""
    program = """
import sys
from pathlib import Path
from crawler.frontier import Entry, Place
from crawler.found import Brought
from crawler.records import Outcome
from crawler.scrapy.job_settings import settings_of_job
from crawler.scrapy.request_job import Ending, RequestJob

directory = Path(sys.argv[1])
job = RequestJob(directory, settings_of_job(directory, 16, 16, {}))
for number in range(20):
    entry = Entry(f"http://h{number % 2}.test/#r{number}", 1, priority=3)
    job.bring(Brought(f"r{number}", entry, Place(number % 3), f"bytes of r{number}".encode()))
job.flush()
taken = [job.take() for _ in range(12)]
for each in taken[:8]:
    job.end(each, Ending(Outcome.FETCHED, 200))
job.put_note(b"spider", b"corpus")
job.flush()
job.job.close()
"""
    subprocess.run([sys.executable, "-c", program, str(job)], check=True)


def _partition(job: Path, line: int) -> None:
    """Partition 1 of 3, killed in epoch 5: 20 links of a page, of which those for others wait, and parcel 2 of epoch 7
    of partition 0. ``line`` is that of its log, 0: it has none."""
    program = """
import asyncio
import os
import sys
from pathlib import Path
from crawler.found import Found
from crawler.job.job import Job
from crawler.job.platform import Platform
from crawler.partition import Parcel, PartitionRouter, Placement
from crawler.settings import Settings
from crawler.urls import Canonical

router = PartitionRouter(1, Placement(b"secret of corpus", 3))
job = Job(Path(sys.argv[1]), Settings(), 1.0, Platform(line=int(sys.argv[2])), router=router)
asyncio.run(job.begin_epoch(5))
links = [Canonical(f"http://h{number}.test/", f"http://h{number}.test/") for number in range(20)]
job.widen("http://h1.test/")
job.admit(Found(links, 1, "http://a.test/", found_at=1.0))
job.receive(Parcel(0, 1, 7, 1, []), 1.0)
job.receive(Parcel(0, 1, 7, 2, []), 1.0)
os._exit(0)
"""
    subprocess.run([sys.executable, "-c", program, str(job), str(line)], check=True)


def _records(job: Path) -> int:
    pages = job / "pages.jsonl"
    return sum(1 for _ in lines_of(pages)) if pages.exists() else 0


def _pack(job: Path, archive: Path) -> None:
    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if Path(member.name).name.startswith(_LEFT_OUT):
            return None
        member.uid = member.gid = member.mtime = 0
        member.uname = member.gname = ""
        return member

    with tarfile.open(archive, "w:xz" if archive.suffix == ".xz" else "w:gz") as tar:
        tar.add(job, "job", filter=plain)


def _filter(path: Path, kind: str, words: tuple[str, ...]) -> None:
    path.unlink(missing_ok=True)
    command = [sys.executable, "-m", "crawler", "dedup", "--raw", "--filter", str(path)]
    command += ["--seen", kind.partition("-")[0], *words]
    subprocess.run(command, input="\n".join(LINES) + "\n", text=True, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
