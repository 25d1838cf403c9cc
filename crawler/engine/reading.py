"""Guards the parsers of foreign bytes. Only here does an exception become a value.

    read     a parser of a body or a header: bytes or text in, values out
    Guarded  an exchange with a server, up to the decoded body

A guarded call depends only on bytes that a server sent, and changes nothing. An exception that it raises is the outcome
of that one page (``Unreadable``): the bytes are odd, or the parser has a bug that only these bytes trigger. Nothing
else is guarded. An exception in the frontier, a transaction, admission or the store means that a step is wrong or a
disk fails, and must stop the crawl.
"""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

from msgspec import Struct

from crawler.base.printable import printable
from crawler.base.processes.lane import Failed
from crawler.engine.loop_lag import STALL
from crawler.frontier.request_outcome import FailureClass
from crawler.web.fetch import Failure, FailureKind, Fetches, Response, Through

log = logging.getLogger("crawler")

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_ROOT = Path(__file__).parents[2]
_SHOWN = 200  # characters of an exception's text, which may be foreign


class Unreadable(Struct, frozen=True):
    """An exception raised while parsing a page, in one line."""

    message: str

    @property
    def error(self) -> str:
        """The ``error`` of the page's record."""
        return f"{FailureClass.INTERNAL.word}: {self.message}"

    def failure(self, seconds: float) -> Failure:
        """Return the exception as the result of an exchange that took ``seconds``."""
        return Failure(FailureKind.INTERNAL, self.message, seconds)


class Reading:
    """The guard. It logs one traceback for each code location that raised."""

    def __init__(
        self, held: Callable[[str, float], None] | None = None, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        """``held`` is called with the name of each parser that blocked the event loop for ``STALL`` or longer, and the
        seconds that it took by ``clock``."""
        self._told: set[str] = set()
        self._held = held
        self._clock = clock

    def read(self, parse: Callable[[*Ts], T], *arguments: *Ts) -> T | Unreadable:
        """Return the result of ``parse``."""
        begun = self._clock()
        try:
            return parse(*arguments)
        except Exception as error:  # noqa: BLE001, see above
            return self.raised(error)
        finally:
            taken = self._clock() - begun
            if taken >= STALL and self._held is not None:
                self._held(getattr(parse, "__name__", "a parser"), taken)

    def pieces(self, parts: Iterator[T]) -> Iterator[T | Unreadable]:
        """Yield the pieces of ``parts``. An exception becomes the last piece."""
        while True:
            try:
                part = next(parts)
            except StopIteration:
                return
            except Exception as error:  # noqa: BLE001, see above
                yield self.raised(error)
                return
            yield part

    def steps(self, work: Generator[None, None, T]) -> Generator[None, None, T | Unreadable]:
        """Do the work step by step, and return its result."""
        try:
            return (yield from work)
        except Exception as error:  # noqa: BLE001, see above
            return self.raised(error)

    def raised(self, error: Exception) -> Unreadable:
        """Return the value for an exception, and log its first occurrence at each code location."""
        frames = traceback.extract_tb(error.__traceback__)
        place = f"{_inside(frames[-1].filename)}:{frames[-1].lineno}" if frames else "an unknown place"
        text = printable(" ".join(str(error).split()))[:_SHOWN]
        message = f"{type(error).__name__}{': ' if text else ''}{text} ({place})"
        if place not in self._told:
            self._told.add(place)
            details = printable("".join(traceback.format_exception(error)))
            log.error("a page could not be read, which is a bug; its record says `internal`:\n%s", details.rstrip())
        return Unreadable(message)

    def died(self, died: Failed) -> Unreadable:
        """Return the value for a failed parser process, and log its first occurrence at each code location."""
        if died.place is not None and died.place not in self._told:
            self._told.add(died.place)
            log.error("a page could not be read, which is a bug:\n%s", printable(died.traceback or "").rstrip())
        return Unreadable(printable(died.text("parsing needed more than"))[:_SHOWN])


class Guarded(Through):
    """A network whose exchanges raise nothing."""

    def __init__(self, fetcher: Fetches, reading: Reading) -> None:
        super().__init__(fetcher)
        self._reading = reading

    async def fetch(self, href: str, **how: Any) -> Response | Failure:
        """See ``Fetches``."""
        try:
            return await self._network.fetch(href, **how)
        except Exception as error:  # noqa: BLE001, see above
            return self._reading.raised(error).failure(0.0)


def _inside(path: str) -> str:
    """Return the path relative to the repository, or the last two parts of a library's path."""
    try:
        return Path(path).relative_to(_ROOT).as_posix()
    except ValueError:
        return "/".join(Path(path).parts[-2:])
