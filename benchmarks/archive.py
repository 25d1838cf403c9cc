"""What archiving a page costs: compressing it with each library, and the records of a page with all that is in them.

    python benchmarks/archive.py [--pages N]

One run, one process, CPU time, the best of three. The pages are those of a generated manual, 37 kB, as
`crawl/run.py` serves them. warcio writes the same response record with the same digests.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from isal import isal_zlib
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from benchmarks.kit.machine import describe_machine
from benchmarks.kit.made_pages import make_files
from crawler.base import entropy
from crawler.web.archive.cdxj import HEAD_MOST, line_of
from crawler.web.archive.exchange_records import RANDOM_BYTES, Capture, payload_digest, records
from crawler.web.archive.gzip_member import members
from crawler.web.archive.warc_reader import read_records

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

HEADERS = (
    (b"Server", b"nginx/1.22.1"),
    (b"Date", b"Tue, 14 Nov 2023 22:13:20 GMT"),
    (b"Content-Type", b"text/html"),
    (b"Last-Modified", b"Tue, 14 Nov 2023 20:00:00 GMT"),
    (b"ETag", b'"6553d0a0-91a4"'),
)
HEAD = b"".join([b"HTTP/1.1 200 OK\r\n", *[b"%s: %s\r\n" % header for header in HEADERS], b"\r\n"])
REQUEST = (
    b"GET /chapter-1/page-0001.html HTTP/1.1\r\nHost: h.test\r\nUser-Agent: crawler/0.1\r\nAccept: text/html\r\n"
    b"Accept-Encoding: gzip\r\n\r\n"
)
ABOUT = (("via", "http://h.test/"), ("depth", "1"))
TIMES = 3


def archived(page: bytes) -> bytes:
    url = "http://h.test/chapter-1/page-0001.html"
    capture = Capture(url, 1_700_000_000_123, REQUEST, HEAD, page, "192.0.2.1")
    random = entropy.random_bytes(RANDOM_BYTES)
    return members(records(capture, payload_digest(capture), None, ABOUT, random))


def by_warcio(page: bytes) -> bytes:
    out = io.BytesIO()
    writer = WARCWriter(out, gzip=True, warc_version="1.1")
    headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in HEADERS]
    http = StatusAndHeaders("200 OK", headers, protocol="HTTP/1.1")
    url = "http://h.test/chapter-1/page-0001.html"
    record = writer.create_warc_record(url, "response", payload=io.BytesIO(page), http_headers=http)
    writer.write_record(record)
    return out.getvalue()


def show(name: str, work: Callable[[bytes], bytes], pages: Sequence[bytes]) -> None:
    best, size = float("inf"), 0
    for _ in range(TIMES):
        started = time.process_time()
        size = sum([len(work(page)) for page in pages])
        best = min(best, time.process_time() - started)
    print(f"{name:34} {best / len(pages) * 1e6:7.0f} {size / sum(map(len, pages)):9.3f}", flush=True)


def indexed(pages: Sequence[bytes]) -> None:
    data = b"".join([archived(page) for page in pages])
    started = time.process_time()
    lines = [line for each in read_records(io.BytesIO(data).read, HEAD_MOST) if (line := line_of(each, "a.warc.gz"))]
    assert len(lines) == len(pages)
    print(f"{'index: read back, a line of CDXJ':34} {(time.process_time() - started) / len(pages) * 1e6:7.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pages", type=int, default=300)
    count = parser.parse_args().pages
    with tempfile.TemporaryDirectory() as home:
        make_files(Path(home), hosts=1, pages=count)
        pages = [path.read_bytes() for path in sorted(Path(home).rglob("*.html"))]
    print(*describe_machine(("isal", "backports.zstd", "warcio")), sep="\n")
    print(f"{len(pages)} pages of {sum(map(len, pages)) // len(pages)} bytes\n")
    print(f"{'':34} us/page  of size")
    for level in (0, 1, 2, 3):
        show(f"isal {level}", lambda page, level=level: isal_zlib.compress(page, level, 31), pages)  # type: ignore[misc]
    for level in (1, 3, 6):
        show(f"zlib {level}", lambda page, level=level: zlib.compress(page, level, 31), pages)  # type: ignore[misc]
    for level in (1, 3):
        show(f"zstd {level}", lambda page, level=level: zstd.compress(page, level), pages)  # type: ignore[misc]
    show("response, request, metadata", archived, pages)
    show("warcio: the response alone", by_warcio, pages)
    indexed(pages)


if __name__ == "__main__":
    main()
