"""Pieces that nothing names may be removed at any moment: no snapshot relies on one of them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from crawler.job.bucket.layout import KEEP, PIECES
from crawler.job.bucket.objects import Listed, Objects
from crawler.job.bucket.pieces import Pieces
from crawler.job.bucket.snapshots import Held, Snapshots
from crawler.job.bucket.tidying import tidy
from tests.job.bucket.test_keeping import opened


class Aging:
    """A store of which some objects are older than it says."""

    def __init__(self, objects: Objects) -> None:
        self.address, self.get, self.put = objects.address, objects.get, objects.put
        self._objects = objects
        self._old = set[str]()

    def age(self) -> None:
        """Let all that is there be older than a day."""
        self._old = {each.key for each in self._objects.list("")}

    def list(self, prefix: str) -> Iterator[Listed]:
        for each in self._objects.list(prefix):
            yield replace(each, modified=each.modified - KEEP - 60.0) if each.key in self._old else each

    def delete(self, keys: Sequence[str]) -> None:
        self._objects.delete(keys)


def test_a_piece_that_may_be_removed_is_put_again_under_another_name(objects: Objects) -> None:
    aging, now = Aging(objects), time.time()
    names = list[str]()
    for _ in range(3):  # runs that ended before their snapshots
        aging.age()
        names.append(Pieces(aging, 0, now=now).put(b"content"))
    assert Pieces(aging, 0, now=now).put(b"content") == names[-1]
    tidy(aging)  # before there is a snapshot that names it
    assert Pieces(aging, 0).get(names[-1]) == b"content"
    assert [each.key for each in aging.list(PIECES)] == [f"{PIECES}{names[-1]}"]


async def test_a_piece_that_no_snapshot_names_is_forgotten(tmp_path: Path) -> None:
    async with opened(tmp_path) as made:
        snapshots, state = Snapshots(made.objects, 0, made.epoch), tmp_path / "state"
        state.mkdir()
        await made.job.hold_still(state)
        snapshots.write(Held(state, made.directory), 1.0)
        name = snapshots.pieces.put(b"content")
        snapshots.write(Held(state, made.directory), 2.0)
        made.objects.delete([f"{PIECES}{name}"])
        assert snapshots.pieces.get(snapshots.pieces.put(b"content")) == b"content"
