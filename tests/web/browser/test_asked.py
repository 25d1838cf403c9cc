"""What of the requests of a page is refused before anything else, and what is passed on."""

from __future__ import annotations

from typing import Any

import pytest

from crawler.web.browser.asked import passed_on, preflight, refusal_of
from crawler.web.browser.rendered import Kind, Refusal, SubRequest

PAGE = "https://www.example.co.uk/shop"
OWN, OTHER, TRACKER = "https://api.example.co.uk/x", "https://cdn.test/x", "https://www.google-analytics.com/x"
TYPE, THIRD, METHOD = Refusal.TYPE, Refusal.THIRD_PARTY, Refusal.METHOD


def wanted(url: str, kind: Kind = Kind.SCRIPT, method: str = "GET", **headers: str) -> SubRequest:
    return SubRequest(url, method, kind, {name.replace("_", "-"): value for name, value in headers.items()})


def preflighted(url: str, method: str) -> SubRequest:
    return wanted(url, Kind.PREFLIGHT, "OPTIONS", Access_Control_Request_Method=method, Origin="https://o.test")


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        *((wanted(OWN, kind), TYPE) for kind in (Kind.IMAGE, Kind.FONT, Kind.MEDIA, Kind.OTHER)),
        *((wanted(OWN, kind), None) for kind in (Kind.DOCUMENT, Kind.SCRIPT, Kind.STYLESHEET, Kind.DATA)),
        *((wanted(OTHER, kind), None) for kind in (Kind.SCRIPT, Kind.STYLESHEET)),
        *((wanted(OTHER, kind), THIRD) for kind in (Kind.DOCUMENT, Kind.DATA)),
        (wanted(OWN, Sec_Purpose="prefetch;prerender"), TYPE),
        (wanted(OWN, Purpose="prefetch"), TYPE),
        (wanted(OWN, Kind.DATA, Accept="text/event-stream"), TYPE),
        (wanted(TRACKER), Refusal.TRACKER),
        (wanted("https://o1.ingest.sentry.io./x", Kind.DATA), Refusal.TRACKER),
        (wanted("https://notsentry.io/x"), None),
        (wanted(OWN, method="HEAD"), None),
        *((wanted(OWN, Kind.DATA, method), METHOD) for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "X")),
        (preflighted(OWN, "GET"), None),
        (preflighted(OWN, "PUT"), METHOD),
        (preflighted(OTHER, "GET"), THIRD),
    ],
)
def test_what_is_refused_with_the_settings_by_default(request_: SubRequest, why: Refusal | None) -> None:
    assert refusal_of(request_, PAGE, False, "scripts", "never") is why


@pytest.mark.parametrize(
    ("request_", "how", "why"),
    [
        (wanted(OTHER), {"third_parties": "none"}, THIRD),
        (wanted(OWN, Kind.DATA), {"third_parties": "none"}, None),
        (wanted(OTHER, Kind.DATA), {"third_parties": "any"}, None),
        (wanted(OTHER, Kind.DATA), {"in_scope": True, "third_parties": "none"}, None),
        (wanted(OTHER, Kind.IMAGE), {"third_parties": "any"}, TYPE),
        (wanted(TRACKER), {"third_parties": "any"}, Refusal.TRACKER),
        (wanted(TRACKER), {"page": "https://google-analytics.com/"}, None),
        (wanted("http://127.0.0.2/", Kind.DATA), {"page": "http://127.0.0.1/"}, THIRD),
        (wanted(OWN, Kind.DATA, "POST"), {"post": "same-site"}, None),
        (wanted(OWN, Kind.DATA, "DELETE"), {"post": "same-site"}, METHOD),
        (wanted(OTHER, Kind.DATA, "POST"), {"post": "same-site", "third_parties": "any"}, METHOD),
        (wanted(OTHER, Kind.DATA, "POST"), {"post": "same-site", "in_scope": True}, METHOD),
        (preflighted(OWN, "POST"), {"post": "same-site"}, None),
    ],
)
def test_what_the_settings_change(request_: SubRequest, how: dict[str, Any], why: Refusal | None) -> None:
    given = {"page": PAGE, "in_scope": False, "third_parties": "scripts", "post": "never"} | how
    assert refusal_of(request_, **given) is why


def test_a_preflight_is_answered_with_what_it_asks_for() -> None:
    answer = preflight(preflighted(OTHER, "POST"))
    assert (answer.status, dict(answer.headers)["Access-Control-Allow-Origin"]) == (204, "https://o.test")
    assert dict(answer.headers)["Access-Control-Allow-Methods"] == "POST"


def test_what_the_browser_says_of_itself_is_not_passed_on() -> None:
    ours = {"User-Agent": "x", "Cookie": "a=b", "Sec-Fetch-Mode": "cors", "sec-ch-ua": "x", "Accept-Encoding": "br"}
    ours |= {"If-None-Match": '"x"', "Range": "bytes=0-1", "Host": "x", "Proxy-Authorization": "x", "DPR": "2"}
    of_page = {"accept": "application/json", "origin": "https://o.test", "referer": PAGE, "apikey": "x"}
    of_page |= {"authorization": "Bearer x", "x-requested-with": "XMLHttpRequest", "content-type": "text/plain"}
    assert passed_on(SubRequest(OWN, "GET", Kind.DATA, ours | of_page)) == of_page
    assert "accept" not in passed_on(SubRequest(OWN, "GET", Kind.DOCUMENT, {"Accept": "text/html"}))
