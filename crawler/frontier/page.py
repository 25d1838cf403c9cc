"""A visited page, and the interval until its next visit.

By default ``visit_value`` determines the interval. Under the policy "adaptive", and after a visit without a response,
it depends on the result of each visit, as in Nutch's AdaptiveFetchSchedule
(https://nutch.apache.org/documentation/javadoc/apidocs/org/apache/nutch/crawl/AdaptiveFetchSchedule.html):

    changed        interval *= 1 - 0.2
    not changed    interval *= 1 + 0.4        between min_interval and max_interval

If each visit finds a change with probability p, the interval is in equilibrium when p ln(1 - 0.2) + (1 - p) ln(1 + 0.4)
= 0: six visits in ten find a change, regardless of the page's rate of change, which need not be known.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, NamedTuple

import msgspec.msgpack
from msgspec import Meta, Struct

from crawler.base.settings.parts import RecrawlSettings
from crawler.frontier.entry import Entry
from crawler.frontier.recrawl.change_rate import ChangeRate, after_signal, after_visit, first_guess

VALIDATOR_MAX = 1_024  # longest ETag or Last-Modified that is stored, in characters; most have a few dozen
OF_TEXT = 1  # flag: the fingerprint was computed from the page's text
SIGNALLED = 2  # flag: the site reports a change since the last visit
HASTENED = 4  # flag: the next visit was moved forward because of such a report
_VERSION = 2
_Count = Annotated[int, Meta(ge=0)]
_INCREASE, _DECREASE = 0.4, 0.2  # relative change of an interval after a visit that found no change, or a change


class PageError(ValueError):
    """Raised when stored bytes are not a page of a known version."""


class Answer(Struct, frozen=True):
    """The result of a visit.

    ``fingerprint`` identifies the whole response; None if the server responded with 304 (Not Modified). The next
    request sends the validators back (RFC 9110, 8.8). ``gone`` is True if the page does not exist (404, 410).
    ``of_text`` is True if the fingerprint is that of the page's text instead of its bytes. ``changed`` is the verdict
    of user code, which overrides the fingerprint.
    """

    fingerprint: bytes | None
    etag: str | None = None
    last_modified: str | None = None
    gone: bool = False
    of_text: bool = False
    changed: bool | None = None

    def is_comparable(self, page: Page) -> bool:
        """Return True if the fingerprint of this response can be compared with the page's stored one."""
        return page.fingerprint is not None and self.of_text == bool(page.marks & OF_TEXT)


class Page(NamedTuple):
    """The state of a page.

    ``interval`` is in seconds, ``due`` and ``visited_at`` are in seconds since 1970. ``due`` is None while the page is
    queued or in flight. ``fingerprint`` is None until a visit has a response. ``rate`` is None for a page that is not
    on a schedule and is visited only once more. ``gone`` is the number of latest responses in a row that say that the
    page does not exist. ``marks`` combines OF_TEXT, SIGNALLED and HASTENED. ``stated`` is the time at which the page
    last changed according to its site, 0 if unknown.
    """

    entry: Entry
    visits: _Count
    changes: _Count
    interval: float
    due: float | None
    visited_at: float
    fingerprint: bytes | None = None
    etag: str | None = None
    last_modified: str | None = None
    rate: ChangeRate | None = None
    gone: _Count = 0
    marks: _Count = 0
    stated: float = 0.0

    def next_at(self, interval: float, due: float) -> Page:
        """Return the page with a new interval and time of its next visit."""
        return Page(self.entry, self.visits, self.changes, interval, due, *self[5:])

    def forgotten(self) -> Page:
        """Return the page without fingerprint and validators, so that the next visit compares nothing."""
        return self._replace(fingerprint=None, etag=None, last_modified=None)

    @property
    def conditions(self) -> dict[str, str]:
        """The headers of a conditional request (RFC 9110, 13.1)."""
        headers = {"If-None-Match": self.etag, "If-Modified-Since": self.last_modified}
        return {name: value for name, value in headers.items() if value is not None}


