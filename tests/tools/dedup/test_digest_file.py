"""``crawler dedup --filter`` rebuilds its chain from the digests beside FILE: the same answers, whatever happened."""

from __future__ import annotations

import json
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from crawler.seen.filters import DIGEST_BYTES, ScalableBloomFilter
from crawler.tools.dedup.digest_file import MAGIC, DigestFile, Mark
from tests.documents import page
from tests.hashing import HASH, random_digests
from tests.program import ROOT, wait_until
from tests.small_disk import small_disk
from tests.tools.dedup.commands import Commands
from tests.tools.dedup.test_dedup import stream

SMALL = ("--raw", "--capacity", "500", "--fpp", "1e-9")  # no key of a test is called seen by chance
HEAD = len(MAGIC) + 16


def lines(start: int, stop: int) -> list[bytes]:
    return [b"line %d" % number for number in range(start, stop)]


def text(start: int, stop: int) -> bytes:
    return b"".join(line + b"\n" for line in lines(start, stop))


def slices(run: Commands, file: Path) -> list[int]:
    """How many keys each slice holds."""
    told = json.loads(run("filter", "info", file, "--json").out)
    return [part["count"] for part in told["slices"]]


def digests_in(file: Path) -> int:
    return (file.with_name(file.name + ".digests").stat().st_size - HEAD) // DIGEST_BYTES


def test_a_chain_becomes_one_slice_and_gives_the_same_answers(run: Commands, tmp_path: Path) -> None:
    file = tmp_path / "seen"
    assert run("dedup", "--filter", file, *SMALL, data=text(0, 30_000)).out == text(0, 30_000)
    assert slices(run, file) == [30_000]
    assert digests_in(file) == 30_000
    assert stat.S_IMODE((tmp_path / "seen.digests").stat().st_mode) == 0o600
    assert run("dedup", "--filter", file, data=text(10_000, 40_000)).out == text(30_000, 40_000)
    assert digests_in(file) == 40_000
    assert run("dedup", "--filter", file, data=text(0, 41_000)).out == text(40_000, 41_000)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["seen", "seen.digests"]
    assert len(run("filter", "check", file, data=text(0, 50_000)).out.splitlines()) == 41_000


# -- interrupted, killed, full ---------------------------------------------------------------------------------


def test_digests_of_keys_that_file_does_not_hold_are_cut_off(run: Commands, tmp_path: Path) -> None:
    """Killed after the digests were appended and before FILE was stored."""
    file, beside = tmp_path / "seen", tmp_path / "seen.digests"
    run("dedup", "--filter", file, *SMALL, data=text(0, 400))
    with beside.open("ab") as out:
        out.write(random_digests(1, 300) + b"torn")
    assert run("dedup", "--filter", file, data=text(0, 5_000)).out == text(400, 5_000)
    assert (digests_in(file), slices(run, file)) == (5_000, [5_000])
    assert run("dedup", "--filter", file, data=text(0, 5_000)).out == b""


def stored_after(file: Path, time: int) -> bool:
    return file.exists() and file.stat().st_mtime_ns > time


def test_killed_again_and_again_it_prints_each_line_and_ends_as_one_slice(run: Commands, tmp_path: Path) -> None:
    file, config = tmp_path / "seen", tmp_path / "often.toml"
    config.write_text("[durability]\ncheckpoint_interval = 0.001\n")
    printed: set[bytes] = set()
    for end in range(15_000, 90_000, 15_000):
        before = file.stat().st_mtime_ns if file.exists() else 0
        with stream("--filter", file, *SMALL, "--config", config) as running:
            running.feed(text(0, end))
            wait_until(
                lambda running=running, before=before: running.drained() and stored_after(file, before),
                "it was stored once more",
            )
            running.end(signal.SIGKILL)
            printed.update(running.printed.splitlines())
    ended = run("dedup", "--filter", file, *SMALL, "--config", config, data=text(0, 90_000))
    assert ended.code == 0
    assert printed | set(ended.out.splitlines()) >= set(lines(0, 90_000))
    assert len(ended.out.splitlines()) < 90_000, "what was stored was of use"
    assert slices(run, file) == [90_000]
    assert digests_in(file) == 90_000
    assert run("dedup", "--filter", file, data=text(0, 90_000)).out == b""


