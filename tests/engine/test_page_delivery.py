"""Pages in the hands of the user's code: whose time that is, and how many there may be."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import closing
from itertools import pairwise
from pathlib import Path

from crawler.base.settings.parts import CrawlSettings, PolitenessSettings, RobotsSettings, Settings
from crawler.engine.handed_page import HandedPage, Handled, PageHandler, Withdrawn
from crawler.engine.run import Run
from crawler.job.job import Job
from crawler.job.platform import Platform
from crawler.url.scope.store_choice import StoreChoice
from tests.driving import Driven
from tests.durability.power import Inline
from tests.jobs import rows
from tests.memory_store import MemoryStore
from tests.simulated_web import SimulatedWeb
from tests.site import linked
from tests.virtual import run_virtually

START = 1_700_000_000.0
GAP = 1.0


class Slow:
    """Code that takes ``seconds`` for a page, and says how many pages it had at once."""

    choice = StoreChoice(0)  # every page

    def __init__(self, seconds: float, withdraws: int = 0) -> None:
        self.seconds = seconds
        self.withdraws = withdraws
        self.met: list[str] = []
        self.most = self.now = 0
        self.ends: Counter[bool] = Counter()

    async def handle(self, page: HandedPage) -> Handled:
        self.met.append(page.id)
        if len(self.met) <= self.withdraws:
            raise Withdrawn
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(self.seconds)
        self.now -= 1
        return Handled({"n": len(page.links)})

    def ended(self, page: HandedPage, *, finished: bool) -> None:
        self.ends[finished] += 1


def crawl(
    job: Path,
    pages: Mapping[str, str],
    code: PageHandler,
    concurrency: int,
    begun: Callable[[Run], object] = bool,
    *,
    gap: float = GAP,
    answers_in: float = 0.1,
) -> list[tuple[str, float]]:
    """Crawl it all; returns what was asked for, and when. ``begun`` gets the run. ``gap`` is that between requests of a
    host; a request takes ``answers_in`` seconds."""
    settings = Settings(
        crawl=CrawlSettings(concurrency=concurrency),
        politeness=PolitenessSettings(delay=gap),
        robots=RobotsSettings(ignore=True),
    )
    asked: list[tuple[str, float]] = []

    async def crawled() -> None:
        loop = asyncio.get_running_loop()

        async def note(href: str) -> None:
            asked.append((href, loop.time()))
            await asyncio.sleep(answers_in)

        async def seeds() -> AsyncIterator[list[str]]:
            yield [href for href in pages if href.endswith("/")]

        def clock() -> float:
            return START + loop.time()

        made = Job(job, settings, clock(), Platform(open_store=lambda _: MemoryStore(), executor=Inline))
        with closing(made):
            driven = Driven(made, SimulatedWeb(pages, note), settings, clock, seeds(), handler=code)
            begun(driven.run)
            await driven.to_the_end()

    run_virtually(crawled())
    return asked


def site(host: str, pages: int) -> dict[str, str]:
    links = linked([f"/{number}" for number in range(pages)])
    return {f"http://{host}/": links} | {f"http://{host}/{number}": f"<p>{host} {number}" for number in range(pages)}


def test_slow_code_is_no_time_of_the_host(tmp_path: Path) -> None:
    code = Slow(30.0)
    asked = crawl(tmp_path / "job", site("h.test", 20), code, 64)
    assert len(asked) == 21
    waits = [later - earlier for (_, earlier), (_, later) in pairwise(asked[1:])]
    assert max(waits) < GAP + 0.2, "the page before is still in the hands of the code"
    assert min(waits) >= GAP + 0.1 - 1e-6, "from the end of a response to the next request"
    assert code.most == 20
    assert code.ends == Counter({True: 21})
    assert all("data" in row for row in rows(tmp_path / "job"))


def test_so_many_pages_are_in_the_hands_of_the_code(tmp_path: Path) -> None:
    code = Slow(60.0)
    pages = {href: text for number in range(40) for href, text in site(f"h{number}.test", 2).items()}
    asked = crawl(tmp_path / "job", pages, code, 8)
    assert len(asked) == len(pages)
    assert code.most == 16, "as many as there are slots, and those that keep their slots"


def test_what_is_withdrawn_is_handed_over_again_by_its_name(tmp_path: Path) -> None:
    code = Slow(1.0, withdraws=2)
    asked = crawl(tmp_path / "job", site("h.test", 3), code, 8)
    assert Counter(Counter(code.met).values()) == Counter({1: 3, 3: 1})
    assert len(asked) == 6
    written = rows(tmp_path / "job")
    assert {row["id"] for row in written} == set(code.met)
    assert len(written) == 4
