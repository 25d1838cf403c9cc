"""The limits for rendering a page: beyond them, requests are refused and the page is used as it is."""

from __future__ import annotations

from msgspec import Struct


class Budget(Struct, frozen=True):
    """The limits of one page. ``seconds`` do not count while the page waits for an answer. ``timers`` limits how far
    the page's own clock runs for its timers, in milliseconds."""

    requests: int = 50
    bytes: int = 32 * 2**20
    seconds: float = 20.0
    timers: int = 5_000
