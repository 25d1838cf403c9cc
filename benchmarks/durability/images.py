"""Power losses on real file systems: the crawl's disk is an image, and a loss leaves a copy of it.

    python benchmarks/durability/images.py [--losses 120] [--lying] [--output NAMES] [--seed N] [--dir DIR]
        [--out FILE]

The real program crawls a small site; its job has its own ext4 or XFS file system, in an image behind a loop device. At
a random moment the image is cloned in one piece (a reflink, on an XFS that is an image itself): the clone is what the
disk would hold after a power loss. The clone is mounted, so the file system replays its journal, and the same command
resumes the crawl there. This is repeated until the crawl ends. Then ``verify`` reads the job, and the records are
compared with the site: none missing, none twice. Now and then ``crawler add`` adds a URL: what it called safe before a
loss must be fetched too.

There are two kinds of loss. "written": the disk keeps everything that the kernel has sent to it. "flushed": what was
sent but not flushed is lost too. For this the image is in a second file system, whose memory holds what was not
flushed, and the image of that file system is cloned.

With ``--lying`` the program's fsync and fdatasync do nothing (``injector.c``). URLs that ``add`` called safe are then
missing, which shows that this script detects a loss.

Needs Linux, root and loop devices; exits with 77 and the reason where it may not mount. Exits with 1 if anything is
missing, twice or not whole.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import functools
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

from injector import Injector, build

from benchmarks.kit.machine import describe_machine
from tests.jobs import rows, verify
from tests.program import crawler, running
from tests.site import Site, linked, tree

SKIPPED = 77
PACKAGES = ("aiohttp", "rocksdict")
PAGES = 400
ADDED = tuple(f"/added/{number}" for number in range(20))  # pages that only ``add`` leads to
_MORE = 1.1  # a loss comes after so many records more, at most, as its share of what is left: some never come
_BETWEEN = 0.05  # seconds from a record to the loss, at most
LATENCY = 0.02  # seconds, of the site
_OFTEN = "[durability]\nsync_interval = 0.1\ncheckpoint_interval = 0.3\n[seen]\ncapacity = 16\nfpp = 1e-9\n"
_FAST = ("--delay", "0", "--per-host", "4", "--concurrency", "8")
_FICLONE = 0x40049409
_CLONE_NEWNS = 0x20000
_PATIENCE = 60.0
_MIB = 2**20
_HOST = 4096 * _MIB  # bytes, and no more of them are taken than are written


@dataclass(frozen=True, slots=True)
class Disk:
    """A file system under test, and what a loss leaves of it."""

    kind: str
    options: str
    flushed: bool  # only what was flushed

    def __str__(self) -> str:
        return f"{self.kind}{' ' + self.options if self.options else ''}, {'flushed' if self.flushed else 'written'}"


DISKS = (
    Disk("ext4", "", False),
    Disk("ext4", "", True),
    Disk("ext4", "data=writeback", True),
    Disk("xfs", "", False),
    Disk("xfs", "", True),
)
_SIZES = {"ext4": 96 * _MIB, "xfs": 320 * _MIB}
_MAKE = {"ext4": ("mkfs.ext4", "-q", "-F"), "xfs": ("mkfs.xfs", "-q", "-f", "-m", "reflink=1")}


@dataclass
class Account:
    """What became of the crawls on one kind of disk."""

    jobs: int = 0
    losses: int = 0
    missing: int = 0
    twice: int = 0
    unsound: int = 0  # jobs that verify did not call whole at the end
    faults: int = 0  # losses after which verify found a fault, before the crawl carried on
    kinds: Counter[str] = field(default_factory=Counter)  # of these faults
    again: int = 0  # pages asked for more than once
    added: int = 0  # URLs that add called safe


class NotAllowedError(Exception):
    """Here nothing can be mounted; the text says why."""


def call(*words: str | Path) -> None:
    ran = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if ran.returncode:
        raise NotAllowedError(f"{words[0]}: {' '.join(ran.stderr.split()) or ran.returncode}")


def make_image(path: Path, kind: str, size: int) -> None:
    if shutil.which(_MAKE[kind][0]) is None:
        raise SystemExit(f"{_MAKE[kind][0]} is missing: apt-get install e2fsprogs xfsprogs")
    with path.open("wb") as stream:
        stream.truncate(size)
    made = subprocess.run([*_MAKE[kind], str(path)], capture_output=True, text=True, check=False)
    if made.returncode:
        raise SystemExit(f"{_MAKE[kind][0]}: {' '.join(made.stderr.split()) or made.returncode}")


def mount(image: Path, at: Path, options: str = "") -> None:
    at.mkdir(exist_ok=True)
    call("mount", "-o", ",".join(filter(None, ("loop,noatime", options))), image, at)


def unmount(at: Path) -> None:
    """A process that has just been killed may still hold it for a moment."""
    deadline = time.monotonic() + _PATIENCE
    while subprocess.run(["umount", str(at)], capture_output=True, check=False).returncode:
        if time.monotonic() > deadline:
            raise SystemExit(f"{at} is still in use")
        time.sleep(0.05)


@functools.cache
def own_mounts() -> None:
    """What this process and its children mount, only they see; it is gone when they are. Once: children that have
    begun, as those of ``tests/program.py``, would not see what comes in another."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(_CLONE_NEWNS):
        raise NotAllowedError(f"no mount namespace of its own: {os.strerror(ctypes.get_errno())}")
    call("mount", "--make-rprivate", "/")


