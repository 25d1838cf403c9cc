"""``[notify]``: notifies the operator of a crawl through a webhook when it ends, pauses, resumes or needs attention.

The crawl never waits for the webhook, and no failure of the webhook stops it. Each notice is posted with a few retries,
and a notice that fails does not block the others; if too many notices wait, the oldest is dropped. Redirects are not
followed: the URL is the operator's own and may be in a private network, but the operator does not control where a
redirect leads. The URL may be a secret, so messages contain only its host.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from msgspec import Struct

from crawler.base.figures import counted
from crawler.base.settings.leaving import fault_of_webhook, secret_reference
from crawler.base.settings.load import SettingsError
from crawler.base.settings.parts import NotifySettings
from crawler.engine.lifecycle import Stop
from crawler.job.directory import JobError
from crawler.job.metrics.attention import attention, needs
from crawler.job.metrics.sentences import PLANNED, came, without_page
from crawler.web.fetch import read_secret

log = logging.getLogger("crawler")

INTERVAL = 1.0  # seconds between two checks of the statistics
LASTS = 10.0  # seconds after which a pause is reported, to ignore short outages
AGAIN = 3_600.0  # seconds after which the same reason may be reported again
MOST_WAITING = 32
_FIGURES = ("state", "pages_fetched", "pages_failed", "urls_pending", "hosts_without_page")


class Notice(Struct, frozen=True):
    """``event`` is one of ``settings.NOTICES``; ``kind`` is more specific; ``text`` is one line."""

    event: str
    kind: str
    text: str


class Patience(Struct, frozen=True):
    """Seconds: ``timeout`` of one try, ``waits`` between tries, ``last`` for all remaining notices at the end."""

    timeout: float = 10.0
    waits: tuple[float, ...] = (2.0, 15.0)
    last: float = 5.0


def webhook_url(settings: NotifySettings) -> str | None:
    """Return the webhook's URL, or None if there is none. Raises SettingsError, whose text does not contain the URL."""
    url = settings.url
    if url is not None and secret_reference(url) is not None:
        url = read_secret(url, "notify.url", os.environ)
        if secret_reference(url) is not None or fault_of_webhook(url) is not None:
            raise SettingsError("notify.url: the secret it refers to is not an http or https URL")
    return url


class NoticeWatch:
    """Decides which notices are due. Pure: time and statistics (as in ``stats --json``) are arguments.

    A change is reported once. A recurring reason is reported again after an hour at the earliest. Planned pauses, by
    hours or a schedule, are not reported.
    """

    def __init__(self) -> None:
        self._paused: tuple[str, float] | None = None  # cause and start of the pause
        self._told_pause: str | None = None
        self._working = False  # True during a round
        self._told: dict[str, float] = {}  # time when each reason was last present

    def observe(self, now: float, stats: Mapping[str, Any]) -> list[Notice]:
        """Return the notices that are due for the statistics at ``now``."""
        found = [*self._round(stats), *self._pauses(now, stats)]
        for need in needs(stats):
            if now >= self._told.get(need.kind, -AGAIN) + AGAIN:
                found.append(Notice("attention", need.kind, f"needs attention: {need.text}"))
            self._told[need.kind] = now
        return found

    def _round(self, stats: Mapping[str, Any]) -> list[Notice]:
        """Return a notice if a round has ended: a crawl with a schedule does not end otherwise."""
        was, self._working = self._working, stats.get("paused_by") != "round"
        if self._working or not was:
            return []
        return [Notice("end", "round", f"{stats['paused']}: {came(stats)} so far")]

    def _pauses(self, now: float, stats: Mapping[str, Any]) -> list[Notice]:
        by = stats.get("paused_by")
        if by is None or by in PLANNED:
            told, self._paused, self._told_pause = self._told_pause, None, None
            return [Notice("resume", told, "resumed")] if told is not None else []
        if self._paused is None or self._paused[0] != by:
            self._paused = (by, now)
        if self._told_pause == by or now < self._paused[1] + LASTS:
            return []
        self._told_pause = by
        return [Notice("pause", by, f"paused: {stats['paused']}")]


