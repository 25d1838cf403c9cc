"""Reports about partitions, published by their owners through the carrier for remote observers of the crawl.

A report is a value of the carrier: MessagePack, compressed by zlib. It may be lost or late, and is put again every few
seconds.
"""

from __future__ import annotations

import zlib
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from crawler.base.carrier.memory_carrier import MOST_VALUE
from crawler.base.carrier.verbs import decoded

_MOST_CONTENT = 8 * 2**20  # maximum bytes of a value before compression
_FAST = 1  # zlib level


class PartReport(Struct, frozen=True):
    """The state of a partition ``at`` that time (seconds since 1970, by its owner's clock). The owner is a ``process``
    on ``machine``, which has the partition in the crawl ``directory`` identified by ``directory_id``. The next report
    follows in about ``every`` seconds, unless this is the ``last`` one of the run. ``stats`` are those of ``stats
    --json``. ``program``: the version of the program."""

    program: str
    at: float
    every: float
    last: bool
    machine: str
    directory: str
    directory_id: str
    process: int
    stats: dict[str, Any]


def encode_report(report: PartReport) -> bytes | None:
    """Encode a report, without the slices of the seen-set if it is too long with them; None if it is still too long."""
    data = _packed(report)
    if data is None:
        stats = {**report.stats, "seen": {**report.stats["seen"], "slices": []}}
        data = _packed(replace(report, stats=stats))
    return data


_encode = msgspec.msgpack.Encoder().encode


def _packed(report: PartReport) -> bytes | None:
    """Encode and compress a report; None if it is too long."""
    content = _encode(report)
    data = zlib.compress(content, _FAST)
    return data if len(data) <= MOST_VALUE and len(content) <= _MOST_CONTENT else None


def decode_report(data: bytes | None) -> PartReport | None:
    """Inverse of ``encode_report``; None if the value is missing or not a report."""
    try:
        unpacking = zlib.decompressobj()
        content = unpacking.decompress(data or b"", _MOST_CONTENT)
    except zlib.error:
        return None
    return decoded(content, PartReport) if unpacking.eof else None
