"""robots.txt: groups, patterns, and files nobody should have written."""

from __future__ import annotations

import re
import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.url.robots.parse import (
    LICENSES_MOST,
    LINE_BYTES,
    SITEMAPS_MOST,
    Cut,
    parse_robots,
    product_token,
    robots_for_status,
    robots_url,
)

AGENT = "crawler/0.1 (+https://example.com/about)"
LIMIT = 512_000


def allowed(text: str, path: str, agent: str = AGENT) -> bool:
    return parse_robots(text.encode(), agent, LIMIT).allowed("https://example.com" + path)


GROUPS = [
    # file, may /x be fetched
    ("", True),
    ("Disallow: /x", True),  # a rule that belongs to nobody
    ("User-agent: crawler/2.0\nDisallow: /x", False),
    ("User-agent: crawler 2.0 beta\nDisallow: /x", False),
    ("User-agent: crawlers\nDisallow: /x", True),
    ("User-agent: craw\nDisallow: /x", True),
    ("User-agent: my-crawler\nDisallow: /x", True),
    ("User-agent: *\nDisallow: /\n\nUser-agent: crawler\nDisallow: /y", True),  # the one that names us rules
    ("User-agent: crawler\nDisallow: /y\n\nUser-agent: *\nDisallow: /", True),
    ("User-agent: *\nDisallow: /\n\nUser-agent: crawler", True),  # even when it says nothing
    ("User-agent: *\nDisallow: /\n\nUser-agent: crawler\nDisallow:", True),
    ("User-agent: crawler\nDisallow: /y\nUser-agent: other\nUser-agent: crawler\nDisallow: /x", False),  # merged
    ("User-agent: crawler\nUser-agent: other\nDisallow: /x", False),
    ("User-agent: crawler\n\n# blank lines end nothing\n\nUser-agent: other\n\nDisallow: /x", False),
    ("User-agent: crawler\nSitemap: https://example.com/s\nUser-agent: other\nDisallow: /x", False),
    ("User-agent: crawler\nNoindex: /y\nUser-agent: other\nDisallow: /x", False),
    ("User-agent: crawler\nCrawl-delay: 5\nUser-agent: other\nDisallow: /x", False),
    ("User-agent: other\ncrawl delay 5\n\nUser-agent: *\nDisallow: /x", False),
    ("User-agent: *\nDisallow: /y\nCrawl-delay: 5\nUser-agent: other\nDisallow: /x", True),
    ("User-agent: *\nSitemap: https://example.com/s\nDisallow: /x", False),
    ("User-agent: *\nDisallow: /y\nSitemap: https://example.com/s\nDisallow: /x", False),
    ("User-agent: * # all\nDisallow: /x # this", False),
    ("User-agent: *\nDisallow: /#x", False),
    ("  User-agent :  *  \n\tDisallow\t:\t/x\t", False),
    ("Useragent: *\nDissallow: /x", False),
    ("User-agent: *\n\r\n\rDisallow: /x", False),
    ("User-agent: *\nAllow: /\u2028Disallow: /x", True),  # no line end in a robots.txt
    ("User-agent: *\nDisallow: /x\0", False),
    ("<html><body>User-agent: *\nDisallow: /x</body></html>", True),
]


@pytest.mark.parametrize(("text", "may"), GROUPS)
def test_groups(text: str, may: bool) -> None:
    assert allowed(text, "/x") is may


PATTERNS = [
    # rules, path, may it be fetched
    (["Disallow: /"], "", False),
    (["Disallow: /a$b"], "/a$b", False),
    (["Disallow: /?"], "/?q", False),
    (["Disallow: /*?"], "/x?q", False),
    (["Disallow: /*?"], "/x", True),
    (["Disallow: /x?a=1&b"], "/x?a=1&b=2", False),
    (["Disallow: /a%3cd"], "/a%3Cd", False),
    (["Disallow: /%61"], "/a", False),
    (["Disallow: /a"], "/%61", False),
    (["Disallow: /a%2Fb"], "/a/b", True),
    (["Disallow: /a/b"], "/a%2Fb", True),
    (["Disallow: /caf\u00e9"], "/caf%C3%A9", False),
    (["Disallow: /a b"], "/a%20b", False),
    (["Disallow: /x"], "//x", True),
    (["Disallow: //x"], "//x/y", False),
    (["Disallow: /a;b"], "/a;b", False),
    (["Disallow: /"], "/robots.txt", True),
    (["Disallow: /"], "/robots.txt?x", True),
    (["Disallow: /"], "/robots.txt.html", False),
    (["Disallow:"], "/x", True),
    (["Allow:", "Disallow: /x"], "/x", False),
]


@pytest.mark.parametrize(("rules", "path", "may"), PATTERNS)
def test_patterns(rules: list[str], path: str, may: bool) -> None:
    assert allowed("\n".join(["User-agent: *", *rules]), path) is may


