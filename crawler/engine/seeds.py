"""Seeds: one URL a line, ``#`` comments and empty lines apart, from a file, or streaming from standard input or what
else can be read only once.

A line over 64 KiB is invalid; a text that says so takes its place, and is invalid too.
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
BATCH = 256  # lines handed over at once
_LINE_MAX = 64 * 1024  # bytes with the line feed; no URL is longer
_SHOWN = 80  # characters of a line that is too long
_MOST_WITHOUT = 16 * BATCH  # lines that are no URL before the first one that is
_PROBE = 64 * 1024  # bytes looked at to tell text from a binary file


class SeedsError(Exception):
    """The seeds cannot be used; the text is one line for the user."""


def parse_line(line: str) -> str | None:
    """The URL of a line, or None for an empty line or a comment."""
    text = line.strip()
    return None if not text or text.startswith("#") else text


def is_stream(path: Path) -> bool:
    """Whether the path leads to what can be read only once: a pipe, a terminal, a socket's file descriptor."""
    return path.exists() and not path.is_file() and not path.is_dir()


def check_seeds_file(path: Path) -> None:
    """Raises SeedsError for a file that is missing, empty or no text, before anything is changed."""
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
        # Not final: the probe may end inside a character.
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
    """The lines of a seeds file; what is not UTF-8 comes as replacement characters. Raises OSError."""
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
    """The URLs of a seeds file in batches; the event loop runs between them."""
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
    """The URLs that come out of a pipe (or anything that is read once) as they come, until it ends.

    ``source`` is its path, or a file descriptor, which stays open. Read in a daemon thread, a little ahead of the
    crawl: a terminal or pipe that never ends cannot keep the program from stopping, and a fast writer is held back by
    the pipe and not by memory. Raises SeedsError when it cannot be read.
    """
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[str | BaseException | None] = asyncio.Queue()
    room = threading.Semaphore(4 * BATCH)

    def put(item: str | BaseException | None) -> None:
        # A closed loop: the crawl has stopped without the input, and nobody waits for this line any more.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(arrived.put_nowait, item)

    def read() -> None:
        try:
            # Opened here, as a named pipe opens when its writer does. Standard input too has a reader of its own: the
            # interpreter, when it ends, waits for the lock of sys.stdin, and this thread may be in a read for ever.
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
    """A stream of seeds; as a context manager it waits until the first http or https URL is there, so that nothing is
    begun for a stream that has none. Iterated after that, it gives all batches."""

    def __init__(self, source: Path | int, canonicaliser: Canonicaliser) -> None:
        self._source = source
        self._batches = stream_batches(source)
        self._canonicaliser = canonicaliser
        self._held: list[list[str]] = []

    async def __aenter__(self) -> AwaitedSeeds:
        """Raises SeedsError when the stream ends, or goes on for too long, without such a URL."""
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
    """What is to be said of seeds whose first line is ``text``, and whose other lines are no better."""
    return f"holds no http or https URL ({text[:_SHOWN]!r}: {reason}): write one a line, as in https://example.com/"


def _named(source: Path | int) -> str:
    return "standard input" if source == STDIN else f"seeds file {source}"
