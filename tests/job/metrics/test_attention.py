"""What about a crawl needs somebody."""

from __future__ import annotations

import re
from typing import Any

import pytest

from crawler.job.metrics.attention import HOSTS_LEAST, Level, attention, needs
from crawler.job.metrics.crawl_history import CrawlHistory
from tests.documents import page
from tests.job.metrics.samples import statistics

SOUND: dict[str, Any] = {
    "pages_code_failed": 0,
    "calls_code_failed": {},
    "paused": None,
    "paused_by": None,
    "proxies": {"failing": 0, "failures": 3, "named": []},
}
HELD = {"private-address": 3, "link-local": 0}
SUSPECT = {"count_suspect": True, "count_estimated": 900.0, "count": 100}

ONE = {"count": 1, "named": [{"host": "h.test:80", "pages": 8, "of": 9}]}


def found(**changes: Any) -> list[tuple[str, str]]:
    stats = statistics() | SOUND
    stats["seen"] = stats["seen"] | {"count_suspect": False}
    return [(need.kind, need.text) for need in needs(stats | changes)]


def test_a_sound_crawl_needs_nobody() -> None:
    assert found() == []
    assert needs({}) == [], "before there are statistics"


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"paused": "disk full: no space", "paused_by": "disk"}, "disk-full"),
        ({"paused": "outage: nothing answers", "paused_by": "outage"}, "outage"),
        ({"state": "ended", "pages_fetched": 0, "urls_held_back": HELD}, "nothing-fetched"),
        ({"state": "stopped", "pages_fetched": 0}, "nothing-fetched"),
        ({"pages_code_failed": 1}, "code-fails"),
        ({"calls_code_failed": {"is_changed": 2, "filter_link": 1}}, "code-fails"),
        ({"seen": SUSPECT}, "seen-suspect"),
        ({"hosts": 100, "hosts_by_state": {"retired": 10}}, "hosts-retired"),
        ({"hosts": 50, "hosts_without_page": {"refused": 30, "dns": 9, "tls": 0}}, "hosts-without-page"),
        ({"hosts": 10, "hosts_need_browser": ONE}, "hosts-need-browser"),
        ({"proxies": {"failing": 2}}, "proxy-fails"),
    ],
)
def test_what_needs_somebody_is_said(changes: dict[str, Any], kind: str) -> None:
    assert [met for met, _ in found(**changes)] == [kind]
    assert f"- `{kind}`: " in page("dashboard.md")


def test_pauses_by_hand_or_by_the_clock_and_a_few_dead_hosts_need_nobody() -> None:
    assert found(paused="paused by user", paused_by="user") == []
    assert found(paused="outside the hours", paused_by="hours") == []
    assert found(hosts=20, hosts_by_state={"retired": HOSTS_LEAST - 1}) == []
    assert found(hosts=1_000, hosts_by_state={"retired": HOSTS_LEAST}) == []
    assert found(hosts=20, hosts_without_page={"dns": HOSTS_LEAST - 1, "excluded": 5}) == []


def test_the_most_urgent_comes_first() -> None:
    kinds = [kind for kind, _ in found(paused="disk full: x", paused_by="disk", seen=SUSPECT, pages_code_failed=2)]
    assert kinds == ["disk-full", "seen-suspect", "code-fails"]
    listed = re.findall(r"^- `([a-z-]+)`:", page("dashboard.md").partition("one of these kinds:")[2], re.MULTILINE)
    assert [kind for kind in listed if kind in kinds] == kinds


SHOWN: list[tuple[dict[str, Any], str, Level]] = [
    ({"state": "paused", "paused": "paused by user", "paused_by": "user"}, "paused", Level.BAD),
    ({"seen": {"fpp_estimated": 0.02, "fpp_target": 0.01}}, "seen-errs", Level.BAD),
    ({"seen_warning": {"cause": "full", "text": "it is nearly full"}}, "seen-limit", Level.WAIT),
    ({"internal_failures": 3}, "unreadable-answers", Level.BAD),
    ({"hooks": {"on_page": {"function": "mine:page", "stopped": "KeyError: 'x'"}}}, "code-stopped", Level.BAD),
    ({"text_failed": 2}, "text-fails", Level.WAIT),
    ({"hosts": 11, "hosts_need_browser": ONE}, "hosts-need-browser", Level.WAIT),
]


@pytest.mark.parametrize(("stats", "kind", "level"), SHOWN, ids=[kind for _, kind, _ in SHOWN])
def test_what_only_the_page_shows_is_decided_here_too(stats: dict[str, Any], kind: str, level: Level) -> None:
    (need,) = attention(stats)
    assert (need.kind, need.level) == (kind, level)
    assert all((need.what, need.act, need.text))
    assert needs(stats) == []
    (shown,) = CrawlHistory().words({"state": "running"} | stats)["needs"]
    assert shown == need._asdict()


def test_what_is_told_is_shown_too() -> None:
    stats: dict[str, Any] = {"paused": "disk full", "paused_by": "disk", "state": "paused"}
    stats |= {"pages_code_failed": 4, "proxies": {"failing": 1}}
    assert [need.kind for need in needs(stats)] == ["disk-full", "code-fails", "proxy-fails"]
    assert attention(stats) == needs(stats)
