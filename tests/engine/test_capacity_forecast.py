"""A running crawl looks ahead of its seen-set, and warns of each cause once, before it is too late."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from crawler.base.memory import available_memory
from crawler.base.settings import SeenSettings
from crawler.engine.capacity_forecast import INTERVAL, Adviser, Pace, Progress, When, forecast
from crawler.job.directory import LIVE
from crawler.job.store import FaultyStore
from crawler.seen.exact import make_seen
from crawler.seen.filters import SEED_ZERO, SeenSet
from tests.program import crawler, running, wait_until
from tests.site import Site, tree
from tests.virtual import run_virtually

ROOMY = 2**40
NOTHING = Progress(0, 0)


def seen_set(kind: str, capacity: int = 1_000) -> SeenSet:
    return make_seen(SeenSettings(kind=kind, capacity=capacity), FaultyStore(), SEED_ZERO)


def fill(seen: SeenSet, start: int, stop: int) -> None:
    seen.restore(SEED_ZERO.digest_keys([str(number) for number in range(start, stop)]))


def test_a_filter_of_fixed_size_warns_before_its_target_and_again_when_it_is_passed() -> None:
    seen, adviser = seen_set("bloom"), Adviser(2)
    said = []
    for count in range(0, 1_300, 50):
        fill(seen, count, count + 50)
        said.append((count + 50, adviser.look(seen, float(count) * 1_000, ROOMY, NOTHING)))
    warned = [(count, text) for count, text in said if text is not None]
    assert [count for count, _ in warned] == [900, 1_050], "once for each cause"
    assert "reaches its target of 1 in 1,000 after 100 more URLs" in warned[0][1]
    assert "was made for 1,000" in warned[1][1]
    assert adviser.advice is not None
    assert adviser.advice["cause"] == "passed"


def test_chosen_urls_are_told_once() -> None:
    """Seed 0 lets an author of links choose digests: here all with the same first block."""
    seen, adviser = seen_set("scalable", 10_000), Adviser(2)
    fill(seen, 0, 500)
    assert adviser.suspicion(seen) is None
    seen.restore(b"".join([number.to_bytes(8, "little") * 2 for number in range(500)]))
    said = adviser.suspicion(seen)
    assert said is not None
    assert "1,000 were added" in said
    assert adviser.suspicion(seen) is None


def test_the_rate_is_that_of_the_last_minute() -> None:
    seen, adviser = seen_set("scalable", 100_000), Adviser(2)
    assert adviser.look(seen, 0.0, None, NOTHING) is None
    assert adviser.advice is not None
    assert adviser.advice["new_urls_per_second"] is None
    assert adviser.advice["seconds_left"] is None
    fill(seen, 0, 6_000)
    adviser.look(seen, 30.0, None, NOTHING)
    assert adviser.advice["new_urls_per_second"] == 200.0
    fill(seen, 6_000, 7_000)
    adviser.look(seen, 80.0, None, NOTHING)
    assert adviser.advice["new_urls_per_second"] == 20.0
    assert adviser.advice["seconds_left"] == 93_000 / 20.0


def test_a_chain_that_lacks_memory_for_what_comes_warns_of_the_slice_to_be_built_too() -> None:
    for compact_slices, warns in ((0, False), (2, True)):
        seen = seen_set("scalable")
        fill(seen, 0, 950)
        text = Adviser(compact_slices).look(seen, 0.0, 8_000, NOTHING)
        assert (text is not None) == warns, text


def test_a_kind_that_has_no_slices_of_its_own_has_no_advice() -> None:
    adviser = Adviser(2)
    assert adviser.look(seen_set("exact"), 0.0, ROOMY, NOTHING) is None
    assert adviser.advice is None


def test_what_is_left_brings_others_and_these_bring_others() -> None:
    seen = seen_set("scalable", 1_000)
    fill(seen, 0, 600)
    told = forecast(seen.statistics(), seen.parameters(), 100, Pace(30, 60, 20.0))
    # 100 + 50 + 25 + ... are still to be finished, three a second; all but the first hundred are new.
    assert (told.when, told.new_per_url, told.urls) == (When.END, 0.5, 700)
    assert told.seconds == pytest.approx(200 / 3)
    assert (told.slices, told.bytes) == (1, seen.statistics()["bytes"])
    assert seen.statistics()["fpp_estimated"] < told.fpp < 0.001
    assert 0 < told.urls_skipped < 0.1
    more = forecast(seen.statistics(), seen.parameters(), 10_000, Pace(30, 60, 20.0))
    assert (more.urls, more.slices) == (10_600, 4)
    assert told.fpp < more.fpp < 0.001
    assert told.bytes < more.bytes


@pytest.mark.parametrize(("new", "endless"), [(60, False), (90, False), (90, True)])
def test_where_each_url_brings_one_or_more_a_day_is_looked_ahead(new: int, endless: bool) -> None:
    seen = seen_set("scalable", 1_000)
    told = forecast(seen.statistics(), seen.parameters(), 100, Pace(new, 60, 20.0), endless=endless)
    assert (told.when, told.seconds) == (When.DAY, 86_400.0)
    assert told.urls == 86_400 * new / 20


def test_a_crawl_that_visits_its_pages_again_finds_no_more_than_its_first_visits_bring() -> None:
    seen = seen_set("scalable", 1_000)
    fill(seen, 0, 600)
    told = forecast(seen.statistics(), seen.parameters(), 100, Pace(6, 60, 20.0), endless=True)
    assert (told.when, told.seconds) == (When.DAY, 86_400.0)
    assert told.urls == 611, "a tenth of a hundred, a tenth of these, ... and not 25,920 at the present pace"
    done = forecast(seen.statistics(), seen.parameters(), 0, Pace(6, 60, 20.0), endless=True)
    assert done.urls == 600


def test_a_forecast_rests_on_the_last_half_minute_and_on_fifty_urls() -> None:
    seen, adviser = seen_set("scalable", 100_000), Adviser(2)

    def look(now: float, new: int, finished: int) -> dict[str, Any] | None:
        fill(seen, len(seen), len(seen) + new)
        adviser.look(seen, now, None, Progress(finished, 1_000))
        assert adviser.advice is not None
        told: dict[str, Any] | None = adviser.advice["forecast"]
        return told

    assert look(0.0, 10, 0) is None
    assert look(30.0, 800, 9) is None, "too few to say anything"
    told = look(60.0, 800, 100)
    assert told is not None
    assert (told["when"], told["new_per_url"]) == ("day", 800 / 91)
    told = look(120.0, 25, 150)
    assert told is not None
    assert (told["when"], told["new_per_url"], told["seconds"]) == ("end", 0.5, 2_000 * 60 / 50)
    # A slow one: the last minute has ten URLs, so more of the past is taken.
    told = look(180.0, 10, 160)
    assert told is not None
    assert told["new_per_url"] == 35 / 60


def test_a_forecast_is_steady_when_those_of_the_last_seconds_say_the_same() -> None:
    seen, adviser = seen_set("scalable", 100_000), Adviser(2)
    ends: list[tuple[float, float]] = []  # of the steady ones: when, and the end it tells
    unsteady = 0
    known, done = 10.0, 0.0
    for look in range(60):  # eight pages a second of a site with 2,000; the share of new links falls all the time
        now = 5.0 * look
        fill(seen, len(seen), round(known))
        adviser.look(seen, now, None, Progress(round(done), round(known - done)))
        assert adviser.advice is not None
        told = adviser.advice["forecast"]
        if told is not None and told["steady"]:
            assert told["when"] == "end"
            ends.append((now, now + told["seconds"]))
        elif told is not None:
            unsteady += 1
        done = min(known, done + 40)
        known += (2_000 - known) * 0.08
    assert unsteady >= 4, "at first it is too early to tell"
    assert len(ends) > 10
    for now, end in ends:
        later = [other for then, other in ends if now < then <= now + 20]
        assert all(abs(other - end) < 0.5 * (end - now) for other in later), "none halves within 20 s"
    assert ends[0][1] == pytest.approx(2_000 / 8, rel=0.3)


def test_with_a_ledger_no_url_is_expected_to_be_skipped() -> None:
    seen, adviser = seen_set("scalable"), Adviser(2, ledger=True)
    adviser.look(seen, 0.0, None, Progress(0, 100))
    fill(seen, 0, 50)
    adviser.look(seen, 10.0, None, Progress(100, 100))
    assert adviser.advice is not None
    assert adviser.advice["forecast"]["urls_skipped"] == 0.0
    assert adviser.advice["forecast"]["fpp"] > 0


def test_when_nothing_is_left_nothing_is_expected() -> None:
    seen, adviser = seen_set("scalable"), Adviser(2)
    adviser.look(seen, 0.0, None, Progress(0, 100))
    adviser.look(seen, 10.0, None, Progress(100, 0))
    assert adviser.advice is not None
    assert adviser.advice["forecast"] is None


def test_linux_tells_how_much_memory_is_free() -> None:
    free = available_memory()
    if Path("/proc/meminfo").exists():
        assert free is not None
        assert 2**20 < free < 2**50
    else:
        assert free is None


def advised(job: Path) -> bool:
    """Whether the crawl has looked at its filter since it began to say how it goes."""
    try:
        return json.loads((job / LIVE).read_text())["stats"]["advice"] is not None
    except FileNotFoundError:
        return False


def test_a_running_crawl_shows_its_advice_and_warns(tmp_path: Path) -> None:
    (tmp_path / "seeds.txt").write_text("")
    words = ("--allow-private", "--delay", "0", "--seen", "bloom", "--capacity", "3000")
    with Site(tree(300), latency=0.05) as site:
        (tmp_path / "seeds.txt").write_text(site.url("/") + "\n")
        with running(tmp_path / "seeds.txt", "--job", tmp_path / "job", *words):
            wait_until(lambda: advised(tmp_path / "job"), "the crawl says what it advises")
            advice = json.loads(crawler("stats", tmp_path / "job", "--json").out)["advice"]
    assert advice["full_at"] == 3_000
    assert advice["next_size"] is None
    assert advice["cause"] in (None, "target")


def test_a_warning_waits_for_no_look_and_a_crawl_that_ends_soon_is_warned_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    run_virtually(_warned(caplog))


async def _warned(caplog: pytest.LogCaptureFixture) -> None:
    clock = asyncio.get_running_loop().time
    for stop, told in ((950, "reaches its target of 1 in 1,000 after 50 more URLs"), (1_200, "was made for 1,000")):
        seen = seen_set("bloom")
        watching = asyncio.create_task(Adviser(2).watch(seen, clock, lambda: NOTHING))
        await asyncio.sleep(0)
        fill(seen, 0, stop)
        began = clock()
        while stop < 1_000 and told not in caplog.text:
            assert clock() - began < INTERVAL, "the next look was waited for"
            await asyncio.sleep(0.01)
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
        assert told in caplog.text
