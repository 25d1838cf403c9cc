"""``crawler filter`` and ``crawler plan``."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from crawler.base.settings.parts import SEEN_KINDS, SeenSettings
from crawler.seen.filters import read_seen
from crawler.seen.filters.guava import GuavaBloomFilter, guava_size
from crawler.tools.dedup import build as building
from crawler.tools.dedup.build import BuildError, Recipe, build_from_file
from crawler.tools.dedup.filter_setup import make_filter
from crawler.tools.dedup.key_spec import KeySpec, split_lines
from crawler.tools.dedup.lines import LineTooLongError, Splitter, count_lines, part_of_file
from tests.examples import TIMES
from tests.hashing import HASH
from tests.program import ROOT, wait_until
from tests.tools.dedup.commands import Commands


def urls(count: int, start: int = 0) -> list[bytes]:
    return [b"http://site%d.test/page/%d" % (number % 97, number) for number in range(start, start + count)]


def write_list(path: Path, lines: list[bytes]) -> Path:
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


# -- lines -----------------------------------------------------------------------------------------------------

pieces_of_text = st.lists(st.sampled_from([b"", b"a", b"bc", b"\n", b"\n\n", b"x" * 40]), max_size=20)


@settings(max_examples=33 * TIMES)
@given(pieces=pieces_of_text, cuts=st.lists(st.integers(0, 60), max_size=6))
@example(pieces=[b"a\nb\n"], cuts=[1, 2, 3])
def test_parts_of_a_file_that_join_cover_every_line_once(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], cuts: list[int]
) -> None:
    text = b"".join(pieces)
    path = tmp_path_factory.getbasetemp() / "parts"
    path.write_bytes(text)
    ends = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    fd = os.open(path, os.O_RDONLY)
    try:
        blocks = [block for i in range(len(ends) - 1) for block in part_of_file(fd, ends[i], ends[i + 1])]
        assert count_lines(fd) == len(split_lines(text))
    finally:
        os.close(fd)
    assert b"".join(blocks) == text
    assert [line for block in blocks for line in split_lines(block)] == split_lines(text)


# -- building --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "raw"),
    [("bloom", False), ("bitmap", False), ("scalable", False), ("scalable", True), ("digest", True), ("cuckoo", False)],
)
def test_two_processes_give_the_answers_of_one(tmp_path: Path, kind: str, raw: bool) -> None:
    pick = random.Random(3)
    inside = urls(6000)
    lines = inside + [pick.choice(inside) for _ in range(3000)] + [b"no url \xff"] * 3
    pick.shuffle(lines)
    path = write_list(tmp_path / "list", lines)
    recipe = Recipe(KeySpec(raw=raw), SeenSettings(kind=kind, capacity=2000, fpp=0.0001), HASH)
    if kind in ("bloom", "bitmap"):
        recipe = Recipe(KeySpec(raw=raw), SeenSettings(kind=kind, capacity=8000, fpp=0.01), HASH)
    alone, told = build_from_file(path, recipe, 1)
    both, told_both = build_from_file(path, recipe, 2)
    assert (told_both.lines, told_both.skipped) == (told.lines, told.skipped)
    assert told.skipped.total() == (0 if raw else 3)
    assert all(both.contains_many([line.decode() for line in inside]))
    one, other = alone.snapshot(), both.snapshot()
    assert one.state == other.state
    assert [bytes(part.buffer) for part in one.segments] == [bytes(part.buffer) for part in other.segments]


def test_a_built_filter_seeds_dedup(tmp_path: Path, run: Commands) -> None:
    write_list(tmp_path / "list", urls(5000))
    ended = run("filter", "build", tmp_path / "seen", "--from", tmp_path / "list", "--keys", "20000", "--jobs", "2")
    assert ended.code == 0, ended.err
    assert "5,000 URLs read" in ended.err
    ended = run("dedup", "--filter", tmp_path / "seen", data=b"\n".join(urls(6000)))
    assert ended.code == 0
    assert set(split_lines(ended.out)) <= set(urls(6000)[5000:])
    assert len(split_lines(ended.out)) >= 990
    assert "bloom" in ended.err


def test_a_list_through_a_pipe(tmp_path: Path, run: Commands) -> None:
    data = b"\n".join(urls(2000))
    os.mkfifo(tmp_path / "pipe")
    feeding = subprocess.Popen(["sh", "-c", f"cat > {tmp_path / 'pipe'}"], stdin=subprocess.PIPE)
    run.refused(
        "filter", "build", tmp_path / "a", "--from", "-", "--keys", "5000", "--jobs", "2", told=("--jobs", "pipe")
    )
    run.refused("filter", "build", tmp_path / "a", "--from", "-", told=("--keys",))
    ended = run("filter", "build", tmp_path / "a", "--from", "-", "--keys", "5000", "--jobs", "1", data=data)
    assert ended.code == 0, ended.err
    assert feeding.stdin is not None
    feeding.stdin.close()
    feeding.kill()
    feeding.wait()
    assert len(split_lines(run("filter", "check", tmp_path / "a", data=data).out)) == 2000


def test_an_interrupted_build_leaves_no_process_and_no_file(tmp_path: Path) -> None:
    write_list(tmp_path / "list", urls(100_000))
    words = [sys.executable, "-m", "crawler", "filter", "build", str(tmp_path / "seen"), "--jobs", "2"]
    process = subprocess.Popen([*words, "--from", str(tmp_path / "list")], stderr=subprocess.PIPE, cwd=ROOT)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    wait_until(lambda: len(children.read_text().split()) == 2, "two processes work")
    started = children.read_text().split()
    process.send_signal(signal.SIGINT)
    _, told = process.communicate()
    assert process.returncode == 130, told
    assert b"Traceback" not in told
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in started), "both ended")
    assert [path.name for path in tmp_path.iterdir()] == ["list"]


def test_a_process_that_dies_ends_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_list(tmp_path / "list", urls(1000))
    monkeypatch.setattr(building, "part_of_file", lambda *_: os._exit(7))
    for kind in ("bloom", "digest"):
        with pytest.raises(BuildError, match="ended with exit code 7"):
            build_from_file(tmp_path / "list", Recipe(KeySpec(), SeenSettings(kind=kind), HASH), 2)


def test_an_error_of_a_process_is_that_of_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_list(tmp_path / "list", urls(1000))
    monkeypatch.setattr(building, "part_of_file", lambda *_: Splitter(5).feed(b"a long line"))
    with pytest.raises(LineTooLongError, match="longer than 5 bytes"):
        build_from_file(tmp_path / "list", Recipe(KeySpec(), SeenSettings(), HASH), 2)


# -- merging and looking ---------------------------------------------------------------------------------------


def build(run: Commands, path: Path, lines: list[bytes], *words: str) -> Path:
    write_list(path.with_suffix(".list"), lines)
    ended = run("filter", "build", path, "--from", path.with_suffix(".list"), *words)
    assert ended.code == 0, ended.err
    return path


def test_merged_filters_hold_what_each_held(tmp_path: Path, run: Commands) -> None:
    first = build(run, tmp_path / "f0", urls(1000), "--keys", "5000")
    options = ("--keys", "5000", "--secret-of", str(first))
    parts = [first, *(build(run, tmp_path / f"f{i}", urls(1000, i * 1000), *options) for i in (1, 2))]
    assert run("filter", "merge", tmp_path / "all", *parts).code == 0
    data = b"\n".join(urls(10_000))
    held = split_lines(run("filter", "check", tmp_path / "all", data=data).out)
    assert held[:3000] == urls(3000)
    assert len(held) <= 3000 + 30
    info = json.loads(run("filter", "info", tmp_path / "all", "--json").out)
    assert info["count"] == pytest.approx(3000, rel=0.02)
    assert info["keys"] == {"from": "urls", "rules": []}
    assert info["parameters"]["capacity"] == 5000
    whole = build(run, tmp_path / "whole", urls(3000), *options)
    with open(tmp_path / "all", "rb") as one, open(whole, "rb") as other:
        merged, built = read_seen(one, limit=2**20), read_seen(other, limit=2**20)
    agree = sum(
        a == b
        for a, b in zip(*(seen.contains_many(list(map(str, range(9999)))) for seen in (merged, built)), strict=True)
    )
    assert agree >= 9990


def test_filters_that_differ_are_not_merged_and_what_differs_is_named(tmp_path: Path, run: Commands) -> None:
    one = build(run, tmp_path / "one", urls(100))
    others = {
        "fpp (0.001 and 0.01)": build(run, tmp_path / "fpp", urls(100), "--fpp", "0.01"),
        "capacity (100 and 200)": build(run, tmp_path / "keys", urls(100), "--keys", "200"),
        "layout (paired and classic)": build(run, tmp_path / "layout", urls(100), "--layout", "classic"),
        "kind (bloom and bitmap)": build(run, tmp_path / "kind", urls(100), "--seen", "bitmap"),
        "holds raw lines": build(run, tmp_path / "raw", urls(100), "--raw"),
        "kind (bloom and scalable)": build(run, tmp_path / "chain", urls(100), "--seen", "scalable"),
    }
    for told, other in others.items():
        run.refused(
            "filter", "merge", tmp_path / "out", one, other, told=(told, str(one) if "kind" not in told else "")
        )
        assert not (tmp_path / "out").exists()
    run.refused("filter", "merge", one, one, told=("already exists",))
    run.refused("filter", "merge", tmp_path / "out", one, tmp_path / "none", told=("none", "No such file"))


def test_check_prints_the_lines_that_are_in(tmp_path: Path, run: Commands) -> None:
    file = build(run, tmp_path / "seen", [b"http://a.test/%7e", b"http://b.test/"])
    ended = run("filter", "check", file, data=b"http://a.test/~\nno url\nhttp://c.test/\nHTTP://b.test#x")
    assert ended.code == 0
    assert split_lines(ended.out) == [b"http://a.test/~", b"HTTP://b.test#x"]
    assert "checksums match" in ended.err
    assert "3 URLs: 2 contained, 1 not" in ended.err
    assert "1 relative URL" in ended.err


def test_damage_is_named_by_every_command(tmp_path: Path, run: Commands) -> None:
    file = build(run, tmp_path / "seen", urls(100), "--layout", "guava")
    good = file.read_bytes()
    for at in (3, 9, 40, len(good) // 2, len(good) - 1):
        file.write_bytes(good[:at] + bytes([good[at] ^ 8]) + good[at + 1 :])
        run.refused("filter", "info", file, told=(str(file),))
        run.refused("filter", "check", file, told=(str(file),))
        run.refused("filter", "merge", tmp_path / "out", file, told=(str(file),))
        run.refused("filter", "export", file, tmp_path / "out", "--format", "guava", told=(str(file),))
    assert not (tmp_path / "out").exists()


# -- Guava -----------------------------------------------------------------------------------------------------


def test_a_filter_of_guava_goes_both_ways(tmp_path: Path, run: Commands) -> None:
    lines = [b"line %d \xc3\xa4" % number for number in range(500)]
    file = build(run, tmp_path / "seen", lines, "--raw", "--layout", "guava", "--fpp", "0.01")
    assert run("filter", "export", file, tmp_path / "guava", "--format", "guava").code == 0
    data = (tmp_path / "guava").read_bytes()
    peer = GuavaBloomFilter.sized(500, 0.01)
    peer.put_many(lines)
    assert data == peer.to_bytes()
    assert run("filter", "import", tmp_path / "guava", tmp_path / "back", "--format", "guava", "--raw").code == 0
    ended = run("filter", "check", tmp_path / "back", data=b"\n".join([*lines, b"another", b"one more"]))
    assert split_lines(ended.out) == lines
    assert run("filter", "export", tmp_path / "back", tmp_path / "again", "--format", "guava").code == 0
    assert (tmp_path / "again").read_bytes() == data
    info = json.loads(run("filter", "info", tmp_path / "back", "--json").out)
    assert info["count"] == pytest.approx(500, rel=0.05)
    assert info["fpp_measured"] is None
    assert guava_size(500, 0.01)[0] * 8 == info["bytes"]
    assert run("dedup", "--filter", tmp_path / "back", data=b"\n".join([*lines, b"new"])).out == b"new\n"
    assert json.loads(run("filter", "info", tmp_path / "back", "--json").out)["fpp_measured"] is None


def test_what_is_no_filter_of_guava(tmp_path: Path, run: Commands) -> None:
    file = build(run, tmp_path / "seen", urls(10))
    run.refused("filter", "export", file, tmp_path / "out", "--format", "guava", told=("paired", "--layout guava"))
    for data in (b"", b"\1\5\0\0", b"\2\5\0\0\0\1" + bytes(8), b"\1\5\0\0\0\2" + bytes(8), b"\1\5\0\0\0\1" + bytes(9)):
        (tmp_path / "guava").write_bytes(data)
        run.refused("filter", "import", tmp_path / "guava", tmp_path / "out", "--format", "guava", told=("guava",))
    run.refused("filter", "import", tmp_path / "none", tmp_path / "out", "--format", "guava", told=("none",))
    assert not (tmp_path / "out").exists()


# -- what cannot be meant --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--keys", "many"), ("many",)),
        (("--keys", "900000000000"), ("bytes of memory", "are free")),
        (("--keys", "900000000000", "--layout", "guava"), ("Guava cannot create",)),
        (("--jobs", "0"), ("--jobs", "between 1")),
        (("--layout", "guava", "--seen", "scalable"), ("layout", "scalable")),
        (("--seen", "digest", "--fpp", "0.1"), ("--fpp", "digest")),
        (("--seen", "exact"), ("exact",)),
        (("--from", "/does/not/exist"), ("/does/not/exist", "No such file")),
        (("--from", "/"), ("is a directory",)),
    ],
)
def test_builds_that_cannot_be_meant(
    tmp_path: Path, run: Commands, words: tuple[str, ...], told: tuple[str, ...]
) -> None:
    write_list(tmp_path / "list", urls(10))
    run.refused("filter", "build", tmp_path / "out", "--from", tmp_path / "list", *words, told=told)
    assert [path.name for path in tmp_path.iterdir()] == ["list"]


# -- planning --------------------------------------------------------------------------------------------------


def test_a_plan_is_what_filters_then_take(run: Commands) -> None:
    made = json.loads(run("plan", "--urls", "30000", "--fpp", "0.01", "--capacity", "4000", "--json").out)
    assert made["urls"] == 30_000
    kinds = {row["kind"]: row for row in made["kinds"]}
    assert set(kinds) >= {"scalable", "bloom", "counting", "cuckoo", "digest", "bitmap"}
    keys = [f"http://a.test/{number}" for number in range(30_000)]
    for kind in ("scalable", "bloom", "counting", "cuckoo", "digest", "bitmap"):
        capacity = 30_000 if kind in ("bloom", "bitmap") else 4000
        seen = make_filter(SeenSettings(kind=kind, fpp=0.01, capacity=capacity), hash=HASH)
        seen.add_many(keys)
        now = seen.statistics()
        assert kinds[kind]["bytes"] == now["bytes"]
        assert kinds[kind]["slices"] == len(now["slices"])
        assert kinds[kind]["bits_per_url"] == pytest.approx(now["bytes"] * 8 / 30_000)
        assert now["fpp_estimated"] <= kinds[kind]["fpp"] * 1.1
        assert now["expected_urls_skipped"] <= kinds[kind]["expected_urls_skipped"] + 1e-9
    assert [kind for kind, row in kinds.items() if row["forgets"]] == ["counting", "cuckoo", "exact"]
    assert set(kinds) == set(SEEN_KINDS)
    assert kinds["exact"]["bytes"] == kinds["scalable"]["bytes"]
    assert kinds["exact"]["fpp"] == kinds["exact"]["expected_urls_skipped"] == 0


def test_a_pipe_without_a_writer_is_not_waited_for(run: Commands, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    run.refused("filter", "info", tmp_path / "pipe", told=("not a regular file",))
    target = tmp_path / "made"
    run.refused("filter", "import", tmp_path / "pipe", target, "--format", "guava", told=("not a regular file",))
