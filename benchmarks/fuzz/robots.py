"""robots.txt against RFC 9309, written down as plainly as it can be.

The reference here reads line by line and matches by trying every way, so it is slow and has nothing to hide. Files are
small, and the ways in which real files bend the grammar that the RFC leaves open are not made; files of any bytes are
tried too, of which only a result is wanted.
"""

from __future__ import annotations

import random
import re
from functools import cache
from typing import NamedTuple

from crawler.url.robots.parse import parse_robots

_AGENT = "crawler/0.1 (+https://example.com)"
_NAMED = ("crawler", "Crawler", "CRAWLER", "crawler/2.0", "other", "crawl", "crawlers", "*", "othercrawler")
_PATHS = (
    *("/", "/a", "/a/", "/a/b", "/A", "/a.html", "/a.htm", "/b?x=1", "/?a=b", "/%C3%A9", "/%c3%a9", "/é"),
    *("/~a", "/%7Ea", "/a*b", "/a%2Ab", "/a$", "/a%24", "/a%2Fb", "/a//b", "/robots.txt", "/robots.txt?x"),
    *("/a;p", "/aa", "/ab", "/a/b/c"),
)
_PIECES = (
    *("/", "a", "b", "*", "**", "$", "?", "%2F", "%2f", ".html", "é", "%C3%A9", "~", "%7E", "x=1", "A", ";"),
    *("=", "&"),
)
_NOISE = (
    "",
    "# a comment",
    "Sitemap: http://h.test/s.xml",
    "Host: h.test",
    "Request-rate: 1/5",
    "Crawl-delay: 5",
    "nonsense",
    ": x",
    "\t",
)
_ENDS = ("\n", "\r\n", "\r")


class Case(NamedTuple):
    """The bytes of a file, paths to ask for, and whether the file is of the kind that the reference reads."""

    body: bytes
    paths: list[str]
    plain: bool


def make(chance: random.Random) -> Case:
    """Groups of rules for us and for others, or any bytes."""
    paths = [chance.choice(_PATHS) for _ in range(3)] + ["/" + _pattern(chance).lstrip("/") for _ in range(3)]
    end = chance.choice(_ENDS)
    text = ("\ufeff" if chance.random() < 0.1 else "") + end.join(_lines(chance)) + chance.choice(("", end))
    body = text.encode()
    if chance.random() < 0.8:
        return Case(body, paths, True)
    for _ in range(chance.randrange(1, 6)):
        at = chance.randrange(len(body) + 1)
        body = body[:at] + chance.randbytes(chance.randrange(4)) + body[at + chance.randrange(4) :]
    return Case(body * chance.choice((1, 1, 100)), paths, False)


def _lines(chance: random.Random) -> list[str]:
    lines = [_rule(chance)] if chance.random() < 0.1 else []
    for _ in range(chance.randrange(4)):
        lines += [_stated(chance, "User-agent", chance.choice(_NAMED)) for _ in range(chance.choice((1, 1, 2, 3)))]
        lines += [_rule(chance) for _ in range(chance.randrange(6))]
    for _ in range(chance.randrange(3)):
        lines.insert(chance.randrange(len(lines) + 1), chance.choice(_NOISE))
    return lines


def _rule(chance: random.Random) -> str:
    return _stated(chance, chance.choice(("Allow", "Disallow", "Disallow")), _pattern(chance))


def _stated(chance: random.Random, key: str, value: str) -> str:
    key = chance.choice((key, key, key.lower(), key.upper()))
    space = chance.choice(("", " ", " ", "  ", "\t"))
    before, between = chance.choice(("", "", " ")), chance.choice(("", "", " "))
    return f"{before}{key}{between}:{space}{value}{chance.choice(('', ' ', ' # x', '#'))}"


def _pattern(chance: random.Random) -> str:
    if chance.random() < 0.3:
        return chance.choice(_PATHS) + chance.choice(("", "*", "$"))
    if chance.random() < 0.1:
        return ""
    return "/" + "".join(chance.choices(_PIECES, k=chance.randrange(6)))


def check(case: Case) -> str:
    """The same paths are allowed; of any bytes, some answer comes."""
    rules = parse_robots(case.body, _AGENT, 500_000)
    answers = [rules.allowed("http://h.test" + path) for path in case.paths]
    if not case.plain:
        return "any bytes"
    wanted = reference(case.body.decode("utf-8-sig"))
    for path, answer in zip(case.paths, answers, strict=True):
        want = _allowed(wanted, path)
        assert answer == want, f"{path!r} is {'' if answer else 'not '}allowed; the rules are {wanted}"
    return "all" if all(answers) else "some" if any(answers) else "none"


def reference(text: str) -> list[tuple[bool, str]]:
    """(Allowed?, pattern) of the group that is ours (RFC 9309, 2.2.1)."""
    ours: list[tuple[bool, str]] = []
    others: list[tuple[bool, str]] = []
    agents: list[str] = []
    named = naming = False
    for line in re.split(r"\r\n|\r|\n", text):
        key, colon, value = line.partition("#")[0].partition(":")
        key, value = key.strip().lower(), value.strip()
        if not colon:
            continue
        if key == "user-agent":
            agents = [*(agents if naming else []), value.partition("/")[0].lower()]
            named = named or "crawler" in agents
            naming = True
        elif key in ("allow", "disallow"):
            naming = False
            # 2.2.2: an empty pattern matches nothing
            if value and "crawler" in agents:
                ours.append((key == "allow", value))
            if value and "*" in agents:
                others.append((key == "allow", value))
    return ours if named else others


def _allowed(rules: list[tuple[bool, str]], path: str) -> bool:
    """The longest match counts; Allow of those of equal length (RFC 9309, 2.2.2)."""
    if path.partition("?")[0] == "/robots.txt":
        return True
    best = (-1, True)
    for allowed, pattern in rules:
        if _matches(_rule_octets(pattern), _path_octets(path)):
            best = max(best, (len(_octets(pattern)), allowed))
    return best[1]


def _path_octets(path: str) -> str:
    """A rule writes a star or a dollar that is meant as ``%2A`` and ``%24`` (2.2.3), so they are that in paths."""
    return _octets(path).replace("*", "%2A").replace("$", "%24")


def _rule_octets(pattern: str) -> str:
    """A dollar that does not end the rule means itself."""
    return _octets(pattern)[:-1].replace("$", "%24") + _octets(pattern)[-1:]


def _octets(text: str) -> str:
    """Percent-encode what is not ASCII, and decode what need not be encoded."""
    encoded = "".join(each if each.isascii() else "".join(f"%{byte:02X}" for byte in each.encode()) for each in text)
    return re.sub(r"%[0-9A-Fa-f]{2}", _same, encoded)


def _same(triplet: re.Match[str]) -> str:
    character = chr(int(triplet[0][1:], 16))
    return character if (character.isalnum() and character.isascii()) or character in "-._~" else triplet[0].upper()


def _matches(pattern: str, path: str) -> bool:
    """Whether a pattern matches the begin of a path: ``*`` any characters, ``$`` at its end the end of the path."""

    @cache
    def here(at: int, place: int) -> bool:
        if at == len(pattern):
            return True
        if pattern[at] == "*":
            return any(here(at + 1, later) for later in range(place, len(path) + 1))
        if pattern[at] == "$" and at == len(pattern) - 1:
            return place == len(path)
        return place < len(path) and pattern[at] == path[place] and here(at + 1, place + 1)

    return here(0, 0)
