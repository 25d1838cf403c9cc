"""The statistics of a crawl out of those of its partitions."""

from __future__ import annotations

import copy
import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.job.metrics.crawl_history import CrawlHistory
from crawler.job.metrics.pooled_stats import Part, pool
from crawler.job.metrics.prometheus import exposition
from crawler.seen.filters.watched_keys import wilson
from crawler.service.progress.summary import summary
from tests.job.metrics.samples import statistics

COUNTS = ("urls_admitted", "urls_pending", "urls_duplicate", "pages_fetched", "pages_failed", "hosts", "bytes_fetched")


def whole(**changes: Any) -> dict[str, Any]:
    """Statistics with every key that a running crawl has."""
    stats = {
        "time_left": {"seconds": 60.0, "at_least": False, "host": None, "why": "", "like": ""},
        "stopped": None,
        "stopped_by": None,
    }
    return statistics(**{**stats, "paused_by": None, **changes})


def without_places(stats: dict[str, Any]) -> dict[str, Any]:
    """The statistics without what says of which partition they are."""
    bare = copy.deepcopy({key: value for key, value in stats.items() if key != "partitions"})
    for place in (bare["checkpoint"], *bare["seen"]["slices"]):
        if place is not None:
            place.pop("partition", None)
    return bare


@st.composite
def parts(draw: st.DrawFn, least: int = 1, most: int = 5) -> list[Part]:
    """Partitions in any state, some of them in one process."""
    numbers = draw(st.lists(st.integers(0, 15), min_size=least, max_size=most, unique=True))
    made = []
    for number in numbers:
        changes: dict[str, Any] = {key: draw(st.integers(0, 10**9)) for key in COUNTS}
        changes["state"] = draw(st.sampled_from(("running", "paused", "stopping", "stopped", "ended")))
        if draw(st.booleans()):
            changes |= dict.fromkeys(
                ("time_left", "seen_at_end", "seen_warning", "checkpoint", "hosts_by_state", "harvest")
            )
        if changes["state"] in ("stopped", "ended"):
            changes |= dict.fromkeys(
                ("slots", "outage", "proxies", "hooks", "loop_stalls", "loop_stall_seconds", "commits")
            )
        process = draw(st.sampled_from((None, 7, 8)))
        made.append(Part(number, whole(**changes), process, draw(st.sampled_from((None, 0, 3)))))
    return made


@given(parts(most=1))
def test_one_partition_is_itself(one: list[Part]) -> None:
    stats = dict(one[0].stats)
    # What pauses or stops belongs to that state, and mail that waits keeps a crawl from its end.
    if stats["state"] == "ended" and one[0].waiting:
        stats["state"] = "stopped"
    if stats["state"] != "paused":
        stats |= {"paused": None, "paused_by": None}
    assert without_places(pool(one, 1)) == without_places(stats)


@given(parts())
def test_counts_are_added_and_everything_can_be_shown(found: list[Part]) -> None:
    stats = pool(found, 16)
    for key in COUNTS:
        assert stats[key] == sum(part.stats[key] for part in found)
    assert stats["status"] == {
        kind: sum(part.stats["status"][kind] for part in found) for kind in found[0].stats["status"]
    }
    assert stats["seen"]["count"] == sum(part.stats["seen"]["count"] for part in found)
    assert sum(line["pages_fetched"] for line in stats["partitions"]) == stats["pages_fetched"]
    assert len(stats["partitions"]) == 16
    low, high = (extreme(part.stats["seen"]["fpp_estimated"] for part in found) for extreme in (min, max))
    assert low * (1 - 1e-9) <= stats["seen"]["fpp_estimated"] <= high * (1 + 1e-9)
    history = CrawlHistory(tells=False)
    history.observe(1.0, stats)
    assert summary(stats)
    assert history.words(stats)["trust"]
    assert exposition(stats)[0]


def part(number: int, process: int | None = None, **changes: Any) -> Part:
    return Part(number, whole(**changes), process)


def seen(**changes: Any) -> dict[str, Any]:
    return {**whole()["seen"], **changes}


@pytest.mark.parametrize(
    ("states", "together"),
    [
        (("running", "ended"), "running"),
        (("paused", "running"), "running"),
        (("paused", "paused"), "paused"),
        (("stopped", "ended"), "stopped"),
        (("ended", "ended"), "ended"),
        (("stopping", "stopped"), "stopping"),
    ],
)
def test_the_state_of_a_crawl(states: tuple[str, ...], together: str) -> None:
    assert pool([part(number, state=state) for number, state in enumerate(states)], 2)["state"] == together


def test_a_crawl_whose_partitions_are_yet_to_be_opened_has_not_ended() -> None:
    for state, seen in (("ended", "running"), ("stopped", "running"), ("paused", "paused"), ("stopping", "stopping")):
        assert pool([part(0, state=state)], 2, at_work=True)["state"] == seen


