"""Flushes the items of a request to the files of Scrapy's feeds before the request is done.

A feed writes to a buffer. An item in it has passed all pipelines, but SIGKILL loses it; and a request that is done
would never produce it again.
"""

from __future__ import annotations

import logging
from typing import Any

from scrapy.extensions.feedexport import FeedExporter

log = logging.getLogger(__name__)


class ItemFeeds:
    """The feeds of one spider, from ``-o`` and FEEDS."""

    def __init__(self, crawler: Any) -> None:
        made = getattr(getattr(crawler, "extensions", None), "middlewares", ())
        self._exporters = [each for each in made if isinstance(each, FeedExporter)]
        self._due = False
        self._told = False

    def ended(self) -> None:
        """Record that a request is done: its items must be in the files before that is written."""
        self._due = True

    def flush(self) -> None:
        """Flush the buffers to the operating system if a request has finished since the last flush."""
        if not self._due:
            return
        self._due = False
        for exporter in self._exporters:
            for slot in exporter.slots:
                self._flush(getattr(slot, "file", None))

    def _flush(self, file: Any) -> None:
        flush = getattr(file, "flush", None)  # files of custom storages may lack methods other than write
        if flush is None or getattr(file, "closed", False):
            return
        try:
            flush()
        except OSError as error:  # a failing feed does not stop Scrapy; its buffer keeps the items
            self._due = True
            if not self._told:
                self._told = True
                log.error("Cannot write items to their feed: %s: they would be lost if the spider is killed", error)
