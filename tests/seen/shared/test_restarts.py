"""What a set loses when Redis is killed, with each way to persist; what its producers say of it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from crawler.seen.shared.shard_requests import SharedSetError
from tests.base.carrier.redis_server import RedisServer, redis_server
from tests.program import wait_until
from tests.seen.shared.kits import RedisKit, parameters
from tests.seen.shared.test_shared_set import SURE, keys

MADE = parameters(SURE, capacity=400)


def is_written(server: RedisServer) -> bool:
    """With `everysec`, what comes while the disk is busy waits in memory, also after it was answered."""
    told = server.say("INFO", "persistence")
    return not told["aof_buffer_length"] and not told["aof_pending_bio_fsync"]


def test_with_a_log_nothing_is_lost(tmp_path: Path) -> None:
    with redis_server(tmp_path, "appendonly yes", "appendfsync always") as server:
        kit = RedisKit([server])
        seen = kit.producer(MADE, "one")
        assert len(seen.add_many(keys(900))) == 900
        server.kill()
        server.start()
        assert seen.add_many(keys(1000)) == list(range(900, 1000))
        assert not seen.lost
        assert kit.producer(MADE, "one").claims == 100
        kit.close()


def test_with_a_log_that_a_busy_disk_delays_the_producer_says_what_is_lost(tmp_path: Path) -> None:
    with redis_server(tmp_path, "appendonly yes", "appendfsync everysec") as server:
        kit = RedisKit([server])
        seen = kit.producer(MADE, "one")
        assert len(seen.add_many(keys(300))) == 300
        wait_until(lambda: is_written(server), "all of that is in the log")
        assert len(seen.add_many(keys(600))) == 300
        server.kill()
        server.start()
        new = seen.add_many(keys(1000))
        assert set(range(600, 1000)) <= set(new) <= set(range(300, 1000))
        assert seen.lost == (len(new) > 400)
        kit.close()


def test_with_snapshots_what_came_since_the_last_one_is_lost_and_the_producer_says_so(tmp_path: Path) -> None:
    with redis_server(tmp_path, "appendonly no") as server:
        kit = RedisKit([server])
        seen = kit.producer(MADE)
        assert len(seen.add_many(keys(300))) == 300
        server.say("SAVE")
        assert len(seen.add_many(keys(300, 300))) == 300
        server.kill()
        server.start()
        assert seen.add_many(keys(700)) == list(range(300, 700))
        assert seen.lost
        kit.close()


def test_with_neither_everything_is_lost_and_the_producer_stops(tmp_path: Path) -> None:
    with redis_server(tmp_path, "appendonly no") as server:
        kit = RedisKit([server])
        seen = kit.producer(MADE)
        assert len(seen.add_many(keys(300))) == 300
        server.kill()
        server.start()
        with pytest.raises(SharedSetError):
            seen.add_many(keys(300))
        assert len(kit.producer(MADE).add_many(keys(300))) == 300
        kit.close()


def test_while_the_memory_is_full_a_producer_waits_and_nothing_is_half_done(tmp_path: Path) -> None:
    with redis_server(tmp_path, "appendonly no") as server:
        kit = RedisKit([server])
        seen, other = kit.producer(MADE), kit.producer(MADE)
        assert len(seen.add_many(keys(300))) == 300
        server.say("CONFIG", "SET", "maxmemory", "1mb")
        found: list[list[int]] = []
        waiting = threading.Thread(target=lambda: found.append(seen.add_many(keys(600))))
        waiting.start()
        wait_until(lambda: "errorstat_OOM" in str(server.say("INFO", "errorstats")), "a request was refused")
        assert other.contains_many(keys(600)) == [True] * 300 + [False] * 300
        server.say("CONFIG", "SET", "maxmemory", "256mb")
        waiting.join()
        assert found == [list(range(300, 600))]
        assert not seen.lost
        kit.close()
