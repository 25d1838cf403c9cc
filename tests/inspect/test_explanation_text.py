"""The words of ``explain`` say what there is to say, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from crawler.base.kv import Family
from crawler.frontier.entry import Entry
from crawler.frontier.page import HASTENED, SIGNALLED, Page, pack_page
from crawler.frontier.recrawl.change_rate import ChangeRate
from crawler.inspect.explanation import Explanation, Step, explain_url
from crawler.job.durable_frontier import DurableFrontier
from crawler.service.explanation_text import explanation_lines
from crawler.url.urls.canonicaliser import Canonicaliser
from tests.jobs import store_of

NOW = 1_750_000_000.0
URL = "http://a.test/"


def lines(found: Explanation) -> list[tuple[str, str]]:
    return list(explanation_lines(found))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (URL, ["text"]),
        ("http://a.test/#top", ["text", "drop fragment"]),
        ("HTTP://A.test:80", ["text", "parse"]),
        ("http://a.test/%7e", ["text", "decode unreserved"]),
        ("ftp://a.test/", ["text", "rejected", "not a URL to crawl"]),
    ],
)
def test_only_steps_that_changed_the_url_are_shown(text: str, told: list[str]) -> None:
    steps = [Step(*step) for step in Canonicaliser(()).explain(text)]
    rejected = steps[-1].value if steps[-1].name == "rejected" else None
    found = Explanation(text, NOW, steps=steps, rejected=rejected)
    shown = [what for what, _ in lines(found) if not what.startswith("host ")]
    assert shown[: len(told)] == told
    assert len(set(shown) & {step.name for step in steps}) == len([what for what in told if "not a" not in what])


def test_a_page_that_was_only_put_back_has_no_schedule(tmp_path: Path) -> None:
    with DurableFrontier(tmp_path / "job", clock=lambda: NOW) as frontier:
        frontier.add(URL)
        lease = frontier.take()
        assert lease is not None
        frontier.finish(lease)
        frontier.visit_again(urls=[URL])
    found = explain_url(tmp_path / "job", URL, NOW)
    assert found.place is not None
    assert found.place.visited_before
    assert found.schedule is None
    assert "schedule" not in dict(lines(found))


def test_a_visit_that_a_sitemap_moved_forward_says_so(tmp_path: Path) -> None:
    with DurableFrontier(tmp_path / "job", clock=lambda: NOW) as frontier:
        frontier.add(URL)
    entry = Entry(URL, 0)._replace(revisit=True)
    page = Page(entry, 3, 1, 86_400.0, NOW + 60.0, NOW, marks=SIGNALLED | HASTENED, stated=NOW - 3_600.0)
    due = "3 visits, 1 found a change, interval 86400 s, the next visit is at 2025-06-15T15:07:40Z"
    for marks, words in (
        (SIGNALLED | HASTENED, ", sooner than by the interval: its site dates a change to 2025-06-15T14:06:40Z"),
        (SIGNALLED, ""),  # its host is not believed
    ):
        with store_of(tmp_path / "job") as store:
            batch = store.batch()
            batch.put(Family.PAGES, URL.encode(), pack_page(page._replace(marks=marks, rate=ChangeRate(1.0, 86_400.0))))
            store.write(batch)
            store.sync()
        found = explain_url(tmp_path / "job", URL, NOW)
        assert found.schedule is not None
        assert found.schedule.moved_for == (page.stated if words else None)
        assert dict(lines(found))["schedule"].replace(", changes 1 times a day (estimate)", "") == due + words
    dict(lines(Explanation(URL, NOW, host_row=found.host_row, schedule=replace(found.schedule, due=None))))
    once = replace(found.schedule, visits=1)
    told = dict(lines(Explanation(URL, NOW, host_row=found.host_row, schedule=once)))
    assert "a day" not in told["schedule"], "one visit tells nothing of changes"


def test_a_page_that_was_fetched_is_not_called_refused() -> None:
    found = Explanation(URL, NOW, refused="private-address: 10.0.0.1", record={"status": 200, "outcome": "ok"})
    assert dict(lines(replace(found, record=None)))["refused"] == "private-address: 10.0.0.1"
