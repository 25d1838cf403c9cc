"""Calls user functions for answers. Each call returns an answer or fails; failures are counted, and no caller waits
forever.

A function that is not async is called in a thread, an async one in its own event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from crawler.engine.handed_page import Withdrawn
from crawler.engine.hooks.answers import CallFailed, NotReturnedError, failed, refuse_coroutine
from crawler.engine.hooks.call_watch import Steps, outcome_of
from crawler.engine.hooks.hook_failures import Hook
from crawler.engine.hooks.loop_calls import pool_of

T = TypeVar("T")
HANG_MOST = 3  # number of stuck calls after which a request for answers gives up: a page has many links


class Asked(Generic[T]):
    """A function that is called for answers. ``read`` converts a returned value; it raises CallFailed if the value is
    invalid."""

    def __init__(self, hook: Hook, read: Callable[[object], T]) -> None:
        self._hook = hook
        self._read = read
        self._pool = pool_of(hook.code)

    async def ask(self, about: tuple[Any, ...], url: str) -> T | None:
        """Return the function's answer to these arguments; None if it failed. ``url`` is for messages. Raises Withdrawn
        if the failure stops the crawl."""
        (answer,) = await self.ask_each([about], [url])
        return answer

    async def ask_each(self, about: Sequence[tuple[Any, ...]], urls: Sequence[str]) -> list[T | None]:
        """Return the answers to several sets of arguments, by calling the function with each in turn."""
        self._hook.figures.calls += len(about)
        answers: list[T | None] = []
        hang = 0
        while (at := len(answers)) < len(about):
            found: list[T | CallFailed]
            if hang < HANG_MOST:
                found = await self._found(about[at:], urls[at:])
            else:
                fault = f"{self._hook.code.name} was not called: {hang} other calls have not returned"
                found = [CallFailed(fault)] * (len(about) - at)
            for each, url in zip(found, urls[at:], strict=False):
                if isinstance(each, CallFailed):
                    self.failed(url, each)
                answers.append(None if isinstance(each, CallFailed) else each)
            hang += isinstance(found[-1], NotReturnedError)
        return answers

    async def _found(self, about: Sequence[tuple[Any, ...]], urls: Sequence[str]) -> list[T | CallFailed]:
        """Return the answers to the sets in order, to at least the first set. The last answer may be the error of a
        call that has not returned."""
        code, steps, found = self._hook.code, Steps(urls), list[T | CallFailed]()
        work = partial(self._await_each if code.is_async else self._call_each, about, steps, found)
        try:
            await outcome_of(self._pool.begin(work), self._hook, steps)
        except CallFailed as error:
            return [*found[: len(about) - 1], error]
        return found

    def _call_each(self, about: Sequence[tuple[Any, ...]], steps: Steps, found: list[T | CallFailed]) -> None:
        """Call the function with each set of arguments in turn, until the call is given up."""
        code = self._hook.code
        for each in steps.each(about):
            try:
                returned = code.function(*each)
                refuse_coroutine(code.name, returned)
                answer: T | CallFailed = self._read(returned)
            except BaseException as error:  # even an exception that would end the thread # noqa: BLE001
                answer = failed(code, error)
            found.append(answer)

    async def _await_each(self, about: Sequence[tuple[Any, ...]], steps: Steps, found: list[T | CallFailed]) -> None:
        """Call the async function with each set of arguments in turn, until the call is given up."""
        code = self._hook.code
        for each in steps.each(about):
            try:
                answer: T | CallFailed = self._read(await code.function(*each))
            except GeneratorExit:  # the caller is gone, and so is the event loop
                raise
            except BaseException as error:  # even an exception that would end the loop # noqa: BLE001
                answer = failed(code, error)
            found.append(answer)

    def close(self) -> None:
        """Release threads and loops when the run is over."""
        self._pool.close()

    def failed(self, url: str, error: CallFailed) -> None:
        """Count a failure. Raises Withdrawn if it stops the crawl."""
        self._hook.failed(url, str(error))
        if self._hook.stops(url, error):
            raise Withdrawn
