"""DUPEFILTER_CLASS: looks up Scrapy's own fingerprints in the seen-set of the job."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol, Self

from scrapy import Request
from scrapy.dupefilters import RFPDupeFilter
from scrapy.utils.misc import load_object

from crawler.base.settings.load import SettingsError

log = logging.getLogger(__name__)

_NO_SEEN_SET = 'crawler.scrapy.DupeFilter has no seen-set: set SCHEDULER = "crawler.scrapy.Scheduler"'


class Fingerprinter(Protocol):
    """REQUEST_FINGERPRINTER_CLASS."""

    def fingerprint(self, request: Request) -> bytes: ...


class DupeFilter(RFPDupeFilter):
    """Reports whether a request was enqueued before. The seen-set is attached by the scheduler, which stores requests
    and their seen-set in one transaction. A lookup changes nothing."""

    def __init__(self, fingerprinter: Fingerprinter, *, debug: bool = False) -> None:
        super().__init__(debug=debug, fingerprinter=fingerprinter)
        self._knows: Callable[[str], bool] | None = None

    @classmethod
    def from_crawler(cls, crawler: Any) -> Self:
        """Create the filter from Scrapy's settings. Raises SettingsError."""
        if not getattr(load_object(crawler.settings["SCHEDULER"]), "has_seen_set", False):
            # Fail here: if each request failed instead, the crawl would be empty and look complete.
            log.critical("The spider does not start: %s", _NO_SEEN_SET)
            raise SettingsError(_NO_SEEN_SET)
        return cls(crawler.request_fingerprinter, debug=crawler.settings.getbool("DUPEFILTER_DEBUG"))

    def attach(self, knows: Callable[[str], bool]) -> None:
        """Use this seen-set from now on."""
        self._knows = knows

    def name(self, request: Request) -> str:
        """Return the name of the request: its fingerprint as text."""
        return self.fingerprinter.fingerprint(request).hex()

    def request_seen(self, request: Request) -> bool:
        if self._knows is None:
            raise RuntimeError(_NO_SEEN_SET)
        return self._knows(self.name(request))
