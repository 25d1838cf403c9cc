"""A running crawl looks ahead of its seen-set, and warns of each cause once, before it is too late."""

from __future__ import annotations

import json
from pathlib import Path

from crawler.crawl.advice import Adviser, free_memory
from crawler.crawl.identity import LIVE
from crawler.exact import Seen, make_seen
from crawler.filters import digest_keys
from crawler.settings import SeenSettings
from crawler.store import FaultyStore
from tests.site import Site, crawler, running, tree, wait_until

ROOMY = 2**40


def seen_set(kind: str, capacity: int = 1_000) -> Seen:
    return make_seen(SeenSettings(kind=kind, capacity=capacity), FaultyStore())


def fill(seen: Seen, start: int, stop: int) -> None:
    seen.restore(digest_keys([str(number) for number in range(start, stop)]))


def test_a_filter_of_fixed_size_warns_before_its_target_and_again_when_it_is_passed() -> None:
    seen, adviser = seen_set("bloom"), Adviser(2)
    said = []
    for count in range(0, 1_300, 50):
        fill(seen, count, count + 50)
        said.append((count + 50, adviser.look(seen, float(count) * 1_000, ROOMY)))
    warned = [(count, text) for count, text in said if text is not None]
    assert [count for count, _ in warned] == [900, 1_050], "once for each cause"
    assert "reaches its target of 0.001 in 100 URLs" in warned[0][1]
    assert "was made for 1,000" in warned[1][1]
    assert adviser.advice is not None
    assert adviser.advice["cause"] == "passed"


def test_the_rate_is_that_of_the_last_minute() -> None:
    seen, adviser = seen_set("scalable", 100_000), Adviser(2)
    assert adviser.look(seen, 0.0, None) is None
    assert adviser.advice is not None
    assert adviser.advice["new_urls_per_second"] is None
    assert adviser.advice["seconds_left"] is None
    fill(seen, 0, 6_000)
    adviser.look(seen, 30.0, None)
    assert adviser.advice["new_urls_per_second"] == 200.0
    fill(seen, 6_000, 7_000)
    adviser.look(seen, 80.0, None)
    assert adviser.advice["new_urls_per_second"] == 20.0
    assert adviser.advice["seconds_left"] == 93_000 / 20.0


def test_a_chain_that_lacks_memory_for_what_comes_warns_of_the_slice_to_be_built_too() -> None:
    for compact_slices, warns in ((0, False), (2, True)):
        seen = seen_set("scalable")
        fill(seen, 0, 950)
        text = Adviser(compact_slices).look(seen, 0.0, 8_000)
        assert (text is not None) == warns, text


def test_a_kind_that_has_no_slices_of_its_own_has_no_advice() -> None:
    adviser = Adviser(2)
    assert adviser.look(seen_set("exact"), 0.0, ROOMY) is None
    assert adviser.advice is None


def test_linux_tells_how_much_memory_is_free() -> None:
    free = free_memory()
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
