"""Compares the URLs that a crawl of a synthetic web found with those that exist, using one byte of memory per page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct

from crawler.tools.bench.synthetic_web import Kind, SyntheticWeb

ALL = Kind.PAGE | Kind.MOVED | Kind.GONE | Kind.COPY | Kind.PRIVATE
READABLE = Kind.PAGE | Kind.COPY  # kinds to which the server responds with a page
# The expected status of the last response to a URL. URLs that robots.txt disallows get no response.
STATUS = {Kind.PAGE: 200, Kind.COPY: 200, Kind.MOVED: 301, Kind.GONE: 404, Kind.PRIVATE: None}


class Found(NamedTuple):
    """One URL in the output of a crawl."""

    url: str
    status: int | None
    seconds: float | None = None  # duration of the request


class Verdict(Struct, frozen=True):
    """How the output of a crawl differs from the truth."""

    pages: int  # distinct URLs of kind PAGE with the right status
    missing: int = 0
    twice: int = 0
    unexpected: int = 0  # URLs that the web does not have
    wrong: int = 0  # URLs with an unexpected status

    @property
    def mistakes(self) -> int:
        return self.missing + self.twice + self.unexpected + self.wrong


def judge_crawl(web: SyntheticWeb, output: Iterable[Found], kinds: Kind = ALL) -> Verdict:
    """Check that an output contains each URL of these kinds exactly once, and no other URL."""
    seen = bytearray(web.shape.pages)
    pages = twice = unexpected = wrong = 0
    for found in output:
        place = web.locate(found.url)
        if place is None or place[1] not in kinds:
            unexpected += 1
            continue
        number, kind = place
        if seen[number] & kind.value:
            twice += 1
            continue
        seen[number] |= kind.value
        right = found.status == STATUS[kind]
        pages += right and kind is Kind.PAGE
        wrong += not right
    missing = sum(((web.expected(number) & kinds).value & ~seen[number]).bit_count() for number in range(len(seen)))
    return Verdict(pages, missing, twice, unexpected, wrong)
