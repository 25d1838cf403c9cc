"""What a page that is rendered may take: beyond it, requests are refused, and the page is taken as it is."""

from __future__ import annotations

from msgspec import Struct


class Budget(Struct, frozen=True):
    """What one page may take. ``seconds`` do not count while the page waits for an answer. ``timers`` are milliseconds
    of its own clock, up to which its timers run."""

    requests: int = 50
    bytes: int = 32 * 2**20
    seconds: float = 20.0
    timers: int = 5_000
