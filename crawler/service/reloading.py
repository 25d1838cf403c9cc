"""Reloads the configuration of a running crawl. It is checked as a whole before any change takes effect."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import Struct

from crawler.base.settings.live import Merged, merge
from crawler.base.settings.load import SettingsError
from crawler.base.settings.parts import Settings
from crawler.base.settings.sites import Sites
from crawler.service.commands import NO_CONFIGURATION, NOT_RUNNING, Refusal, Refused, Reloaded
from crawler.web.browser.engines import find_engine
from crawler.web.fetch import Fetcher

Read = Callable[[], Awaitable[Settings]]


class ConfigurationError(Exception):
    """The configuration is invalid. The error's text is one line for the user."""


class Configuration(Struct, frozen=True):
    """The settings of a run. ``read_again`` returns the settings that a run started now would have, and raises
    ConfigurationError; it is None if the settings come from no file."""

    settings: Settings
    read_again: Callable[[], Settings] | None = None

    @property
    def read(self) -> Read | None:
        """A function that calls ``read_again`` in a thread; None if there is no ``read_again``."""
        again = self.read_again
        return None if again is None else lambda: asyncio.to_thread(again)


class Parts(Struct, frozen=True):
    """The parts that take new settings. If no setting can be changed now, ``refusal`` returns the reason. ``change`` is
    called with the new settings if any setting has changed, and ``taken`` after every reload. Both raise OSError if
    jobs cannot store the settings."""

    fetcher: Fetcher
    change: Callable[[Settings], None]
    taken: Callable[[Settings], object] = bool
    refusal: Callable[[], Refused | None] = lambda: None


class Reloading:
    """The current settings of a run, or of all runs of a worker. ``parts`` is None before a run exists."""

    def __init__(
        self,
        settings: Settings,
        read: Read | None,
        unread: Refused = NO_CONFIGURATION,
        merging: Callable[[Settings, Settings], Merged] = merge,
    ) -> None:
        """``unread`` is the refusal to return if there is no configuration to read. ``merging`` decides which settings
        can change."""
        self.parts: Parts | None = None
        self.settings = settings
        self._read = read
        self._unread = unread
        self._merging = merging
        self._one = asyncio.Lock()

    async def reload(self) -> Refused | Reloaded:
        """Read the configuration and continue the crawl with the changed settings. Raises OSError if jobs cannot store
        them."""
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
                    if sites.rendered:  # checked with the run's own browser settings, which cannot be reloaded
                        await asyncio.to_thread(find_engine, merged.settings.browser)
                    parts.fetcher.change(sites)  # first, because it may still refuse the settings
                except SettingsError as error:
                    return Refused(Refusal.SENSELESS, f"nothing has changed: {error}")
                parts.change(merged.settings)
            self.settings = merged.settings
            parts.taken(merged.settings)
            return Reloaded(merged.changed, merged.restart)


def _has_secrets(settings: Settings) -> bool:
    """True if the settings refer to files that may have changed."""
    named = settings.identity.key is not None
    return named or any(site.login is not None or site.headers for site in settings.site.tables)
