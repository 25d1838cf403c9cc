"""The tools of these tests: what they would miss, they would miss for all hosts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.hostile.server import page
from tests.hostile.web import EVIL, Hostile
from tests.site import linked


def healthy(web: Hostile) -> None:
    web.pages[EVIL] = {"/": page(linked(["/a"])), "/a": page("x")}


def ask_twice(web: Hostile) -> None:
    web.innocent.asked.append(web.innocent.asked[-1])


def say_less(web: Hostile) -> None:
    web.innocent.pages = {**web.innocent.pages, "/page/99": "never linked"}


@pytest.mark.parametrize("harm", [say_less, ask_twice])
def test_an_innocent_host_that_lost_something_is_noticed(hostile: Hostile, harm: Callable[[Hostile], None]) -> None:
    healthy(hostile)
    crawled = hostile.crawl()
    harm(hostile)
    with pytest.raises(AssertionError):
        crawled.hold_innocent()
