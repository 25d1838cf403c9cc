"""What a page wants of crawlers, and the links that its headers name, in whole crawls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from multidict import CIMultiDict

from crawler.base.settings.parts import FetchSettings, LinkSettings
from crawler.engine.lifecycle import Stop
from crawler.web.fetch import Response
from tests.laboratory import SETTINGS, Laboratory, links

A = "http://a.test/"
AGENT = "Mozilla/5.0 (compatible; tester/2.0; +https://example.com)"


def answer(html: str | None = "", *headers: tuple[str, str], status: int = 200, kind: str = "text/html") -> Response:
    """``html`` is None for a body that is not read."""
    body = None if html is None else html.encode()
    return Response(status, CIMultiDict(headers), kind, "utf-8", body, None, None, 0.0, 0)


def records(tmp_path: Path, pages: dict[str, Any], **settings: Any) -> dict[str, dict[str, Any]]:
    lab = Laboratory(
        tmp_path, pages, replace(SETTINGS, fetch=FetchSettings(user_agent=AGENT), links=LinkSettings(**settings))
    )
    assert lab.run(A) is Stop.FINISHED
    return {record["url"]: record for record in lab.records()}


def meta(name: str, content: str) -> str:
    return f'<meta name="{name}" content="{content}">'


X = "X-Robots-Tag"
ONE_LINK = links([f"{A}b"])
FORBID = {
    "element": answer(meta("robots", "noindex, nofollow") + ONE_LINK),
    "element for us, by spaces": answer(meta("Tester", "noindex  NoFollow") + ONE_LINK),
    "elements, one for us": answer(meta("robots", "noindex") + meta("tester", "nofollow") + ONE_LINK),
    "header": answer(ONE_LINK, (X, "noindex, nofollow")),
    "headers, one for us": answer(ONE_LINK, (X, "noindex"), (X, "tester: nofollow")),
    "header and element": answer(meta("robots", "nofollow") + ONE_LINK, (X, "noindex")),
    "header for several": answer(ONE_LINK, (X, "otherbot: none, tester: noindex, nofollow")),
}


@pytest.mark.parametrize("page", FORBID.values(), ids=FORBID)
def test_links_are_not_followed_where_the_page_says_so(tmp_path: Path, page: Response) -> None:
    found = records(tmp_path, {A: page, f"{A}b": "b"})
    assert list(found) == [A]
    assert sorted(found[A]["robots"]) == ["nofollow", "noindex"]
    assert (found[A]["outcome"], found[A]["links"]) == ("fetched", 0)


@pytest.mark.parametrize("page", FORBID.values(), ids=FORBID)
def test_unless_the_settings_say_otherwise(tmp_path: Path, page: Response) -> None:
    found = records(tmp_path, {A: page, f"{A}b": "b"}, respect_meta_robots=False)
    assert list(found) == [A, f"{A}b"]
    assert sorted(found[A]["robots"]) == ["nofollow", "noindex"]


def test_headers_name_links(tmp_path: Path) -> None:
    page = answer(
        f'<base href="{A}base/">' + links(["1"]),
        ("Link", "</next>; rel=next, </style.css>; rel=preload"),
        ("Link", f'<{A}canonical>; rel="canonical"'),
        ("Refresh", "3; url=/refresh"),
    )
    found = records(tmp_path, {A: page} | dict.fromkeys((f"{A}{n}" for n in ("next", "base/1")), "x"))
    assert set(found) == {A, *(f"{A}{name}" for name in ("next", "canonical", "refresh", "base/1"))}
    assert found[A]["links"] == 4
    assert found[f"{A}next"]["via"] == A
    assert found[f"{A}next"]["depth"] == 1


@pytest.mark.parametrize("html", [None, ONE_LINK])
def test_nofollow_is_for_links_in_headers_too(tmp_path: Path, html: str | None) -> None:
    page = answer(
        html, ("Link", "</next>; rel=next"), (X, "nofollow"), kind="application/pdf" if html is None else "text/html"
    )
    assert list(records(tmp_path, {A: page})) == [A]
    assert len(records(tmp_path / "all", {A: page}, respect_meta_robots=False)) > 1
