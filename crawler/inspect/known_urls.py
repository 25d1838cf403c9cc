"""Older seen-sets that a crawl checks (``crawl.known``): files of ``crawler filter`` or ``crawler dedup``, and jobs.

Each set is only read, with its own hash, secret and canonicalisation rules. A job contains all URLs that it has
admitted so far, fetched or not. If the job keeps digests on disk (``exact``, or a ledger), they decide whether it
contains a URL.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from crawler.base.kv import Family, Reader
from crawler.base.settings.load import SettingsError
from crawler.inspect.crawl_partitions import crawl_partitions
from crawler.inspect.job_reader import open_job
from crawler.job.checkpoint.envelope import UnknownVersionError
from crawler.job.directory import JobError
from crawler.job.identity import read_identity
from crawler.job.store.rocks import StoreError
from crawler.job.stored_errors import DAMAGE
from crawler.seen.exact.rows import rows_of
from crawler.seen.filters import Key, SeenSet, load_seen
from crawler.seen.filters.filter_file import check_end, opened_filter, read_parts
from crawler.url.urls.canonicaliser import Canonical, Canonicaliser


class _Keys(Protocol):
    def contains_many(self, keys: Iterable[Key]) -> list[bool]: ...


class _Confirmed:
    """A seen-set with a ledger: the digests on disk confirm or refute what the seen-set reports."""

    def __init__(self, seen: SeenSet, store: Reader) -> None:
        self._seen = seen
        self._store = store

    def contains_many(self, keys: Iterable[Key]) -> list[bool]:
        keys = list(keys)
        maybe = self._seen.contains_many(keys)
        asked = [key for key, claimed in zip(keys, maybe, strict=True) if claimed]
        stored = iter(self._store.get_many(Family.SEEN, rows_of(asked, self._seen.digests(asked))))
        return [claimed and next(stored) is not None for claimed in maybe]


class KnownUrls:
    """The URLs in older seen-sets."""

    def __init__(self, sets: Mapping[str, tuple[_Keys, Canonicaliser]]) -> None:
        self._sets = sets  # by path, as in the settings

    def contains(self, urls: Sequence[Canonical]) -> list[bool]:
        """Return for each URL whether one of the sets contains it. Raises OSError."""
        known = [False] * len(urls)
        for seen, canonicaliser in self._sets.values():
            # The older set's rules may give a URL another key than this crawl's rules do.
            keys = canonicaliser.keys([url.href for url in urls])
            asked = {place: key for place, key in enumerate(keys) if isinstance(key, str) and not known[place]}
            for place, found in zip(asked, seen.contains_many(asked.values()), strict=True):
                known[place] = found
        return known

    def that_know(self, url: Canonical) -> list[str]:
        """Return the paths of the sets that contain the URL. Raises OSError."""
        return [name for name, each in self._sets.items() if KnownUrls({name: each}).contains([url])[0]]


@contextlib.contextmanager
def open_known(paths: Sequence[str], own: Path) -> Iterator[KnownUrls | None]:
    """Open the seen-sets at ``paths`` for the job in ``own``; None if there are none. Raises JobError."""
    with contextlib.ExitStack() as opened:
        sets = dict[str, tuple[_Keys, Canonicaliser]]()
        for text in paths:
            path = Path(text)
            try:
                if path.is_dir():
                    for job in crawl_partitions(path).jobs:
                        sets[str(job)] = opened.enter_context(_of_job(job, own))
                else:
                    sets[text] = _of_file(path)
            except JobError:
                raise
            except (*DAMAGE, StoreError, UnknownVersionError, SettingsError) as error:
                raise JobError(f"crawl.known: {path}: {error}") from error
            except OSError as error:
                raise JobError(f"crawl.known: cannot read {path}: {error.strerror}") from error
        yield KnownUrls(sets) if sets else None


@contextlib.contextmanager
def _of_job(path: Path, own: Path) -> Iterator[tuple[_Keys, Canonicaliser]]:
    if own.exists() and os.path.samefile(path, own):
        raise JobError(f"crawl.known: {path} is the job itself: remove it from the list")
    rules = read_identity(path).shaping["canonical"]["rules"]
    with open_job(path) as job:
        seen = job.restore_seen().seen
        keys: _Keys = _Confirmed(seen, job.store) if job.settings.seen.ledger else seen
        yield keys, Canonicaliser(rules)


def _of_file(path: Path) -> tuple[_Keys, Canonicaliser]:
    with opened_filter(path) as (inp, size):
        parts = read_parts(inp, size)
        check_end(inp)
    keys = parts.header.get("keys")
    rules: object = []
    if isinstance(keys, Mapping):
        if keys.get("from") != "urls":
            raise JobError(f"crawl.known: {path} was made from raw lines, not from URLs: build one without --raw")
        rules = keys.get("rules")
    if not isinstance(rules, list):
        raise JobError(f"crawl.known: {path} does not state how its keys were made: build it again")
    return load_seen(parts.state, parts.segments), Canonicaliser(rules)
