"""Reports about partitions, published by their owners through the carrier for remote observers of the crawl.

Reports, questions and answers are each a value of the carrier: MessagePack, compressed by zlib. Any of them may be lost
or late. Reports are put again every few seconds; a process that asked a question repeats it.
"""

from __future__ import annotations

import zlib
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from crawler.base.carrier.memory_carrier import MOST_VALUE
from crawler.base.carrier.verbs import decoded

T = TypeVar("T")

_MOST_CONTENT = 8 * 2**20  # maximum bytes of a value before compression
_FAST = 1  # zlib level


class PartReport(Struct, frozen=True):
    """The state of a partition ``at`` that time (seconds since 1970, by its owner's clock). The owner is a ``process``
    on ``machine``, with the partition in the crawl ``directory`` of that id. The next report follows in about ``every``
    seconds, unless this is the ``last`` one of the run. ``stats`` are those of ``stats --json``. ``program``: the
    version."""

    program: str
    at: float
    every: float
    last: bool
    machine: str
    directory: str
    directory_id: str
    process: int
    stats: dict[str, Any]


class HostsAsked(Struct, frozen=True, tag="hosts"):
    """Asks for the table of hosts with ``q`` in their name: ``limit`` rows after the first ``offset``, in that
    order."""

    sort: str = "pending"
    descending: bool = True
    offset: int = 0
    limit: int = 50
    q: str = ""

    def of_partition(self) -> HostsAsked:
        """Return the question to ask each partition, because any of them may hold all of the rows."""
        return replace(self, offset=0, limit=self.offset + self.limit)


class HostAsked(Struct, frozen=True, tag="host"):
    """Asks for all details of one host."""

    name: str


class UrlAsked(Struct, frozen=True, tag="url"):
    """Asks for all details of one URL."""

    url: str


class Question(Struct, frozen=True):
    """A question with a random ``id``. If ``partition`` is not None, only its owner need answer."""

    id: str
    asked: HostsAsked | HostAsked | UrlAsked
    partition: int | None = None


class Answer(Struct, frozen=True):
    """A partition owner's answer to the question ``id``. ``fault``: why there is no content."""

    id: str
    content: Any = None
    fault: str | None = None


def encode_report(report: PartReport) -> bytes | None:
    """Encode a report, without the slices of the seen-set if it is too long with them; None if it is still too long."""
    data = packed(report)
    if data is None:
        stats = {**report.stats, "seen": {**report.stats["seen"], "slices": []}}
        data = packed(replace(report, stats=stats))
    return data


def encode_question(question: Question) -> bytes:
    """Encode a question. Raises ValueError if it is too long."""
    data = packed(question)
    if data is None:
        raise ValueError("the question is too long")
    return data


_encode = msgspec.msgpack.Encoder().encode


def packed(what: Struct) -> bytes | None:
    """Encode and compress a value; None if it is too long."""
    content = _encode(what)
    data = zlib.compress(content, _FAST)
    return data if len(data) <= MOST_VALUE and len(content) <= _MOST_CONTENT else None


def unpacked(data: bytes | None, kind: type[T]) -> T | None:
    """Inverse of ``packed``; None if the value is missing or not of that type."""
    try:
        unpacking = zlib.decompressobj()
        content = unpacking.decompress(data or b"", _MOST_CONTENT)
    except zlib.error:
        return None
    return decoded(content, kind) if unpacking.eof else None
