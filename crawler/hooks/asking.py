"""Asking a function of the user: it has an answer, or it fails, which is counted, and nobody waits for it for ever.

A function that is not async is called in a thread, an async one in an event loop of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from crawler.engine.page_handler import Withdrawn
from crawler.hooks.answers import CallFailed, failed, refuse_coroutine
from crawler.hooks.call_watch import outcome_of
from crawler.hooks.calls import Call
from crawler.hooks.hook import Hook
from crawler.hooks.loop_calls import Loops
from crawler.hooks.named_code import NamedCode
from crawler.hooks.thread_calls import Threads
from crawler.settings import HookSettings

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AskSettings:
    """``timeout``: seconds that the answers to one question may take; None: any time. ``stops``: a failure stops the
    crawl."""

    timeout: float | None
    stops: bool

    @classmethod
    def of(cls, settings: HookSettings) -> AskSettings:
        return cls(settings.on_page_timeout or None, settings.on_error == "stop")


class Asked(Generic[T]):
    """A function that is asked. ``read`` makes an answer of what it returned; it raises CallFailed if that is none."""

    def __init__(self, hook: Hook, settings: AskSettings, read: Callable[[object], T]) -> None:
        self._hook = hook
        self._settings = settings
        self._read = read
        self._threads = Threads(hook.code)
        self._loops = Loops(hook.code)

    async def ask(self, about: object, url: str) -> T | None:
        """Return what the function says about one thing; None if it failed. ``url`` is for messages. Raises Withdrawn
        if its failure stops the crawl."""
        (answer,) = await self.ask_each([about], [url])
        return answer

    async def ask_each(self, about: Sequence[object], urls: Sequence[str]) -> list[T | None]:
        """The same about several things, which the function is called with one after the other."""
        self._hook.figures.calls += len(about)
        code, read = self._hook.code, self._read
        try:
            call: Call[list[T | CallFailed]]
            if code.is_async:
                call = self._loops.begin(lambda: _awaited(code, about, read))
            else:
                call = self._threads.begin(lambda: [_called(code, each, read) for each in about])
            found = await outcome_of(call, self._hook, urls[0], self._settings.timeout)
        except CallFailed as error:
            self.failed(urls[0], error)
            return [None] * len(about)
        answers: list[T | None] = []
        for each, url in zip(found, urls, strict=True):
            if isinstance(each, CallFailed):
                self.failed(url, each)
            answers.append(None if isinstance(each, CallFailed) else each)
        return answers

    def close(self) -> None:
        """The run is over."""
        self._threads.close()
        self._loops.close()

    def failed(self, url: str, error: CallFailed) -> None:
        """Count a failure. Raises Withdrawn if it stops the crawl."""
        self._hook.failed(url, str(error))
        if self._hook.stops(url, error, on_error=self._settings.stops):
            raise Withdrawn


def _called(code: NamedCode, about: object, read: Callable[[object], T]) -> T | CallFailed:
    try:
        returned = code.function(about)
        refuse_coroutine(code.name, returned)
        return read(returned)
    except BaseException as error:  # also what would end the thread  # noqa: BLE001
        return failed(code, error)


async def _awaited(code: NamedCode, about: Sequence[object], read: Callable[[object], T]) -> list[T | CallFailed]:
    found: list[T | CallFailed] = []
    for each in about:
        try:
            found.append(read(await code.function(each)))
        except GeneratorExit:  # nobody waits for it, and its event loop is gone
            raise
        except BaseException as error:  # also what would end the event loop  # noqa: BLE001
            found.append(failed(code, error))
    return found
