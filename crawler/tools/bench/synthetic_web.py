"""A synthetic web: every answer is computed on request from the seed and the path, and nothing is stored.

A web has ``pages`` pages on ``hosts`` hosts, each of which is a loopback address. In ``web`` mode a host is a site: its
pages form a tree, and they also link to the popular pages of their site and of others, so that in-degrees follow
Zipf's law. In ``chains`` mode every page has exactly one link, to the next page of its chain, which is on another host,
and each page is linked only once. Either way, each page can be reached from the seeds, the first pages of all hosts.

A page may have further URLs, at most one of each ``Kind``, which are linked from one page only:

    moved    redirects to the page; the page's parent links to it instead of the page
    gone     answers 404
    copy     the same bytes as the page
    private  disallowed by robots.txt, so it must never be requested

So the expected result is a function: ``expected(number)`` returns the kinds of URL that the page has, and
``locate(url)`` the page and the kind that a URL belongs to. All random draws are integers from SHAKE-128 of the seed,
so they are the same on every machine.
"""

from __future__ import annotations

import random
import struct
from bisect import bisect_right
from collections.abc import Iterator
from enum import Enum, Flag, auto
from functools import cached_property
from hashlib import shake_128
from itertools import accumulate
from typing import Protocol

from msgspec import Struct

MOST_PAGES = 100_000_000
MOST_HOSTS = 10_000
_FAN = 6  # number of children that a page has in the tree of its site
_MENU = 8  # number of pages of a site to which all pages of that site link
_BLOCKS = 256  # number of different blocks of text of which pages consist
_BLOCK = 1_000  # minimum characters per block
_MOST_BLOCK = 1_250
_FRAME = 150  # characters around the text of a page
ROW = 250  # number of hosts whose addresses have the first three numbers in common
# Deciles measured by the HTTP Archive and Common Crawl: half of all pages have less than 32 KB and 60 links.
_SIZES = (2, 5, 9, 14, 20, 28, 37, 50, 72, 110, 242)  # KB
_LINKS = (4, 12, 20, 30, 42, 55, 68, 90, 120, 180, 320)
_PLACES = {"moved": 10, "gone": 8, "copy": 8, "private": 8}  # pages out of 256 that have a URL of this kind


class Mode(Enum):
    """How the pages of a web link to each other."""

    WEB = "web"
    CHAINS = "chains"


class Kind(Flag):
    """The kinds of URL that belong to a page."""

    PAGE = auto()
    MOVED = auto()
    GONE = auto()
    COPY = auto()
    PRIVATE = auto()


_NAMED = {kind.name.lower(): kind for kind in Kind if kind is not Kind.PAGE and kind.name}
_FIRST = {kind: name for name, kind in _NAMED.items()}


class Habit(Enum):
    """The behaviour of a host."""

    PLAIN = auto()
    SLOW = auto()  # delays each response
    STORMY = auto()  # at times responds to every request with 429 or 503 and Retry-After
    UNRULED = auto()  # has no robots.txt


_HABITS = {1: Habit.SLOW, 2: Habit.STORMY, 3: Habit.UNRULED}
_HABITS_REPEAT = 16  # number of hosts after which the habits repeat


class Answer(Struct, frozen=True):
    """The response to a path. ``kind`` is the kind of the URL, or None if the URL belongs to no page."""

    status: int
    body: bytes
    kind: Kind | None = None
    location: str | None = None
    content_type: str = "text/html; charset=utf-8"


class Serving(Struct, frozen=True):
    """How to connect to the hosts of a web."""

    https: bool = False
    each: int = 0  # requests per connection, before the server closes it; 0: no limit
    resumes: bool = True  # resumes TLS sessions
    certificates: str = ""  # with https: a directory with ROW.pem and ROW.key for each row of hosts


class Shape(Struct, frozen=True):
    """The parameters that determine a web."""

    pages: int
    hosts: int
    seed: int = 0
    mode: Mode = Mode.WEB
    port: int = 80
    size: int = 0  # bytes per page; 0: a realistic distribution
    serving: Serving = Serving()


