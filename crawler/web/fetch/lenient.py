"""Reads HTTP/1.1 as browsers do: strictly where possible, leniently where servers are known to be careless.

aiohttp's C parser reads every answer first. If it rejects an answer, or would misread it, the head is parsed again here
by the rules of Chromium, and passed to the C parser in a form that it accepts. So valid answers cost nothing extra.
Chunked bodies are read here, because browsers tolerate more in them than that parser. An answer that no browser accepts
is ``Malformed``.
"""

from __future__ import annotations

import re
import select
from typing import TYPE_CHECKING, Any, NamedTuple

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.hdrs import CONTENT_LENGTH
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import RawResponseMessage
from aiohttp.http_writer import HttpVersion11
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader

if TYPE_CHECKING:
    from crawler.web.fetch.capture import Capture

MAX_INTERIM = 32  # answers 1xx before the final one
# A chunk costs 2.5 us, however small: 16 MB in chunks of one byte would take 40 s. So the overhead of chunks, their
# sizes and line ends, is limited to this many bytes plus this fraction of the content.
MARKS_FREE = 64 * 1024
MARKS_SHARE = 1 / 16
PIECE = 16 * 1024  # bytes of a chunked body that are read at once

_END = re.compile(rb"\n\r?\n")
_EMPTY_LINES = re.compile(rb"[\r\n]*")
_SLOP = 4  # bytes of garbage that browsers tolerate before the status line
_STATUS = re.compile(rb"HTTP(?:/(\d+)(?:\.(\d+))?)?[ \t]+(\d{3})(?![0-9])[ \t]*(.*)", re.IGNORECASE | re.DOTALL)
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+").fullmatch
_LENGTH = re.compile(rb"[0-9]{1,19}").fullmatch
_STATED = re.compile(rb"\ncontent-length:[ \t]*([0-9]{1,19})\r\n")
_MOST = 2**63 - 1  # browsers use signed 64-bit integers, and ignore larger lengths
_NO_BODY = frozenset((204, 304))
_UNKNOWN = 2**64  # greater than any length
_SWITCHED = 101
_NOTHING: tuple[tuple[Any, ...], bool, bytes] = ((), False, b"")

Messages = tuple[Any, bool, bytes]


class Malformed(aiohttp.ClientPayloadError):
    """An answer that no browser accepts. ``http``: True if it was HTTP."""

    def __init__(self, message: str, *, http: bool = True) -> None:
        super().__init__(message)
        self.message = message
        self.http = http


class _Head(NamedTuple):
    status: int
    clean: bytes  # the same head in a form that every parser accepts
    bodyless: bool


def read_head(raw: bytes) -> _Head:
    """Read the head of an answer, from its status line to the empty line. Raises Malformed."""
    if b"\0" in raw:
        raise Malformed("a NUL in the headers")
    lines = raw.replace(b"\r\n", b"\n").rstrip(b"\r\n").replace(b"\r", b" ").split(b"\n")
    found = _STATUS.fullmatch(lines[0])
    if found is None:
        raise Malformed("no status in the first line")
    status = int(found[3])
    if status < 100:
        raise Malformed(f"status {status}")
    headers = _fields(lines[1:])
    bodyless = status < 200 or status in _NO_BODY
    framing = [] if bodyless else _framing(headers)
    kept = [name + b": " + value for name, value in headers if name.lower() not in _FRAMING]
    version = b"1.0" if found[1] is None or (int(found[1][:3]), int((found[2] or b"0")[:3])) < (1, 1) else b"1.1"
    first = b"HTTP/%s %d %s" % (version, status, found[4].strip())
    return _Head(status, b"\r\n".join([first, *kept, *framing, b"", b""]), bodyless)


_FRAMING = frozenset((b"content-length", b"transfer-encoding"))


def _fields(lines: list[bytes]) -> list[tuple[bytes, bytes]]:
    """Return names and values. A line that starts with white space continues the previous one; an invalid line is
    ignored."""
    folded: list[bytes] = []
    for line in lines:
        if line[:1] in (b" ", b"\t"):
            if folded:
                folded[-1] += b" " + line.strip(b" \t")
            continue
        folded.append(line)
    fields = []
    for line in folded:
        name, colon, value = line.partition(b":")
        name = name.rstrip(b" \t")
        if colon and _TOKEN(name):
            fields.append((name, value.strip(b" \t")))
    return fields


