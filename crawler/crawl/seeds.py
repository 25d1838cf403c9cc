"""Seeds: one URL a line, ``#`` comments and empty lines apart, from a file or streaming from standard input."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import BinaryIO

BATCH = 256  # lines handed over at once
_LINE_MAX = 64 * 1024  # bytes; no URL is longer
_PROBE = 64 * 1024  # bytes looked at to tell text from a binary file


class SeedsError(Exception):
    """The seeds cannot be used; the text is one line for the user."""


def parse_line(line: str) -> str | None:
    """The URL of a line, or None for an empty line or a comment."""
    text = line.strip()
    return None if not text or text.startswith("#") else text


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
    while line := stream.readline(_LINE_MAX):
        text = line.decode("utf-8", "replace")
        yield text.removeprefix("\ufeff") if first else text
        first = False


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


async def stdin_batches() -> AsyncIterator[list[str]]:
    """The URLs of standard input as they come, until it ends.

    Read in a daemon thread, one line at a time ahead of the crawl: a terminal or pipe that never ends cannot keep the
    program from stopping, and a fast writer is held back by the pipe and not by memory.
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
            # A reader of its own: the interpreter, when it ends, waits for the lock of sys.stdin, and this thread may
            # be blocked in a read for ever.
            for line in _lines(open(0, "rb", closefd=False)):  # noqa: SIM115
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
                raise SeedsError(f"cannot read standard input: {item}") from item
            if item is None:
                ended = True
            else:
                batch.append(item)
                room.release()
        if batch:
            yield batch
