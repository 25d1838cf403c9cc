"""Statements of consent: what headers, elements and directives of a page state about each purpose.

A statement consists of a purpose, whether that use is allowed, and its source. Values that a source does not define are
ignored. If statements disagree, the stricter one holds; of equal statements, the first one counts.
docs/how-to/respect-opt-outs.md has the table of all sources, with the versions of their drafts.

Lines of robots.txt and rules of files with terms (``crawler.url.consent.terms``) apply by path. A line may start with a
pattern, as in rules: ``Content-Usage: /open/ train-ai=y``. Of the lines of one kind, those with the longest matching
pattern count; a line without a pattern matches like ``/``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence

from crawler.base.settings.parts import PURPOSES, PurposeSettings
from crawler.url.refusal.forbidden_targets import Refusal, Rule
from crawler.url.robots.directives import UNAVAILABLE, has_passed
from crawler.url.robots.path_patterns import STAR_BUDGET, Patterns

SEARCH, AI_INPUT, AI_TRAIN, TDM, ARCHIVE = PURPOSES
Uses = Mapping[str, str]  # by purpose: yes if it is allowed, no if it is refused
Stated = Mapping[str, tuple[str, str]]  # the same, each with its source
NOTHING_STATED: Stated = {}

_CHARACTERS = 2_048  # characters read per value
_VALUES = 16  # headers or elements read per name
_SIGNALS = {f"{use}={word}": {use: word} for use in (SEARCH, AI_INPUT, AI_TRAIN) for word in ("yes", "no")}
# Labels of Content-Usage, including those of older drafts. ``bots`` can restrict all uses, but grants none.
_LABELS = {"search": SEARCH, "train-ai": AI_TRAIN, "train-genai": AI_TRAIN}
_USAGES = {f"{label}={word[0]}": {use: word} for label, use in _LABELS.items() for word in ("yes", "no")}
_USAGES["bots=n"] = dict.fromkeys(PURPOSES, "no")
# The purposes that robots directives refuse. Those for images count only for an image.
_DIRECTIVES = {
    UNAVAILABLE: (SEARCH, AI_INPUT, AI_TRAIN, ARCHIVE),
    "noindex": (SEARCH,),
    "none": (SEARCH,),
    "noarchive": (ARCHIVE,),
    "nosnippet": (AI_INPUT,),
    "noai": (AI_INPUT, AI_TRAIN),
}
_OF_IMAGES = {"noimageai": (AI_INPUT, AI_TRAIN)}
RESERVATION = "tdm-reservation"
RESERVED: Mapping[str, Uses] = {"1": {TDM: "no", AI_TRAIN: "no"}, "0": {TDM: "yes"}}

# A dictionary as defined in RFC 9651, 3.2. Only token values are used here, but others are accepted.
_KEY = r"[a-z*][a-z0-9_.*-]*+"
_STRING, _TOKEN = r'"(?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*+"', r"[A-Za-z*][A-Za-z0-9!#$%&'*+.^_`|~:/-]*+"
_BARE = rf"(?:{_STRING}|{_TOKEN}|\?[01]|:[A-Za-z0-9+/=]*+:|@?-?[0-9]++(?:\.[0-9]++)?+)"
_PARAMETERS = rf"(?:[ ]*+;[ ]*+{_KEY}(?:={_BARE})?+)*+"
_ITEM = rf"(?:{_BARE}|\([ ]*+(?:{_BARE}{_PARAMETERS}(?:[ ]++|(?=\))))*+\))"
_MEMBER = re.compile(rf"({_KEY})(?:=({_ITEM}))?+{_PARAMETERS}[ \t]*+(?:,[ \t]*+(?!\Z)|\Z)")
_DICTIONARY = re.compile(rf"(?:{_MEMBER.pattern})*+")


def stricter(*parts: Stated) -> Stated:
    """Merge the statements; if they disagree, the stricter one holds."""
    found: dict[str, tuple[str, str]] = {}
    for part in parts:
        for purpose, said in part.items():
            if purpose not in found or (found[purpose][0] == "yes" and said[0] == "no"):
                found[purpose] = said
    return found


def content_signal(value: str, source: str) -> Stated:
    """Parse a value of ``Content-Signal``, such as ``search=yes, ai-train=no``."""
    parts = value[:_CHARACTERS].lower().split(",")
    return _stated(["=".join(map(str.strip, part.split("="))) for part in parts], _SIGNALS, source)


def content_usage(value: str, source: str) -> Stated:
    """Parse a value of ``Content-Usage``, a dictionary such as ``train-ai=n, search=y``. A malformed value states
    nothing."""
    text = value.strip(" \t")[:_CHARACTERS]
    if not _DICTIONARY.fullmatch(text):
        return NOTHING_STATED
    return _stated(map("=".join, _MEMBER.findall(text)), _USAGES, source)


def of_headers(usages: Sequence[str], reservations: Sequence[str]) -> Stated:
    """Return the statements in the values of the headers ``Content-Usage`` and ``tdm-reservation``."""
    used = content_usage(", ".join(usages[:_VALUES]), "Content-Usage") if usages else NOTHING_STATED
    return stricter(used, _stated(reservations[:_VALUES], RESERVED, RESERVATION))


def of_metas(metas: Iterable[tuple[str, str]]) -> Stated:
    """Return the statements in the ``meta`` elements of TDMRep."""
    values = [value for name, value in metas if name.lower() == RESERVATION]
    return _stated(values[:_VALUES], RESERVED, f"meta {RESERVATION}")


def of_directives(names: Iterable[str], source: str, now: float, *, image: bool = False) -> Stated:
    """Return the statements in robots directives (``crawler.url.robots.directives``) at the time ``now``, in seconds
    since 1970. ``image``: they apply to an image."""
    known = _DIRECTIVES | _OF_IMAGES if image else _DIRECTIVES
    found = []
    for name in names:
        word = UNAVAILABLE if has_passed(name, now) else name
        if word in known and name != UNAVAILABLE:  # without a time, the directive states nothing
            found.append(dict.fromkeys(known[word], ("no", f"{source}: {word}")))
    return stricter(*found)


def refusal(stated: Stated, purposes: PurposeSettings, *, is_whole: bool = True) -> Refusal | None:
    """Return why a page with these statements must not be used for the purposes in the settings; None if it may be
    used. ``is_whole``: these are all statements of the page; a 304 need not repeat them."""
    is_strict = is_whole and purposes.unstated == "refuse"
    unstated = [name for name in purposes.uses if is_strict and name not in stated]
    refused = [name for name in purposes.uses if name in stated and stated[name][0] != "yes"]
    if not (refused or unstated):
        return None
    why = f"the page refuses {', '.join(refused)}" if refused else f"the page does not state {', '.join(unstated)}"
    subject = " ".join(f"{name}={word}" for name, (word, _) in stated.items())
    return Refusal(Rule.CONSENT, subject, why, "")


def stated_in(subject: str) -> Stated:
    """Return the statements in the ``subject`` of a consent refusal."""
    pairs = (each.partition("=") for each in subject.split())
    return {name: (word, "") for name, _, word in pairs}


def _stated(values: Iterable[str], known: Mapping[str, Uses], source: str) -> Stated:
    """Return what the known ones of these values state."""
    uses = [use for value in values for use in known.get(value.strip(), {}).items()]
    return stricter(*[{use: (word, source)} for use, word in uses])


# -- statements by path ------------------------------------------------------------------------------------------------

LINES_MOST = 500  # maximum number of lines or rules read by path: every page is matched against each of them
_KINDS = {
    "content-signal": (content_signal, "robots.txt Content-Signal"),
    "content-usage": (content_usage, "robots.txt Content-Usage"),
}


class PathStatements:
    """Statements by path; those with the longest matching pattern count. If there are too many, or a pattern is too
    costly to match, what they refuse is refused for all paths. ``size`` is their memory in bytes."""

    __slots__ = ("_lines", "_refused", "size")

    def __init__(self, lines: Iterable[tuple[str, Stated]]) -> None:
        """``lines``: patterns in Latin-1 (empty: all paths), each with its statements."""
        budget, lines = STAR_BUDGET // LINES_MOST, list(lines)
        read = [(Patterns([(False, path or "/")], budget), stated) for path, stated in lines[:LINES_MOST]]
        self._lines = [each for each in read if not each[0].cut]
        others = [stated for pattern, stated in read if pattern.cut] + [stated for _, stated in lines[LINES_MOST:]]
        self._refused = {use: said for use, said in stricter(*others).items() if said[0] == "no"}
        self.size = sys.getsizeof(self) + sum(512 + pattern.size for pattern, _ in self._lines)

    def of(self, target: str) -> Stated:
        """Return the statements for a path with its query."""
        weights = [(pattern.weight(target), stated) for pattern, stated in self._lines]
        longest = max((weight for weight, _ in weights), default=0)
        return stricter(self._refused, *[stated for weight, stated in weights if weight == longest > 0])


def robots_statements(lines: Iterable[tuple[str, str]]) -> tuple[PathStatements, ...]:
    """Return the statements in lines of robots.txt, for each kind of line. ``lines``: for each line, its key in lower
    case and its value in Latin-1."""
    read: dict[str, list[tuple[str, Stated]]] = {}
    for key, value in lines:
        parse, source = _KINDS[key]
        path, words = [*value.split(None, 1), ""][:2] if value.startswith("/") else ("", value)
        read.setdefault(key, []).append((path, parse(words, source)))
    return tuple(map(PathStatements, read.values()))
