"""Reads the configuration of a running crawl again. All of it is checked before any of it holds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from crawler.base.disk import Expendable
from crawler.base.settings.live import merge
from crawler.base.settings.load import SettingsError
from crawler.base.settings.parts import Settings
from crawler.base.settings.sites import Sites
from crawler.engine.run import Run
from crawler.engine.worker import Worker
from crawler.job.run_settings import RUN, write_run
from crawler.service.commands import NO_CONFIGURATION, NOT_RUNNING, Refusal, Refused, Reloaded
from crawler.web.fetch import Fetcher


class ConfigurationError(Exception):
    """The configuration cannot be used. The text is one line for the user."""


class Configuration(Struct, frozen=True):
    """The settings of a run. ``read_again`` returns what they would be if it began now, and raises ConfigurationError;
    None: they come from no file."""

    settings: Settings
    read_again: Callable[[], Settings] | None = None


class Shown(Protocol):
    """What shows the run, if anything does."""

    def change(self, settings: Settings) -> None:
        """Show and explain by other settings."""


class Parts(Struct, frozen=True):
    """What settings are handed to."""

    run: Run
    worker: Worker
    fetcher: Fetcher
    shown: Shown | None


class Reloading:
    """The settings that a run has now. ``parts()`` returns None before the run exists."""

    def __init__(self, configuration: Configuration, directory: Path) -> None:
        self.parts: Parts | None = None
        self._read_again = configuration.read_again
        self._settings = configuration.settings
        self._directory = directory
        self._one = asyncio.Lock()

    async def reload(self) -> Refused | Reloaded:
        """Read the configuration, and let the run go on with what has changed. Raises OSError for what the job must
        store."""
        async with self._one:
            if self._read_again is None:
                return NO_CONFIGURATION
            try:
                read = await asyncio.to_thread(self._read_again)
            except ConfigurationError as error:
                return Refused(Refusal.SENSELESS, f"nothing has changed: {error}")
            return self._take_over(read)

    def _take_over(self, read: Settings) -> Refused | Reloaded:
        parts = self.parts
        if parts is None or parts.run.life.reason is not None:
            return NOT_RUNNING
        if parts.run.job.blocked is not None:
            return Refused(Refusal.NOT_NOW, f"nothing can be written now: {parts.run.job.blocked}")
        merged = merge(self._settings, read)
        if merged.changed or self._has_secrets(merged.settings):
            try:
                parts.fetcher.change(Sites(merged.settings))  # first: it may still refuse
            except SettingsError as error:
                return Refused(Refusal.SENSELESS, f"nothing has changed: {error}")
            parts.worker.change(merged.settings)
            parts.run.change(merged.settings)
        if parts.shown is not None:
            parts.shown.change(merged.settings)
        self._settings = merged.settings
        with Expendable(str(self._directory / RUN)):
            write_run(parts.run.job.disk, self._directory, merged.settings)
        return Reloaded(merged.changed, merged.restart)

    @staticmethod
    def _has_secrets(settings: Settings) -> bool:
        """Whether files that the settings refer to may have changed although the settings have not."""
        return any(site.login is not None or site.headers for site in settings.site.tables)
