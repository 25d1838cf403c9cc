"""Seeds from files and from streams."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
from pathlib import Path

import pytest

from crawler.engine.seeds import AwaitedSeeds, SeedsError
from crawler.url.urls.canonicaliser import Canonicaliser
from tests.program import crawler, running, wait_until
from tests.site import Site, tree

LONG = "http://long.test/" + "a" * 70_000
OPTIONS = ("--allow-private", "--delay", "0", "--per-host", "4")


def fetched(job: Path) -> list[str]:
    return sorted(json.loads(line)["url"] for line in (job / "pages.jsonl").read_text().splitlines())


def test_a_crawl_begins_with_the_first_url_of_a_stream_that_goes_on(tmp_path: Path) -> None:
    with Site(tree(30)) as site:
        end, begin = os.pipe()
        with running("-", "--job", tmp_path / "job", *OPTIONS, "--quiet", stdin=end) as process:
            os.close(end)
            os.write(begin, b"# soon\nno url\n")
            os.write(begin, site.url("/page/3").encode() + b"\n")
            wait_until(lambda: site.count("/page/4") == 1, "the crawl is under way")
            os.write(begin, site.url("/page/999").encode())
            os.close(begin)
            assert process.wait() == 0
    assert fetched(tmp_path / "job") == sorted(site.url(path) for path in [*tree(30), "/page/999"])


def test_a_line_that_is_too_long_is_one_rejected_seed(tmp_path: Path) -> None:
    with Site({"/": "page"}) as site:
        (tmp_path / "seeds.txt").write_text(f"{LONG}\n{site.url('/')}\n{LONG}")
        ran = crawler(tmp_path / "seeds.txt", "--job", tmp_path / "job", *OPTIONS)
        assert ran.code == 0, ran.err
        assert ran.err.count("seed skipped: ") == 2
        assert ran.err.count("65,536") == 2
        assert fetched(tmp_path / "job") == [site.url("/")]


async def test_a_stream_that_never_holds_a_url_is_given_up() -> None:
    end, begin = os.pipe()

    def write() -> None:
        with open(begin, "wb", buffering=0) as stream, contextlib.suppress(BrokenPipeError):
            while True:
                stream.write(b"nothing\n" * 1_000)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    with pytest.raises(SeedsError):
        async with asyncio.timeout(30), AwaitedSeeds([end], Canonicaliser(())):
            pass
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, end)  # not closed: the thread that reads may go on, and would read another's file
    os.close(null)
    writer.join(10)
    assert not writer.is_alive()
