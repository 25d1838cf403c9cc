"""Hosts whose robots.txt is a weapon, or is there only now and then."""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import count

from tests.examples import long_or
from tests.hostile.server import Answer, Pages, Talk, endless, head, page, redirect
from tests.hostile.web import EVIL, STALL_MOST, Hostile
from tests.site import linked

MOST = 500 * 1024  # bytes of a robots.txt that are read
HOSTS = long_or(18, 60)  # a few of each kind
TEXT = "text/plain"


@functools.cache
def filled(line: Callable[[int], str]) -> bytes:
    """A robots.txt of the most bytes that are read."""
    text, left = [b"User-agent: *\n"], MOST - 100
    for number in count():
        text.append(line(number).encode())
        left -= len(text[-1])
        if left < 0:
            return b"".join(text)
    raise AssertionError


# Lines of robots.txt, by what is dear about them.
EXPENSIVE: dict[str, Callable[[int], str]] = {
    "paths": lambda n: f"Disallow: /p/{n:x}\n",
    "stars": lambda n: f"Disallow: /*{n:x}\n",
    "stars in stars": lambda n: f"Disallow: /*{n}*a*a*a*a*a$\n",
    "repeats": lambda n: f"Disallow: /*{'a' * 400}b{'a' * 400}{n}\n",
    "agents": lambda n: f"User-agent: *\nUser-agent: bot{n}\nDisallow: /{n:x}\n",
    "to be quoted": lambda n: f"Disallow: /{'%61%ff' * 10}{n}\n",
}


def test_expensive_files_of_many_hosts_at_once(hostile: Hostile) -> None:
    """Each with 500 KiB of rules and a URL that was made for them."""
    kinds = [filled(line) for line in EXPENSIVE.values()]
    long = ["/" + "a" * 2_000]
    seeds = []
    for number in range(HOSTS):
        robots = page(kinds[number % len(kinds)], kind=TEXT)
        pages: dict[str, Answer] = {"/": page(linked(long)), "/robots.txt": robots} | dict.fromkeys(long, page("x"))
        seeds.append(hostile.host(f"robots{number}.test", pages) + "/")
    ran = hostile.crawl("--max-time", "60", seeds=seeds, settings={"crawl.concurrency": 64})
    outcomes = {row["outcome"] for row in ran.rows}
    assert outcomes <= {"fetched", "excluded"}
    assert len(ran.rows) == HOSTS * 2 + len(hostile.innocent.pages)


def test_the_time_of_a_run_is_kept_meanwhile(hostile: Hostile) -> None:
    """Hosts with such files, and pages without end."""

    def answer(path: str) -> Answer | None:
        return page(filled(EXPENSIVE["stars"]), kind=TEXT) if path == "/robots.txt" else page(linked([f"{path}z"]))

    seeds = [hostile.host(f"robots{number}.test", answer) + "/" for number in range(10)]
    with hostile.running("--max-time", "3", seeds=seeds) as program:
        ran = program.end()
    assert ran.ran.code == 0
    assert ran.stall < STALL_MOST


def test_files_without_end(hostile: Hostile) -> None:
    """One that drips, one of a gigabyte, one that is one line."""

    async def drip(talk: Talk) -> None:
        await talk.send(head(kind=TEXT))
        await talk.drip(b"Disallow: /x\n" * 1_000, every=0.05)

    begin = head(kind=TEXT) + b"User-agent: *\nDisallow: /private\n"
    hosts: dict[str, Answer] = {
        "drip.test": drip,
        "endless.test": endless(begin, b"Disallow: /xxxxxxxxxxxxxxxxxx\n" * 1_000, 2**30),
        "line.test": endless(begin, b"Disallow: /" * 6_000, 2**30),
    }
    seeds = []
    for name, robots in hosts.items():
        pages: Pages = {"/": page(linked(["/private", "/open"])), "/open": page("x"), "/robots.txt": robots}
        seeds.append(hostile.host(name, pages) + "/")
    ran = hostile.crawl(seeds=seeds, settings={"fetch.body_timeout": 0.7})
    (row,) = ran.of("drip.test").values()
    assert row["outcome"] == "failed"
    assert "body_timeout" in row["error"]
    for name in ("endless.test", "line.test"):
        outcomes = {path: row["outcome"] for path, row in ran.of(name).items()}
        assert outcomes == {"/": "fetched", "/open": "fetched", "/private": "excluded"}, "what was read holds"
        assert str(name) in ran.ran.err


def test_redirects_of_robots_txt_without_end(hostile: Hostile) -> None:
    """To itself, and ever on: as if there were no file."""

    def chain(path: str) -> Answer | None:
        if path == "/":
            return page("x")
        return redirect(f"/robots{len(path)}{path[1:]}" if path != "/robots.txt" else "/robots/0")

    hosts: dict[str, Pages] = {
        "self.test": {"/": page("x"), "/robots.txt": redirect("/robots.txt")},
        "chain.test": chain,
    }
    seeds = [hostile.host(name, pages) + "/" for name, pages in hosts.items()]
    ran = hostile.crawl(seeds=seeds)
    for name in hosts:
        assert ran.outcomes(name) == {"fetched": 1}
    asked = hostile.server.by_host()
    assert all(asked[name] == 7 for name in hosts), asked


def test_many_and_long_headers_of_wishes(hostile: Hostile) -> None:
    """Link, Refresh and X-Robots-Tag without measure, and wishes for others."""
    links = ", ".join(f"</h{n}>; rel=next" for n in range(2_000))
    tags = "otherbot: nofollow, " + "unavailable_after: Mon, " * 1_000
    headers = [f"Link: {links}", *["Link: <<<<;;;" + '"' * 100] * 20, f"X-Robots-Tag: {tags}", "Refresh: 1; url=/r"]
    hostile.pages[EVIL] = lambda path: page(linked(["/a"]) if path == "/" else "x", *(headers if path == "/" else []))
    rows = hostile.crawl().of()
    assert len(rows) == 100 + 2 + 1, "100 of the headers, with the refresh; the link of the page; the page"
    assert rows["/"]["links"] == len(rows) - 1
