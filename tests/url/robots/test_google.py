"""What Google's own tests of its parser ask, in our words: https://github.com/google/robotstxt, robots_test.cc.

Each case is a robots.txt, and URLs that its crawler may (+) or may not (-) fetch. ``DIFFERENT`` are those that this
crawler answers otherwise, with the reason; docs/explanation/fetching.md names them too.
"""

from __future__ import annotations

import pytest

from crawler.url.robots.parse import LINE_BYTES, parse_robots

HOST = "http://foo.bar"
GROUPS = """allow: /foo/bar/

user-agent: FooBot
disallow: /
allow: /x/
user-agent: BarBot
disallow: /
allow: /y/


allow: /w/
user-agent: BazBot

user-agent: FooBot
allow: /z/
disallow: /
"""
GLOBAL = "user-agent: *\nallow: /\nuser-agent: FooBot\ndisallow: /\n"
SPECIFIC = "user-agent: FooBot\nallow: /\nuser-agent: BarBot\ndisallow: /\nuser-agent: BazBot\ndisallow: /\n"
SPACED = "User-Agent: *\nDisallow: /\nUser-Agent: Foo Bar\nAllow: /x/\nDisallow: /\n"
NAMED = "user-agent: FooBot\ndisallow: /x/page.html\nallow: /x/page.html"
LONG = "/x/" + "a" * LINE_BYTES
FISH = "/fish /fish.html /fish/salmon.html /fishheads /fishheads/yummy.html /fish.html?id=anything"


def foobot(*rules: str) -> str:
    return "\n".join(("user-agent: FooBot", *rules))


# (agent, robots.txt, what it may fetch, what it may not)
CASES = [
    ("FooBot", "", "/", ""),
    ("", foobot("disallow: /"), "/", ""),
    ("FooBot", foobot("disallow: /"), "", "/"),
    ("", "", "/", ""),
    # lines
    ("FooBot", foobot("disallow: /"), "", "/x/y"),
    ("FooBot", "foo: FooBot\nbar: /\n", "/x/y", ""),
    ("FooBot", "user-agent FooBot\ndisallow /\n", "", "/x/y"),
    # groups
    ("FooBot", GROUPS, "/x/b /z/d", "/y/c /foo/bar/"),
    ("BarBot", GROUPS, "/y/c /w/a", "/z/d /foo/bar/"),
    ("BazBot", GROUPS, "/z/d", "/foo/bar/"),
    # the case of keys and names
    *(
        ("FooBot", f"{agent}: FooBot\n{allow}: /x/\n{disallow}: /\n", "/x/y", "/a/b")
        for agent, allow, disallow in (
            ("USER-AGENT", "ALLOW", "DISALLOW"),
            ("user-agent", "allow", "disallow"),
            ("uSeR-aGeNt", "AlLoW", "dIsAlLoW"),
        )
    ),
    *(
        (agent, f"User-Agent: {name}\nAllow: /x/\nDisallow: /\n", "/x/y", "/a/b")
        for name in ("FOO BAR", "foo bar", "FoO bAr")
        for agent in ("Foo", "foo")
    ),
    ("Foo", SPACED, "/x/y", ""),
    # who obeys what
    ("FooBot", GLOBAL, "", "/x/y"),
    ("BarBot", GLOBAL, "/x/y", ""),
    ("QuxBot", SPECIFIC, "/x/y", ""),
    ("FooBot", "User-agent: *\nDisallow: /x/\nUser-agent: FooBot\nDisallow: /y/", "/x/page", "/y/page"),
    # paths
    ("FooBot", foobot("disallow: /x/"), "", "/x/y"),
    ("FooBot", foobot("disallow: /X/"), "/x/y", ""),
    # the longest match
    ("FooBot", foobot("disallow: /x/page.html", "allow: /x/"), "", "/x/page.html"),
    ("FooBot", foobot("allow: /x/page.html", "disallow: /x/"), "/x/page.html", "/x/"),
    ("FooBot", foobot("disallow: ", "allow: "), "/x/page.html", ""),
    ("FooBot", foobot("disallow: /", "allow: /"), "/x/page.html", ""),
    ("FooBot", foobot("disallow: /x", "allow: /x/"), "/x/", "/x"),
    ("FooBot", NAMED, "/x/page.html", ""),
    ("FooBot", foobot("allow: /page", "disallow: /*.html"), "/page", "/page.html"),
    ("FooBot", foobot("allow: /x/page.", "disallow: /*.html"), "/x/page.html", "/x/y.html"),
    # percent-encoding
    (
        "FooBot",
        foobot("Disallow: /", "Allow: /foo/bar?qux=taz&baz=http://foo.bar?tar&par"),
        "/foo/bar?qux=taz&baz=http://foo.bar?tar&par",
        "",
    ),
    ("FooBot", foobot("Disallow: /", "Allow: /foo/bar/ツ"), "/foo/bar/%E3%83%84", ""),
    ("FooBot", foobot("Disallow: /", "Allow: /foo/bar/%E3%83%84"), "/foo/bar/%E3%83%84", ""),
    ("FooBot", foobot("Disallow: /", "Allow: /foo/bar/%62%61%7A"), "/foo/bar/%62%61%7A", ""),
    # special characters
    (
        "FooBot",
        foobot("Disallow: /foo/bar/quz", "Allow: /foo/*/qux"),
        "/foo/quz /foo//quz /foo/bax/quz",
        "/foo/bar/quz",
    ),
    (
        "FooBot",
        foobot("Disallow: /foo/bar$", "Allow: /foo/bar/qux"),
        "/foo/bar/qux /foo/bar/ /foo/bar/baz",
        "/foo/bar",
    ),
    ("FooBot", foobot("# Disallow: /", "Disallow: /foo/quz#qux", "Allow: /"), "/foo/bar", "/foo/quz"),
    (
        "foobot",
        "User-Agent: *\nAllow: /allowed-slash/index.html\nDisallow: /\n",
        "/allowed-slash/index.html",
        "/allowed-slash/index.htm /anyother-url",
    ),
    # long lines
    ("FooBot", foobot(f"disallow: {LONG}/qux"), "/fux", f"{LONG}/fux"),
    (
        "FooBot",
        foobot("disallow: /", f"allow: {LONG}/qux", f"allow: {LONG.replace('a', 'b')}/qux"),
        f"{LONG}/qux {LONG.replace('a', 'b')}/fux",
        "/",
    ),
    # the examples of Google's documentation
    ("FooBot", foobot("disallow: /", "allow: /fish"), FISH, "/bar /Fish.asp /catfish /?id=fish"),
    ("FooBot", foobot("disallow: /", "allow: /fish*"), FISH, "/bar /Fish.bar /catfish /?id=fish"),
    (
        "FooBot",
        foobot("disallow: /", "allow: /fish/"),
        "/fish/ /fish/salmon /fish/?salmon /fish/salmon.html /fish/?id=anything",
        "/bar /fish /fish.html /Fish/Salmon.html",
    ),
    (
        "FooBot",
        foobot("disallow: /", "allow: /*.php"),
        "/filename.php /folder/filename.php /folder/filename.php?parameters //folder/any.php.file.html "
        "/filename.php/ /index?f=filename.php/",
        "/bar /php/ /index?php /windows.PHP",
    ),
    (
        "FooBot",
        foobot("disallow: /", "allow: /*.php$"),
        "/filename.php /folder/filename.php",
        "/bar /filename.php?parameters /filename.php/ /filename.php5 /php/ /filename?php /aaaphpaaa //windows.PHP",
    ),
    (
        "FooBot",
        foobot("disallow: /", "allow: /fish*.php"),
        "/fish.php /fishheads/catfish.php?parameters",
        "/bar /Fish.PHP",
    ),
    ("FooBot", foobot("allow: /p", "disallow: /"), "/page", ""),
    ("FooBot", foobot("allow: /folder", "disallow: /folder"), "/folder/page", ""),
    ("FooBot", foobot("allow: /page", "disallow: /*.htm"), "", "/page.htm"),
    ("FooBot", foobot("allow: /$", "disallow: /"), "/", "/page.html"),
]