def test_a_signal_does_not_wait_for_the_rebuilding(run: Commands, tmp_path: Path) -> None:
    file = tmp_path / "seen"
    run("dedup", "--filter", file, *SMALL, data=text(0, 100))
    words = [sys.executable, "-m", "crawler", "dedup", "--filter", str(file)]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(text(100, 3_000))
        process.stdin.flush()
        assert [process.stdout.readline() for _ in range(2_900)] == text(100, 3_000).splitlines(keepends=True)
        process.send_signal(signal.SIGINT)
        # The end of the input would be another reason to end.
        assert process.wait(30) == 130
    assert sum(slices(run, file)) == 3_000
    assert run("dedup", "--filter", file, data=text(0, 3_001)).out == text(3_000, 3_001)
    assert slices(run, file) == [3_001]


def test_on_a_full_disk_it_stops_and_carries_on_when_there_is_room(run: Commands, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 4) as disk:
        file = disk.path / "seen"
        assert run("dedup", "--filter", file, *SMALL, data=text(0, 2_000)).code == 0
        disk.fill()
        disk.leave(100_000)
        ended = run("dedup", "--filter", file, data=text(0, 100_000))
        assert ended.code == 1
        disk.free()
        again = run("dedup", "--filter", file, data=text(0, 100_000))
        assert again.code == 0
        assert again.out == text(2_000, 100_000), "printed again: FILE was not stored"
        assert slices(run, file) == [100_000]
        assert digests_in(file) == 100_000


# -- not the file of this filter -------------------------------------------------------------------------------


def test_digests_that_were_changed_are_noticed_before_they_are_used(run: Commands, tmp_path: Path) -> None:
    file, beside = tmp_path / "seen", tmp_path / "seen.digests"
    run("dedup", "--filter", file, *SMALL, data=text(0, 400))
    data = bytearray(beside.read_bytes())
    data[HEAD + 16 * 37] ^= 1
    beside.write_bytes(data)
    ended = run("dedup", "--filter", file, data=text(0, 9_000))
    assert (ended.code, ended.out) == (0, text(400, 9_000))
    assert len(slices(run, file)) > 1
    assert run("dedup", "--filter", file, data=text(0, 9_000)).out == b""


def test_a_file_of_something_else_is_not_overwritten(run: Commands, tmp_path: Path) -> None:
    beside = tmp_path / "seen.digests"
    beside.write_bytes(b"my digests of literature")
    run.refused("dedup", "--filter", tmp_path / "seen", told=(str(beside), "move it"))
    assert beside.read_bytes() == b"my digests of literature"
    beside.write_bytes(MAGIC + bytes(16) + b"of a run that was killed before it stored FILE")
    assert run("dedup", "--filter", tmp_path / "seen", *SMALL, data=text(0, 9)).out == text(0, 9)
    assert digests_in(tmp_path / "seen") == 9


@pytest.mark.parametrize("mark", [{"id": 3}, {"id": "00", "count": -1, "crc32c": 0}, {"id": "00", "count": 1}])
def test_a_damaged_mark_is_an_error(run: Commands, tmp_path: Path, mark: dict[str, object]) -> None:
    seen = ScalableBloomFilter(0.01, 100, hash=HASH)
    with (tmp_path / "seen").open("wb") as out:
        seen.write_to(out, {"digests": mark})  # type: ignore[dict-item]
    run.refused("dedup", "--raw", "--filter", tmp_path / "seen", told=("mark of its digests is damaged",))


def test_the_example_of_the_format(tmp_path: Path) -> None:
    described = page("format-slice.md").split("## Digests next to a filter")[1]
    rows = re.findall(r"^    ([0-9a-f]{16,} [0-9a-f]+)$", described, re.MULTILINE)
    (tmp_path / "digests").write_bytes(bytes.fromhex("".join(rows)))
    mark = Mark.from_json(json.loads(re.findall(r"^    (\{.*\})$", described, re.MULTILINE)[0]))
    read = DigestFile.resume(tmp_path / "digests", mark)
    assert read.read(0, 9) == bytes(range(0x11, 0x31))
    read.close()
    made = DigestFile.create(tmp_path / "made")
    made.append(bytes(range(0x11, 0x31)))
    assert (made.mark.count, made.mark.checksum) == (mark.count, mark.checksum)
    assert (tmp_path / "made").stat().st_size == (tmp_path / "digests").stat().st_size
    made.close()


# -- in pieces -------------------------------------------------------------------------------------------------
