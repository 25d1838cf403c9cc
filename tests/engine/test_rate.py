"""The rate: what counts as a request, and that none is faster. In virtual time."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from crawler.engine.lifecycle import Stop
from crawler.engine.rate import Rate
from crawler.fetch.simulated import redirect
from crawler.settings import PolitenessSettings, RobotsSettings
from tests.laboratory import SETTINGS, Asked, Laboratory
from tests.virtual import run_virtually

POLL = 0.02  # seconds that the throttler may be late, at each period

HOSTS = [f"http://h{number}.test/" for number in range(12)]


@pytest.fixture(autouse=True)
def _time_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The throttler asks the module ``time``, and these loops have a time of their own."""
    clock = SimpleNamespace(monotonic=lambda: asyncio.get_running_loop().time())
    monkeypatch.setattr("asyncio_throttle.throttler.time", clock)


def assert_never_faster(times: list[float], rate: float) -> None:
    """No window of a period has more than the requests of a period."""
    most = max(1, round(rate / 10))
    for first, last in zip(times, times[most:], strict=False):
        assert last - first >= most / rate - 1e-6, (first, last)


@pytest.mark.parametrize("rate", [0.5, 7.0, 40.0])
def test_no_period_has_more_turns_and_none_is_lost(rate: float) -> None:
    async def turns() -> list[float]:
        limit, times = Rate(rate), []

        async def one() -> None:
            await limit.turn()
            times.append(asyncio.get_running_loop().time())

        given_up = asyncio.ensure_future(limit.turn())
        waiting = [asyncio.ensure_future(one()) for _ in range(30)]
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.gather(*waiting)
        return times

    times = run_virtually(turns())
    assert_never_faster(times, rate)
    assert times[-1] - times[0] <= 30 / rate + 30 * POLL


def test_without_a_limit_nobody_waits() -> None:
    async def turn() -> float:
        limit = Rate(None)
        assert not limit.limits
        for _ in range(100):
            await limit.turn()
        return asyncio.get_running_loop().time()

    assert run_virtually(turn()) == 0.0


def laboratory(tmp_path: Path, pages: dict[str, object], **politeness: object) -> Laboratory:
    polite = PolitenessSettings(**politeness)  # type: ignore[arg-type]
    settings = replace(SETTINGS, robots=RobotsSettings(), politeness=polite)
    return Laboratory(tmp_path / "job", pages, settings, {f"h{n}.test": f"192.0.2.{n}" for n in range(12)})  # type: ignore[arg-type]


def begun(asked: list[Asked]) -> list[float]:
    return sorted(each.begin for each in asked)


@pytest.mark.parametrize("target", ["", "http://other.test/"])
def test_what_a_robots_txt_redirects_to_is_a_request_too(tmp_path: Path, target: str) -> None:
    pages: dict[str, object] = dict.fromkeys(HOSTS, "x")
    for host in HOSTS:
        pages |= {f"{host}robots.txt": redirect(f"{target or host}r"), f"{host}r": "", "http://other.test/r": ""}
    lab = laboratory(tmp_path, pages, rate=2.0, delay=0.0)
    assert lab.run(*HOSTS) is Stop.FINISHED
    assert len(lab.asked) == 3 * len(HOSTS)
    assert_never_faster(begun(lab.asked), 2.0)


def test_look_ups_of_addresses_are_no_requests(tmp_path: Path) -> None:
    lab = laboratory(tmp_path, dict.fromkeys(HOSTS, "x"), rate=1.0, delay=0.0, host_key="address")
    assert lab.run(*HOSTS) is Stop.FINISHED
    times = begun(lab.asked)
    assert len(times) == 2 * len(HOSTS)
    assert all(1.0 <= later - sooner <= 1.0 + POLL for sooner, later in itertools.pairwise(times))


@pytest.mark.parametrize("per_host", [1, 2])
def test_a_follow_up_keeps_the_gap_also_beside_other_slots(tmp_path: Path, per_host: int) -> None:
    host = HOSTS[0]
    pages: dict[str, object] = {f"{host}{n}": "x" for n in range(6)}
    pages |= {f"{host}robots.txt": redirect(f"{host}r1"), f"{host}r1": redirect(f"{host}r2"), f"{host}r2": ""}
    lab = laboratory(tmp_path, pages, delay=2.0, per_host=per_host)
    assert lab.run(*(f"{host}{n}" for n in range(6))) is Stop.FINISHED
    assert len(lab.asked) == 9
    assert all(later - sooner >= 2.0 - 1e-6 for sooner, later in itertools.pairwise(begun(lab.asked)))
