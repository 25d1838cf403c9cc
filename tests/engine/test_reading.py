"""Whatever reading a page raises is that page's record. Whatever a step of the crawl raises stops the crawl."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from crawler.base.kv import Family
from crawler.base.settings.parts import RobotsSettings
from crawler.frontier.traps import copies
from crawler.job.records import decode_counters
from crawler.web.fetch import Response
from tests.laboratory import Laboratory, links
from tests.simulated_web import page

ODD = "http://odd.test/"
INNOCENT = [f"http://innocent.test/{number}" for number in range(5)]


class Odd(bytes):
    """A body in which a parser finds its bug: ``reached`` names the method that raises."""

    reached: str
    error: Exception

    def __getattribute__(self, name: str) -> Any:
        if name not in ("reached", "error") and name == self.reached:
            raise self.error
        return super().__getattribute__(name)


def odd(reached: str, error: Exception, html: str = "<p>x") -> Response:
    body = Odd(html.encode())
    body.reached, body.error = reached, error
    return replace(page(html), body=body)


@pytest.fixture(autouse=True)
def _odd_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    """The digest of a page is made in C, which calls no method of the body: this one asks it first."""

    def digest(body: bytes) -> bytes:
        if isinstance(body, Odd) and body.reached == "digest":
            raise body.error
        return blake2b(body, digest_size=16).digest()

    monkeypatch.setattr(copies, "digest_at_once", digest)


class Headers(dict[str, str]):
    """Headers of which one cannot be read."""

    def get(self, key: str, default: Any = None) -> Any:
        if key == "Date":
            raise ValueError("no such day")
        return super().get(key, default)


def unasked(headers: Mapping[str, str]) -> Response:
    raise OverflowError("a length of 2 ** 64")


def throttled() -> Response:
    return replace(page("", status=429), headers=Headers(), retry_after="Sun, 06 Nov 1994 08:49:37 GMT")


TRAPS: dict[str, Any] = {
    "html": odd("startswith", ValueError("multi-byte encodings are not supported")),
    "copies": odd("digest", RecursionError("too deep")),
    "memory": odd("digest", MemoryError()),
    "headers": throttled(),
    "exchange": unasked,
}


def lab_with(directory: Path, pages: dict[str, Any]) -> Laboratory:
    innocent = {href: links(INNOCENT) for href in INNOCENT}
    return Laboratory(directory / "job", {**innocent, **pages})


def hold(lab: Laboratory) -> None:
    """The innocent host is whole, and the odd one is not blamed."""
    assert {record["outcome"] for record in lab.of("innocent.test")} == {"fetched"}
    assert len(lab.of("innocent.test")) == len(INNOCENT)


@pytest.mark.parametrize("trap", TRAPS)
def test_what_a_parser_raises_is_the_record_of_its_page(tmp_path: Path, trap: str) -> None:
    lab = lab_with(tmp_path, {ODD: links(["/trap", "/next"]), f"{ODD}trap": TRAPS[trap], f"{ODD}next": "still here"})
    seen: dict[str, Any] = {}

    async def during(run: Any, job: Any) -> None:
        seen.update(run=run, job=job)

    lab.run(ODD, INNOCENT[0], during=during)

    hold(lab)
    found = {record["url"]: record for record in lab.of("odd.test")}
    assert found[f"{ODD}trap"]["outcome"] == "failed"
    assert found[f"{ODD}trap"]["error"].startswith("internal: ")
    assert {found[ODD]["outcome"], found[f"{ODD}next"]["outcome"]} == {"fetched"}
    assert [asked.href for asked in lab.asked].count(f"{ODD}trap") == 1, "another try would find the same bug"
    assert seen["run"].stats()["internal_failures"] == 1
    stored = lab.store.get(Family.META, b"counters")
    assert stored is not None
    assert decode_counters(stored).internal_failures == 1, "it lasts"
    host = seen["job"].frontier.known("odd.test")
    assert host is None or (host.failures.in_a_row, host.failures.snoozes, host.failures.backoff) == (0, 0, 0)


def test_a_robots_txt_that_cannot_be_read_forbids_its_host_and_nothing_else(tmp_path: Path) -> None:
    bad = replace(odd("__getitem__", ValueError("bug"), "User-agent: *\nDisallow: /x\n"), content_type="text/plain")
    lab = lab_with(tmp_path, {f"{ODD}robots.txt": bad, ODD: "never asked for"})
    lab.settings = replace(lab.settings, robots=RobotsSettings(ignore=False))

    class Pages(dict[str, Any]):
        def get(self, key: str, default: Any = None) -> Any:
            return page("") if key == "http://innocent.test/robots.txt" else super().get(key, default)

    lab.pages = Pages(lab.pages)
    lab.run(ODD, INNOCENT[0])
    hold(lab)


def test_a_redirect_whose_target_cannot_be_read_is_a_record(tmp_path: Path) -> None:
    class Location(str):
        def encode(self, *_: Any) -> Any:
            raise ValueError("bug")

    answer = replace(page("", status=302), body=None, location=Location("/elsewhere"))
    lab = lab_with(tmp_path, {ODD: answer})
    lab.run(ODD, INNOCENT[0])
    hold(lab)
    (record,) = lab.of("odd.test")
    assert (record["outcome"], record["status"]) == ("failed", 302)
    assert "tests/" in record["error"]


def test_an_error_in_a_step_still_stops_the_crawl(tmp_path: Path) -> None:
    lab = lab_with(tmp_path, {ODD: "x"})

    async def during(run: Any, job: Any) -> None:
        def broken(*_: object, **__: object) -> None:
            raise ValueError("a bug in a step")

        job.frontier.finish = broken

    with pytest.raises(ValueError, match="a bug in a step"):
        lab.run(ODD, INNOCENT[0], during=during)


# -- the guard itself ------------------------------------------------------------------------------------------
