"""One pass of the event loop takes a bounded time, however much work has come in at once."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from crawler.engine.fair_turns import Turns

SHARE = 0.02
PIECE = 0.03  # longer than a share: the worst case


class Clock:
    """Advances when work is done."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


async def passes(clock: Clock, tasks: list[asyncio.Task[None]]) -> float:
    """The longest pass of the loop until all tasks are done, by the clock of the work."""
    begins = [clock()]
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        begins.append(clock())
    await asyncio.gather(*tasks, return_exceptions=True)
    return max(later - earlier for earlier, later in pairwise(begins))


async def test_a_pass_ends_soon_however_much_is_to_be_done() -> None:
    clock = Clock()
    turns, order = Turns(SHARE, clock), list[int]()

    async def work(number: int) -> None:
        await turns.turn()
        clock.now += PIECE
        order.append(number)

    tasks = [asyncio.create_task(work(number)) for number in range(50)]
    longest = await passes(clock, tasks)
    assert order == list(range(50)), "in the order in which they came"
    # The watch may run before or after the work in a pass.
    assert longest <= 2 * PIECE + 1e-9


class Working(asyncio.SelectorEventLoop):
    """A loop whose time passes by the work that is done."""

    now = 0.0

    def time(self) -> float:
        return self.now


def test_what_comes_every_second_comes_on_while_dear_work_is_done() -> None:
    """A line of progress, for example, a limit or a signal."""
    with asyncio.Runner(loop_factory=Working) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, Working)
        came: list[float] = []

        async def say() -> None:
            while True:
                came.append(loop.time())
                await asyncio.sleep(1.0)

        async def work(turns: Turns) -> None:
            for number in range(20):
                await turns.turn(bulk=number > 2)
                loop.now += PIECE

        async def main() -> None:
            turns = Turns(SHARE)
            saying = asyncio.create_task(say())
            await asyncio.gather(*(work(turns) for _ in range(50)))
            saying.cancel()

        runner.run(main())
        assert loop.now == pytest.approx(50 * 20 * PIECE)
        assert len(came) >= 25
        assert max(later - earlier for earlier, later in pairwise(came)) <= 1.0 + 4 * PIECE


async def test_everybody_gets_a_turn_beside_work_that_asks_for_none() -> None:
    clock, left = Clock(), 20
    turns = Turns(SHARE, clock)

    async def rude() -> None:
        while left:
            clock.now += 1.0
            await asyncio.sleep(0)

    async def work() -> None:
        nonlocal left
        await turns.turn()
        left -= 1

    async with asyncio.timeout(10):
        await asyncio.gather(rude(), *(work() for _ in range(left)))
