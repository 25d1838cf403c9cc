"""A function of the user in a run: how often it failed, who is told, and when that stops the crawl."""

from __future__ import annotations

import logging
from collections.abc import Callable

from crawler.base.printable import printable
from crawler.base.settings.parts import HookSettings
from crawler.engine.hooks.answers import NoMoreCallsError
from crawler.engine.hooks.named_code import NamedCode
from crawler.engine.user_code import HookFigures

log = logging.getLogger("crawler")

SHOWN = 10  # failures of one function, and calls that take long, that are shown; further ones are counted


def _nobody(_: str) -> None:
    """No run has begun."""


def _nothing() -> None:
    """No run has begun."""


class Hook:
    """One function of the user. ``setting`` is what it was named by."""

    def __init__(self, setting: str, code: NamedCode, settings: HookSettings) -> None:
        self.code = code
        self.timeout = settings.on_page_timeout or None  # seconds that a call may take; None: any time
        self.figures = HookFigures(code.name)
        self.note: Callable[[str], None] = _nobody  # adds a sentence to the events of the run
        self.count: Callable[[], None] = _nothing  # counts a failure in the job
        self.stop: Callable[[], None] = _nothing  # stops the run
        self._setting = setting
        self._on_error = settings.on_error
        self._slow = 0

    def failed(self, url: str, text: str) -> None:
        """Count a failure, and show the first ones."""
        self.figures.failed += 1
        self.count()
        if self.figures.failed <= SHOWN:
            self._say(f"{self._setting} failed on {url}: {text}")
        if self.figures.failed == SHOWN:
            self._say(f"{self._setting}: further failures of {self.code.name} are only counted")

    def stops(self, url: str, error: Exception) -> bool:
        """Stop the crawl if a failure does, because ``hooks.on_error`` asks for it or because no more calls are
        begun. Returns whether it does. The reason is said once."""
        if isinstance(error, NoMoreCallsError):
            said = why = f"{error} (hooks.on_page_timeout)"
        elif self._on_error == "stop":
            said, why = f"{self._setting} failed (hooks.on_error)", f"{self._setting} failed on {url}: {error}"
        else:
            return False
        if self.figures.stopped is None:
            self.figures.stopped = printable(why)
            self._say(f"stopping because {said}: the next run has the page again")
            self.stop()
        return True

    def takes_long(self, url: str, seconds: float, place: str | None) -> None:
        """Name a call that has not returned."""
        self._slow += 1
        if self._slow <= SHOWN:
            where = "" if place is None else f"; it is at {place}"
            self._say(f"{self._setting}: {self.code.name} has not returned for {seconds:g} s on {url}{where}")

    def _say(self, text: str) -> None:
        line = printable(text)
        log.warning("%s", line)
        self.note(line)