class Notices:
    """The notices of one run, for the job in ``directory``. The constructor raises SettingsError."""

    def __init__(
        self, settings: NotifySettings, directory: Path, clock: Callable[[], float], patience: Patience | None = None
    ) -> None:
        self._url = webhook_url(settings)
        self._settings = settings
        self._directory = directory
        self._clock = clock
        self._patience = patience or Patience()
        self._watch = NoticeWatch()
        self._stats: Mapping[str, Any] = {}
        self._session: aiohttp.ClientSession | None = None  # set while notices are delivered
        self._posting = dict[asyncio.Task[None], None]()  # running deliveries, the oldest first
        self._fault = ""  # why the last try failed

    @contextlib.asynccontextmanager
    async def delivering(self) -> AsyncIterator[None]:
        """Deliver notices during the block. An exception that ends the block is reported, except a JobError, which
        the user caused."""
        if self._url is None:
            yield
            return
        timeout = aiohttp.ClientTimeout(total=self._patience.timeout)
        async with aiohttp.ClientSession(timeout=timeout, headers={"User-Agent": "crawler"}) as self._session:
            try:
                yield
            except JobError:
                raise
            except Exception as error:
                text = " ".join(str(error).split())[:400]
                self._tell(Notice("end", "error", f"stopped with an error: {type(error).__name__}: {text}"))
                raise
            finally:
                await self._wait_for_the_rest()

    async def keep(self, stats: Callable[[], Mapping[str, Any]]) -> None:
        """Check the statistics every `INTERVAL` seconds until cancelled."""
        while self._url is not None:
            self.look(stats())
            await asyncio.sleep(INTERVAL)

    def look(self, stats: Mapping[str, Any]) -> None:
        """Queue the notices that are due."""
        self._stats = stats
        for notice in self._watch.observe(self._clock(), stats):
            self._tell(notice)

    def end(self, reason: Stop, stats: Mapping[str, Any]) -> None:
        """Queue the notice that the run has ended."""
        self._stats = stats
        pending = counted(stats["urls_pending"], "URL")
        how = "ended" if reason is Stop.FINISHED else f"stopped ({reason}) with {pending} pending"
        silent = without_page(stats)
        self._tell(Notice("end", reason, f"{how}: {came(stats)}{silent and f'; {silent}'}"))

    def _tell(self, notice: Notice) -> None:
        if self._session is None or notice.event not in self._settings.events:
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
                "needs": [need._asdict() for need in attention(self._stats)],  # the same list as on the dashboard
            }
            content |= {key: self._stats.get(key) for key in _FIGURES}
        if len(self._posting) >= MOST_WAITING:
            log.warning("%s accepts no notices: dropped the oldest", self._host)
            oldest = next(iter(self._posting))
            oldest.cancel()
            del self._posting[oldest]
        post = asyncio.create_task(self._post(self._session, content))
        self._posting[post] = None
        post.add_done_callback(lambda done: self._posting.pop(done, None))

    # -- posting -----------------------------------------------------------------------------------------------

    @property
    def _host(self) -> str:
        """The host and port of the URL, which are not secret."""
        return urlsplit(self._url or "").netloc

    async def _wait_for_the_rest(self) -> None:
        if not self._posting:
            return
        _, late = await asyncio.wait(self._posting, timeout=self._patience.last)
        if late:
            why = self._fault or f"no answer within {self._patience.last:g} s"
            log.warning("%s did not accept the last notice: %s", self._host, why)
        for post in late:
            post.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def _post(self, session: aiohttp.ClientSession, content: Mapping[str, Any]) -> None:
        for wait in (*self._patience.waits, None):
            self._fault, lasting = await self._try(session, content)
            if not self._fault:
                return
            if lasting or wait is None:
                break
            await asyncio.sleep(wait)
        log.warning("%s did not accept a notice: %s", self._host, self._fault)

    async def _try(self, session: aiohttp.ClientSession, content: Mapping[str, Any]) -> tuple[str, bool]:
        """Post the notice. Returns why it was not accepted (empty if it was), and whether a retry would fail too."""
        try:
            async with session.post(self._url or "", json=content, allow_redirects=False) as answer:
                if 200 <= answer.status < 300:
                    return "", False
                lasting = answer.status < 500 and answer.status not in (408, 425, 429)
                return f"it answered {answer.status}", lasting
        except TimeoutError:
            return f"no answer within {self._patience.timeout:g} s", False
        except aiohttp.InvalidURL:
            return "its URL cannot be used", True
        except aiohttp.ClientConnectorError as error:
            return f"it cannot be reached: {error.os_error.strerror or type(error.os_error).__name__}", False
        except (aiohttp.ClientError, OSError) as error:
            return f"{type(error).__name__}", False
