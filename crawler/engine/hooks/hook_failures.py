"""A user function in a run: it counts and logs failures, and decides when they stop the crawl."""

from __future__ import annotations

import logging
from collections.abc import Callable

from crawler.base.printable import printable
from crawler.base.settings.parts import HookSettings
from crawler.engine.hooks.answers import NoMoreCallsError
from crawler.engine.hooks.named_code import NamedCode
from crawler.engine.user_code import HookFigures

log = logging.getLogger("crawler")

SHOWN = 10  # number of failures and slow calls logged for each function; further ones are only counted


def _nobody(_: str) -> None:
    """Do nothing: no run has started."""


def _nothing() -> None:
    """Do nothing: no run has started."""


class Hook:
    """One user function. ``setting`` is the setting that names it."""

    def __init__(self, setting: str, code: NamedCode, settings: HookSettings) -> None:
        self.code = code
        self.timeout = settings.on_page_timeout or None  # seconds that a call may take; None: unlimited
        self.figures = HookFigures(code.name)
        self.note: Callable[[str], None] = _nobody  # adds a sentence to the events of the run
        self.count: Callable[[], None] = _nothing  # counts a failure in the job
        self.stop: Callable[[], None] = _nothing  # stops the run
        self._setting = setting
        self._on_error = settings.on_error
        self._slow = 0

    def failed(self, url: str, text: str) -> None:
        """Count a failure, and log it if it is among the first ones."""
        self.figures.failed += 1
        self.count()
        if self.figures.failed <= SHOWN:
            self._say(f"{self._setting} failed on {url}: {text}")
        if self.figures.failed == SHOWN:
            self._say(f"{self._setting}: further failures of {self.code.name} are only counted")

    def stops(self, url: str, error: Exception) -> bool:
        """Stop the crawl if the failure requires it, because of ``hooks.on_error`` or because no new calls can start.
        Returns whether the crawl stops. The reason is logged once."""
        if isinstance(error, NoMoreCallsError):
            said = why = f"{error} (hooks.on_page_timeout)"
        elif self._on_error == "stop":
            said, why = f"{self._setting} failed (hooks.on_error)", f"{self._setting} failed on {url}: {error}"
        else:
            return False
        if self.figures.stopped is None:
            self.figures.stopped = printable(why)
            self._say(f"stopping because {said}: the next run gets the page again")
            self.stop()
        return True

    def takes_long(self, url: str, seconds: float, place: str | None) -> None:
        """Log a call that has not returned."""
        self._slow += 1
        if self._slow <= SHOWN:
            where = "" if place is None else f"; it is now at {place}"
            self._say(f"{self._setting}: {self.code.name} has not returned for {seconds:g} s on {url}{where}")

    def _say(self, text: str) -> None:
        line = printable(text)
        log.warning("%s", line)
        self.note(line)