def test_what_waits_is_summed_and_the_longest_wait_counts() -> None:
    parts = [
        part(n, messages_waiting=said)
        for n, said in enumerate(({"count": 2, "seconds": 0.5}, None, {"count": 3, "seconds": 9.0}))
    ]
    together = pool(parts, 3)
    assert together["messages_waiting"] == {"count": 5, "seconds": 9.0}
    assert [each["messages_waiting"] for each in together["partitions"]] == [2, None, 3]
    assert pool([part(0, messages_waiting=None)], 1)["messages_waiting"] is None


def test_the_fpp_is_that_of_the_next_new_url() -> None:
    many, few = seen(fpp_estimated=1e-3), seen(fpp_estimated=5e-3)
    found = pool([part(0, urls_admitted=900, seen=many), part(1, urls_admitted=100, seen=few)], 2)
    assert found["seen"]["fpp_estimated"] == pytest.approx(0.9 * 1e-3 + 0.1 * 5e-3)
    # A partition to which no URL goes says nothing of where the next one goes.
    found = pool([part(0, urls_admitted=900, seen=many), part(1, urls_admitted=0, seen=few)], 2)
    assert found["seen"]["fpp_estimated"] == pytest.approx(1e-3)


def measured(wrong: int, sample: int) -> dict[str, Any]:
    low, high = wilson(wrong, sample)
    return {"value": wrong / sample, "low": low, "high": high, "sample": sample}


def test_a_smaller_share_of_a_large_partition_counts_for_all_of_it() -> None:
    # The large one watches one URL in ten, the small one each.
    found = pool(
        [
            part(0, urls_admitted=90_000, seen=seen(fpp_measured=measured(9, 9000))),
            part(1, urls_admitted=10_000, seen=seen(fpp_measured=measured(50, 10_000))),
        ],
        2,
    )["seen"]["fpp_measured"]
    assert found["value"] == pytest.approx(0.9 * 0.001 + 0.1 * 0.005)
    assert found["sample"] == 19_000
    assert found["low"] < found["value"] < found["high"]


@pytest.mark.parametrize("shares", [(1.0, 1.0, 1.0), (0.1, 1.0, 0.25)])
def test_the_interval_holds_the_true_rate(shares: tuple[float, ...]) -> None:
    """Of simulated crawls whose partitions watch these shares of their URLs."""
    chance, urls, rate, held, times = random.Random(1), (60_000, 20_000, 40_000), 2e-3, 0, 400
    for _ in range(times):
        made = []
        for number, (count, share) in enumerate(zip(urls, shares, strict=True)):
            sample = round(count * share)
            spread = math.sqrt(sample * rate * (1 - rate))
            wrong = min(sample, max(0, round(chance.gauss(sample * rate, spread))))
            made.append(part(number, urls_admitted=count, seen=seen(fpp_measured=measured(wrong, sample))))
        found = pool(made, 3)["seen"]["fpp_measured"]
        held += found["low"] <= rate <= found["high"]
    assert 0.92 < held / times < 0.98


def test_what_a_process_shares_counts_once() -> None:
    slots = whole()["slots"]
    together = pool([part(0, 7), part(1, 7), part(2, 8)], 3)
    assert together["slots"]["total"] == 2 * slots["total"]
    assert together["outage"]["probes"] == 2 * whole()["outage"]["probes"]
    apart = pool([part(0), part(1), part(2)], 3)
    assert apart["slots"]["total"] == 3 * slots["total"]


def test_of_times_the_worst_is_told() -> None:
    old, new = ({**whole()["checkpoint"], "age_seconds": age} for age in (50.0, 5.0))
    slow, quick = (
        {"seconds": seconds, "at_least": False, "host": None, "why": "", "like": ""} for seconds in (90.0, 9.0)
    )
    found = pool(
        [
            part(3, checkpoint=new, time_left=slow, disk_free_bytes=10),
            part(5, checkpoint=old, time_left=quick, disk_free_bytes=20),
        ],
        6,
    )
    assert found["checkpoint"] == {**old, "partition": 5}
    assert found["time_left"] == slow
    assert found["disk_free_bytes"] == 10
    bound = pool([part(0, time_left=slow), part(1, time_left=None)], 2)["time_left"]
    assert (bound["seconds"], bound["at_least"], bool(bound["why"])) == (90.0, True, True)
    waits = {**quick, "at_least": True, "why": "h.test waits"}
    assert pool([part(0, time_left=slow), part(1, time_left=waits)], 2)["time_left"] == {
        **slow,
        "at_least": True,
        "why": "h.test waits",
    }


def test_what_a_partition_does_not_know_is_not_left_out_of_a_sum() -> None:
    found = pool([part(0, hosts_pending=None, hosts_by_state=None), part(1)], 2)
    assert found["hosts_pending"] is None
    assert found["hosts_by_state"] is None
