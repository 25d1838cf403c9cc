"""Reads seeds: one URL per line, from a file, from standard input or from any other source that can be read only once.

``#`` comments and empty lines are skipped. A line over 64 KiB, or one that is not UTF-8, is replaced by an error text,
which is not a valid URL. A line without a scheme gets one (``completed`` of ``urls``), which is logged once for each
list. A list may be compressed (``seed_lines``).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

from crawler.base.faults import UserFault
from crawler.engine.seed_lines import UTF_16, DamagedListError, coding_of, plain_bytes, urls_of
from crawler.url.urls.canonicaliser import Canonical, Canonicaliser
from crawler.url.urls.typed import completed
from crawler.url.urls.whatwg import RELATIVE

STDIN = 0  # file descriptor
BATCH = 256  # lines per batch
_SHOWN = 80  # characters shown of a line
_MOST_WITHOUT = 16 * BATCH  # invalid lines allowed before the first valid one
_PROBE = 64 * 1024  # bytes examined to distinguish text from a binary file
_TRIED = 256 * 1024 * 1024  # bytes that are decompressed before the crawl starts: a second or two

log = logging.getLogger("crawler")


class SeedsError(UserFault):
    """The seeds cannot be used. The text is one line for the user."""


class Schemes:
    """Adds missing schemes to the URLs of the list called ``where``, and logs the first URL that lacked one."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._is_logged = False

    def complete(self, text: str) -> str:
        """Return the text with a scheme added, if it lacks one and names a host."""
        url = completed(text)
        if url is None:
            return text
        if not self._is_logged:
            self._is_logged = True
            log.warning("%s: %s has no scheme: read as %s; others likewise", self._where, text[:_SHOWN], url[:_SHOWN])
        return url


def is_stream(path: Path) -> bool:
    """Return whether the path is a source that can be read only once: a pipe, a terminal, a socket's file
    descriptor."""
    return path.exists() and not path.is_file() and not path.is_dir()


def check_seeds_file(path: Path) -> None:
    """Check a seeds file before anything is changed. Raises SeedsError if it is missing, empty, damaged or not text."""
    try:
        with open(path, "rb") as stream:
            coding = coding_of(stream.read(16))
            stream.seek(0)
            plain = plain_bytes(stream)
            _check_text(plain.read(_PROBE), path, coding)
            left = _TRIED if coding else 0
            while left > 0 and (piece := plain.read(_PROBE)):
                left -= len(piece)
    except FileNotFoundError:
        raise SeedsError(f"seeds file {path} does not exist") from None
    except IsADirectoryError:
        raise SeedsError(f"seeds file {path} is a directory; give a file with one URL per line") from None
    except DamagedListError as error:
        raise SeedsError(f"seeds file {path} is damaged: {error}") from error
    except OSError as error:
        raise SeedsError(f"cannot read seeds file {path}: {error.strerror}") from error
    for _ in _urls(path):
        return
    raise SeedsError(f"seeds file {path} holds no URL; write one per line")


def _check_text(head: bytes, path: Path, coding: str | None) -> None:
    if coding is not None and coding_of(head) is not None:
        raise SeedsError(f"seeds file {path} is compressed twice; decompress it once")
    if b"\0" in head and not head.startswith(UTF_16):
        what = "not a text file" if coding is None else f"{coding} data that is not text"
        raise SeedsError(f"seeds file {path} is {what}; it must hold one URL per line, in UTF-8")


def _urls(path: Path) -> Iterator[str]:
    """Yield the URLs of a seeds file, as written. Raises SeedsError if it cannot be read to its end."""
    try:
        with open(path, "rb") as stream:
            yield from urls_of(stream)
    except DamagedListError as error:
        raise SeedsError(f"seeds file {path} is damaged: {error}") from error
    except OSError as error:
        raise SeedsError(f"cannot read seeds file {path}: {error.strerror}") from error


def read_urls(path: Path) -> Iterator[str]:
    """Yield the URLs of a seeds file, with missing schemes added. Raises SeedsError."""
    for url in _urls(path):
        yield completed(url) or url


async def file_batches(path: Path) -> AsyncIterator[list[str]]:
    """Yield the URLs of a seeds file in batches. The event loop runs between them. Raises SeedsError."""
    batch: list[str] = []
    schemes = Schemes(named(path))
    for url in _urls(path):
        batch.append(schemes.complete(url))
        if len(batch) == BATCH:
            yield batch
            batch = []
            await asyncio.sleep(0)
    if batch:
        yield batch