def _framing(headers: list[tuple[bytes, bytes]]) -> list[bytes]:
    """Return the header that determines where the body ends; none if the end of the connection does. Raises Malformed
    if the end is ambiguous: readers that disagree about it enable request smuggling."""
    lengths: set[bytes] = set()
    for name, value in headers:
        if name.lower() == b"transfer-encoding":
            if b"chunked" in (coding.strip(b" \t").lower() for coding in value.split(b",")):
                return [b"Transfer-Encoding: chunked"]
        elif name.lower() == b"content-length":
            lengths.update(length.strip(b" \t") for length in value.split(b","))
    if len(lengths) > 1:
        raise Malformed("two different lengths")
    for length in lengths:
        if _LENGTH(length) and int(length) <= _MOST:
            return [b"Content-Length: " + length]
    return []


_SIZE_LINE = re.compile(rb"0*([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\n]*)?\r?\n")
_NEXT_SIZE_LINE = re.compile(rb"\r?\n" + _SIZE_LINE.pattern)  # follows the data of a chunk
_TRAILER = re.compile(rb"([^\n]*?)\r?\n")
_LINE_MOST = 16 * 1024  # bytes of a size line, as in browsers


class _Chunks:
    """Reads a chunked body as browsers do: lines end in CRLF or a bare LF; extensions and trailers are ignored.

    ``old``: an HTTP/1.0 answer announced the chunks; if the first line is not a chunk size, the body is plain.
    """

    def __init__(self, *, old: bool) -> None:
        self.odd = False  # True if other parsers may divide the data into other chunks
        self.last = False  # True if the last chunk has arrived
        self.over = False
        self.behind = 0  # number of bytes after the end of the body
        self._old = old
        self._left = 0  # remaining bytes of the current chunk
        self._line = b""  # the incomplete last line
        self._pattern = _SIZE_LINE

    def feed(self, data: bytes) -> bytes:
        """Return the content in ``data``. Raises Malformed."""
        found, at, data = [], 0, self._line + data
        self._line = b""
        while at < len(data) and not self.over:
            if self._left:
                found.append(data[at : at + self._left])
                self._left -= len(found[-1])
                at += len(found[-1])
                continue
            line = self._pattern.match(data, at)
            if line is None:
                if self._is_odd(data, at):
                    continue
                self._line, at = data[at:], len(data)
                break
            at = line.end()
            self.odd = self.odd or not line[0].endswith(b"\r\n")
            if self.last:
                self.over = not line[1]
                continue
            self._left = int(line[1], 16)
            self.last = not self._left
            self._pattern = _TRAILER if self.last else _NEXT_SIZE_LINE
        self.behind = len(data) - at
        return b"".join(found)

    def _is_odd(self, data: bytes, at: int) -> bool:
        """Return whether the line is invalid, whatever data follows. Raises Malformed if an invalid line is not
        tolerated here."""
        whole = data.count(b"\n", at, at + _LINE_MOST) > (self._pattern is _NEXT_SIZE_LINE)
        if not whole and len(data) - at <= _LINE_MOST:
            return False
        if self.last:
            self.over = True
        elif self._pattern is _SIZE_LINE and self._old:
            self._left = _UNKNOWN
        else:
            raise Malformed("malformed body: no chunk")
        return True

    def end(self) -> tuple[bytes, bool]:
        """Return the content that remains after the connection has ended, and whether the body is complete."""
        return (self._line, True) if self._pattern is _SIZE_LINE and self._old else (b"", self.last)


