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

T = TypeVar("T")

MOST_VALUE = 64 * 1024  # maximum bytes of a value on a carrier
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
    data = _encoded(report)
    if data is None:
        stats = {**report.stats, "seen": {**report.stats["seen"], "slices": []}}
        data = _encoded(replace(report, stats=stats))
    return data


def encode_question(question: Question) -> bytes:
    """Encode a question. Raises ValueError if it is too long."""
    data = _encoded(question)
    if data is None:
        raise ValueError("the question is too long")
    return data


def encode_answer(answer: Answer) -> bytes | None:
    """Encode an answer; None if it is too long."""
    return _encoded(answer)


def decode_report(data: bytes | None) -> PartReport | None:
    """Decode a report; None if the value is not one."""
    return _decoded(data, _reports)


def decode_question(data: bytes | None) -> Question | None:
    """Decode a question; None if the value is not one."""
    return _decoded(data, _questions)


def decode_answer(data: bytes | None) -> Answer | None:
    """Decode an answer; None if the value is not one."""
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
