"""What of the requests of a page is refused before anything else, and what is passed on."""

from __future__ import annotations

from typing import Any

import pytest

from crawler.web.browser.asked import passed_on, refusal_of
from crawler.web.browser.rendered import Kind, Refusal, SubRequest

PAGE = "https://www.example.co.uk/shop"
OWN, OTHER, GOOGLE = "https://api.example.co.uk/x", "https://cdn.test/x", "https://www.google-analytics.com/x"
ANY, NONE, POST, IN = {"third_parties": "any"}, {"third_parties": "none"}, {"post": "same-site"}, {"in_scope": True}
TYPE, THIRD, METHOD, TRACKER = Refusal.TYPE, Refusal.THIRD_PARTY, Refusal.METHOD, Refusal.TRACKER
READ, DATA, TAKEN = (Kind.SCRIPT, Kind.STYLESHEET), (Kind.DATA, Kind.DOCUMENT), ("GET", "HEAD")
SHOWN, OTHERS = (Kind.OTHER,), ("PUT", "DELETE", "PATCH", "OPTIONS", "x")


@pytest.mark.parametrize(
    ("url", "kinds", "methods", "how", "why"),
    [
        (OWN, SHOWN, TAKEN, ANY, TYPE), (OWN, READ + DATA, TAKEN, NONE, None), (OTHER, READ + DATA, TAKEN, NONE, THIRD),
        (OTHER, READ, TAKEN, {}, None), (OTHER, DATA, TAKEN, {}, THIRD), (OTHER, READ + DATA, TAKEN, ANY, None),
        (OTHER, DATA, TAKEN, NONE | IN, None), (OTHER, SHOWN, TAKEN, IN, TYPE), (GOOGLE, DATA, TAKEN, ANY, TRACKER),
        ("https://o1.ingest.sentry.io./", READ, TAKEN, ANY, TRACKER), ("https://notsentry.io/", READ, TAKEN, {}, None),
        (GOOGLE, READ, TAKEN, {"page": "http://google-analytics.com/"}, None), (OWN, DATA, ("POST",), {}, METHOD),
        ("http://127.0.0.2/", DATA, TAKEN, {"page": "http://127.0.0.1/"}, THIRD), (OWN, DATA, ("POST",), POST, None),
        (OTHER, DATA, ("POST",), POST | ANY | IN, METHOD), (OWN, DATA, OTHERS, POST | ANY | IN, METHOD),
    ],
)  # fmt: skip
def test_what_is_refused(url: str, kinds: Any, methods: Any, how: dict[str, Any], why: Refusal | None) -> None:
    given = {"page": PAGE, "in_scope": False, "third_parties": "scripts", "post": "never"} | how
    asked = [SubRequest(url, method, kind, {}) for kind in kinds for method in methods]
    headers = [{"Access-Control-Request-Method": method, "Origin": "https://o.test"} for method in methods]
    asked += [SubRequest(url, "OPTIONS", Kind.PREFLIGHT, each) for each in headers if kinds == DATA]
    assert {refusal_of(each, **given) for each in asked} == {why}
    for headers in ({"Sec-Purpose": "prefetch;prerender"}, {"purpose": "prefetch"}, {"Accept": "text/event-stream"}):
        assert refusal_of(SubRequest(url, methods[0], kinds[0], headers), **given) is TYPE


def test_what_the_browser_says_of_itself_is_not_passed_on() -> None:
    ours = "User-Agent Cookie Sec-Fetch-Mode sec-ch-ua Accept-Encoding If-None-Match Range Host Proxy-Authorization DPR"
    of_page = {"accept": "x", "origin": "x", "referer": "x", "apikey": "x", "authorization": "x", "content-type": "x"}
    assert passed_on(SubRequest(OWN, "GET", Kind.DATA, dict.fromkeys(ours.split(), "x") | of_page)) == of_page
    assert "accept" not in passed_on(SubRequest(OWN, "GET", Kind.DOCUMENT, {"Accept": "text/html"}))