class LenientHandler(ResponseHandler):
    """aiohttp's protocol of one connection, with a lenient parser. ``max_head`` bounds all headers of an answer
    together, including those of interim answers."""

    def __init__(self, loop: Any, max_head: int) -> None:
        super().__init__(loop)
        self.max_head = max_head
        self.begun = False  # True if a byte of the answer has arrived
        self.cut: str | None = None  # the header or coding that announced more than arrived
        self.address: str | None = None  # the peer's address
        self.heard = 0.0  # when the last byte arrived, by the loop's clock
        self.time = loop.time
        self._incoming = select.poll()
        self.capture: Capture | None = None  # captures the current exchange, if wanted
        self._options: dict[str, Any] = {}

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if peer else None
        connected = transport.get_extra_info("socket")
        if connected is not None:
            self._incoming.register(connected.fileno(), select.POLLIN)

    def set_response_params(self, **options: Any) -> None:
        self._options = options
        self.begun = False
        self.cut = None
        early, self._tail = self._tail, b""
        super().set_response_params(**options)
        self._parser: Any = ForgivingParser(self._parser, self)
        if early:
            self.data_received(early)

    def has_ended(self) -> bool:
        """Return whether this idle connection has ended, or has unread input. A request sent on it would be lost, or
        would get an answer that belongs to no request."""
        return self.transport is None or bool(self._incoming.poll(0))

    def fresh_parser(self) -> Any:
        """Return a parser without any input so far."""
        forgiving = self._parser
        super().set_response_params(**self._options)
        fresh, self._parser = self._parser, forgiving
        return fresh

    @property
    def paused(self) -> bool:
        """True if the reader of the body has no room for more of it."""
        return self._reading_paused

    def fail(self, error: Malformed) -> None:
        """End the exchange and the connection, because the start of the next answer is unknown."""
        self.set_exception(error)
        self.hang_up()

    def hang_up(self) -> None:
        self.force_close()
        if self.transport is not None:
            self.transport.close()

    def connection_lost(self, exc: BaseException | None) -> None:
        if exc is None and self.transport is not None and self.transport.get_extra_info("ssl_object") is None:
            forgiving = self._parser
            if isinstance(forgiving, ForgivingParser) and forgiving.ends_in_head():
                self.data_received(b"\n")  # only TLS knows whether more follows
        super().connection_lost(exc)

    def set_exception(self, exc: BaseException, *cause: Any) -> None:
        if not isinstance(self.exception(), Malformed):  # later errors are consequences of the first
            super().set_exception(exc, *cause)


