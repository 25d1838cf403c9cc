"""What ``explain`` leaves out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crawler.inspect.explanation import explain_url
from crawler.job.durable_frontier import DurableFrontier
from crawler.service.explanation_text import explanation_lines, rendered_words

NOW = 1_750_000_000.0
URL = "http://a.test/"


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
    assert "schedule" not in dict(explanation_lines(found))


@pytest.mark.parametrize(
    ("record", "when", "named"),
    [
        ({"needs_scripts": ["text", "mount"]}, "signs", "text, mount"),
        ({"needs_scripts": ["text", "mount"]}, "never", "text, mount"),
        ({"needs_scripts": ["text", "mount"]}, "always", "crawler retry"),
        ({"status": 404}, "always", "404"),
        ({"outcome": "soft404"}, "signs", "soft404"),
    ],
)
def test_a_page_that_was_not_rendered_has_the_reason_that_is_true_of_it(
    record: dict[str, Any], when: str, named: str
) -> None:
    assert named in rendered_words({"outcome": "fetched", "status": 200, "error": None, **record}, when)
