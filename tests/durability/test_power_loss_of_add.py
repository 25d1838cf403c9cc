"""URLs left in the inbox while the power goes, again and again: what ``deposit`` has promised is queued, and once."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from crawler.base.kv import Family
from crawler.engine.injector import Injector
from crawler.engine.links_and_redirects import Discovery
from crawler.engine.reading import Reading
from crawler.frontier.entry import decode_entry
from crawler.job.inbox import INBOX, Inbox
from crawler.job.job import Job
from crawler.job.platform import Platform
from tests.durability.power import SETTINGS, Inline
from tests.faulty_disk import FaultyDisk, PowerCutError
from tests.faulty_store import FaultyStore

NOW = 1_700_000_000.0
FILES = 6
IN_EACH = 3


async def life(seed: int, directory: Path) -> tuple[int, set[str], Counter[str]]:
    """How often the power went, what was promised, and what is queued in the end."""
    chance = random.Random(seed)
    store = FaultyStore()
    promised: set[str] = set()
    todo = [[f"http://h.test/{number}/{each}" for each in range(IN_EACH)] for number in range(FILES)]
    cuts = 0
    while True:
        disk = FaultyDisk(chance, cut_after=chance.randrange(3, 40) if cuts < 5 else None)
        try:
            with closing(Job(directory, SETTINGS, NOW, Platform(disk, lambda _, found=store: found, Inline))) as job:
                inbox = Inbox(directory, disk)
                incoming = Injector(job, Discovery(job, SETTINGS, Reading()), inbox, lambda: None)
                while todo:
                    inbox.deposit(todo[0], seed=True, answer=chance.random() < 0.5)
                    promised.update(todo.pop(0))
                    if chance.random() < 0.5:
                        await incoming.drain(NOW)
                    if chance.random() < 0.2:
                        await job.checkpoint(NOW)
                await incoming.drain(NOW)
                break
        except PowerCutError:
            cuts += 1
            disk.lose_power()
            store = store.lose_power(chance)
    assert not Inbox(directory, disk).waiting()
    assert not any((directory / INBOX).glob("aside/*")), "what a loss of power leaves half-written is no damage"
    return cuts, promised, Counter(decode_entry(value).href for _, value in store.scan(Family.PENDING, b""))


@pytest.mark.parametrize("seed", range(60))
async def test_what_was_promised_is_queued_once(tmp_path: Path, seed: int) -> None:
    cuts, promised, queued = await life(seed, tmp_path / "job")
    assert cuts > 0
    assert len(promised) == FILES * IN_EACH
    assert queued == Counter(promised)
