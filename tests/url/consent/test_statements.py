"""What each source says of each purpose, and which statement holds."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from multidict import CIMultiDict

from crawler.base.settings.parts import PURPOSES, FetchSettings, PurposeSettings, Settings
from crawler.engine.understanding import Understanding
from crawler.frontier.entry import Entry
from crawler.job.verdict import Draft
from crawler.url.consent.statements import LINES_MOST, Stated, refusal, stated_in, stricter
from crawler.url.robots.parse import parse_robots, robots_url, target_of
from crawler.web.fetch import Response
from crawler.web.fetch.robots_fetch import locate
from crawler.web.links.extract import extract_links

NOW = 1_800_000_000.0
PAST, FUTURE = "2020-01-31T12:00:00Z", "2100-01-31T12:00:00Z"
NO_AI = {"ai-input": "no", "ai-train": "no"}
NOTHING = dict.fromkeys(PURPOSES, "no")
GONE = {"search": "no", "ai-input": "no", "ai-train": "no", "archive": "no"}
RESERVED = {"tdm": "no", "ai-train": "no"}


def as_words(stated: Stated) -> dict[str, str]:
    return {purpose: word for purpose, (word, _) in stated.items()}


class NoWeb:
    """What a page is resolved against, without a crawl."""

    def base(self, href: str, stated: str | None) -> str:
        return stated or href

    canonical = resolve = None


def said(
    robots: str = "", *headers: tuple[str, str], html: str | None = "", href: str = "http://h.test/", kind: str = ""
) -> tuple[dict[str, str], dict[str, str], str | None]:
    """The consent of a page, its sources, and its license."""
    understanding = Understanding(replace(Settings(), fetch=FetchSettings(user_agent="crawler/1.0")))
    rules = parse_robots(robots.replace(" | ", "\n").encode(), "crawler/1.0")
    body = None if html is None else html.encode()
    kind = kind or "text/html"
    answer = Response(200, CIMultiDict(headers), kind, "utf-8", body, None, None, 0.0, 0)
    draft = understanding.verdict(Entry(href, 0), answer, NOW, False, False)
    assert isinstance(draft, Draft)
    stated = stricter(*[each.of(target_of(href)) for each in rules.statements])
    record = draft.record
    record.consent = stricter(stated, record.consent)
    record.license = record.license or next((locate(each, robots_url(href)) for each in rules.licenses), None)
    if body is not None and kind == "text/html":
        web: Any = NoWeb()
        facts = understanding.page(web, draft, extract_links(body, "utf-8", understanding.links))
        record.consent, record.license = facts.consent, facts.license
    sources = {purpose: source for purpose, (_, source) in record.consent.items()}
    return as_words(record.consent), sources, record.license


def grouped(*lines: str) -> str:
    return "\n".join(["User-agent: *", *lines])


OPEN = "http://h.test/open/a"
SIGNAL, USAGE = "Content-Signal:", "Content-Usage:"
ROBOTS: list[tuple[str, str, dict[str, str]]] = [
    # Content-Signal
    (
        grouped(f"{SIGNAL} search=yes, ai-input=yes, ai-train=no"),
        OPEN,
        {"search": "yes", "ai-input": "yes", "ai-train": "no"},
    ),
    (grouped(f"{SIGNAL} search=yes,ai-train=no"), OPEN, {"search": "yes", "ai-train": "no"}),
    (grouped("content-signal:ai-train=no"), OPEN, {"ai-train": "no"}),
    (grouped(f"{SIGNAL} AI-Train = NO"), OPEN, {"ai-train": "no"}),
    (grouped(f"{SIGNAL} ai-train=no # as of today"), OPEN, {"ai-train": "no"}),
    (grouped(f"{SIGNAL} ai-train=maybe, search=no"), OPEN, {"search": "no"}),
    (grouped(f"{SIGNAL} tdm=no, archive=no, unknown=no"), OPEN, {}),
    (grouped(f"{SIGNAL} ai-train"), OPEN, {}),
    (grouped(SIGNAL), OPEN, {}),
    (grouped(f"{SIGNAL} ai-train=yes, ai-train=no"), OPEN, {"ai-train": "no"}),
    (grouped(f"{SIGNAL} ai-train=no", f"{SIGNAL} search=no"), OPEN, {"ai-train": "no", "search": "no"}),
    (f"{SIGNAL} ai-train=no", OPEN, {}),
    (f"{SIGNAL} ai-train=no | User-agent: * | Disallow:", OPEN, {}),
    # groups
    (f"User-agent: other | {SIGNAL} ai-train=no", OPEN, {}),
    (f"User-agent: * | {SIGNAL} ai-train=no | User-agent: crawler | Allow: /", OPEN, {}),
    (f"User-agent: crawler | {SIGNAL} ai-train=no | User-agent: * | Allow: /", OPEN, {"ai-train": "no"}),
    (f"User-agent: CRAWLER/2 | {SIGNAL} ai-train=no", OPEN, {"ai-train": "no"}),
    (
        f"User-agent: crawler | {SIGNAL} ai-train=yes | User-agent: other | {SIGNAL} ai-train=no",
        OPEN,
        {"ai-train": "yes"},
    ),
    (f"User-agent: other | User-agent: crawler | {SIGNAL} ai-train=no", OPEN, {"ai-train": "no"}),
    (
        f"User-agent: crawler | {SIGNAL} search=no | User-agent: x | Allow: / | User-agent: crawler | {USAGE} bots=n",
        OPEN,
        NOTHING,
    ),
    (f"User-agent: * | Disallow: /x | {SIGNAL} ai-train=no | Allow: /", OPEN, {"ai-train": "no"}),
    # Content-Usage, and paths
    (grouped(f"{USAGE} train-ai=n"), OPEN, {"ai-train": "no"}),
    (grouped(f"{USAGE} train-ai=y, search=n"), OPEN, {"ai-train": "yes", "search": "no"}),
    (grouped(f"{USAGE} train-genai=n"), OPEN, {"ai-train": "no"}),
    (grouped(f"{USAGE} bots=n"), OPEN, NOTHING),
    (grouped(f"{USAGE} bots=y"), OPEN, {}),
    (grouped(f"{USAGE} bots=n, search=y"), OPEN, NOTHING),
    (grouped(f'{USAGE} train-ai=n;note="a, b"'), OPEN, {"ai-train": "no"}),
    (grouped(f"{USAGE} train-ai=?0"), OPEN, {}),
    (grouped(f"{USAGE} train-ai=no"), OPEN, {}),
    (grouped(f"{USAGE} train-ai=n,"), OPEN, {}),
    (grouped(f"{USAGE} Train-AI=n"), OPEN, {}),
    (grouped(f"{USAGE} /open/ train-ai=y", f"{USAGE} train-ai=n"), OPEN, {"ai-train": "yes"}),
    (grouped(f"{USAGE} /open/ train-ai=y", f"{USAGE} train-ai=n"), "http://h.test/", {"ai-train": "no"}),
    (grouped(f"{USAGE} / train-ai=n", f"{USAGE} /open train-ai=y"), OPEN, {"ai-train": "yes"}),
    (grouped(f"{USAGE} /*/a$ train-ai=n"), OPEN, {"ai-train": "no"}),
    (grouped(f"{USAGE} /*/a$ train-ai=n"), f"{OPEN}b", {}),
    (grouped(f"{USAGE} /open/ train-ai=y", f"{USAGE} /open/ train-ai=n"), OPEN, {"ai-train": "no"}),
    (grouped(f"{USAGE} /open/\ttrain-ai=n"), OPEN, {"ai-train": "no"}),
    (grouped(f"{USAGE} train-ai=n", f"{USAGE} /open/"), OPEN, {}),
    (grouped(f"{USAGE} /open/ search=y", f"{USAGE} train-ai=n"), OPEN, {"search": "yes"}),
    (grouped(f"{USAGE} /%6Fpen/ train-ai=n"), OPEN, {"ai-train": "no"}),
    (grouped(f"{SIGNAL} /open/ ai-train=yes", f"{SIGNAL} ai-train=no"), OPEN, {"ai-train": "yes"}),
    # both
    (grouped(f"{SIGNAL} ai-train=yes", f"{USAGE} train-ai=n"), OPEN, {"ai-train": "no"}),
    (grouped(f"{SIGNAL} ai-train=no", f"{USAGE} /open/ train-ai=y"), OPEN, {"ai-train": "no"}),
    (
        grouped(*[f"{USAGE} /{number} search=n" for number in range(LINES_MOST)], f"{USAGE} /x train-ai=n"),
        OPEN,
        {"ai-train": "no"},
    ),
    (grouped(*[f"{USAGE} /{number} search=n" for number in range(LINES_MOST)], f"{USAGE} train-ai=y"), OPEN, {}),
    (grouped(f"{USAGE} /{'*a' * 200} train-ai=n, search=y"), OPEN, {"ai-train": "no"}),
]


@pytest.mark.parametrize(("robots", "href", "consent"), ROBOTS)
def test_robots_txt(robots: str, href: str, consent: dict[str, str]) -> None:
    assert said(robots, href=href)[0] == consent


X, TDM, USED = "X-Robots-Tag", "tdm-reservation", "Content-Usage"
HEADERS: list[tuple[list[tuple[str, str]], dict[str, str]]] = [
    ([(USED, "train-ai=n")], {"ai-train": "no"}),
    ([(USED, "train-ai=y"), (USED, "search=n")], {"ai-train": "yes", "search": "no"}),
    ([(USED, "train-ai=y"), (USED, "train-ai=n")], {"ai-train": "no"}),
    ([(USED, "a=(1 2), train-ai=n")], {"ai-train": "no"}),
    ([(USED, "=n")], {}),
    ([(USED, "bots=n")], NOTHING),
    ([(TDM, "1")], RESERVED),
    ([(TDM, " 0 ")], {"tdm": "yes"}),
    ([(TDM, "2")], {}),
    ([(TDM, "0"), (TDM, "1")], RESERVED),
    ([(X, "noai")], NO_AI),
    ([(X, "NoAI, noimageai")], NO_AI),
    ([(X, "noimageai")], {}),
    ([(X, "noindex")], {"search": "no"}),
    ([(X, "none")], {"search": "no"}),
    ([(X, "noarchive, nosnippet")], {"archive": "no", "ai-input": "no"}),
    ([(X, "crawler: noai")], NO_AI),
    ([(X, "otherbot: noai")], {}),
    ([(X, "otherbot: noindex, crawler: noarchive")], {"archive": "no"}),
    ([(X, f"unavailable_after: {PAST}")], GONE),
    ([(X, f"unavailable_after: {FUTURE}")], {}),
    ([(X, "unavailable_after: soon")], {}),
    ([(X, "all, index, follow, nofollow, max-snippet:0")], {}),
    ([(X, "noai"), (USED, "train-ai=y, search=y")], NO_AI | {"search": "yes"}),
]


@pytest.mark.parametrize(("headers", "consent"), HEADERS)
def test_headers(headers: list[tuple[str, str]], consent: dict[str, str]) -> None:
    assert said("", *headers)[0] == consent
    assert said("", *headers, html=None, kind="application/pdf")[0] == consent


def meta(name: str, content: str) -> str:
    return f'<meta name="{name}" content="{content}">'


ELEMENTS: list[tuple[str, dict[str, str]]] = [
    (meta("robots", "noai"), NO_AI),
    (meta("ROBOTS", "NOAI"), NO_AI),
    (meta("robots", "noimageai"), {}),
    (meta("crawler", "noindex"), {"search": "no"}),
    (meta("otherbot", "noindex"), {}),
    (meta("robots", "noindex") + meta("crawler", "noarchive"), {"search": "no", "archive": "no"}),
    (meta("robots", "unavailable_after: 25 Jun 2010 15:00:00 PST"), GONE),
    (meta("tdm-reservation", "1"), RESERVED),
    (meta("TDM-Reservation", "0"), {"tdm": "yes"}),
    (meta("tdm-reservation", "yes"), {}),
    (meta("content-usage", "train-ai=n"), {}),
    ("<template>" + meta("robots", "noai") + "</template>", {}),
]


@pytest.mark.parametrize(("html", "consent"), ELEMENTS)
def test_elements(html: str, consent: dict[str, str]) -> None:
    assert said(html=html)[0] == consent


def test_an_image() -> None:
    assert said("", (X, "noimageai"), html=None, kind="image/png")[0] == NO_AI


TOGETHER: list[tuple[str, list[tuple[str, str]], str, dict[str, str]]] = [
    # robots.txt, headers, page -> sources of what holds
    (grouped(f"{SIGNAL} ai-train=no"), [(USED, "train-ai=y")], "", {"ai-train": "robots.txt Content-Signal"}),
    (grouped(f"{SIGNAL} ai-train=yes"), [(USED, "train-ai=n")], "", {"ai-train": "Content-Usage"}),
    (grouped(f"{USAGE} train-ai=y"), [], meta(TDM, "1"), dict.fromkeys(RESERVED, f"meta {TDM}")),
    (grouped(f"{USAGE} search=y"), [(TDM, "0")], meta(TDM, "0"), {"search": "robots.txt Content-Usage", "tdm": TDM}),
    (
        "",
        [(X, "noai")],
        meta("robots", "noai, noindex"),
        dict.fromkeys(NO_AI, f"{X}: noai") | {"search": "meta robots: noindex"},
    ),
    ("", [(X, f"unavailable_after: {PAST}")], "", dict.fromkeys(GONE, f"{X}: unavailable_after")),
]


@pytest.mark.parametrize(("robots", "headers", "html", "sources"), TOGETHER)
def test_the_source_is_that_of_the_stricter_statement(
    robots: str, headers: list[tuple[str, str]], html: str, sources: dict[str, str]
) -> None:
    assert said(robots, *headers, html=html)[1] == sources


RSL = 'rel="license"; type="application/rsl+xml"'
LICENSES: list[tuple[str, list[tuple[str, str]], str, str | None]] = [
    ("License: https://l.test/rsl.xml", [], "", "https://l.test/rsl.xml"),
    ("license: /rsl.xml | License: /other.xml | User-agent: x | Disallow: /", [], "", "http://h.test/rsl.xml"),
    ("License:", [], "", None),
    ("", [("Link", f"</a.xml>; {RSL}")], "", "http://h.test/a.xml"),
    ("", [("Link", '</a>; rel="license"')], "", None),
    ("", [("Link", f'</a.xml>; {RSL}; anchor="/b"')], "", None),
    ("", [], '<link rel="license" type="application/rsl+xml" href="b.xml">', "http://h.test/b.xml"),
    ("", [], '<link rel="license" href="b.html">', None),
    (
        "License: /r.xml",
        [("Link", f"</a.xml>; {RSL}")],
        "<link rel=license type=application/rsl+xml href=b.xml>",
        "http://h.test/b.xml",
    ),
    ("License: /r.xml", [("Link", f"</a.xml>; {RSL}")], "", "http://h.test/a.xml"),
    ("", [("tdm-policy", "/p.json")], meta("tdm-policy", "/p.json"), None),
]


@pytest.mark.parametrize(("robots", "headers", "html", "license"), LICENSES)
def test_terms_are_noted_and_state_nothing(
    robots: str, headers: list[tuple[str, str]], html: str, license: str | None
) -> None:
    assert said(robots, *headers, html=html) == ({}, {}, license)


REFUSED: list[tuple[str, tuple[str, ...], str, str | None]] = [
    # statements, purposes, what holds where nothing is stated -> why the page is dropped
    ("ai-train=no", ("ai-train",), "allow", "refuses ai-train"),
    ("ai-train=no tdm=no", ("tdm", "search", "ai-train"), "allow", "refuses tdm, ai-train"),
    ("ai-train=yes", ("ai-train",), "refuse", None),
    ("ai-train=no", ("search",), "allow", None),
    ("ai-train=no", ("search",), "refuse", "does not state search"),
    ("", ("archive",), "allow", None),
    ("", ("archive",), "refuse", "does not state archive"),
    ("ai-train=no", (), "refuse", None),
]


@pytest.mark.parametrize(("stated", "uses", "unstated", "why"), REFUSED)
def test_a_page_is_refused_for_what_it_refuses(
    stated: str, uses: tuple[str, ...], unstated: str, why: str | None
) -> None:
    refused = refusal(stated_in(stated), PurposeSettings(uses, unstated))
    assert (None if refused is None else refused.error) == (None if why is None else f"consent: the page {why}")
    assert refused is None or refused.subject == stated  # what a later run decides by


def test_no_order_of_statements_makes_them_less_strict() -> None:
    parts = [{"tdm": (word, str(number))} for number, word in enumerate(("yes", "no", "yes"))]
    assert [stricter(*parts[at:], *parts[:at])["tdm"] for at in range(3)] == [("no", "1")] * 3
