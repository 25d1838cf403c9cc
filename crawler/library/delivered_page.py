"""A page in the hands of the program that loops over a crawl."""

from __future__ import annotations

import json

from crawler.engine.page_handler import Handled
from crawler.hooks.page_view import PageView, facts_of
from crawler.library.deliveries import Delivery


class Page(PageView):
    """A page that was fetched, and that is not finished until the loop asks for the next one. See ``PageView``."""

    def __init__(self, delivery: Delivery) -> None:
        super().__init__(facts_of(delivery.page), delivery.page.follows)
        self._delivery = delivery

    async def done(self) -> bool:
        """Finish the page before the loop asks for the next one. Returns True when its record, with ``data``, and its
        links are with the operating system: killed now, they are not lost. Returns False if the crawl has ended
        meanwhile: the next run will deliver the page again.

        Raises TypeError or ValueError if JSON cannot express ``data``; the page is then not finished."""
        return await self._end(keep=True)

    async def drop(self) -> bool:
        """As ``done``, but outputs keep nothing of the page besides its record."""
        return await self._end(keep=False)

    async def _end(self, *, keep: bool) -> bool:
        json.dumps(self.data, allow_nan=False)
        return await self._delivery.end(Handled(dict(self.data) or None, self.followed, keep))
