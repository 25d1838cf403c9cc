"""A visited page, and the interval until its next visit.

By default ``visit_value`` determines the interval. Under the policy "adaptive", and after a visit without a response,
it depends on the result of each visit, as in Nutch's AdaptiveFetchSchedule
(https://nutch.apache.org/documentation/javadoc/apidocs/org/apache/nutch/crawl/AdaptiveFetchSchedule.html):

    changed        interval *= 1 - 0.2
    not changed    interval *= 1 + 0.4        between min_interval and max_interval

If each visit finds a change with probability p, the interval is in equilibrium when p ln(1 - 0.2) + (1 - p) ln(1 + 0.4)
= 0: six visits in ten find a change, regardless of the page's rate of change, which need not be known.

Record: ``<BIIdQd16sHHddBBd`` version, visits, changes, interval (s), due (ms since 1970, 0: none), time of the last
visit, fingerprint, lengths of ETag and Last-Modified, shape and exposure (s) of the change rate (0 and 0: not
estimated), consecutive visits that found the page gone, marks (1: the fingerprint is of the text; 2: the site reports a
change after the last visit; 4: the next visit was moved forward because of that), and the time to which a sitemap or
feed dates the last change (s since 1970, 0: unknown); then the ETag, the Last-Modified and the entry of the next visit.
"""

from __future__ import annotations

import math
import struct
from typing import NamedTuple

from msgspec import Struct

from crawler.base.settings.parts import RecrawlSettings
from crawler.frontier.entry import Entry, EntryError, decode_entry, encode_entry
from crawler.frontier.recrawl.change_rate import ChangeRate, after_signal, after_visit, first_guess

FINGERPRINT_SIZE = 16  # bytes
VALIDATOR_MAX = 1_024  # longest ETag or Last-Modified that is stored, in characters; most have a few dozen
OF_TEXT = 1  # flag of a page: the fingerprint was computed from its text
SIGNALLED = 2  # the site reports a change since the last visit
HASTENED = 4  # the next visit was moved forward because of that
_MARKS = OF_TEXT | SIGNALLED | HASTENED
_NOTHING = bytes(FINGERPRINT_SIZE)
_VERSION = 1
_HEAD = struct.Struct("<BIIdQd16sHHddBBd")
_INCREASE, _DECREASE = 0.4, 0.2  # relative change of an interval after a visit without, or with, a change
_NO_RATE = (0.0, 0.0)
_BYTE_MAX = 255
_COUNT_MAX = 2**32 - 1


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
    queued or in flight. ``fingerprint`` is None until a visit has a response. ``rate`` is None for a page that is
    visited once more, and not by a schedule. ``gone`` counts the latest consecutive responses that the page does not
    exist. ``marks`` combines OF_TEXT, SIGNALLED and HASTENED. ``stated`` is the time to which the site dates the page's
    last change, 0 if unknown.
    """

    entry: Entry
    visits: int
    changes: int
    interval: float
    due: float | None
    visited_at: float
    fingerprint: bytes | None = None
    etag: str | None = None
    last_modified: str | None = None
    rate: ChangeRate | None = None
    gone: int = 0
    marks: int = 0
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
    """Return the page after a visit, and whether it had changed (None if it cannot be compared).

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
            page = page.forgotten()  # a mirror of the site drops the page now
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
        gone = min(gone + 1, _BYTE_MAX) if answer.gone else 0
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


def pack_page(page: Page) -> bytes:
    """Encode a page for the store."""
    etag, modified = (page.etag or "").encode("ascii"), (page.last_modified or "").encode("ascii")
    head = _HEAD.pack(
        _VERSION,
        min(page.visits, _COUNT_MAX),
        min(page.changes, _COUNT_MAX),
        page.interval,
        0 if page.due is None else milliseconds(page.due),
        page.visited_at,
        page.fingerprint or _NOTHING,
        len(etag),
        len(modified),
        *(page.rate or _NO_RATE),
        page.gone,
        page.marks,
        page.stated,
    )
    return head + etag + modified + encode_entry(page.entry)


def unpack_page(value: bytes) -> Page:
    """Decode a stored page; raises PageError."""
    try:
        version = value[0] if value else 0
        if version != _VERSION:
            raise PageError(f"a page of version {version}, not {_VERSION}")
        fields = _HEAD.unpack_from(value)
        _, visits, changes, interval, due, at, fingerprint, etag_size, modified_size = fields[:9]
        shape, exposure, gone, marks, stated = fields[9:]
        rate = None if (shape, exposure) == _NO_RATE else ChangeRate(shape, exposure)
        if not (math.isfinite(interval) and math.isfinite(at) and (rate is None or _is_rate(rate))):
            raise PageError(f"not a page: interval {interval}, last visit {at}, change rate {rate}")
        if marks > _MARKS or not 0.0 <= stated < math.inf:
            raise PageError(f"not a page: marks {marks}, last change {stated}")
        etag_end = _HEAD.size + etag_size
        end = etag_end + modified_size
        etag = value[_HEAD.size : etag_end].decode("ascii")
        modified = value[etag_end:end].decode("ascii")
        entry = decode_entry(value[end:])
    except (struct.error, UnicodeDecodeError, EntryError) as error:
        raise PageError(f"not a page: {error}") from error
    if not entry.revisit:
        raise PageError("not a page: its entry is not a revisit")
    seen = (None if fingerprint == _NOTHING else fingerprint, etag or None, modified or None)
    return Page(entry, visits, changes, interval, due / 1000 if due else None, at, *seen, rate, gone, marks, stated)


def _is_rate(rate: ChangeRate) -> bool:
    return 0.0 < rate.shape < math.inf and 0.0 < rate.exposure < math.inf


def milliseconds(seconds: float) -> int:
    """Return a time in seconds since 1970 as stored: whole milliseconds, rounded up; at least 1."""
    # The tolerance absorbs float errors, so that a time read from the store is written back unchanged.
    return max(1, math.ceil(seconds * 1000 - 1e-3))