@pytest.mark.parametrize(
    ("text", "delay"),
    [
        ("User-agent: *\nDisallow: /x", None),
        ("User-agent: *\nCrawl-delay: 10", 10.0),
        ("User-agent: *\nCrawl-delay: 0.5", 0.5),
        ("User-agent: *\ncrawl-delay 3 # slow", 3.0),
        ("User-agent: *\nCrawl-delay: 10\n\nUser-agent: crawler\nCrawl-delay: 2", 2.0),
        ("User-agent: *\nCrawl-delay: 10\n\nUser-agent: crawler\nDisallow: /x", None),
        ("User-agent: *\nCrawl-delay: 1\n\nUser-agent: *\nCrawl-delay: 4\nCrawl-delay: 2", 4.0),
        ("User-agent: other\nCrawl-delay: 9\nUser-agent: *\nCrawl-delay: 4\nUser-agent: last\nCrawl-delay: 2", 4.0),
        ("User-agent: *\nCrawl-delay: soon", None),
        ("User-agent: *\nCrawl-delay: -1", None),
        ("User-agent: *\nCrawl-delay: inf", None),
        ("User-agent: *\nCrawl-delay: nan", None),
        ("User-agent: *\nCrawl-delay: 1e999", None),
        ("Crawl-delay: 5", None),
    ],
)
def test_crawl_delay(text: str, delay: float | None) -> None:
    rules = parse_robots(text.encode(), AGENT, LIMIT)
    assert rules.crawl_delay == delay
    assert rules.allowed("http://h/")


def test_a_file_above_the_limit_counts_up_to_its_last_whole_line() -> None:
    text = b"User-agent: *\nDisallow: /aaa\nDisallow: /bbb\n"
    whole = parse_robots(text, AGENT, len(text))
    cut = parse_robots(text, AGENT, len(text) - 3)
    for rules, may in ((whole, False), (cut, True)):
        assert not rules.allowed("http://h/aaa")
        assert rules.allowed("http://h/bbb") is may
        assert rules.allowed("http://h/b")


@pytest.mark.parametrize(
    ("status", "inside", "outside"),
    [
        (200, False, True),
        (206, False, True),
        (301, True, True),
        (403, True, True),
        (404, True, True),
        (429, False, False),
        (500, False, False),
        (503, False, False),
        (599, False, False),
        (999, False, False),
    ],
)
def test_statuses(status: int, inside: bool, outside: bool) -> None:
    rules = robots_for_status(status, b"User-agent: *\nDisallow: /in", AGENT)
    assert rules.allowed("http://h/in") is inside
    assert rules.allowed("http://h/out") is outside
    assert rules.allowed("http://h/robots.txt")


@pytest.mark.parametrize(
    ("user_agent", "token"),
    [
        ("crawler/0.1 (+me@example.com)", "crawler"),
        ("crawler", "crawler"),
        ("My-Bot_2/1.0", "My-Bot_2"),
        ("archive.org_bot", "archive.org_bot"),
        ("Mozilla/5.0 (compatible; Foobot/2.1; +https://foo.example/)", "Foobot"),
        ("Mozilla/5.0 (X11; Linux x86_64) Gecko", "Mozilla"),
        ("", ""),
        ("(nobody)", ""),
    ],
)
def test_product_token(user_agent: str, token: str) -> None:
    assert product_token(user_agent) == token


@pytest.mark.parametrize(
    ("href", "address"),
    [
        ("https://example.com/a/b?c", "https://example.com/robots.txt"),
        ("http://example.com:8080/", "http://example.com:8080/robots.txt"),
        ("http://[::1]:8080/a@b", "http://[::1]:8080/robots.txt"),
        ("https://user:p%40w@example.com/x", "https://example.com/robots.txt"),
        ("https://example.com", "https://example.com/robots.txt"),
        ("https://example.com?x=/y@z", "https://example.com/robots.txt"),
        ("https://example.com/robots.txt", "https://example.com/robots.txt"),
    ],
)
def test_robots_url(href: str, address: str) -> None:
    assert robots_url(href) == address


