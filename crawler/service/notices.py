"""Tells the operator of a crawl by a webhook (``[notify]``) that it ends, pauses or needs somebody."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from crawler.base.settings import NotifySettings, SettingsError, fault_of_webhook, secret_reference
from crawler.engine.lifecycle import Stop
from crawler.job.directory import JobError
from crawler.job.metrics import Notice, NoticeWatch, counted, needs
from crawler.service.webhook import Patience, Webhook
from crawler.web.fetch import read_secret

INTERVAL = 1.0  # seconds between two looks at the statistics


def webhook_url(settings: NotifySettings) -> str | None:
    """Return where notices go; None: nowhere. Raises SettingsError, without the URL."""
    url = settings.url
    if url is not None and secret_reference(url) is not None:
        url = read_secret(url, "notify.url", os.environ)
        if secret_reference(url) is not None or fault_of_webhook(url) is not None:
            raise SettingsError("notify.url: what it refers to is no URL of http or https")
    return url


class Notices:
    """The notices of one run, for the job in ``directory``. Raises SettingsError."""

    def __init__(
        self,
        settings: NotifySettings,
        directory: Path,
        clock: Callable[[], float],
        patience: Patience | None = None,
    ) -> None:
        url = webhook_url(settings)
        self._hook = None if url is None else Webhook(url, patience or Patience())
        self._settings = settings
        self._directory = directory
        self._clock = clock
        self._watch = NoticeWatch()
        self._stats: Mapping[str, Any] = {}

    @contextlib.asynccontextmanager
    async def delivering(self) -> AsyncIterator[None]:
        """Deliver notices while the block lasts, and tell of an error that ends it, unless that is one of whoever gave
        the command."""
        if self._hook is None:
            yield
            return
        posting = asyncio.create_task(self._hook.keep())
        try:
            yield
        except JobError:
            raise
        except Exception as error:
            text = " ".join(str(error).split())[:400]
            self._tell(Notice("end", "error", f"stopped with an error: {type(error).__name__}: {text}"))
            raise
        finally:
            await self._hook.settle()
            posting.cancel()
            await asyncio.gather(posting, return_exceptions=True)

    async def keep(self, stats: Callable[[], Mapping[str, Any]]) -> None:
        """Look at the statistics again and again, until cancelled."""
        while self._hook is not None:
            self._stats = stats()
            for notice in self._watch.observe(self._clock(), self._stats):
                self._tell(notice)
            await asyncio.sleep(INTERVAL)

    def end(self, reason: Stop, stats: Mapping[str, Any]) -> None:
        """The run is over."""
        self._stats = stats
        pages, failed = counted(stats["pages_fetched"], "page"), stats["pages_failed"]
        more = f", {failed:,} failed" if failed else ""
        left = stats["urls_pending"]
        if reason is Stop.FINISHED:
            text = f"ended: {pages} fetched{more}"
        else:
            text = f"stopped ({reason}) with {counted(left, 'URL')} pending: {pages} fetched{more}"
        self._tell(Notice("end", reason, text))

    def _tell(self, notice: Notice) -> None:
        if self._hook is None or notice.event not in self._settings.events:
            return
        name = self._directory.absolute().name
        content: dict[str, Any] = {"text": f"crawl {name}: {notice.text}"}
        if not self._settings.text_only:
            content |= {
                "event": notice.event,
                "kind": notice.kind,
                "job": name,
                "machine": socket.gethostname(),
                "at": datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="seconds"),
                "state": self._stats.get("state"),
                "pages_fetched": self._stats.get("pages_fetched"),
                "pages_failed": self._stats.get("pages_failed"),
                "urls_pending": self._stats.get("urls_pending"),
                "needs": [need._asdict() for need in needs(self._stats)],
            }
        self._hook.post(content)
