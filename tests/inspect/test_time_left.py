"""The time to the end: when one host is slow, the others end early and leave it alone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from crawler.base.settings.parts import PolitenessSettings, RobotsSettings
from crawler.engine.run import Run
from crawler.frontier.host import Host, decode_host, encode_host
from crawler.frontier.pace import HostTime, HostTimes
from crawler.job.job import Job
from crawler.job.metrics.attention import attention
from crawler.job.metrics.sentences import working
from crawler.web.fetch import Response
from tests.frontier.hosts import made_host
from tests.laboratory import Laboratory, links

NOW = 1_700_000_000.0


class Told(NamedTuple):
    """What was told of the time to the end: when, the seconds, the host, and the words."""

    at: float
    seconds: float
    host: str | None
    words: str


def told_times(lab: Laboratory, *seeds: str) -> list[Told]:
    """Run the job to its end. Returns what was told each second."""
    told = list[Told]()

    async def look(crawl: Run, job: Job) -> None:
        while True:
            await asyncio.sleep(1)
            now, stats = lab.now + asyncio.get_running_loop().time(), crawl.stats()
            if (left := stats["time_left"]) is not None:
                told.append(Told(now, left["seconds"], left["host"], working(stats)["text"]))

    lab.run(*seeds, during=look)
    return told


def answer(status: int, body: bytes = b"") -> Response:
    return Response(status, {}, "text/plain", None, body, None, None, 0.0, len(body))


def test_hosts_that_share_one_gap_take_the_sum_of_their_times(tmp_path: Path) -> None:
    pages: dict[str, Any] = {f"http://h{n}.test/": links([f"/{m}" for m in range(9)]) for n in range(10)}
    pages |= {f"http://a{n}.shared.test/": links([f"/{m}" for m in range(40)]) for n in range(5)}
    lab = Laboratory(tmp_path / "job", pages).with_politeness(delay=2.0, host_key="domain")
    began = lab.now
    told = told_times(lab, *pages)
    lasted = lab.now - began
    assert lasted > 400
    early = [each for each in told if began + 40 < each[0] < began + 200]
    assert len(early) > 100
    for now, seconds, host, _ in early:
        assert host is None or host.endswith(".shared.test:80"), "all together, or those that share the gap"
        assert seconds == pytest.approx(lab.now - now, rel=0.05)


def test_the_slots_may_take_longer_than_any_host(tmp_path: Path) -> None:
    pages: dict[str, Any] = {f"http://h{n}.test/": links([f"/{m}" for m in range(60)]) for n in range(12)}
    lab = Laboratory(tmp_path / "job", pages, seconds=2.0).with_politeness(delay=0.5)
    lab.settings = replace(lab.settings, crawl=replace(lab.settings.crawl, concurrency=3))
    told = told_times(lab, *pages)
    early = [each for each in told if lab.now - 300 < each[0] < lab.now - 100]
    assert len(early) > 100
    for now, seconds, _, _ in early:
        assert seconds == pytest.approx(lab.now - now, rel=0.05)


def test_with_one_slow_host_it_is_right_from_the_first_minute_on(tmp_path: Path) -> None:
    rules = b"User-agent: *\nCrawl-delay: 20\n"
    pages: dict[str, Any] = {f"http://h{n}.test/": links([f"/{m}" for m in range(150)]) for n in range(10)}
    pages["http://slow.test/"] = links([f"/{m}" for m in range(80)])
    pages["http://slow.test/robots.txt"] = answer(200, rules)
    lab = Laboratory(tmp_path / "job", pages).with_politeness(delay=1.0)
    lab.settings = replace(lab.settings, robots=RobotsSettings())
    began = lab.now
    told = told_times(lab, *(href for href in pages if href.endswith("/")))
    lasted = lab.now - began
    assert lasted > 1_600, "the slow host takes ten times as long as the others"
    early = [each for each in told if 60 < each[0] - began < 150]  # while all hosts are asked
    assert len(early) > 80
    for now, seconds, host, _ in early:
        assert host == "slow.test:80"
        assert seconds == pytest.approx(lab.now - now, rel=0.05)
    late = [text for at, _, _, text in told if 0.5 < (at - began) / lasted < 0.9]
    assert all("politeness of slow.test:80" in text for text in late), "the others are done"


def test_a_calendar_without_end_determines_the_time_and_is_named(tmp_path: Path) -> None:
    pages: dict[str, Any] = {f"http://h{n}.test/": links([f"/{m}" for m in range(150)]) for n in range(10)}
    pages["http://cal.test/"] = links(["/day/1"])
    pages |= {f"http://cal.test/day/{n}": links([f"/day/{n + 1}"]) for n in range(1, 130)}
    lab, found = Laboratory(tmp_path / "job", pages).with_politeness(delay=1.0), list[tuple[float, dict[str, Any]]]()

    async def look(crawl: Run, job: Job) -> None:
        while True:
            await asyncio.sleep(1)
            row = job.frontier.describe("cal.test:80", lab.now)
            found.append((asyncio.get_running_loop().time(), crawl.stats() | {"row": row}))

    lab.run(*(href for href in pages if href.endswith("/")), during=look)
    begun = found[0][0]
    known = [stats for at, stats in found if 75 < at - begun < 100]
    for stats in known:
        left = stats["time_left"]
        assert (left["host"], left["at_least"], left["like"]) == ("cal.test:80", True, "/day/#")
        assert "cal.test:80" in left["why"]
        assert left["seconds"] > 30, "no shorter than what the other hosts take"
        assert stats["row"].grows
        assert "endless" in [need.kind for need in attention(stats)]
    assert len(known) > 20
    early = [stats["time_left"] for at, stats in found if 12 < at - begun < 25]
    assert not any("cal.test" in left["why"] for left in early if left)


@given(
    size=st.integers(0, 9),
    wait=st.sampled_from([-5.0, 0.0, 60.0]),
    crawl_delay=st.none() | st.floats(0, 100),
    latency=st.none() | st.floats(0, 100),
)
def test_a_record_tells_the_time_of_its_host(
    size: int, wait: float, crawl_delay: float | None, latency: float | None
) -> None:
    host = made_host("h.test:80", size=size, next_time=NOW + wait)
    host.politeness.crawl_delay, host.politeness.latency = crawl_delay, latency
    told = times_of(host, PolitenessSettings())
    assert times_of(decode_host(host.name, encode_host(host)), PolitenessSettings()) == told
    each = max(1.0, min(crawl_delay or 0.0, 60.0)) + (latency or 0.0)
    assert (told.seconds if told else None) == (pytest.approx(max(0.0, wait) + size * each) if size else None)


def times_of(host: Host, settings: PolitenessSettings) -> HostTime | None:
    """The time of a single host."""
    times = HostTimes("origin", NOW)
    times.add(host, settings)
    return times.slowest


@pytest.mark.parametrize(
    ("crawl_delay", "latency", "per_host", "seconds"),
    [(None, 5.0, 1, 6.0), (None, 5.0, 3, 2.0), (None, 0.2, 3, 1.0), (4.0, None, 1, 4.0)],
)
def test_slots_share_the_time_of_a_response_but_not_the_gap(
    crawl_delay: float | None, latency: float | None, per_host: int, seconds: float
) -> None:
    host = made_host("h.test:80", size=1, next_time=NOW)
    host.politeness.crawl_delay, host.politeness.latency = crawl_delay, latency
    time = times_of(host, PolitenessSettings(delay=1.0, per_host=per_host))
    assert time is not None
    assert time.seconds == seconds
