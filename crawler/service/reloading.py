"""Reads the configuration of a running crawl again. All of it is checked before any of it holds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import Struct

from crawler.base.settings.live import Merged, merge
from crawler.base.settings.load import SettingsError
from crawler.base.settings.parts import Settings
from crawler.base.settings.sites import Sites
from crawler.service.commands import NO_CONFIGURATION, NOT_RUNNING, Refusal, Refused, Reloaded
from crawler.web.browser.engines import EngineFault, find_engine
from crawler.web.fetch import Fetcher

Read = Callable[[], Awaitable[Settings]]


class ConfigurationError(Exception):
    """The configuration cannot be used. The text is one line for the user."""


class Configuration(Struct, frozen=True):
    """The settings of a run. ``read_again`` returns what they would be if it began now, and raises ConfigurationError;
    None: they come from no file."""

    settings: Settings
    read_again: Callable[[], Settings] | None = None

    @property
    def read(self) -> Read | None:
        """``read_again`` in a thread."""
        again = self.read_again
        return None if again is None else lambda: asyncio.to_thread(again)


class Parts(Struct, frozen=True):
    """What settings are handed to. ``refusal`` says why none can be now. ``change`` gets the settings if some of them
    have changed, ``taken`` always. Both raise OSError for what jobs must store."""

    fetcher: Fetcher
    change: Callable[[Settings], None]
    taken: Callable[[Settings], None]
    refusal: Callable[[], Refused | None] = lambda: None


class Reloading:
    """The settings that a run, or all runs of a worker, have now. ``parts`` is None before a run exists."""

    def __init__(
        self,
        settings: Settings,
        read: Read | None,
        unread: Refused = NO_CONFIGURATION,
        merging: Callable[[Settings, Settings], Merged] = merge,
    ) -> None:
        """``unread`` is the answer if there is nothing to read. ``merging`` says which settings can change."""
        self.parts: Parts | None = None
        self.settings = settings
        self._read = read
        self._unread = unread
        self._merging = merging
        self._one = asyncio.Lock()

    async def reload(self) -> Refused | Reloaded:
        """Read the configuration, and let the crawl go on with what has changed. Raises OSError for what jobs must
        store."""
        async with self._one:
            if self._read is None:
                return self._unread
            try:
                read = await self._read()
            except ConfigurationError as error:
                return Refused(Refusal.SENSELESS, f"nothing has changed: {error}")
            parts = self.parts
            if parts is None:
                return NOT_RUNNING
            if (refused := parts.refusal()) is not None:
                return refused
            merged = self._merging(self.settings, read)
            if merged.changed or _has_secrets(merged.settings):
                sites = Sites(merged.settings)
                try:
                    if sites.rendered:  # by the browser's settings of this run, which may not be those that were read
                        await asyncio.to_thread(find_engine, merged.settings.browser)
                    parts.fetcher.change(sites)  # before anything else: it may still refuse
                except (EngineFault, SettingsError) as error:
                    return Refused(Refusal.SENSELESS, f"nothing has changed: {error}")
                parts.change(merged.settings)
            self.settings = merged.settings
            parts.taken(merged.settings)
            return Reloaded(merged.changed, merged.restart)


def _has_secrets(settings: Settings) -> bool:
    """Whether files that the settings refer to may have changed although the settings have not."""
    named = settings.identity.key is not None
    return named or any(site.login is not None or site.headers for site in settings.site.tables)
