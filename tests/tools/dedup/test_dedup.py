"""``crawler dedup``: what comes out and when, its signals, and its file."""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.program import PATIENCE, ROOT, Ran, wait_until
from tests.tools.dedup.commands import Commands


class Stream:
    """A running ``crawler dedup`` that is fed by hand."""

    def __init__(self, *words: str | Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "crawler", "dedup", *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._in, self._out = self.process.stdin.fileno(), self.process.stdout.fileno()
        self.printed = b""

    def feed(self, data: bytes) -> None:
        """Write it and read what comes out meanwhile, so that neither side waits for the other for ever."""
        os.set_blocking(self._in, False)
        view = memoryview(data)
        while view:
            readable, writable, _ = select.select([self._out], [self._in], [], PATIENCE)
            assert readable or writable, "stuck"
            if readable:
                self.printed += os.read(self._out, 2**16)
            if writable:
                view = view[os.write(self._in, view) :]

    def expect(self, lines: int) -> None:
        """Wait until so many lines in all came out."""
        while self.printed.count(b"\n") < lines:
            assert select.select([self._out], [], [], PATIENCE)[0], f"only {self.printed[-200:]!r} came out"
            piece = os.read(self._out, 2**16)
            assert piece, self.process.communicate()[1]
            self.printed += piece

    def drained(self) -> bool:
        """Take what is there to be read; true, as nothing is left of it."""
        while select.select([self._out], [], [], 0)[0]:
            piece = os.read(self._out, 2**16)
            assert piece, self.process.communicate()[1]
            self.printed += piece
        return True

    def end(self, number: signal.Signals | None = None) -> Ran:
        if number is not None:
            self.process.send_signal(number)
            self.process.wait()
        rest, told = self.process.communicate()
        self.printed += rest
        return Ran(self.process.returncode, self.printed.decode("utf-8", "replace"), told.decode())


@contextmanager
def stream(*words: str | Path) -> Iterator[Stream]:
    made = Stream(*words)
    try:
        yield made
    finally:
        if made.process.poll() is None:
            made.process.kill()
            made.process.communicate()


def lines_of(data: bytes) -> list[bytes]:
    return data.removesuffix(b"\n").split(b"\n") if data else []


def first_ones(lines: list[bytes]) -> list[bytes]:
    return list(dict.fromkeys(lines))


# -- what comes out --------------------------------------------------------------------------------------------


def test_new_raw_lines_come_out_in_order_whatever_their_bytes(run: Commands) -> None:
    pick = random.Random(7)
    pool = [pick.randbytes(pick.randrange(40)).replace(b"\n", b"") for _ in range(3000)]
    lines = [pick.choice(pool) for _ in range(40_000)]
    # Without its last line feed the last line is one all the same.
    lines.append(b"\xff last")
    code, out, told = run("dedup", "--raw", "--seen", "digest", data=b"\n".join(lines))
    assert code == 0
    expected = first_ones(lines)
    assert lines_of(out) == expected
    assert out.endswith(b"\xff last\n")
    assert f"40,001 raw lines: {len(expected):,} new, {40_001 - len(expected):,} seen before" in told


def test_urls_are_compared_by_their_key_and_printed_as_they_came(run: Commands) -> None:
    lines = [
        b"http://a.test/",
        b"HTTP://A.test:80/#top",
        b"http://a.test/%7eb\r",
        b"http://a.test/~b",
        b"https://a.test/",
        b"no url",
        b"mailto:a@b.test",
        b"",
        b"http://a.test/\xff\xfe",
        "http://a.test/\u00e4".encode(),
        b"http://a.test/%C3%A4",
        b"http://a.test/c",
    ]
    code, out, told = run("dedup", data=b"\n".join(lines) + b"\n")
    assert code == 0
    assert lines_of(out) == [lines[0], lines[2], lines[4], lines[9], lines[11]]
    assert "8 URLs: 5 new, 3 seen before" in told
    assert "4 lines skipped" in told
    for reason in ("1 relative URL without a base", "1 not http or https", "1 empty line", "1 not UTF-8"):
        assert reason in told


def test_rules_of_the_configuration_decide_the_key(run: Commands, tmp_path: Path) -> None:
    config = tmp_path / "rules.toml"
    config.write_text("[canonical]\nrules = ['drop-www']\n")
    code, out, told = run("dedup", "--config", config, data=b"http://www.a.test/\nhttp://a.test/\n")
    assert (code, out) == (0, b"http://www.a.test/\n")
    assert "2 URLs by the rules drop-www: 1 new" in told


# -- streaming -------------------------------------------------------------------------------------------------


def test_a_slow_producer_s_line_comes_out_before_the_next_is_written() -> None:
    with stream("--raw") as running:
        for number in range(20):
            running.feed(b"line %d\n" % (number // 2))
            running.expect(number // 2 + 1)
        running.feed(b"half a")
        running.feed(b" line\n")
        running.expect(11)
        assert running.process.stdin is not None
        running.process.stdin.close()
        running.process.stdin = None
        ran = running.end()
    assert ran.code == 0
    assert ran.out.splitlines() == [f"line {number}" for number in range(10)] + ["half a line"]


# -- keeping the seen-set --------------------------------------------------------------------------------------


def test_a_run_carries_on_where_the_last_one_ended(run: Commands, tmp_path: Path) -> None:
    file = tmp_path / "seen"
    first = [b"http://a.test/%d" % number for number in range(3000)]
    second = [b"http://a.test/%d" % number for number in range(2000, 5000)]
    small = ("--capacity", "500", "--fpp", "1e-6")
    assert lines_of(run("dedup", "--filter", file, *small, data=b"\n".join(first))[1]) == first
    code, out, told = run("dedup", "--filter", file, data=b"\n".join(second))
    assert code == 0
    assert lines_of(out) == second[1000:]
    assert "5,000 keys" in told
    assert run("dedup", "--filter", file, *small, data=b"\n".join(first + second))[1] == b""
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["seen", "seen.digests"], "nothing else is left beside it"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_keeps_what_was_printed_and_only_that(run: Commands, tmp_path: Path, number: signal.Signals) -> None:
    lines = [b"http://a.test/%d" % line for line in range(50_000)]
    with stream("--filter", tmp_path / "seen") as running:
        running.feed(b"\n".join(lines[:20_000]) + b"\nhttp://a.test/200")
        running.expect(20_000)
        ran = running.end(number)
    assert ran.code == 130
    assert "20,000 URLs: 20,000 new" in ran.err
    code, out, _ = run("dedup", "--filter", tmp_path / "seen", data=b"\n".join(lines))
    assert code == 0
    assert lines_of(out) == lines[20_000:]


def test_a_signal_in_a_flood_keeps_what_was_printed_and_only_that(run: Commands, tmp_path: Path) -> None:
    data = b"".join(b"http://a.test/%d\n" % line for line in range(400_000))
    (tmp_path / "list").write_bytes(data)
    with open(tmp_path / "list", "rb") as lines, open(tmp_path / "out", "wb") as out:
        words = [sys.executable, "-m", "crawler", "dedup", "--filter", str(tmp_path / "seen")]
        process = subprocess.Popen(words, stdin=lines, stdout=out, stderr=subprocess.PIPE, cwd=ROOT)
        wait_until(lambda: (tmp_path / "out").stat().st_size > 0, "lines come out")
        process.send_signal(signal.SIGINT)
        _, told = process.communicate()
    assert process.returncode in (0, 130), told
    printed = (tmp_path / "out").read_bytes()
    code, rest, _ = run("dedup", "--filter", tmp_path / "seen", data=data)
    assert code == 0
    both = lines_of(printed) + lines_of(rest)
    assert len(both) == len(set(both)), "none twice"
    assert len(both) >= 0.999 * 400_000
    assert set(both) <= set(lines_of(data))


def test_killed_half_way_nothing_is_missing_from_both_outputs(run: Commands, tmp_path: Path) -> None:
    config = tmp_path / "often.toml"
    config.write_text("[durability]\ncheckpoint_interval = 0.001\n")
    lines = [b"http://a.test/%d" % (line // 2) for line in range(60_000)]
    printed: list[bytes] = []
    for size in (15_000, 30_000):
        with stream("--filter", tmp_path / "seen", "--seen", "digest", "--config", config) as running:
            running.feed(b"\n".join(lines[:size]) + b"\n")
            wait_until(lambda: running.drained() and (tmp_path / "seen").exists(), "it was stored once")
            running.end(signal.SIGKILL)
            printed += lines_of(running.printed)
    code, out, _ = run("dedup", "--filter", tmp_path / "seen", "--config", config, data=b"\n".join(lines))
    assert code == 0
    assert set(lines_of(out)) | set(printed) >= set(lines)
    assert len(lines_of(out)) < len(set(lines)), "what was stored was of use"
    assert run("dedup", "--filter", tmp_path / "seen", data=b"\n".join(lines))[1] == b""
    assert not (tmp_path / "seen.lock").exists()


def test_two_runs_cannot_use_one_file(run: Commands, tmp_path: Path) -> None:
    with stream("--filter", tmp_path / "seen") as running:
        running.feed(b"http://a.test/\n")
        running.expect(1)
        code, out, told = run("dedup", "--filter", tmp_path / "seen", data=b"http://a.test/\n")
        assert (code, out) == (2, b"")
        assert f"in use by process {running.process.pid}" in told
        running.end(signal.SIGTERM)
    assert run("dedup", "--filter", tmp_path / "seen", data=b"http://a.test/\n")[:2] == (0, b"")


def test_an_idle_stream_stores_what_it_printed(run: Commands, tmp_path: Path) -> None:
    config = tmp_path / "often.toml"
    config.write_text("[durability]\ncheckpoint_interval = 0.05\n")
    with stream("--filter", tmp_path / "seen", "--config", config) as running:
        running.feed(b"http://a.test/\n")
        running.expect(1)
        wait_until((tmp_path / "seen").exists, "stored while nothing comes")
        running.end(signal.SIGKILL)
    assert run("dedup", "--filter", tmp_path / "seen", data=b"http://a.test/\nhttp://b.test/")[1] == b"http://b.test/\n"


# -- what cannot be meant --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--fpp", "0"), ("seen.fpp", "between 0 and 1")),
        (("--seen", "bloom", "--capacity", "1000000000000"), ("bytes of memory", "are free")),
        (("--filter", "/does/not/exist"), ("cannot write filter",)),
        (("--filter", "/dev/null"), ("/dev/null",)),
    ],
)
def test_flags_that_cannot_be_meant(run: Commands, words: tuple[str, ...], told: tuple[str, ...]) -> None:
    run.refused("dedup", *words, told=told)


def test_what_shaped_the_file_cannot_change(run: Commands, tmp_path: Path) -> None:
    file = tmp_path / "seen"
    run("dedup", "--filter", file, "--fpp", "0.01", "--capacity", "1000", data=b"http://a.test/\n")
    before = file.read_bytes()
    config = tmp_path / "rules.toml"
    config.write_text("[canonical]\nrules = ['drop-www']\n[seen]\nfpp = 0.02\n")
    for words, told in (
        (("--fpp", "0.002"), ("--fpp 0.002", "fpp 0.01")),
        (("--capacity", "999"), ("--capacity 999", "capacity 1000")),
        (("--seen", "cuckoo"), ("--seen cuckoo", "kind scalable")),
        (("--raw",), ("holds URLs, not raw lines",)),
        (("--config", config), ("seen.fpp", "0.02", "0.01")),
        (("--config", config, "--fpp", "0.01"), ("not URLs by the rules drop-www",)),
    ):
        run.refused("dedup", "--filter", file, *words, told=told)
    assert file.read_bytes() == before
    same = run("dedup", "--filter", file, "--fpp", "1e-2", "--no-raw", "--seen", "scalable", data=b"http://a.test/\n")
    assert same[:2] == (0, b"")


def test_damaged_foreign_and_newer_files_are_named_and_left_alone(run: Commands, tmp_path: Path) -> None:
    file = tmp_path / "seen"
    run("dedup", "--filter", file, "--capacity", "100", data=b"http://a.test/\n")
    good = file.read_bytes()
    damages = {
        b"": "truncated at offset 0",
        good[:-1]: "truncated",
        good[: len(good) // 2]: "truncated",
        good[:300] + bytes([good[300] ^ 1]) + good[301:]: "damaged",
        good[:-1] + bytes([good[-1] ^ 1]): "damaged",
        b"PK\3\4" + good[4:]: "not a segment",
        good[:8] + b"\3" + good[9:]: "version 3",
        good + b"x": "more data after",
    }
    for data, told in damages.items():
        file.write_bytes(data)
        run.refused("dedup", "--filter", file, told=(str(file), told))
        assert file.read_bytes() == data
    file.write_bytes(good)
    assert run("dedup", "--filter", file, data=b"http://a.test/\n")[:2] == (0, b"")
