"""The requests that a browser makes while it renders a page, and the result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum

from msgspec import Struct


class Kind(StrEnum):
    """The purpose of a request: the resource types of the DevTools protocol, some of them combined."""

    DOCUMENT = "document"  # a frame of the page, or a navigation
    SCRIPT = "script"
    STYLESHEET = "stylesheet"
    DATA = "data"  # XHR and fetch
    PREFLIGHT = "preflight"  # asks the server whether another request may be made (CORS)
    OTHER = "other"  # images, fonts, media, beacons, prefetches, manifests, reports, event streams


class Refusal(StrEnum):
    """The reason why a request of a page was not made. The browser gets a network error."""

    TYPE = "type"  # images, fonts, media, beacons: they yield neither links nor text
    TRACKER = "tracker"
    THIRD_PARTY = "third-party"
    METHOD = "method"
    OWN_RULE = "own-rule"  # the rules for addresses, ports and schemes, as for pages
    EXCLUDED = "excluded"  # a pattern of the scope excludes the URL
    ROBOTS = "robots"
    BUDGET = "budget"  # the limit of requests or bytes per page or host
    PARTITION = "partition"  # the host belongs to another partition
    HELD = "held"  # the host gets no requests now, or only after too long a wait


NEEDED = (Kind.DOCUMENT, Kind.SCRIPT, Kind.DATA)  # needed to find links and text
_MISSED = (Refusal.ROBOTS, Refusal.BUDGET, Refusal.PARTITION)


class SubRequest(Struct, frozen=True):
    """One request of a page. ``url`` is absolute, without a fragment. ``headers`` are the browser's own. ``cookies`` is
    the page's Cookie header for this request."""

    url: str
    method: str
    kind: Kind
    headers: Mapping[str, str]
    body: bytes | None = None
    cookies: str = ""


class Answer(Struct, frozen=True):
    """The response passed to the browser. The content coding of ``body`` is decoded; ``headers`` are in order, without
    Content-Encoding, Content-Length and Transfer-Encoding."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


class Budget(Struct, frozen=True):
    """The limits of one page. When a limit is reached, further requests of the page are refused, and its document is
    used as it is.

    ``seconds`` does not include the time in which the page waits for an answer."""

    requests: int = 50
    bytes: int = 32 * 2**20
    seconds: float = 20.0


Asked = Answer | Refusal | None  # None: the request was made but got no answer
Ask = Callable[[SubRequest], Awaitable[Asked]]


class Rendered(Struct):
    """A rendered page; its tab fills it in. ``html`` is its document in UTF-8, with the content of shadow roots and
    frames in place, and with absolute URLs in links; ``url`` is the final URL of the document, after ``pushState``.
    ``moved`` is the URL that scripts tried to navigate to; ``routes`` the URLs that they set meanwhile (``pushState``).
    ``refused`` and ``requests`` describe its requests. ``engine`` is the name and version of the engine;
    ``cpu_seconds`` the CPU time of its process for the page. ``cut`` is the reason if rendering was stopped early.
    ``failed`` is True if a request for a script, data or a frame got no answer, or a temporary error."""

    html: bytes
    url: str
    engine: str
    cpu_seconds: float
    requests: int = 0
    refused: list[tuple[Refusal, Kind]] = []
    moved: str | None = None
    routes: list[str] = []
    cut: str | None = None
    failed: bool = False

    @property
    def waits(self) -> bool:
        """True if a script, a frame or data that may be available later is missing."""
        return self.failed or any(why is Refusal.HELD and kind in NEEDED for why, kind in self.refused)

    @property
    def partly(self) -> bool:
        """True if the page was cut, or if a script, a frame or data is missing but may be available at another time, or
        to another crawler."""
        missed = any(why in _MISSED and kind in NEEDED for why, kind in self.refused)
        return missed or self.waits or self.cut is not None


class NotRendered(Struct, frozen=True):
    """The page could not be rendered: the tab crashed or hung, or there is no engine. ``died``: the browser or the tab
    ended, perhaps because of another page."""

    error: str
    engine: str = ""
    died: bool = False
