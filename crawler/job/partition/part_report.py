"""What the owner of a partition tells of it through the carrier, for whoever looks at the crawl from afar.

A report, a question and an answer are each a value of the carrier: MessagePack, compressed by zlib. All of them may be
lost or late. A report is put again every few seconds; who asked a question asks again.
"""

from __future__ import annotations

import zlib
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

T = TypeVar("T")

MOST_VALUE = 64 * 1024  # bytes; a carrier takes no more
_MOST_CONTENT = 8 * 2**20  # bytes of one value before it was compressed
_FAST = 1  # level of zlib


class PartReport(Struct, frozen=True):
    """A partition ``at`` that time (seconds since 1970), by the clock of its owner: a ``process`` of that ``machine``,
    which has it in the crawl ``directory`` with that id. The next report comes in about ``every`` seconds, unless it is
    the ``last`` one of its run. ``stats`` are those of ``stats --json``. ``program``: the version."""

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
    """The table of the hosts with ``q`` in their name: ``limit`` of them after the first ``offset`` in that order."""

    sort: str = "pending"
    descending: bool = True
    offset: int = 0
    limit: int = 50
    q: str = ""

    def of_partition(self) -> HostsAsked:
        """What to ask each partition: any may have all of the rows."""
        return replace(self, offset=0, limit=self.offset + self.limit)


class HostAsked(Struct, frozen=True, tag="host"):
    """Everything about one host."""

    name: str


class UrlAsked(Struct, frozen=True, tag="url"):
    """Everything about one URL."""

    url: str


class Question(Struct, frozen=True):
    """``id`` is random. Owners of other partitions than ``partition`` need not answer, unless it is None."""

    id: str
    asked: HostsAsked | HostAsked | UrlAsked
    partition: int | None = None


class Answer(Struct, frozen=True):
    """The answer of the owner of a partition to the question ``id``. ``fault`` says why there is none."""

    id: str
    content: Any = None
    fault: str | None = None


def encode_report(report: PartReport) -> bytes | None:
    """The bytes of a report, without the slices of the seen-set if they are too long with them; None if they are too
    long even so."""
    data = _encoded(report)
    if data is None:
        stats = {**report.stats, "seen": {**report.stats["seen"], "slices": []}}
        data = _encoded(replace(report, stats=stats))
    return data


def encode_question(question: Question) -> bytes:
    """The bytes of a question. Raises ValueError if it is too long."""
    data = _encoded(question)
    if data is None:
        raise ValueError("too long to be asked")
    return data


def encode_answer(answer: Answer) -> bytes | None:
    """The bytes of an answer; None if they are too many."""
    return _encoded(answer)


def decode_report(data: bytes | None) -> PartReport | None:
    """The inverse of ``encode_report``; None for what is none."""
    return _decoded(data, _reports)


def decode_question(data: bytes | None) -> Question | None:
    """The inverse of ``encode_question``; None for what is none."""
    return _decoded(data, _questions)


def decode_answer(data: bytes | None) -> Answer | None:
    """The inverse of ``encode_answer``; None for what is none."""
    return _decoded(data, _answers)


_encoder = msgspec.msgpack.Encoder()
_reports = msgspec.msgpack.Decoder(PartReport)
_questions = msgspec.msgpack.Decoder(Question)
_answers = msgspec.msgpack.Decoder(Answer)


def _encoded(what: Struct) -> bytes | None:
    content = _encoder.encode(what)
    data = zlib.compress(content, _FAST)
    return data if len(data) <= MOST_VALUE and len(content) <= _MOST_CONTENT else None


def _decoded(data: bytes | None, decoder: msgspec.msgpack.Decoder[T]) -> T | None:
    if data is None:
        return None
    try:
        unpacking = zlib.decompressobj()
        content = unpacking.decompress(data, _MOST_CONTENT)
        return decoder.decode(content) if unpacking.eof else None
    except (zlib.error, msgspec.DecodeError):
        return None