class Draws:
    """Random numbers for one page and purpose."""

    def __init__(self, seed: int, purpose: str, number: int, count: int) -> None:
        drawn = shake_128(f"{seed} {purpose} {number}".encode("ascii")).digest(4 * count)
        self._next: Iterator[int] = iter(struct.unpack(f"<{count}I", drawn))

    def below(self, end: int) -> int:
        """Return a number from 0 to ``end`` - 1 with equal probability."""
        return next(self._next) % end

    def popular(self, end: int) -> int:
        """Return a number from 0 to ``end`` - 1 by Zipf's law: ``n`` with a probability of about 1 / (n + 1)."""
        first = 1 << self.below(end.bit_length())
        rank = first + self.below(first)
        return rank - 1 if rank <= end else self.below(end)

    def between(self, deciles: tuple[int, ...]) -> int:
        """Return a number from the distribution with these deciles, the first of which is the minimum and the last the
        maximum."""
        place = self.below(len(deciles) - 1)
        return deciles[place] + self.below(deciles[place + 1] - deciles[place])


class Layout(Protocol):
    """Determines the places and links of pages. Pages are numbered from 0; each also has a local number on its host."""

    def place(self, number: int) -> tuple[int, int]:
        """Return the host of a page and its local number."""

    def number(self, host: int, local: int) -> int | None:
        """Return the page at this place, or None."""

    def children(self, number: int) -> range | list[int]:
        """Return the pages that a crawler discovers through this one."""

    def others(self, number: int, seed: int) -> list[int]:
        """Return the other pages that this one links to, in order, with repetitions."""