class Stack:
    """The image under test on a file system that can clone it, with a second one between for losses of the unflushed.

    ``disk`` is where the program sees the file system.
    """

    def __init__(self, home: Path, disk: Disk) -> None:
        self._tested = disk
        self._host, self._between, self.disk = home / "host", home / "between", home / "disk"
        make_image(home / "host.img", "xfs", _HOST)
        mount(home / "host.img", self._host)
        self._cloned = self._host / "now.img"
        if disk.flushed:
            make_image(self._cloned, "ext4", 2 * _SIZES[disk.kind])
            mount(self._cloned, self._between)
            self._image = self._between / "disk.img"
        else:
            self._image = self._cloned
        make_image(self._image, disk.kind, _SIZES[disk.kind])
        mount(self._image, self.disk, disk.options)

    def snapshot(self) -> None:
        """Clone in one piece what a loss at this moment would leave."""
        with self._cloned.open("rb") as source, (self._host / "lost.img").open("wb") as target:
            fcntl.ioctl(target, _FICLONE, source.fileno())

    def lose_power(self) -> None:
        """Go on with the clone, which then replays its journals. Nothing may run on it any more."""
        self._unmount()
        (self._host / "lost.img").replace(self._cloned)
        if self._tested.flushed:
            mount(self._cloned, self._between)
        mount(self._image, self.disk, self._tested.options)

    def _unmount(self) -> None:
        unmount(self.disk)
        if self._tested.flushed:
            unmount(self._between)

    def close(self) -> None:
        self._unmount()
        unmount(self._host)


class Life:
    """One job, from its first start to its end, with losses between."""

    def __init__(self, stack: Stack, site: Site, home: Path, chance: random.Random, flags: Sequence[str] = ()) -> None:
        self._flags = flags
        self._stack, self._site, self._chance = stack, site, chance
        self._pages = {path for path in site.pages if path not in ADDED}
        self._job = stack.disk / "job"
        self._seeds, self._config = home / "seeds.txt", home / "often.toml"
        self._seeds.write_text(site.url("/") + "\n")
        self._config.write_text(_OFTEN)
        self._safe: set[str] = set()
        self._not_added = [*ADDED]

    def _words(self) -> tuple[str | Path, ...]:
        return (
            self._seeds,
            "--job",
            self._job,
            "--config",
            self._config,
            "--allow-private",
            "--quiet",
            *_FAST,
            *self._flags,
        )

    def live(self, account: Account, most: int) -> None:
        """Until it has ended, with ``most`` losses at most. Raises SystemExit where it does not carry on."""
        before = account.losses
        while account.losses - before < most and self._loses():
            account.losses += 1
            if (self._job / "job.json").exists():
                found = verify(self._job)
                account.faults += found.code != 0
                if found.code:
                    account.kinds.update(found.kinds)
                    print(f"found after a loss: {json.dumps(found.findings)}", file=sys.stderr)
        ran = crawler(*self._words(), timeout=_PATIENCE)
        if ran.code:
            raise SystemExit(f"after a loss it ended with {ran.code}: {ran.err}")
        self._account(account)

    def _loses(self) -> bool:
        """Run until a random moment, and lose the power; False if the crawl has come to its end before.

        Moments are told by records: seconds say nothing of how far a crawl has come on a machine that is busy.
        """
        done = self._records()
        moment = done + self._chance.uniform(0, _MORE) * (len(self._pages) - done)
        with running(*self._words()) as process:
            while self._records() < moment and process.poll() is None:
                if self._not_added and self._chance.random() < 0.02 and (self._job / "live.json").exists():
                    self._add(self._not_added.pop())
                time.sleep(0.01)
            time.sleep(self._chance.uniform(0, _BETWEEN))
            if process.poll() is not None:
                if process.returncode:
                    raise SystemExit(f"it ended with {process.returncode}: {process.communicate()[1].decode()}")
                return False
            self._stack.snapshot()
            process.send_signal(signal.SIGKILL)
            process.wait()
        self._stack.lose_power()
        return True

    def _records(self) -> int:
        output = self._job / "pages.jsonl"
        return output.read_bytes().count(b"\n") if output.exists() else 0

    def _add(self, path: str) -> None:
        if crawler("add", self._job, self._site.url(path), "--no-wait").code == 0:
            self._safe.add(path)

    def _account(self, account: Account) -> None:
        lines = Counter(row["url"] for row in rows(self._job))
        wanted = {self._site.url(path) for path in self._pages | self._safe}
        account.jobs += 1
        account.missing += len(wanted - lines.keys())
        account.twice += lines.total() - len(lines)
        account.unsound += verify(self._job).code != 0
        account.added += len(self._safe)
        asked = Counter(self._site.pages_asked())
        account.again += asked.total() - len(asked)
        self._site.asked.clear()