DIFFERENT = [
    # RFC 9309, 2.2.2, compares unreserved characters decoded; Google takes these triplets as they are.
    ("FooBot", foobot("Disallow: /", "Allow: /foo/bar/%62%61%7A"), "/foo/bar/baz", ""),
    # RFC 9309, 2.2.2, wants a path encoded before it is compared, and here it is. Google leaves that to the caller.
    ("FooBot", foobot("Disallow: /", "Allow: /foo/bar/ツ"), "/foo/bar/ツ", ""),
    ("FooBot", foobot("Disallow: /", "Allow: /foo/bar/%E3%83%84"), "/foo/bar/ツ", ""),
    # Google takes index.html in an Allow for its directory. The RFC does not, and the site did not say so.
    ("foobot", "User-Agent: *\nAllow: /allowed-slash/index.html\nDisallow: /\n", "", "/allowed-slash/"),
    # A crawler that calls itself "Foo Bar" has the product token Foo here; Google compares the whole name.
    ("Foo Bar", SPACED, "/x/y", ""),
]


@pytest.mark.parametrize(("agent", "robots", "may", "may_not"), [*CASES, *DIFFERENT])
def test_a_case(agent: str, robots: str, may: str, may_not: str) -> None:
    rules = parse_robots(robots.encode(), agent, 512_000)
    assert [path for path in may.split() if not rules.allowed(HOST + path)] == []
    assert [path for path in may_not.split() if rules.allowed(HOST + path)] == []


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("", "/"),
        ("/", "/"),
        ("/a", "/a"),
        ("/a/", "/a/"),
        ("/a/b?c=http://d.e/", "/a/b?c=http://d.e/"),
        ("/a/b?c=d&e=f#fragment", "/a/b?c=d&e=f"),
        ("/a;b#c", "/a;b"),
        ("/a#b/c", "/a"),
    ],
)
def test_what_of_a_url_is_compared(target: str, path: str) -> None:
    rules = parse_robots(foobot("disallow: /", f"allow: {path}$").encode(), "FooBot", 512_000)
    assert rules.allowed("http://www.example.com" + target)
    assert not rules.allowed("http://www.example.com/other")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\r\n\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf", b"\xef\xbb", b"\xef"])
def test_line_ends_and_byte_order_marks(end: str, mark: bytes) -> None:
    lines = ["User-Agent: foo", "Allow: /some/path", "User-Agent: bar", "", "", "Disallow: /"]
    for tail in ("", end):
        text = end.join(lines) + tail
        wide = [("\ufeff" + text).encode(f"utf-{size}-{order}") for size in (16, 32) for order in ("le", "be")]
        for body in (mark + text.encode(), *wide):
            assert not parse_robots(body, "bar", 512_000).allowed(HOST + "/some/path")
            assert parse_robots(body, "foo", 512_000).allowed(HOST + "/some/path")
