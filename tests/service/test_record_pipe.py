"""Records on standard output: what a reader gets, however slow it is, and what happens when it leaves."""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from crawler.cli.crawl import take_standard_output
from crawler.cli.exit_codes import Exit
from crawler.service.record_pipe import RecordPipe
from tests.jobs import OPTIONS, verify
from tests.program import crawler, running
from tests.site import Site, tree

LINE = b"x" * 999 + b"\n"


def test_an_error_of_the_descriptor_says_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "pages.jsonl"
    path.touch()
    with open("/dev/full", "wb", buffering=0) as full, closing(RecordPipe(path, full.fileno())) as pipe:
        path.write_bytes(LINE)
        with pytest.raises(OSError, match="No space left on device: 'standard output'"):
            asyncio.run(pipe.copy(len(LINE)))


def test_standard_output_is_for_records_alone() -> None:
    ends = [os.pipe(), os.pipe()]
    program = os.fork()
    if program == 0:
        try:
            for number, (_, end) in enumerate(ends, 1):
                os.dup2(end, number)
            sys.stdout, sys.stderr = (open(number, "w", 1, closefd=False) for number in (1, 2))  # noqa: SIM115
            arguments = argparse.Namespace(output=("-", "links"), json=False)
            take_standard_output(arguments)
            sys.stdout.write("from a function\n")
            subprocess.run(["echo", "from a program"], check=True)
            os.write(arguments.records_to, b"a record\n")
        finally:
            os._exit(0)
    said = []
    for _, end in ends:
        os.close(end)
    for source, _ in ends:
        with open(source, encoding="utf-8") as stream:
            said.append(stream.read())
    os.waitpid(program, 0)
    assert said == ["a record\n", "from a function\nfrom a program\n"]


def test_what_is_durable_is_copied_at_the_pace_of_the_reader(tmp_path: Path) -> None:
    path = tmp_path / "pages.jsonl"
    path.write_bytes(b"an earlier run\n")
    before = path.stat().st_size
    source, end = os.pipe()

    async def read(size: int) -> bytes:
        found = b""
        while len(found) < size:
            found += await asyncio.to_thread(os.read, source, size - len(found))
        return found

    async def copied() -> None:
        with closing(RecordPipe(path, end)) as pipe:
            with path.open("ab") as file:
                file.write(1_000 * LINE)  # more than a pipe holds
            await pipe.copy(None)
            await pipe.copy(before + 10 * len(LINE))
            assert await read(10 * len(LINE)) == 10 * LINE
            all_of_it = asyncio.create_task(pipe.copy(path.stat().st_size - len(LINE)))
            assert await read(989 * len(LINE)) == 989 * LINE
            await all_of_it
            os.close(source)
            left: list[bool] = []
            await pipe.keep(path.stat().st_size.__int__, lambda: left.append(True))
            assert left == [True]
            await pipe.copy(path.stat().st_size)

    asyncio.run(copied())
    os.close(end)


def test_a_reader_that_does_not_read_does_not_keep_a_pipe_from_being_closed(tmp_path: Path) -> None:
    path = tmp_path / "pages.jsonl"
    path.touch()
    source, end = os.pipe()

    async def copied() -> None:
        pipe = RecordPipe(path, end)
        path.write_bytes(1_000 * LINE)
        copying = asyncio.create_task(pipe.copy(1_000 * len(LINE)))
        await asyncio.sleep(0)
        pipe.close()
        await copying

    asyncio.run(copied())
    os.close(source)
    os.close(end)


def test_a_crawl_stops_in_order_when_its_reader_leaves_and_the_next_run_goes_on(tmp_path: Path) -> None:
    with Site(tree(20)) as site:
        job, seeds, config = tmp_path / "job", tmp_path / "seeds.txt", tmp_path / "often.toml"
        seeds.write_text(site.url("/") + "\n")
        config.write_text("[durability]\nsync_interval = 0.01\n")
        words = (seeds, "--job", job, "--config", config, *OPTIONS, "--output", "-,links", "--fail-on-limit")
        with running(*words, "--delay", "2", "--per-host", "1", "--ignore-robots", stdin=subprocess.DEVNULL) as process:
            first = process.stdout.readline()
            process.stdout.close()
            assert process.wait() == Exit.LIMIT
        lines = (job / "pages.jsonl").read_bytes().splitlines(keepends=True)
        assert lines[0] == first
        assert len(lines) < 20
        assert verify(job).code == 0
        ran = crawler(*words)
        assert (ran.code, ran.err) == (0, "")
        assert [*lines, *ran.out.encode().splitlines(keepends=True)] == (job / "pages.jsonl").read_bytes().splitlines(
            keepends=True
        )
        assert len(lines) + ran.out.count("\n") == 20
