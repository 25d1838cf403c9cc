"""A replica writes generations of its own, so that it becomes the job soon. That it knows each key then, whatever
happens, shows ``test_lives``."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

from crawler.base.disk import RealDisk
from crawler.base.kv import Batch, Family
from crawler.base.settings.parts import SeenSettings, Settings
from crawler.job.checkpoint.renewal import Renewal
from crawler.job.directory import SEEN
from crawler.job.follower import Follower
from crawler.job.job import Job
from crawler.job.platform import Platform
from crawler.job.records import DIGEST_SIZE, encode_admitted, encode_counters, sequence_key
from crawler.job.recovery import COUNTERS, stored_counters
from crawler.job.replica.step_codec import Chunk, Mark, Step
from crawler.job.step_log import MARK
from tests.durability.power import Inline
from tests.faulty_store import FaultyStore

LINE = 7
MOST_KEYS = 40  # that the job replays, besides those since the last generation
RENEWAL = Renewal(few_bytes=0, bytes_per_key=0, most_keys=MOST_KEYS)


def admit(following: Follower, sequence: int) -> None:
    """The step of an owner that admits as many keys as are replayed at most."""
    batch, mark, counters = Batch(), following.mark, stored_counters(FaultyStore())
    digests = random.Random(sequence).randbytes(DIGEST_SIZE * MOST_KEYS)
    batch.put(Family.ADMITTED, sequence_key(sequence), encode_admitted(digests))
    counters.sequence, counters.urls_admitted = sequence + 1, (sequence + 1) * MOST_KEYS
    counters.urls_excluded = counters.urls_admitted
    batch.put(Family.META, COUNTERS, encode_counters(counters))
    batch.put(Family.META, MARK, Mark(LINE, mark.number + 1).encode())
    following.apply(Chunk(3, LINE, mark.line, mark.number + 1, [Step(batch.encode())]))


def test_a_damaged_one_is_made_again_from_an_older_one(tmp_path: Path) -> None:
    store, settings = FaultyStore(), Settings(seen=SeenSettings(capacity=16))
    platform = Platform(RealDisk(), lambda _: store, Inline, renewal=RENEWAL)
    Job(tmp_path, settings, 0.0, platform).close()
    following = Follower(tmp_path, platform, settings.output)
    for sequence in range(2):
        admit(following, sequence)
        assert following.checkpoint(1e9) == []
    following.close()
    for path in (tmp_path / SEEN).glob("slice-*.g000002"):
        path.write_bytes(b"damaged")
    following = Follower(tmp_path, platform, settings.output)
    admit(following, 2)
    (line,) = following.checkpoint(1e9)
    assert "generation 2 is damaged" in line
    following.close()
    with closing(Job(tmp_path, settings, 0.0, platform)) as job:
        assert job.checkpointer.manifest is not None
        assert job.checkpointer.manifest.seen_sequence == 3
        assert not job.notes
        assert len(job.seen) == 3 * MOST_KEYS