class ForgivingParser:
    """Wraps aiohttp's parser of one answer."""

    # Class defaults: an instance is made for each request, and most requests change at most two of them.
    _payload: StreamReader | None = None  # the body of the answer, once its head is complete
    _size = 0  # bytes of the head so far
    _left = _UNKNOWN  # bytes of the body that are still to come
    _chunks: _Chunks | None = None
    _marks = 0  # bytes of a chunked body that are not content
    _rest = b""  # the rest of a chunked body, until its reader has room
    _held: bytearray | None = None  # the head so far, once the strict parser has rejected it
    _seen: list[bytes] | None = None  # the parts of the head so far, until the strict parser rejects it
    _heads = 0  # number of heads, including those of interim answers
    _failed = False
    _ended = False  # True if the connection ended within the head

    def __init__(self, strict: Any, protocol: LenientHandler) -> None:
        self._strict = strict
        self._protocol = protocol

    def pause_reading(self) -> None:
        self._strict.pause_reading()

    def feed_eof(self) -> Any:
        payload = self._payload
        if self._failed or payload is None or payload.is_eof():
            return None
        if self._chunks is not None:
            data, complete = self._chunks.end()
            payload.feed_data(data)
            by = "chunked"
        else:
            complete, by = not 0 < self._left <= _MOST, "length"
            if complete:
                return self._strict.feed_eof()
        self._protocol.cut = None if complete else by
        self._protocol.force_close()
        payload.feed_eof()
        return None

    def ends_in_head(self) -> bool:
        """Return whether the connection ends within a head. That head then counts as complete, as in browsers. Its body
        is empty, whatever its headers state."""
        if self._failed or self._payload is not None or not self._protocol.begun or not self._size:
            return False
        held = self._held if self._held is not None else bytearray().join(self._seen or ())
        self._held = held + b"\n" * (_SLOP + 4)
        self._heads, self._ended = 0, True
        return True

    def feed_data(self, data: bytes) -> Messages:
        if self._ended and self._held is not None:
            return self._forgive(self._held + data, 0)
        protocol = self._protocol
        protocol.heard = protocol.time()
        if self._failed:
            return _NOTHING
        if self._payload is not None:
            return self._feed_body(self._payload, data)
        if len(data) <= PIECE or _is_one_answer(data):
            return self._feed_head(data)
        first = self._feed_head(data[:PIECE])
        then = self.feed_data(data[PIECE:])
        return first if first[0] else then

    def _feed_head(self, data: bytes) -> Messages:
        self._protocol.begun = True
        self._size += len(data)
        if self._held is not None:
            self._held += data
            return self._forgive(self._held, len(self._held) - len(data))
        try:
            messages, _, _ = self._strict.feed_data(data)
        except HttpProcessingError:
            messages = None
        if self._seen is not None:
            self._seen.append(data)
        elif messages and self._is_plain(messages, data):
            return messages, False, b""
        else:
            self._seen = [data]
        return self._read_head(self._seen, messages)

    def _is_plain(self, messages: Any, data: bytes) -> bool:
        """Return whether the first packet contains the complete head of an answer with a stated length, which is the
        usual case."""
        message, payload = messages[0]
        length = message.headers.get(CONTENT_LENGTH)
        end = data.find(b"\n\r\n")
        if length is None or end < 0 or payload is EMPTY_PAYLOAD or message.chunked or len(messages) > 1:
            return False
        if data.find(b"\n\n", 0, end) >= 0:  # the head ends at this empty line, and ``end`` is in the body
            return False
        if message.code < 200 or message.code in _NO_BODY:
            return False
        self._payload = payload
        if self._protocol.capture is not None:
            self._protocol.capture.head = data[: end + 3].lstrip(b"\r\n")
        self._left = int(length) + end + 3 - len(data)
        if self._left < 0:
            self._protocol.force_close()
        return True

    def _read_head(self, seen: list[bytes], messages: Any) -> Messages:
        """Process ``messages``, the strict parser's result for the last packet; None if that parser rejected the
        packet."""
        if messages is not None:
            if not messages:
                return _NOTHING if self._size <= self._protocol.max_head else self._fail(self._too_long())
            answer = self._final(messages)
            if answer is None:
                return _NOTHING
            if not _misread(*answer) and self._measure(*answer, b"".join(seen)):
                return (answer,), False, b""
        self._held = bytearray().join(seen)
        seen.clear()
        return self._forgive(self._held, 0)

    def _final(self, messages: Any) -> tuple[RawResponseMessage, StreamReader] | None:
        """Return the first answer that is not interim. If another answer follows, it was not requested, so the
        connection is not reused."""
        for number, (message, payload) in enumerate(messages, 1):
            self._heads += 1
            if message.code >= 200:
                if number < len(messages):
                    self._protocol.force_close()
                return message, payload
            if message.code == _SWITCHED:
                self._fail(Malformed("the server switched protocols without being asked"))
                return None
        if self._size > self._protocol.max_head or self._heads > MAX_INTERIM:
            self._fail(self._too_long())
        return None

    def _measure(self, message: RawResponseMessage, payload: StreamReader, seen: bytes) -> bool:
        """Compute how many bytes of the body are still to come, and whether excess bytes have already arrived, because
        the strict parser accepts the start of another answer. Returns False if that parser may misread the chunks."""
        length: str | None = "0" if message.code in _NO_BODY else message.headers.get(CONTENT_LENGTH)
        begin = end = 0
        for _ in range(self._heads):
            begin, found = end, _END.search(seen, end)
            end = found.end() if found is not None else len(seen)
        if self._protocol.capture is not None:
            self._protocol.capture.head = seen[begin:end].lstrip(b"\r\n")
        if message.chunked:
            # Feed these chunks, which the strict parser has also read.
            self._chunks = _Chunks(old=message.version < HttpVersion11)
            try:
                content = self._chunks.feed(seen[end:])
            except Malformed:
                content = None
            if content is None or len(content) != payload.total_bytes or self._chunks.over != payload.is_eof():
                return False
            if self._chunks.behind or self._chunks.odd:
                self._protocol.force_close()
        self._payload = payload
        if message.chunked or length is None:
            return True
        self._left = int(length) + end - len(seen)
        if self._left < 0:
            self._protocol.force_close()
        return True

    def _feed_chunks(self, payload: StreamReader, chunks: _Chunks, data: bytes) -> Messages:
        """Process data of a chunked body, in pieces, at the reader's pace. The exchange fails if the chunks are too
        small."""
        data, self._rest = self._rest + data, b""
        for at in range(0, len(data), PIECE):
            piece = data[at : at + PIECE]
            try:
                content = chunks.feed(piece)
            except Malformed as error:
                self._break(payload, error)
                break
            payload.feed_data(content)
            self._marks += len(piece) - len(content)
            if chunks.odd:
                self._protocol.force_close()
            if chunks.over or (chunks.last and self._marks > self._protocol.max_head + _room(payload)):
                if not chunks.over or chunks.behind or at + PIECE < len(data):
                    self._protocol.hang_up()
                payload.feed_eof()
                break
            if self._marks > _room(payload) and not chunks.last:
                self._break(payload, Malformed(f"too many chunks for {payload.total_bytes} bytes of body"))
                break
            if self._protocol.paused:
                self._rest = data[at + PIECE :]
                break
        return _NOTHING

    def _break(self, payload: StreamReader, error: Malformed) -> None:
        self._failed = True
        payload.set_exception(error)
        self._protocol.hang_up()

    def _feed_body(self, payload: StreamReader, data: bytes) -> Messages:
        if payload.is_eof():
            if data:  # excess or unrequested bytes: later input on this connection may belong to no request
                self._protocol.hang_up()
            return _NOTHING
        if self._chunks is not None:
            return self._feed_chunks(payload, self._chunks, data)
        self._left -= len(data)
        if self._left < 0:  # check before the last byte is passed on, after which the connection may be reused
            self._protocol.force_close()
        try:
            messages, _, _ = self._strict.feed_data(data)
        except HttpProcessingError as error:
            if payload.is_eof():
                self._protocol.hang_up()
                return _NOTHING
            self._break(payload, Malformed(f"malformed body: {error.message.partition(':')[0]}"))
            return _NOTHING
        if messages:
            self._protocol.hang_up()
        return _NOTHING

    def _forgive(self, held: bytearray, known: int) -> Messages:
        """Read the head by our own rules. Its end is not within the first ``known`` bytes."""
        try:
            while True:
                _to_status_line(held)
                end = _END.search(held, max(0, known - 2))
                if end is None:
                    return _NOTHING if self._size <= self._protocol.max_head else self._fail(self._too_long())
                raw = bytes(held[: end.end()])
                head = read_head(raw)
                del held[: end.end()]
                if head.status >= 200:
                    if self._protocol.capture is not None:
                        self._protocol.capture.head = raw
                    return self._resume(head, bytes(held))
                if head.status == _SWITCHED:
                    return self._fail(Malformed("the server switched protocols without being asked"))
                self._heads += 1
                if self._heads > MAX_INTERIM:
                    return self._fail(self._too_long())
                known = 0
        except Malformed as error:
            return _NOTHING if self._ended else self._fail(error)

    def _resume(self, head: _Head, rest: bytes) -> Messages:
        """Pass the clean head and the body after it to the strict parser."""
        self._held = None
        self._strict = self._protocol.fresh_parser()
        try:
            messages, _, _ = self._strict.feed_data(head.clean)
        except HttpProcessingError as error:
            return self._fail(Malformed(error.message.partition(":")[0]))
        message, self._payload = messages[0]
        if message.chunked:
            self._chunks = _Chunks(old=message.version < HttpVersion11)
        elif "Content-Length" in message.headers:
            self._left = int(message.headers["Content-Length"])
        if head.bodyless or self._ended:
            self._payload = EMPTY_PAYLOAD
            if rest:
                self._protocol.force_close()
        elif rest:
            self.feed_data(rest)
        return ((message, self._payload),), False, b""

    def _too_long(self) -> Malformed:
        if self._heads > MAX_INTERIM:
            return Malformed(f"more than {MAX_INTERIM} interim answers")
        return Malformed(f"headers larger than {self._protocol.max_head} bytes")

    def _fail(self, error: Malformed) -> Messages:
        self._failed = True
        self._protocol.fail(error)
        return _NOTHING


