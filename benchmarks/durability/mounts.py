"""Take a file system away from the running program: read-only, shut down, no inodes or no blocks left.

    python benchmarks/durability/mounts.py [--rounds 5] [--pages 150] [--seed N] [--dir DIR] [--out FILE]

The real program crawls a small site; its job has its own file system, which at a random moment

    read-only   finds an error in itself and becomes read-only (ext4, errors=remount-ro)
    shut down   answers every call with EIO (ext4, XFS)
    inodes      has no inodes left (tmpfs), and some again later
    blocks      has no blocks left (tmpfs, ext4), and some again later

If there is room again, the run should continue. If it cannot, it must end with one line, and the file system is mounted
again. Then the same command finishes the crawl, ``verify`` reads the job, and the records are compared with the
site: none missing, none twice.

Needs Linux, root and loop devices; exits with 77 and the reason where it may not mount. Exits with 1 if anything is
missing, twice or not whole, or a run ends in another way.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from images import SKIPPED, NotAllowedError, call, make_image, mount, own_mounts, unmount

from benchmarks.kit.machine import describe_machine
from tests.jobs import rows, verify
from tests.program import crawler, running
from tests.site import Site, tree

PACKAGES = ("aiohttp", "rocksdict")
PAGES = 150  # of the site
LATENCY = 0.02  # seconds, of the site
_OFTEN = "[durability]\nsync_interval = 0.1\ncheckpoint_interval = 0.3\n[seen]\ncapacity = 16\nfpp = 1e-9\n"
_FAST = ("--delay", "0", "--per-host", "4", "--concurrency", "8")
_FAULTY = 1.0  # seconds from the moment that nothing is left to the moment that there is room
_PATIENCE = 60.0
_SHUTDOWN = 0x8004587D  # ioctl of ext4 and XFS
_WITHOUT_LOG = 2  # EXT4_GOING_FLAGS_NOLOGFLUSH, XFS_FSOP_GOING_FLAGS_NOLOGFLUSH
_MIB = 2**20
_ROOM = 24 * _MIB
_INODES = 400


@dataclass
class Account:
    """What became of the runs of one kind."""

    runs: int = 0
    ended: Counter[int] = field(default_factory=Counter)  # exit codes of the spoilt runs
    missing: int = 0
    twice: int = 0
    unsound: int = 0
    said: str = ""  # the last line of the last of them
    wrong: list[str] = field(default_factory=list)


class Disk:
    """A file system for one job, at ``self.at``."""

    def __init__(self, home: Path, kind: str) -> None:
        self.at, self._kind, self._image = home / "disk", kind, home / "disk.img"
        self.at.mkdir()
        if kind == "tmpfs":
            call("mount", "-t", "tmpfs", "-o", f"size={_ROOM},nr_inodes={_INODES}", "crawl", self.at)
        else:
            make_image(self._image, kind, (320 if kind == "xfs" else 48) * _MIB)
            self._mount()

    def _mount(self) -> None:
        mount(self._image, self.at, "errors=remount-ro" if self._kind == "ext4" else "")

    def anew(self) -> None:
        """Mount it again, as after a restart of the machine."""
        if self._kind != "tmpfs":
            unmount(self.at)
            if self._kind == "ext4":
                # Exit code 1: it has mended something.
                subprocess.run(["e2fsck", "-p", str(self._image)], capture_output=True, check=False)
            self._mount()

    def close(self) -> None:
        unmount(self.at)

    # -- what happens to it; each returns what brings room back, or None -----------------------------------------------

    def go_read_only(self) -> None:
        device = Path(os.path.realpath(f"/sys/dev/block/{os.major(self._number())}:{os.minor(self._number())}")).name
        Path("/sys/fs/ext4", device, "trigger_fs_error").write_text("a test of what runs on it")

    def _number(self) -> int:
        return self.at.stat().st_dev

    def shut_down(self) -> None:
        there = os.open(self.at, os.O_RDONLY)
        try:
            fcntl.ioctl(there, _SHUTDOWN, struct.pack("I", _WITHOUT_LOG))
        finally:
            os.close(there)

    def take_inodes(self) -> Callable[[], None]:
        """All that are left."""
        taken = self.at / "taken"
        taken.mkdir()
        number = 0
        try:
            while True:
                (taken / str(number)).touch()
                number += 1
        except OSError:
            return lambda: shutil.rmtree(taken)

    def take_blocks(self) -> Callable[[], None]:
        """All that are left."""
        taken = self.at / "taken"
        with taken.open("wb", buffering=0) as stream:
            for size in (_MIB, 4096, 1):
                try:
                    while stream.write(b"x" * size):
                        pass
                except OSError:
                    continue
        return taken.unlink


KINDS: tuple[tuple[str, str, Callable[[Disk], Callable[[], None] | None]], ...] = (
    ("ext4", "read-only", Disk.go_read_only),
    ("ext4", "shut down", Disk.shut_down),
    ("xfs", "shut down", Disk.shut_down),
    ("tmpfs", "inodes", Disk.take_inodes),
    ("tmpfs", "blocks", Disk.take_blocks),
    ("ext4", "blocks", Disk.take_blocks),
)


def spoil(
    disk: Disk,
    happen: Callable[[Disk], Callable[[], None] | None],
    site: Site,
    home: Path,
    moment: float,
    account: Account,
) -> None:
    """One job: run it, let it happen, carry on, compare. ``moment``: the share of the pages that is done by then."""
    job, seeds, config = disk.at / "job", home / "seeds.txt", home / "often.toml"
    seeds.write_text(site.url("/") + "\n")
    config.write_text(_OFTEN)
    words = (seeds, "--job", job, "--config", config, "--allow-private", "--quiet", *_FAST)
    output = job / "pages.jsonl"
    with running(*words) as process:
        while not output.exists() or output.read_bytes().count(b"\n") < moment * len(site.pages):
            if process.poll() is not None:
                raise SystemExit(f"it ended before anything happened: {process.communicate()[1].decode()}")
            time.sleep(0.002)
        room = happen(disk)
        if room is not None:
            time.sleep(_FAULTY)
            room()
        try:
            code = process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            account.wrong.append("it hung")
            code = 0
        process.kill()
        said = process.communicate()[1].decode("utf-8", "replace")
    account.runs += 1
    account.ended[code] += 1
    account.said = (said.strip().splitlines() or [""])[-1].replace(str(disk.at), "DISK")
    if code not in (0, 1) or "Traceback" in said or (code and room is not None):
        account.wrong.append(f"it ended with {code}: {said[-400:]}")
    disk.anew()
    after = crawler(*words, timeout=_PATIENCE)
    if after.code:
        account.wrong.append(f"carrying on: exit {after.code}: {after.err[-400:]}")
    found = Counter(row["url"] for row in rows(job))
    account.missing += len({site.url(path) for path in site.pages} - found.keys())
    account.twice += found.total() - len(found)
    account.unsound += verify(job).code != 0


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="of each kind (5)")
    parser.add_argument("--pages", type=int, default=PAGES, help=f"of the site ({PAGES})")
    parser.add_argument("--seed", type=int, default=1, help="of the moments (1)")
    parser.add_argument("--dir", type=Path, help="where the images are made")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args(words)
    chance = random.Random(chosen.seed)
    lines = list(describe_machine(PACKAGES))
    lines.append(f"\n{'':<20}{'runs':>6}{'missing':>9}{'twice':>7}{'unsound':>9}  exits and what the last one said")
    print("\n".join(lines), flush=True)
    wrong: list[str] = []
    try:
        own_mounts()
        for kind, what, happen in KINDS:
            account = Account()
            with Site(tree(chosen.pages), latency=LATENCY) as site:
                for _ in range(chosen.rounds):
                    with tempfile.TemporaryDirectory(dir=chosen.dir) as name:
                        disk = Disk(Path(name), kind)
                        spoil(disk, happen, site, Path(name), chance.uniform(0.05, 0.8), account)
                        disk.close()
            lines.append(_row(f"{kind}, {what}", account))
            print(lines[-1], flush=True)
            wrong += [f"{kind}, {what}: {each}" for each in account.wrong]
            if account.missing or account.twice or account.unsound:
                wrong.append(f"{kind}, {what}: the contract was broken")
    except NotAllowedError as error:
        print(error, file=sys.stderr)
        raise SystemExit(SKIPPED) from error
    print("\n".join(wrong))
    if chosen.out is not None:
        chosen.out.write_text("\n".join([*lines, *wrong]) + "\n")
    if wrong:
        raise SystemExit(1)


def _row(name: str, account: Account) -> str:
    ended = ", ".join(f"{count} x {code}" for code, count in sorted(account.ended.items()))
    figures = f"{account.runs:>6}{account.missing:>9}{account.twice:>7}{account.unsound:>9}"
    return f"{name:<20}{figures}  {ended}  {account.said}"


if __name__ == "__main__":
    main(sys.argv[1:])
