"""What is rendered because it pays, in the life of a crawl, by a made-up browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from crawler.base.settings.parts import BrowserSettings
from crawler.engine.lifecycle import Stop
from crawler.frontier.rendering.recall import SIZE, estimated
from crawler.job.recovery import stored_counters
from tests.engine.test_rendering import MadeUp, laboratory, page
from tests.laboratory import Laboratory, links

AT = "http://a.test/"
TEXT = "Some words of an article that a server has sent. " * 8
NEW = "whatever the scripts have written here is not in the page as it came, and there are more words than a few"


@pytest.mark.parametrize(
    ("raw", "made", "gained"),
    [
        (TEXT, TEXT, False),
        (f"{TEXT}caf\xe9", f"{TEXT}<b>caf&eacute;</b> two more", False),
        (TEXT, f"{TEXT}<script>{NEW}</script><style>{NEW}</style><p title='{NEW}'>", False),
        (TEXT, f"{TEXT}{NEW}", True),
        (TEXT, f"{TEXT}<a href=/new>x</a>", True),
        (f"{TEXT}<a href=/new?b#c>x", f"{TEXT}<a href=http://a.test/new?b>x</a><a href=/>itself</a>", False),
        (TEXT, f"{TEXT}<a href=http://elsewhere.test/a>x</a>", False),
    ],
)
def test_what_pays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raw: str, made: str, gained: bool) -> None:
    browser = MadeUp({AT: page(made.encode(), AT)} | {AT + name: page(b"", AT + name) for name in ("new", "new?b")})
    lab = signs(laboratory(tmp_path, {AT: raw}, browser, monkeypatch))
    assert lab.run(AT) is Stop.FINISHED
    recall = estimated(stored_counters(lab.store).audited)
    assert recall is not None
    assert recall.hits == gained
    assert lab.records()[0]["rendered_for"] == "audit"


def test_what_was_learned_outlives_the_run_and_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docs, apps = ([f"{AT}{name}/{number}" for number in range(60)] for name in ("doc", "app"))
    pages: dict[str, Any] = dict.fromkeys(docs + apps, TEXT) | {f"{each}?more": TEXT for each in apps}
    made = {each: page(f"{TEXT}{NEW}".encode(), each) for each in pages}  # a banner on all of them
    made |= {each: page(f"{TEXT}{NEW}<a href={each}?more>".encode(), each) for each in apps}
    pages[AT] = links(docs + apps)
    lab = signs(laboratory(tmp_path, pages, MadeUp(made | {AT: page(pages[AT].encode(), AT)}), monkeypatch))
    assert lab.run(AT, max_time=40.0) is not Stop.FINISHED
    assert lab.run(AT) is Stop.FINISHED
    visited = [(each["url"].removeprefix(AT), each.get("rendered_for")) for each in lab.records()]
    audited = stored_counters(lab.store).audited
    recall = estimated(audited)
    assert recall is not None
    assert (len(audited), recall.pages) == (SIZE, len(visited))
    assert recall.rendered == sum(why is not None for _, why in visited)
    assert [why for url, why in visited if url.startswith("app/") and "?" not in url][-30:].count("shape") >= 25
    # After the restart the banner was new once more, for a few pages.
    assert [why for url, why in visited if url.startswith("doc/")][-4:] == [None] * 4


def signs(lab: Laboratory) -> Laboratory:
    crawl = replace(lab.settings.crawl, scope="host")
    lab.settings = replace(lab.settings, crawl=crawl, browser=BrowserSettings(when="signs"))
    return lab
