"""Warns if a crawl gives webmasters no contact."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path

from crawler.base.settings.load import SettingsError
from crawler.base.settings.parts import Settings
from crawler.job.directory import JobError, holds_job
from crawler.job.run_settings import read_run
from crawler.url.refusal.special_addresses import is_loopback
from crawler.url.urls.canonicaliser import Canonical, Canonicaliser

_LOOKED_AT = 1_000  # seeds to examine: if they are all on this machine, the rest are taken to be there too

log = logging.getLogger("crawler")


def is_unsaid(directory: Path, settings: Settings) -> bool:
    """Return True if the user should be warned that no contact is given: when a job starts, and when a later run gives
    none although the previous run gave one."""
    if _has_contact(settings):
        return False
    if not holds_job(directory):
        return True
    try:
        return _has_contact(read_run(directory).settings)
    except (JobError, SettingsError):
        return False  # the run itself reports what is wrong with the job


def _has_contact(settings: Settings) -> bool:
    return bool(settings.fetch.contact) or any(mark in settings.fetch.user_agent for mark in ("@", "://"))


async def warned(seeds: AsyncIterator[list[str]]) -> AsyncIterator[list[str]]:
    """Pass seeds on, and warn at the first URL on another machine: a crawl of this machine needs no contact."""
    canonicaliser, looked_at = Canonicaliser(), 0
    async for batch in seeds:
        if looked_at < _LOOKED_AT:
            looked_at += len(batch)
            if any(_is_elsewhere(canonicaliser, text) for text in batch):
                looked_at = _LOOKED_AT
                log.warning(
                    "crawler: warning: no contact is given: webmasters cannot reach you about this crawl; give a page "
                    "or an email address with --contact"
                )
        yield batch


def _is_elsewhere(canonicaliser: Canonicaliser, text: str) -> bool:
    url = canonicaliser.canonicalise(text)
    if not isinstance(url, Canonical):
        return False
    return not is_loopback(url.host.strip("[]"))