async def stream_batches(source: Path | int, most: int = BATCH) -> AsyncIterator[list[str]]:
    """Yield the URLs from a pipe, or any other source that can be read only once, as they arrive, until the source
    ends, at most ``most`` at a time.

    ``source`` is a path, or a file descriptor, which stays open. A daemon thread reads a little ahead of the crawl. So
    a terminal or pipe that never ends cannot keep the program from stopping, and the pipe holds back a fast writer
    instead of filling memory. Raises SeedsError if the source cannot be read."""
    schemes = Schemes(named(source))
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[str | BaseException | None] = asyncio.Queue()
    room = threading.Semaphore(4 * most)

    def put(item: str | BaseException | None) -> None:
        # The loop is closed: the crawl stopped without reading the input, so this line is not needed.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(arrived.put_nowait, item)

    def read() -> None:
        try:
            # Open it here: opening a named pipe blocks until its writer opens it. Standard input gets a reader of its
            # own: at exit, the interpreter waits for the lock of sys.stdin, which a blocked read in this thread would
            # hold.
            with open(source, "rb", closefd=isinstance(source, Path)) as stream:
                for url in urls_of(stream):
                    room.acquire()
                    put(url)
            put(None)
        except (OSError, ValueError) as error:
            put(error)

    threading.Thread(target=read, name="seeds", daemon=True).start()
    ended = False
    while not ended:
        items = [await arrived.get()]
        while not arrived.empty() and len(items) < most:
            items.append(arrived.get_nowait())
        batch: list[str] = []
        for item in items:
            if isinstance(item, BaseException):
                raise _unreadable(source, item) from item
            if item is None:
                ended = True
            else:
                batch.append(schemes.complete(item))
                room.release()
        if batch:
            yield batch


def _unreadable(source: Path | int, error: BaseException) -> SeedsError:
    damaged = isinstance(error, DamagedListError)
    return SeedsError(f"{named(source)} is damaged: {error}" if damaged else f"cannot read {named(source)}: {error}")


class AwaitedSeeds:
    """Reads streams of seeds one after the other. As a context manager, it waits for the first http or https URL, so
    that a crawl without any does not start. Then iterate over it to get all batches."""

    def __init__(self, sources: Sequence[Path | int], canonicaliser: Canonicaliser) -> None:
        self._named = ", ".join(map(named, sources))
        self._batches = streams_batches(sources)
        self._canonicaliser = canonicaliser
        self._held: list[list[str]] = []

    async def __aenter__(self) -> AwaitedSeeds:
        """Raises SeedsError if the streams end, or have too many invalid lines, before the first http or https URL."""
        passed = 0
        reason = ""
        async for batch in self._batches:
            self._held.append(batch)
            for text in batch:
                url = self._canonicaliser.canonicalise(text)
                if isinstance(url, Canonical):
                    return self
                reason = reason or no_url(text, url.reason)
            passed += len(batch)
            if passed >= _MOST_WITHOUT:
                break
        if not reason:
            raise SeedsError(f"{self._named} holds no URL; write one per line")
        raise SeedsError(f"{self._named} {reason}")

    async def __aexit__(self, *exception: object) -> None:
        return None

    async def __aiter__(self) -> AsyncIterator[list[str]]:
        while self._held:
            yield self._held.pop(0)
        async for batch in self._batches:
            yield batch


async def streams_batches(sources: Sequence[Path | int]) -> AsyncIterator[list[str]]:
    """Yield the URLs of one stream after the other. Raises SeedsError."""
    for source in sources:
        async for batch in stream_batches(source):
            yield batch


def no_url(text: str, reason: str) -> str:
    """Return the error message for seeds without a valid URL, whose first line is ``text``."""
    reason = why_no_url(reason)
    return f"holds no http or https URL ({text[:_SHOWN]!r}: {reason}); write one per line, as in https://example.com/"


def why_no_url(reason: str) -> str:
    """Return why a line is rejected, in terms that need no knowledge of base URLs."""
    return "neither a scheme nor the name of a host" if reason == RELATIVE.reason else reason


def named(source: Path | int) -> str:
    """Return the name of a list of seeds for messages."""
    return "standard input" if source == STDIN else f"seeds file {source}"