@contextlib.contextmanager
def lying(home: Path | None) -> Iterator[None]:
    """The program's calls of fsync and fdatasync do nothing, wherever its files are."""
    with tempfile.TemporaryDirectory(dir=home) as name:
        library = build(Path(name))
        with Injector(library, Path(name, "control"), home or Path(tempfile.gettempdir())) as injector:
            injector.arm(("fsync", "fdatasync"), 0, lie=True)
            # Programs are forked from a process that was started with these: see tests/program.py.
            os.environ.update(injector.environment)
            yield


_HEADS = ("jobs", "losses", "missing", "twice", "unsound", "again", "added", "faults")


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--losses", type=int, default=120, help="shared by the kinds of disks (120)")
    parser.add_argument("--in-a-life", type=int, default=8, help="losses of one job, at most (8)")
    parser.add_argument("--pages", type=int, default=PAGES, help=f"of the site ({PAGES})")
    parser.add_argument("--output", metavar="NAMES", help="kept besides pages.jsonl, such as warc,links")
    parser.add_argument("--lying", action="store_true", help="fsync does nothing: this must fail")
    parser.add_argument("--seed", type=int, default=1, help="of the moments (1)")
    parser.add_argument("--dir", type=Path, help="where the images are made")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args(words)
    lines = list(describe_machine(PACKAGES))
    lines.append(f"\n{'':<32}" + "".join(f"{head:>9}" for head in _HEADS))
    print("\n".join(lines), flush=True)
    pages = {**tree(chosen.pages), **dict.fromkeys(ADDED, linked(["/"]))}
    accounts, flags = [], ("--output", chosen.output) if chosen.output else ()
    around = contextlib.ExitStack()
    try:
        own_mounts()
        if chosen.lying:
            around.enter_context(lying(chosen.dir))
        for number, disk in enumerate(DISKS):
            share = (chosen.losses * (number + 1)) // len(DISKS) - (chosen.losses * number) // len(DISKS)
            account = Account()
            chance = random.Random(f"{chosen.seed} {disk}")
            with Site(pages, latency=LATENCY) as site:
                while account.losses < share:
                    with tempfile.TemporaryDirectory(dir=chosen.dir) as name:
                        stack = Stack(Path(name), disk)
                        most = min(share - account.losses, chosen.in_a_life)
                        Life(stack, site, Path(name), chance, flags).live(account, most)
                        stack.close()
            accounts.append(account)
            lines.append(_row(str(disk), account))
            print(lines[-1], flush=True)
    except NotAllowedError as error:
        print(error, file=sys.stderr)
        raise SystemExit(SKIPPED) from error
    kinds = sum((account.kinds for account in accounts), Counter[str]())
    told = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common()) or "none"
    lines.append(f"\nkinds of faults: {told}")
    lines.append(
        "again: requests repeated; added: URLs that add had called safe; faults: found by verify after a loss,"
    )
    lines.append("before the same command had carried on")
    print("\n".join(lines[-3:]))
    if chosen.out is not None:
        chosen.out.write_text("\n".join(lines) + "\n")
    if sum(account.missing + account.twice + account.unsound for account in accounts):
        raise SystemExit(1)


def _row(name: str, account: Account) -> str:
    figures = (
        account.jobs,
        account.losses,
        account.missing,
        account.twice,
        account.unsound,
        account.again,
        account.added,
        account.faults,
    )
    return f"{name:<32}" + "".join(f"{figure:>9}" for figure in figures)


if __name__ == "__main__":
    main(sys.argv[1:])
