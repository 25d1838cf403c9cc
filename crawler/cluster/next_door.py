"""What partitions that are open in one process tell each other. It needs no carrier, so it is neither encoded nor sent.

It promises as little as a carrier does. A batch stays in the outbox of its sender until its target says that it is
durable there, and is judged there by its epoch and number. So whatever waits here may be lost, may come twice and may
overtake what was sent on the carrier while the two partitions were in different processes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from crawler.cluster.open_partition import OpenPartition
from crawler.job.partition.link_batch_codec import Ack, LinkBatch


class NextDoor:
    """What waits to be taken by partitions of this process."""

    def __init__(self, partitions: Mapping[int, OpenPartition]) -> None:
        """``partitions`` are those that are open."""
        self._partitions = partitions
        self._waiting: dict[OpenPartition, list[LinkBatch | Ack]] = {}
        self._some = asyncio.Event()

    def is_here(self, target: int) -> bool:
        """Whether the partition is open here."""
        partition = self._partitions.get(target)
        return partition is not None and not partition.is_closing

    def put(self, target: int, what: Sequence[LinkBatch | Ack]) -> bool:
        """Give that to the partition; False if it is not open here."""
        if not self.is_here(target):
            return False
        self._waiting.setdefault(self._partitions[target], []).extend(what)
        self._some.set()
        return True

    def waits(self, target: int) -> bool:
        """Whether the partition has not taken all that it was given."""
        partition = self._partitions.get(target)
        return partition is not None and partition in self._waiting

    async def take(self) -> tuple[OpenPartition, list[LinkBatch | Ack]]:
        """Wait for something, and return what there is for one of the partitions."""
        while not self._waiting:
            self._some.clear()
            await self._some.wait()
        partition = next(iter(self._waiting))
        return partition, self._waiting.pop(partition)

    def forget(self, partition: OpenPartition) -> None:
        """The partition is not open any more."""
        self._waiting.pop(partition, None)
