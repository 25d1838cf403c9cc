"""Getting robots.txt."""

from __future__ import annotations

import gzip

import pytest

from crawler.web.fetch import Failure, FailureKind, Fetcher, NotNow, Response, RobotsResult, fetch_robots
from tests.asked import free_port
from tests.web.fetch.sites import LOCAL, Answer, page, site


async def robots(*answers: Answer) -> tuple[RobotsResult, list[bytes]]:
    async with site(*answers, keep_alive=True) as served:
        async with Fetcher(LOCAL, concurrency=1, per_host=1) as fetcher:
            result = await fetch_robots(fetcher, served.url + "some/page?x")
            assert isinstance(result, RobotsResult)
        return result, [request.split(b" ")[1] for request in served.requests]


def said(result: RobotsResult | NotNow) -> tuple[int, bytes | None]:
    """Status and body of a host that answered."""
    assert isinstance(result, RobotsResult)
    assert isinstance(result.answer, Response)
    return result.answer.status, result.answer.body


def moved(to: str) -> bytes:
    return page(b"moved", f"Location: {to}", status="301 Moved")


FILE, ABSENT = page(b"User-agent: *", kind="text/plain"), page(b"no", status="404 Not Found")


@pytest.mark.parametrize(
    ("answers", "status", "asked"),
    [
        ([FILE], 200, 1), ([ABSENT], 404, 1), ([*(moved(f"/{n}") for n in range(5)), FILE], 200, 6),
        ([moved("again")], 301, 6), ([moved("mailto:a@b")], 301, 1), ([moved("http://[x/")], 301, 1),
    ],
    ids=range(6),
)  # fmt: skip
async def test_at_most_five_redirects_are_followed(answers: list[Answer], status: int, asked: int) -> None:
    result, paths = await robots(*answers)
    assert (said(result)[0], paths[0], len(paths)) == (status, b"/robots.txt", asked)
    assert result.seconds > 0
    assert status != 200 or (said(result)[1] == b"User-agent: *" and result.received == 13 + 5 * (asked - 1))


LINES = b"".join(b"Disallow: /%d\n" % number for number in range(40))


@pytest.mark.parametrize(
    ("body", "read"),
    [
        (b"x" * 900_000, b"x" * 1000),
        (gzip.compress(LINES), LINES),
        (gzip.compress(LINES[:99]) + gzip.compress(LINES[99:]) + b"\0", LINES),
        (gzip.compress(LINES)[:-40], None),  # whole lines
        (gzip.compress(b"x" * 20_000_000, 9), b"x" * 1000),
        (b"\x1f\x8b nonsense", b""),
    ],
    ids=range(6),
)
async def test_a_long_file_is_cut_and_gzip_is_unpacked(
    body: bytes, read: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler.web.fetch.robots_fetch.MAX_BYTES", 1000)
    status, found = said((await robots(page(body, kind="text/plain")))[0])
    assert found is not None
    assert (status, found) == (200, found if read is None else read)
    assert read is not None or (LINES.startswith(found) and found.endswith(b"\n"))


async def test_unreachable() -> None:
    port = free_port()
    async with Fetcher(LOCAL, concurrency=1, per_host=1) as fetcher:
        result = await fetch_robots(fetcher, f"http://127.0.0.1:{port}/")
    assert isinstance(result, RobotsResult)
    assert isinstance(result.answer, Failure)
    assert result.answer.kind == FailureKind.REFUSED
    assert result.says_nothing


async def test_cut_off() -> None:
    async with site(page(b"x" * 100)[:-1]) as served, Fetcher(LOCAL, concurrency=1, per_host=1) as fetcher:
        result = await fetch_robots(fetcher, served.url)
    assert isinstance(result, RobotsResult)
    assert isinstance(result.answer, Failure)