def _room(payload: StreamReader) -> float:
    """Return the allowed overhead of a chunked body, in bytes."""
    return MARKS_FREE + MARKS_SHARE * payload.total_bytes


def _is_one_answer(data: bytes) -> bool:
    """Return whether the data is the head of one answer with a stated length and no more than its body. Such an answer
    has no chunks, which must be read piece by piece."""
    end = data.find(b"\r\n\r\n", 0, PIECE)
    if end < 0 or not data.startswith(b"HTTP/1.1 200 "):
        return False
    head = data[: end + 2].lower()
    length = _STATED.search(head)
    if length is None or head.count(b"\ntransfer-encoding") or head.count(b"\n\n"):  # `in` is slow for bytes
        return False
    return len(data) - end - 4 <= int(length[1])


def _misread(message: RawResponseMessage, payload: StreamReader) -> bool:
    """Return whether the strict parser takes a body for empty although its stated length is not 0: that parser uses the
    largest 64-bit number for "no length"."""
    if payload is not EMPTY_PAYLOAD or message.code in _NO_BODY:
        return False
    return message.headers.get(CONTENT_LENGTH, "0").strip("0 \t") != ""


def _to_status_line(held: bytearray) -> None:
    """Remove the bytes that browsers skip before the status line. Raises Malformed if no status line can follow."""
    empty = _EMPTY_LINES.match(held)
    if empty is not None:
        del held[: empty.end()]
    begin = bytes(held[: _SLOP + 4]).upper()
    at = begin.find(b"HTTP")
    if at > 0:
        del held[:at]
    elif at < 0 and len(begin) >= _SLOP + 4:
        raise Malformed("not HTTP", http=False)
