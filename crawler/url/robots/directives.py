"""The robots directives of a page: ``X-Robots-Tag`` headers and robots ``meta`` elements.

Both hold directives such as ``noindex``, separated by commas or spaces. A header may name a crawler in front of them,
as in ``otherbot: noindex``; an element names it in its ``name``. Directives for all crawlers and for this one are
combined. The result is limited to a few kilobytes, however much was sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

MOST = 32  # maximum directives of one page
_VALUES = 16  # headers or elements read per page
_CHARACTERS = 2_048  # characters read per header or element
_NAME_CHARACTERS = 40  # maximum length of a directive
_DATES = 4  # dates read per value

# Directives with a value after a colon. Any other name before a colon is a crawler's.
_VALUED = frozenset(("max-snippet", "max-image-preview", "max-video-preview", "unavailable_after"))
# Directives that have no effect.
_DEFAULTS = frozenset(("", "all", "index", "follow"))
UNAVAILABLE = "unavailable_after"
_DATE = re.compile(rf"({UNAVAILABLE})[ \t]*+:[ \t]*+", re.IGNORECASE)
_DATE_WORD = (
    r"(?:[0-9+-][0-9a-z:+.-]*+|(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?"
    r"|jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?|utc?|gmt|z|[ecmp][sd]t)(?![a-z_])"
)
_DATE_WORDS = rf"(?i:{_DATE_WORD}(?:,?[ \t]+{_DATE_WORD}){{0,7}})"  # compiled on first use: few pages state a date
_SEPARATOR = re.compile(r"[\s,;]+")
_COLON = re.compile(r"\s*+:\s*+")
_TOKEN = re.compile(r"[a-z0-9_.*-]+(?::[a-z0-9_.*-]+)?")


def directives(headers: Sequence[str], metas: Iterable[tuple[str, str]], agent: str, now: float) -> tuple[str, ...]:
    """Return the directives of a page for the crawler with this product token: distinct, in lower case, in the order
    found.

    ``headers`` are the values of ``X-Robots-Tag``, ``metas`` name and content of the meta elements. A value follows a
    colon: ``max-snippet:50``, ``unavailable_after:2030-01-31T12:00:00Z``. If that time is before ``now`` (in seconds
    since 1970), the page is ``noindex``. Directives that state the default (``all``, ``index``, ``follow``) are left
    out.
    """
    agent = agent.lower()
    found: dict[str, None] = {}
    for value in headers[:_VALUES]:
        found.update(dict.fromkeys(_of_value(value, agent, header=True)))
    read = 0
    for name, content in metas:
        if read < _VALUES and name.strip().lower() in ("robots", agent or "robots"):
            read += 1
            found.update(dict.fromkeys(_of_value(content, agent, header=False)))
    names = [each for each in found if each not in _DEFAULTS][:MOST]
    if "noindex" not in found and any(has_passed(each, now) for each in names):
        names.append("noindex")
    return tuple(names)


def forbids_links(names: Iterable[str]) -> bool:
    """Return True if the links of the page must not be followed."""
    return not {"nofollow", "none"}.isdisjoint(names)


def _of_value(value: str, agent: str, *, header: bool) -> Iterator[str]:
    """Yield the directives in one value that apply to this crawler."""
    value, ours = value[:_CHARACTERS], True
    for _ in range(_DATES):
        date = _DATE.search(value)
        if date is None:
            break
        words, ours = _words(value[: date.start()], agent, ours=ours, header=header)
        yield from words
        moment, value = _date(value[date.end() :])
        if ours:
            yield UNAVAILABLE if moment is None else f"{UNAVAILABLE}:{_iso(moment)}"
    yield from _words(value, agent, ours=ours, header=header)[0]


def _words(text: str, agent: str, *, ours: bool, header: bool) -> tuple[list[str], bool]:
    """Return the directives in a text that contains no dates, and whether directives after this text apply to this
    crawler."""
    found = []
    for word in _SEPARATOR.split(_COLON.sub(":", text.lower())):
        name, colon, rest = word.partition(":")
        directive = word
        if header and colon and name not in _VALUED:
            ours, directive = name in ("*", "robots", agent), rest
        if name == UNAVAILABLE:
            continue  # its date was not read, because there are too many
        if ours and len(directive) <= _NAME_CHARACTERS and _TOKEN.fullmatch(directive):
            found.append(directive)
    return found, ours


def _date(text: str) -> tuple[datetime | None, str]:
    """Return the date at the start of a text, and the rest of the text. RFC 822, RFC 850 (which has a comma) and ISO
    8601 are recognised. Without a date, the text up to the first comma is skipped."""
    stated = re.match(_DATE_WORDS, text)
    if stated is None:
        return None, text.partition(",")[2]
    return _parsed(stated[0]), text[stated.end() :]


def _parsed(text: str) -> datetime | None:
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        with suppress(ValueError, OverflowError):  # also outside the range of years of a datetime
            moment = parse(text)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    return None


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def has_passed(name: str, now: float) -> bool:
    """Return True if the directive gives a time until which the page is available, and that time has passed."""
    text = name.removeprefix(f"{UNAVAILABLE}:")
    return text != name and datetime.fromisoformat(text).timestamp() <= now
