"""What the record of a URL says besides its outcome: of the exchange, by its headers, and of the page, by its tree.

Everything here is text of strangers: it is cut, and cleaned of what a reader of records could stumble over.
"""

from __future__ import annotations

import hashlib
from base64 import b32encode
from collections.abc import Callable, Generator

from crawler.base.settings.parts import OutputSettings
from crawler.frontier.entry import Entry
from crawler.job.records import NO_EXCHANGE, NO_PROFILE, Exchanged, PageRecord, Profile
from crawler.web.fetch import Failure, Response
from crawler.web.links.about import clean, language
from crawler.web.links.encoding import encoding_name
from crawler.web.links.extract import PageLinks

HEADER_MOST = 1_000  # characters of a header
_STEP = 256 * 1024  # bytes whose digest takes a millisecond

Resolve = Callable[[str, PageLinks], str | None]


class Describer:
    """Describes URLs in the fields that are wanted, and with the headers."""

    def __init__(self, settings: OutputSettings) -> None:
        self._fields = frozenset(settings.fields)
        self._headers = tuple(dict.fromkeys(name.lower() for name in settings.headers))

    @property
    def wants_digest(self) -> bool:
        """Whether the digest of a body is wanted."""
        return "payload_digest" in self._fields

    def unasked(self, entry: Entry) -> Exchanged:
        """Return what is said of a URL that is finished without a further request."""
        tries = entry.tries + entry.throttled
        return Exchanged(tries=tries) if tries and "tries" in self._fields else NO_EXCHANGE

    def describe(self, record: PageRecord, entry: Entry, result: Response | Failure) -> None:
        """Add to the record what an exchange says of its URL, and by its headers of the page."""
        record.exchanged, record.profile = self._exchanged(entry, result), self._said(result)

    def _exchanged(self, entry: Entry, result: Response | Failure) -> Exchanged:
        fields, etag, modified, headers = self._fields, None, None, None
        if isinstance(result, Response):
            etag = _first(result, "ETag") if "etag" in fields else None
            modified = _first(result, "Last-Modified") if "last_modified" in fields else None
            headers = self._headers_of(result) if self._headers else None
        return Exchanged(
            etag,
            modified,
            result.address if "address" in fields else None,
            round(result.seconds, 3) if "seconds" in fields else None,
            entry.tries + entry.throttled + 1 if "tries" in fields else None,
            headers,
        )

    def _headers_of(self, result: Response) -> dict[str, str] | None:
        found = {}
        for name in self._headers:
            value = clean(", ".join(result.values(name)), HEADER_MOST)
            if value is not None:
                found[name] = value
        return found or None

    def _said(self, result: Response | Failure) -> Profile:
        """What the headers of an answer say of the page."""
        if isinstance(result, Failure):
            return NO_PROFILE
        tag = label = None
        if "language" in self._fields:
            tag = language(result.headers.get("Content-Language"))
        if "charset" in self._fields and result.charset is not None:
            label = encoding_name(result.charset)
        return Profile(language=tag, charset=label)

    def page(self, href: str, said: Profile, links: PageLinks, resolve: Resolve) -> Profile:
        """Return what a page says of itself. ``said`` is what is known by its headers and its bytes. ``resolve`` makes
        an absolute URL of the canonical one."""
        fields, about = self._fields, links.about
        return Profile(
            about.title if "title" in fields else None,
            about.language or said.language if "language" in fields else None,
            None,
            resolve(href, links) if about.canonical and "canonical" in fields else None,
            links.encoding if "charset" in fields else None,
            said.payload_digest,
        )

    def detected(self, record: PageRecord, language: str | None) -> None:
        """Add to the record of a page the language that was detected in its text."""
        if language is not None and "detected_language" in self._fields:
            record.profile = record.profile._replace(detected_language=language)


def payload_digest(body: bytes) -> Generator[None, None, str]:
    """The digest of a body in the form of WARC-Payload-Digest. The work may be interrupted wherever this yields."""
    digest = hashlib.sha1(usedforsecurity=False)
    for at in range(0, len(body), _STEP):
        if at:
            yield
        digest.update(memoryview(body)[at : at + _STEP])
    return f"sha1:{b32encode(digest.digest()).decode()}"


def _first(result: Response, name: str) -> str | None:
    value = result.headers.get(name)
    if value is None:
        return None
    return clean(value if value.isascii() else result.values(name)[0], HEADER_MOST)