class Sites:
    """Each host has a tree of pages. The first hosts are the largest: sizes decrease as 1 / sqrt(rank)."""

    def __init__(self, pages: int, hosts: int) -> None:
        weights = [int(1_000_000 / (host + 1) ** 0.5) for host in range(hosts)]
        spare = pages - hosts
        ends = [spare * end // sum(weights) for end in accumulate(weights)]
        self._ends = [end + host + 1 for host, end in enumerate(ends)]
        self._hosts = hosts

    def place(self, number: int) -> tuple[int, int]:
        host = bisect_right(self._ends, number)
        return host, number - self._start(host)

    def number(self, host: int, local: int) -> int | None:
        return self._start(host) + local if local < self._size(host) else None

    def children(self, number: int) -> range:
        host, local = self.place(number)
        start, size = self._start(host), self._size(host)
        return range(start + min(size, _FAN * local + 1), start + min(size, _FAN * local + _FAN + 1))

    def others(self, number: int, seed: int) -> list[int]:
        host, local = self.place(number)
        start, size = self._start(host), self._size(host)
        draws = Draws(seed, "links", number, 2 + 4 * _LINKS[-1])  # up to three per popular page: one is for its site
        most = draws.between(_LINKS)
        links = list(range(start, start + min(size, _MENU)))
        links += range(start + max(0, local - 2), start + min(size, local + 3))
        for _ in range(most - len(links) - _FAN):
            # One link in eight leads to another site.
            if draws.below(8):
                links.append(start + draws.popular(size))
            else:
                other = draws.below(self._hosts)
                links.append(self._start(other) + draws.below(min(self._size(other), _MENU)))
        return links

    def _start(self, host: int) -> int:
        return self._ends[host - 1] if host else 0

    def _size(self, host: int) -> int:
        return self._ends[host] - self._start(host)


class Chains:
    """There are as many chains as hosts. Each chain starts at the home page of a host, and each further page of a chain
    is on the next host."""

    def __init__(self, pages: int, hosts: int) -> None:
        self._pages = pages
        self._hosts = hosts

    def place(self, number: int) -> tuple[int, int]:
        step, chain = divmod(number, self._hosts)
        return (chain + step) % self._hosts, step

    def number(self, host: int, local: int) -> int | None:
        number = local * self._hosts + (host - local) % self._hosts
        return number if number < self._pages else None

    def children(self, number: int) -> list[int]:
        following = number + self._hosts
        return [following] if following < self._pages else []

    def others(self, number: int, seed: int) -> list[int]:
        return []


_LAYOUTS: dict[Mode, type[Sites | Chains]] = {Mode.WEB: Sites, Mode.CHAINS: Chains}


def address_of(host: int) -> str:
    """Return the address of a host. Addresses start at 127.64.0.1, away from the ones that other programs use."""
    row, last = divmod(host, ROW)
    return f"127.{64 + row // 256}.{row % 256}.{last + 1}"


def habit_of(host: int) -> Habit:
    """Return the behaviour of a host."""
    return _HABITS.get(host % _HABITS_REPEAT, Habit.PLAIN)


class SyntheticWeb:
    """The web that a shape determines."""

    def __init__(self, shape: Shape) -> None:
        """Raises ValueError if the numbers of hosts or pages are out of range."""
        if not 1 <= shape.hosts <= MOST_HOSTS:
            raise ValueError(f"a web must have 1 to {MOST_HOSTS:,} hosts, not {shape.hosts:,}")
        if not shape.hosts <= shape.pages <= MOST_PAGES:
            raise ValueError(f"a web needs at least one page per host, and at most {MOST_PAGES:,}, not {shape.pages:,}")
        self.shape = shape
        self._layout: Layout = _LAYOUTS[shape.mode](shape.pages, shape.hosts)
        self._scheme = "https" if shape.serving.https else "http"
        self._origins = [f"{self._scheme}://{address_of(host)}:{shape.port}" for host in range(shape.hosts)]
        self._hosts = {origin: host for host, origin in enumerate(self._origins)}

    @property
    def seeds(self) -> list[str]:
        """The first page of every host."""
        return [f"{origin}/" for origin in self._origins]

    def expected(self, number: int) -> Kind:
        """Return the kinds of URL that a page has."""
        host, local = self._layout.place(number)
        drawn = shake_128(f"{self.shape.seed} kinds {number}".encode("ascii")).digest(len(_NAMED))
        kinds = Kind.PAGE
        for byte, (name, kind) in zip(drawn, _NAMED.items(), strict=True):
            if byte < _PLACES[name]:
                kinds |= kind
        if not local:
            kinds &= ~Kind.MOVED
        if habit_of(host) is Habit.UNRULED:
            kinds &= ~Kind.PRIVATE
        return kinds

    def urls(self) -> Iterator[tuple[str, Kind]]:
        """Yield every URL of the web with its kind."""
        for number in range(self.shape.pages):
            for kind in self.expected(number):
                yield self.url(number, kind), kind

    def url(self, number: int, kind: Kind = Kind.PAGE) -> str:
        host, _ = self._layout.place(number)
        return self._origins[host] + self._path(number, kind)

    def locate(self, url: str) -> tuple[int, Kind] | None:
        """Return the page and the kind that a URL belongs to, or None if the web does not have it."""
        scheme, _, rest = url.partition("://")
        origin, slash, path = rest.partition("/")
        host = self._hosts.get(f"{scheme}://{origin}")
        if host is None:
            return None
        return self._locate(host, slash + path)

    def answer(self, host: int, path: str) -> Answer:
        """Return a host's response to a path."""
        if path == "/robots.txt" and habit_of(host) is not Habit.UNRULED:
            return Answer(200, b"User-agent: *\nDisallow: /private/\n", content_type="text/plain")
        found = self._locate(host, path)
        if found is None:
            return Answer(404, b"<!doctype html><title>Not found</title><p>There is no such page.\n")
        number, kind = found
        if kind is Kind.MOVED:
            return Answer(301, b"", kind, self._path(number, Kind.PAGE))
        if kind is Kind.GONE:
            return Answer(404, f"<!doctype html><title>Gone</title><p>{path} is gone.\n".encode("ascii"), kind)
        return Answer(200, self.page(number), kind)

    def page(self, number: int) -> bytes:
        """Return the content of a page."""
        links, size = self._links(number), self.shape.size
        draws = Draws(self.shape.seed, "text", number, 2 * max(*_SIZES, size // _BLOCK) + 1)
        room = size - _FRAME - sum(map(len, links)) - len(links)
        count = max(1, room // _MOST_BLOCK if size else draws.between(_SIZES))
        blocks = [self._blocks[draws.below(_BLOCKS)] for _ in range(count)]
        if size and room < _MOST_BLOCK:
            blocks = [""]
        parts = [
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Page {number}</title></head><body>'
        ]
        share, done = max(1, -(-len(links) // count)), 0
        for block in blocks:
            parts.append(block)
            parts += links[done : done + share]
            done += share
        parts.append("</body></html>\n")
        return "\n".join(parts).encode("ascii").ljust(size, b"\n")

    def _links(self, number: int) -> list[str]:
        """Return the links of a page as markup. Links that only this page has come first."""
        host, _ = self._layout.place(number)
        leading = [
            (child, Kind.MOVED if Kind.MOVED in self.expected(child) else Kind.PAGE)
            for child in self._layout.children(number)
        ]
        own = [(number, kind) for kind in self.expected(number) if kind not in Kind.PAGE | Kind.MOVED]
        others = [(other, Kind.PAGE) for other in self._layout.others(number, self.shape.seed)]
        made, markup = [], 0
        for place, (other, kind) in enumerate([*leading, *own, *others]):
            if 0 < self.shape.size < 2 * markup and place >= len(leading) + len(own):
                break  # fill the rest of the page with text
            at, local = self._layout.place(other)
            origin = "" if at == host else self._origins[at]
            fragment = "" if place % 5 else f"#s{place}"
            word = self._words[other % len(self._words)]
            made.append(f'<a class="reference" href="{origin}{self._path(other, kind)}{fragment}">{word} {local}</a>')
            markup += len(made[-1])
        return made

    def _path(self, number: int, kind: Kind) -> str:
        _, local = self._layout.place(number)
        if kind is not Kind.PAGE:
            return f"/{_FIRST[kind]}/{local}"
        if not local:
            return "/"
        return f"/{self._words[local // 40 % len(self._words)]}-{local // 40}/{self._words[number % 389]}-{local}.html"

    def _locate(self, host: int, path: str) -> tuple[int, Kind] | None:
        first, _, rest = path[1:].partition("/")
        kind = _NAMED.get(first, Kind.PAGE)
        digits = rest if kind is not Kind.PAGE else rest.rpartition("-")[2].removesuffix(".html") or "0"
        if not (digits.isascii() and digits.isdecimal()) or len(digits) > len(str(MOST_PAGES)):
            return None
        number = self._layout.number(host, int(digits))
        # Each page has only one valid path; reject other spellings.
        if number is None or kind not in self.expected(number) or self._path(number, kind) != path:
            return None
        return number, kind

    @cached_property
    def _words(self) -> list[str]:
        draws = Draws(self.shape.seed, "words", 0, 512 * 10)
        return ["".join("aeioubcdfghklmnprst"[draws.below(19)] for _ in range(3 + draws.below(7))) for _ in range(512)]

    @cached_property
    def _blocks(self) -> list[str]:
        """Blocks of text, about half of it markup, as on real pages."""
        pick = random.Random(self.shape.seed)
        blocks = []
        for number in range(_BLOCKS):
            parts, size = [], 0
            while size < _BLOCK:
                text = " ".join(self._words[pick.getrandbits(9)] for _ in range(12))
                part = f'<p class="body text" id="p{number}-{size}"><b>{text[:20]}</b> {text[20:]}</p>'
                parts.append(part)
                size += len(part)
            blocks.append(f'<section class="block"><h2>{self._words[number]}</h2>{"".join(parts)}</section>')
        return blocks
