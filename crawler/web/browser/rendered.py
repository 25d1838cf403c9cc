"""What a browser asks for while it renders a page, and what comes of the page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum

from msgspec import Struct


class Kind(StrEnum):
    """What a request is for: the resource types of the DevTools protocol that are told apart."""

    DOCUMENT = "document"  # a frame of the page, or a navigation
    SCRIPT = "script"
    STYLESHEET = "stylesheet"
    DATA = "data"  # XHR and fetch
    IMAGE = "image"
    FONT = "font"
    MEDIA = "media"
    PREFLIGHT = "preflight"  # CORS asks whether a request may be made
    OTHER = "other"  # beacons, prefetches, manifests, reports, event streams


class Refusal(StrEnum):
    """Why a request of a page was not made."""

    TYPE = "type"  # pictures, fonts, media, beacons: no link and no text comes of them
    TRACKER = "tracker"
    THIRD_PARTY = "third-party"
    METHOD = "method"
    OWN_RULE = "own-rule"  # address, port or scheme, as for pages
    EXCLUDED = "excluded"  # a pattern of the scope
    ROBOTS = "robots"
    BUDGET = "budget"  # of requests or bytes of a page, or of its host
    PARTITION = "partition"  # the host belongs to another one
    HELD = "held"  # its host is asked for nothing now, or for too long


NEEDED = (Kind.DOCUMENT, Kind.SCRIPT, Kind.DATA)  # for links and text
_MISSED = (Refusal.ROBOTS, Refusal.BUDGET, Refusal.PARTITION, Refusal.HELD)


class SubRequest(Struct, frozen=True):
    """One request of a page. ``url`` is absolute, without a fragment. ``headers`` are the browser's own. ``frame`` is
    the URL of the document that asks. ``cookies``: those that the page has for it, as a header."""

    url: str
    method: str
    kind: Kind
    headers: Mapping[str, str]
    body: bytes | None = None
    frame: str = ""
    cookies: str = ""


class Answer(Struct, frozen=True):
    """What the browser is given. ``body`` is decoded from its content coding; ``headers`` are in order, without
    Content-Encoding, Content-Length and Transfer-Encoding."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


class Refused(Struct, frozen=True):
    """The browser is told that the network failed."""

    why: Refusal
    url: str
    kind: Kind = Kind.DATA


class Failed(Struct, frozen=True):
    """The request was made and there is no answer."""

    error: str


Ask = Callable[[SubRequest], Awaitable[Answer | Refused | Failed]]


class Rendered(Struct, frozen=True):
    """A rendered page. ``html`` is its document in UTF-8 with what shadow roots and frames show in their places, and
    with absolute URLs in links; ``url`` is the document's at the end, after ``pushState``. ``moved``: scripts would
    have sent the page there; ``routes``: what they called the page meanwhile (``pushState``).
    ``refused`` and ``requests`` say what it asked for. ``engine`` is its name and version; ``cpu_seconds`` what its
    process has used for the page. ``cut``: why it was ended before it was finished. ``failed``: a script, data or a
    frame had no answer, or one that says later."""

    html: bytes
    url: str
    engine: str
    cpu_seconds: float
    requests: int = 0
    refused: tuple[Refused, ...] = ()
    moved: str | None = None
    routes: tuple[str, ...] = ()
    cut: str | None = None
    failed: bool = False

    @property
    def waits(self) -> bool:
        """Whether a script, data or a frame is missing that may be had later."""
        return self.failed or any(each.why is Refusal.HELD and each.kind in NEEDED for each in self.refused)

    @property
    def partly(self) -> bool:
        """Whether a script, data or a frame is missing that another time or another crawler might have, or the page was
        cut."""
        return (
            self.cut is not None
            or self.failed
            or any(each.why in _MISSED and each.kind in NEEDED for each in self.refused)
        )


class NotRendered(Struct, frozen=True):
    """No page came of it: the tab crashed, hung, or there is no engine. ``died``: the browser or the tab did, for
    which another page may be to blame."""

    error: str
    engine: str = ""
    died: bool = False