def visited(
    page: Page | None, entry: Entry, answer: Answer | None, now: float, settings: RecrawlSettings, *, last_resort: bool
) -> tuple[Page, bool | None]:
    """Return the page after a visit, and whether it had changed (None if its contents cannot be compared).

    ``answer`` is None if the visit had no response. ``last_resort`` is True if a rule of the crawler refused the
    request, so that the longest interval applies.
    """
    if not entry.revisit or entry.tries or entry.throttled or entry.redirects:
        entry = entry._replace(revisit=True, tries=0, throttled=0, redirects=0)
    if answer is not None and entry.crashes:
        entry = entry._replace(crashes=0)  # the page was read without a crash
    if page is not None and page.entry.changefreq != entry.changefreq:
        entry = entry._replace(changefreq=page.entry.changefreq)  # the sitemap was read while the page was queued
    guess = first_guess(first_interval(settings), 0 if page is not None and page.changes else entry.changefreq)
    rate = (page and page.rate) or guess
    if page is None:
        interval = settings.max_interval if last_resort else first_interval(settings)
        page, changed = Page(entry, 0, 0, interval, None, now), None
    elif answer is None:
        changed = None
        interval = settings.max_interval if last_resort else _adapted(page.interval, False)
        if last_resort:
            page = page.forgotten()  # a mirror of the site now drops the page
    elif answer.fingerprint is not None and answer.changed is None and not answer.is_comparable(page):
        changed, interval = None, page.interval  # the first response, or one that cannot be compared
    else:
        changed = answer.changed
        if changed is None:
            changed = answer.fingerprint is not None and answer.fingerprint != page.fingerprint
        interval = _adapted(page.interval, changed)
        after = after_signal if page.marks & HASTENED else after_visit
        rate = after(rate, now - page.visited_at, changed=changed, first=guess)
    interval = min(max(interval, settings.min_interval), settings.max_interval)
    fingerprint, etag, last_modified, gone = page.fingerprint, page.etag, page.last_modified, page.gone
    marks = page.marks & OF_TEXT
    if answer is not None:
        gone = gone + 1 if answer.gone else 0
        same = answer.fingerprint is None
        if not same:
            fingerprint, marks = answer.fingerprint, OF_TEXT if answer.of_text else 0
        etag = answer.etag or (etag if same else None)
        last_modified = answer.last_modified or (last_modified if same else None)
    visits, changes = page.visits + 1, page.changes + bool(changed)
    known = (fingerprint, etag, last_modified, rate, gone, marks, page.stated)
    return Page(entry, visits, changes, interval, now + interval, now, *known), changed


def first_interval(settings: RecrawlSettings) -> float:
    """Return the seconds between the first and second visit of a page: the mean interval, within its limits."""
    return min(max(settings.mean_interval, settings.min_interval), settings.max_interval)


def _adapted(interval: float, changed: bool) -> float:
    return interval * (1 - _DECREASE if changed else 1 + _INCREASE)


def validator(text: str | None) -> str | None:
    """Return an ETag or Last-Modified that can be sent back; None if it is empty, too long or not printable ASCII."""
    text = (text or "").strip()
    return text if 0 < len(text) <= VALIDATOR_MAX and text.isascii() and text.isprintable() else None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[Literal[2], Page]).decode


def pack_page(page: Page) -> bytes:
    """Encode a page for the store, with its due time as in the key of ``due``."""
    due = page.due
    return _encode((_VERSION, page if due is None else page._replace(due=milliseconds(due) / 1000)))


def unpack_page(value: bytes) -> Page:
    """Decode a stored page; raises PageError."""
    try:
        _, page = _decode(value)
    except msgspec.DecodeError as error:
        raise PageError(f"not a page of version {_VERSION}: {error}") from error
    numbers = (page.interval, page.due or 0.0, page.visited_at, page.stated, *(page.rate or ()))
    if not (page.entry.revisit and all(map(math.isfinite, numbers)) and min(page.rate or (1.0,)) > 0.0):
        raise PageError(f"not a page: {page}")
    return page


def milliseconds(seconds: float) -> int:
    """Return a time in seconds since 1970 as stored: whole milliseconds, rounded up; at least 1."""
    # The tolerance absorbs float errors, so that a time read from the store is written back unchanged.
    return max(1, math.ceil(seconds * 1000 - 1e-3))
