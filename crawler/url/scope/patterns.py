"""Patterns by which users choose URLs. Matching takes time linear in the URL.

A pattern is a glob. ``*`` matches any run of characters, including slashes and the empty run, and ``{1..50}`` matches a
number. Every other character matches itself, even ``?``, which starts a query. The whole URL must match:

    https://example.com/docs/*    below a path, on one host          (without a fragment, as it is fetched)
    *.pdf                         the end of any URL
    *//*.example.com/*            any host below a domain
    /print/*                      starts with a slash: only path and query, on every host
    /page/{1..50}                 a number range

Conditions on the query come last. The glob before them is then compared with the URL without its query:

    {?sort}                       any URL with the parameter, wherever it is in the query
    /shop/*{?sort=price*}         ... below a path, with a matching value
    *{?page=11..999}{?lang}       ... with a number as the value, and with another parameter

``re:`` starts a regular expression, which RE2 searches for anywhere in the URL.

Percent-triplets are compared in the form of a URL's key (``%7E`` is ``~``, ``%2f`` is ``%2F``).

Python's regular expressions backtrack, and one that is slow on a hostile URL looks like any other. Globs need no
backtracking (see ``globs``), and RE2 does none.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

from crawler.url.scope import globs
from crawler.url.scope.globs import ANY, GlobError, NumberRange
from crawler.url.urls.normalising_steps import escape_lone_percent, identity, tidy_percent

REGEX = "re:"
_SCHEMES = ("http://", "https://")
_OWN_PORTS = {"http://": ":80", "https://": ":443"}
_CONDITIONS = re.compile(r"(?:\{\?[^{}]*+\})+\Z")
_CONDITION = re.compile(r"\{\?(?P<key>[^{}=]*+)(?P<equals>=?)(?P<value>[^{}]*+)\}")
_NUMBERS = re.compile(r"([0-9]+)\.\.([0-9]+)")
_MEANT = re.compile(r"\{[0-9 ]*+(?:[.,:-]++|\.\.)[0-9 ]*+\}")  # a number range in another language's syntax

Test = Callable[[str], bool]


class PatternError(ValueError):
    """A pattern that no URL can match; the message gives the reason to the user."""


class Pattern:
    """One pattern. Raises PatternError if no URL can match it."""

    __slots__ = ("_is_plain", "_pieces", "_sample", "_test", "of_path", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.of_path = text.startswith("/")  # matched against path and query only
        self._pieces: list[globs.Piece] = [(), ()]
        self._is_plain = False  # a glob without ranges and conditions
        self._sample = ANY  # matched by any pattern that covers this one
        if text.startswith(REGEX):
            self._test = _regex(text.removeprefix(REGEX))
            return
        found = _CONDITIONS.search(text)
        glob = text if found is None else text[: found.start()] or "*"
        _check(glob)
        try:
            self._pieces = globs.parse(tidy_percent(glob))
            self._test, self._sample = globs.test_of(self._pieces), globs.sample(self._pieces)
            if found is not None:
                conditions = [_condition(each) for each in _CONDITION.finditer(tidy_percent(found[0]))]
                if "?" in glob:
                    raise PatternError("no query may precede a condition such as {?sort}: put each parameter in braces")
                self._test, self._sample = _with_query(self._test, conditions), f"{self._sample}?{ANY}"
        except GlobError as error:
            raise PatternError(str(error)) from error
        self._is_plain = found is None and globs.is_plain(self._pieces)

    def matches(self, href: str) -> bool:
        """Return True if a canonical http or https URL matches."""
        return self.match_parts(*parts(href))

    def match_parts(self, url: str, path: str) -> bool:
        """Like ``matches``, but for the result of ``parts``."""
        return self._test(path if self.of_path else url)

    def covers(self, other: Pattern) -> bool:
        """Return True if every URL that matches ``other`` matches this one. (False may also mean: unknown.)"""
        if not self._is_plain:
            return self.text == other.text
        sample = other._sample
        if self.of_path == other.of_path:
            return self._test(sample)
        if other.of_path:
            return self._test(ANY + sample)
        if other.host is not None:
            return self._test(sample[sample.index("/", sample.index("//") + 2) :])
        return globs.sample(self._pieces).strip(ANY) == "/" and globs.beginning(self._pieces) == "/"

    @property
    def host(self) -> str | None:
        """The root URL of the only host that the pattern can match; None if it can match several."""
        head = globs.beginning(self._pieces)
        scheme = next((scheme for scheme in _SCHEMES if head.startswith(scheme)), None)
        if scheme is None:
            return None
        authority, slash, _ = head[len(scheme) :].partition("/")
        return f"{scheme}{authority}/" if slash else None

    def __repr__(self) -> str:
        return f"Pattern({self.text!r})"


def parts(href: str) -> tuple[str, str]:
    """Return the two texts that patterns match: the key of the URL, and its path and query."""
    url = identity(href) if "%" in href or "@" in href or href[-1] == "?" else href
    return url, url[url.find("/", 8) :]


def first_match(patterns: tuple[Pattern, ...], href: str) -> Pattern | None:
    """Return the first of the patterns that a URL matches."""
    url, path = parts(href)
    for pattern in patterns:
        if pattern._test(path if pattern.of_path else url):
            return pattern
    return None


class _Condition(Struct, frozen=True):
    """A parameter that a query must have. ``value`` is None if any value matches."""

    key: Test
    value: Test | None

    def holds(self, parameters: list[tuple[str, str]]) -> bool:
        return any(self.key(key) and (self.value is None or self.value(value)) for key, value in parameters)


def _condition(found: re.Match[str]) -> _Condition:
    """Parse a condition. Raises PatternError, GlobError."""
    key, value = found["key"], found["value"]
    if not key:
        raise PatternError(f"{found[0]} names no parameter: write {{?name}} or {{?name=value}}")
    if "&" in key + value:
        raise PatternError(f"{found[0]}: put each parameter in its own braces, as in {{?a}}{{?b=1}}")
    numbers = _NUMBERS.fullmatch(value)
    if numbers is not None:
        among = re.compile(NumberRange.parse(numbers[1], numbers[2]).expression).fullmatch
        test: Test | None = lambda text: among(text) is not None  # noqa: E731
    else:
        test = globs.test_of(globs.parse(value)) if found["equals"] else None
    return _Condition(globs.test_of(globs.parse(key)), test)


def _with_query(test: Test, conditions: list[_Condition]) -> Test:
    """Combine a test of the URL without its query with conditions on the query."""

    def matches(text: str) -> bool:
        before, _, query = text.partition("?")
        if not query or not test(before):
            return False
        parameters = [each.partition("=")[::2] for each in query.split("&")]
        return all(condition.holds(parameters) for condition in conditions)

    return matches


def _regex(text: str) -> Test:
    """Return a test that searches for the expression. Raises PatternError."""
    try:
        import re2  # noqa: PLC0415, optional
    except ImportError as error:
        needed = "pip install google-re2"
        raise PatternError(f"a pattern that starts with {REGEX} needs google-re2: {needed}") from error
    if not text:
        raise PatternError("an empty expression matches every URL: write *")
    options = re2.Options()
    options.log_errors = False
    try:
        search = re2.compile(text, options).search
    except re2.error as error:
        why = error.args[0]
        words = why.decode("utf-8", "replace") if isinstance(why, bytes) else str(why)
        raise PatternError(f"not a valid RE2 regular expression: {words}") from error
    return lambda url: search(url) is not None


def _check(text: str) -> None:
    """Check a glob. Raises PatternError."""
    if not text:
        raise PatternError("an empty pattern matches no URL")
    if not (text.isascii() and text.isprintable()) or " " in text:
        raise PatternError("a URL is ASCII without white space: write other characters as %-triplets")
    if "#" in text:
        raise PatternError("a URL is matched without its fragment: leave out # and what follows")
    if escape_lone_percent(text) != text:
        raise PatternError("a % must start a triplet such as %2F; write a literal % as %25")
    if text.startswith("@"):
        raise PatternError("only include and exclude and their flags take a file name: write a pattern")
    _check_braces(text)
    head, star, _ = globs.without_ranges(text).partition("*")
    if head.startswith("/"):
        return
    scheme = next((scheme for scheme in _SCHEMES if head.startswith(scheme)), None)
    if scheme is None:
        if not (star and any(scheme.startswith(head) for scheme in _SCHEMES)):
            raise PatternError("a URL starts with http:// or https://, a path with /: put a * in front to match inside")
        return
    authority, slash, _ = head[len(scheme) :].partition("/")
    if not slash and not star:
        raise PatternError(f"a URL has a path, at least a slash: write {text}/ or {text}/*")
    if authority != authority.lower():
        raise PatternError("the host of a URL is in lower case")
    if "@" in authority:
        raise PatternError("a URL is matched without user and password")
    if slash and (not authority or authority.endswith(_OWN_PORTS[scheme])):
        raise PatternError(f"a URL must have a host, and must not have {scheme}'s default port {_OWN_PORTS[scheme]}")


def _check_braces(text: str) -> None:
    """Check the braces of a glob. Raises PatternError."""
    left = globs.without_ranges(text)
    if "{?" in left:
        raise PatternError("a condition on the query, such as {?sort} or {?page=1..9}, must come last")
    path = left.partition("?")[0].partition("*")[0]  # URLs have no braces here
    if _MEANT.search(left) is not None or "{" in path or "}" in path:
        raise PatternError("a number range is written {1..50}, a parameter {?name}, and a brace in a path %7B or %7D")
