"""Reads seeds: one URL per line, from a file, from standard input or from anything else that can be read only once.

``#`` comments and empty lines are skipped. A line over 64 KiB is replaced by a text that says so and is invalid too.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import BinaryIO

from crawler.urls import Canonical, Canonicaliser

STDIN = 0  # file descriptor
BATCH = 256  # lines per batch
_LINE_MAX = 64 * 1024  # bytes, with the line feed; no URL is longer
_SHOWN = 80  # characters shown of a line that is too long
_MOST_WITHOUT = 16 * BATCH  # invalid lines allowed before the first valid one
_PROBE = 64 * 1024  # bytes examined to distinguish text from a binary file


class SeedsError(Exception):
    """The seeds cannot be used. The text is one line for the user."""


def parse_line(line: str) -> str | None:
    """Return the URL of a line, or None for an empty line or a comment."""
    text = line.strip()
    return None if not text or text.startswith("#") else text


def is_stream(path: Path) -> bool:
    """Return whether the path leads to something that can be read only once: a pipe, a terminal, a socket's file
    descriptor."""
    return path.exists() and not path.is_file() and not path.is_dir()


def check_seeds_file(path: Path) -> None:
    """Check a seeds file before anything is changed. Raises SeedsError if it is missing, empty or not text."""
    try:
        with open(path, "rb") as stream:
            head = stream.read(_PROBE)
    except FileNotFoundError:
        raise SeedsError(f"seeds file {path} does not exist") from None
    except IsADirectoryError:
        raise SeedsError(f"seeds file {path} is a directory: name a file with one URL a line") from None
    except OSError as error:
        raise SeedsError(f"cannot read seeds file {path}: {error.strerror}") from error
    try:
        # final=False: the probe may end inside a character.
        codecs.getincrementaldecoder("utf-8-sig")().decode(head)
    except UnicodeDecodeError:
        head = b"\0"
    if b"\0" in head:
        raise SeedsError(f"seeds file {path} is not a text file: it must hold one URL a line, in UTF-8")
    for line in read_lines(path):
        if parse_line(line) is not None:
            return
    raise SeedsError(f"seeds file {path} holds no URL: write one a line")


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a seeds file. Bytes that are not UTF-8 become replacement characters. Raises OSError."""
    with open(path, "rb") as stream:
        yield from _lines(stream)


def _lines(stream: BinaryIO) -> Iterator[str]:
    first = True
    while line := stream.readline(_LINE_MAX + 1):
        text = line.decode("utf-8", "replace")
        if first:
            text = text.removeprefix("\ufeff")
            first = False
        too_long = len(line) > _LINE_MAX
        while line and not line.endswith(b"\n"):
            line = stream.readline(_LINE_MAX)
        yield f"(a line over {_LINE_MAX:,} bytes) {text[:_SHOWN]}" if too_long else text


async def file_batches(path: Path) -> AsyncIterator[list[str]]:
    """Yield the URLs of a seeds file in batches. The event loop runs between them."""
    batch: list[str] = []
    for line in read_lines(path):
        url = parse_line(line)
        if url is not None:
            batch.append(url)
        if len(batch) == BATCH:
            yield batch
            batch = []
            await asyncio.sleep(0)
    if batch:
        yield batch


async def stream_batches(source: Path | int) -> AsyncIterator[list[str]]:
    """Yield the URLs from a pipe, or anything else that is read once, as they arrive, until it ends.

    ``source`` is a path, or a file descriptor, which stays open. A daemon thread reads a little ahead of the crawl. So
    a terminal or pipe that never ends cannot keep the program from stopping, and the pipe holds back a fast writer
    instead of filling memory. Raises SeedsError if it cannot be read.
    """
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[str | BaseException | None] = asyncio.Queue()
    room = threading.Semaphore(4 * BATCH)

    def put(item: str | BaseException | None) -> None:
        # The loop is closed: the crawl stopped without reading the input, and nobody waits for this line.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(arrived.put_nowait, item)

    def read() -> None:
        try:
            # Open it here: opening a named pipe blocks until its writer opens it. Standard input gets a reader of its
            # own: when the interpreter exits, it waits for the lock of sys.stdin, which a blocked read in this thread
            # would hold.
            with open(source, "rb", closefd=isinstance(source, Path)) as stream:
                for line in _lines(stream):
                    url = parse_line(line)
                    if url is not None:
                        room.acquire()
                        put(url)
        except (OSError, ValueError) as error:
            put(error)
        else:
            put(None)

    threading.Thread(target=read, name="seeds", daemon=True).start()
    ended = False
    while not ended:
        items = [await arrived.get()]
        while not arrived.empty() and len(items) < BATCH:
            items.append(arrived.get_nowait())
        batch: list[str] = []
        for item in items:
            if isinstance(item, BaseException):
                raise SeedsError(f"cannot read {_named(source)}: {item}") from item
            if item is None:
                ended = True
            else:
                batch.append(item)
                room.release()
        if batch:
            yield batch


class AwaitedSeeds:
    """A stream of seeds. As a context manager, it waits for the first http or https URL, so that a stream without any
    starts nothing. Then iterate over it to get all batches."""

    def __init__(self, source: Path | int, canonicaliser: Canonicaliser) -> None:
        self._source = source
        self._batches = stream_batches(source)
        self._canonicaliser = canonicaliser
        self._held: list[list[str]] = []

    async def __aenter__(self) -> AwaitedSeeds:
        """Raises SeedsError if the stream ends, or has too many invalid lines, before the first such URL."""
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
            raise SeedsError(f"{_named(self._source)} holds no URL: write one a line")
        raise SeedsError(f"{_named(self._source)} {reason}")

    async def __aexit__(self, *exception: object) -> None:
        return None

    async def __aiter__(self) -> AsyncIterator[list[str]]:
        while self._held:
            yield self._held.pop(0)
        async for batch in self._batches:
            yield batch


def no_url(text: str, reason: str) -> str:
    """Return the message for seeds whose first line is ``text`` and which hold no valid URL."""
    return f"holds no http or https URL ({text[:_SHOWN]!r}: {reason}): write one a line, as in https://example.com/"


def _named(source: Path | int) -> str:
    return "standard input" if source == STDIN else f"seeds file {source}"