HOSTILE = {
    "agents times rules": b"User-agent: crawler\n" * 6_000 + b"Disallow: /x\n" * 10_000,
    "agents of many names": b"".join(b"user-agent: b%d\nuser-agent:*\n" % n for n in range(10_000))
    + b"".join(b"disallow: /%d\n" % n for n in range(10_000)),
    "many wildcards": b"user-agent: *\n" + b"".join(b"disallow: /*%d*a*b*c\n" % n for n in range(20_000)),
    "one long pattern": b"user-agent: *\ndisallow: /" + b"*a" * 200_000,
    "nothing but NUL": bytes(10_000_000),
    "all bytes": bytes(range(256)) * 10_000,
    "only line ends": b"\r" * 5_000_000,
    "distinct, with wildcards": b"user-agent: *\n" + b"".join(b"disallow: /*%x\n" % n for n in range(30_000)),
    "each in the next": b"user-agent: *\n" + b"".join(b"disallow: /" + b"a" * n + b"\n" for n in range(980)),
    "repeats": b"user-agent: *\n"
    + b"".join(b"disallow: /*%sb%s%d\n" % (b"a" * 400, b"a" * 400, n) for n in range(600)),
    "bytes to quote": b"user-agent: *\n" + (b"disallow: /" + b"\xff" * 16_000 + b"\n") * 31,
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_files_cost_little(body: bytes) -> None:
    started = time.process_time()
    rules = parse_robots(body, AGENT, LIMIT)
    assert time.process_time() - started < 2, "0.3 s at most, if nothing else runs"
    started = time.process_time()
    for n in range(10):
        rules.allowed(f"http://h/{'a' * 2000}{n}")
    assert time.process_time() - started < 1, "10 ms each"
    tracemalloc.start()
    try:
        kept = parse_robots(body, AGENT, LIMIT)
        size, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20_000_000
    assert size < 3.2 * LIMIT
    assert kept.size == pytest.approx(size, rel=0.2, abs=300_000)


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("User-agent: *\nDisallow: /x", ()),
        (f"User-agent: *\nDisallow: /{'x' * LINE_BYTES}\n", (Cut.LINES,)),
        ("User-agent: *\n" + "".join(f"Disallow: /*a{n}\n" for n in range(9_000)), (Cut.PATTERNS,)),
        ("".join(f"Sitemap: /{n}\n" for n in range(SITEMAPS_MOST + 1)), (Cut.SITEMAPS,)),
        ("".join(f"License: /{n}\n" for n in range(LICENSES_MOST + 1)), (Cut.LICENSES,)),
        ("User-agent: *\nDisallow: /x\n" * 30_000, (Cut.BYTES,)),
    ],
)
def test_what_is_beyond_a_limit_is_said(text: str, cut: tuple[Cut, ...]) -> None:
    assert parse_robots(text.encode(), AGENT, LIMIT).cut == cut


def slow_allow(rules: list[tuple[bool, str]], path: str) -> bool:
    """The same by regular expressions."""
    weight = (0, True)
    for allow, pattern in rules:
        ends = pattern.endswith("$")
        pieces = (pattern[:-1] if ends else pattern).split("*")
        found = re.match(".*".join(map(re.escape, pieces)) + (r"\Z" if ends else ""), path)
        if found and pattern:
            weight = max(weight, (len(pattern), allow))
    return weight[1]


PATH = st.text("/ab-", max_size=8).map(lambda text: "/" + text)
WRITTEN = st.text("/ab-**", max_size=6).flatmap(
    lambda text: st.sampled_from([text, f"/{text}", f"/{text}$", f"/{text}*"])
)


@given(st.lists(st.tuples(st.booleans(), WRITTEN), max_size=8), st.lists(PATH, min_size=1, max_size=8))
def test_patterns_match_as_regular_expressions_do(rules: list[tuple[bool, str]], paths: list[str]) -> None:
    lines = [f"{'Allow' if allow else 'Disallow'}: {pattern}" for allow, pattern in rules]
    parsed = parse_robots("\n".join(["User-agent: *", *lines]).encode(), AGENT, LIMIT)
    for path in paths:
        assert parsed.allowed("http://h" + path) is slow_allow(rules, path), path


LINES = st.sampled_from(
    [b"User-agent: *", b"User-agent: crawler", b"Disallow: /", b"Allow: /a*b$", b"Crawl-delay: 1", b"Sitemap: x"]
)


@given(
    st.lists(LINES | st.binary(max_size=20)),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
    st.text(max_size=20),
    st.binary(),
)
def test_no_bytes_make_it_fail(lines: list[bytes], end: bytes, path: str, tail: bytes) -> None:
    rules = parse_robots(end.join(lines) + tail, AGENT, 200)
    assert rules.allowed(f"http://h/{path}") in (True, False)
    assert rules.allowed("http://h/robots.txt")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("Sitemap: https://h.test/a.xml", ("https://h.test/a.xml",)),
        ("sitemap:/a\r\nSite-Map : /b # two\rSITEMAP: /a", ("/a", "/b")),
        ("User-agent: other\nSitemap: /a\nDisallow: /", ("/a",)),
        ("# Sitemap: /a\nSitemap:\nNot a Sitemap: /b\nSitemap /c", ()),
        ("\n".join(f"Sitemap: /{n}" for n in range(SITEMAPS_MOST + 9)), tuple(f"/{n}" for n in range(SITEMAPS_MOST))),
    ],
)
def test_sitemaps_are_named_for_every_crawler(text: str, named: tuple[str, ...]) -> None:
    assert parse_robots(text.encode(), AGENT, LIMIT).sitemaps == named
