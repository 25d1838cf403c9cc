"""Patterns: globs over URLs, matched in time linear in the URL.

A pattern has one wildcard, ``*``, which matches any run of characters, including slashes and the empty run. Every other
character matches itself, even ``?``, which begins a query. The whole URL must match:

    https://example.com/docs/*    below a path, on one host          (without a fragment, as it is fetched)
    *.pdf                         the end of any URL
    *//*.example.com/*            any host below a domain
    /print/*                      begins with a slash: path and query alone, on every host
    *?*sort=*                     a parameter

Percent-triplets are compared in the form of a URL's key (``%7E`` is ``~``, ``%2f`` is ``%2F``).

With this one wildcard, each piece between two wildcards can be matched at its first occurrence, without backtracking. A
regular expression of Python backtracks, and one that is slow on a hostile URL looks like any other.
"""

from __future__ import annotations

from collections.abc import Callable

from crawler.urls.steps import escape_lone_percent, identity, tidy_percent

_SCHEMES = ("http://", "https://")
_OWN_PORTS = {"http://": ":80", "https://": ":443"}
_ANY = "\0"  # what a wildcard of another pattern may stand for: no character of a URL


class PatternError(ValueError):
    """A pattern that no URL can match; the text tells the user why."""


class Pattern:
    """One pattern. Raises PatternError when no URL can match it."""

    __slots__ = ("_pieces", "_test", "of_path", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        _check(text)
        self.of_path = text.startswith("/")  # asked about path and query alone
        self._pieces = tidy_percent(text).split("*")
        self._test = _test_of(self._pieces)

    def matches(self, href: str) -> bool:
        """Whether a canonical http or https URL matches."""
        return self.match_parts(*parts(href))

    def match_parts(self, url: str, path: str) -> bool:
        """``matches`` for the result of ``parts``."""
        return self._test(path if self.of_path else url)

    def covers(self, other: Pattern) -> bool:
        """Whether every URL that matches ``other`` matches this one. (False may also mean: not known.)"""
        sample = _ANY.join(other._pieces)
        if self.of_path == other.of_path:
            return _match(self._pieces, sample)
        if other.of_path:
            return _match(self._pieces, _ANY + sample)
        if other.host is not None:
            return _match(self._pieces, sample[sample.index("/", sample.index("//") + 2) :])
        return all(not piece for piece in self._pieces[1:]) and self._pieces[0] == "/"

    @property
    def host(self) -> str | None:
        """The root URL of the only host that the pattern can match; None if it can match several."""
        head = self._pieces[0]
        scheme = next((scheme for scheme in _SCHEMES if head.startswith(scheme)), None)
        if scheme is None:
            return None
        authority, slash, _ = head[len(scheme) :].partition("/")
        return f"{scheme}{authority}/" if slash else None

    def __repr__(self) -> str:
        return f"Pattern({self.text!r})"


def parts(href: str) -> tuple[str, str]:
    """The two texts that patterns match: the key of the URL, and its path and query."""
    url = identity(href) if "%" in href or "@" in href or href[-1] == "?" else href
    return url, url[url.find("/", 8) :]


def first_match(patterns: tuple[Pattern, ...], href: str) -> Pattern | None:
    """The first of the patterns that a URL matches."""
    url, path = parts(href)
    for pattern in patterns:
        if pattern._test(path if pattern.of_path else url):
            return pattern
    return None


def _test_of(pieces: list[str]) -> Callable[[str], bool]:
    """``_match`` for these pieces; the most common forms need only one string operation."""
    match pieces:
        case [start, ""]:
            return lambda text: text.startswith(start)
        case ["", end]:
            return lambda text: text.endswith(end)
        case ["", inner, ""]:
            return lambda text: inner in text
        case _:
            return lambda text: _match(pieces, text)


def _match(pieces: list[str], text: str) -> bool:
    first, last = pieces[0], pieces[-1]
    if len(pieces) == 1:
        return text == first
    at, end = len(first), len(text) - len(last)
    if end < at or not text.startswith(first) or not text.endswith(last):
        return False
    for piece in pieces[1:-1]:
        found = text.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def _check(text: str) -> None:
    """Raises PatternError."""
    if not text:
        raise PatternError("an empty pattern matches no URL")
    if not (text.isascii() and text.isprintable()) or " " in text:
        raise PatternError("a URL is ASCII without white space: write other characters as %-triplets")
    if "#" in text:
        raise PatternError("a URL is matched without its fragment: leave out # and what follows")
    if escape_lone_percent(text) != text:
        raise PatternError("a % must begin a triplet such as %2F; one that stands for itself is %25")
    head, star, _ = text.partition("*")
    if head.startswith("/"):
        return
    scheme = next((scheme for scheme in _SCHEMES if head.startswith(scheme)), None)
    if scheme is None:
        if not (star and any(scheme.startswith(head) for scheme in _SCHEMES)):
            raise PatternError("a URL begins with http:// or https://, a path with /: put a * in front to match inside")
        return
    authority, slash, _ = head[len(scheme) :].partition("/")
    if not slash and not star:
        raise PatternError(f"a URL has a path, if only a slash: write {text}/ or {text}/*")
    if authority != authority.lower():
        raise PatternError("the host of a URL is in lower case")
    if "@" in authority:
        raise PatternError("a URL is matched without user and password")
    if slash and (not authority or authority.endswith(_OWN_PORTS[scheme])):
        raise PatternError(f"a URL has a host, and not the port {_OWN_PORTS[scheme]} that goes with {scheme}")
