"""Lines of the index. The keys are those of the library ``surt``, which pywb looks URLs up with; the cases were asked
of its version 0.3.1."""

from __future__ import annotations

import io
import json

import pytest

from crawler.web.archive.cdxj import HEAD_MOST, line_of
from crawler.web.archive.exchange_records import Capture, Earlier
from crawler.web.archive.gzip_member import members
from crawler.web.archive.payloads import decode_payload, encode_payload
from crawler.web.archive.surt import surt
from crawler.web.archive.warc_reader import read_records
from tests.web.archive.exchanges import AT, HTML, PAGE, archived, exchange, head

SESSION = "0123456789abcdefghijklmnopqrstuv"
KEYS = {
    "http://www.example.com/A?b=2&a=1": "com,example)/a?a=1&b=2",
    "https://www2.example.com/": "com,example)/",
    "http://www.www.test/": "test,www)/",
    "http://www.com/": "com)/",
    "http://www-1.h.test/": "test,h,www-1)/",
    "http://h.test:8080/a/": "test,h:8080)/a",
    "http://h.test:443/": "test,h:443)/",
    "http://127.0.0.1:8000/x": "1,0,0,127:8000)/x",
    "http://[::1]:8080/x": "::1:8080)/x",
    "http://[2001:db8::1]/": "2001:db8::1)/",
    "http://h.test/a//b/./c//": "test,h)/a/b/c",
    "http://h.test/a/%2e%2e/b": "test,h)/b",
    "http://h.test//%2e%2e/b": "test,h)/b",
    "http://h.test/%2e%2e/a": "test,h)/../a",
    "http://h.test//": "test,h)/",
    "http://h.test/?": "test,h)/",
    "http://h.test/a?": "test,h)/a",
    "http://h.test/?&": "test,h)/?&",
    "http://h.test/%7Efoo/%e4%41%2f%25": "test,h)/~foo/%e4a/%25",
    "http://h.test/%25%32%35": "test,h)/%25",
    "http://h.test/a%3fb": "test,h)/a?b",
    "http://h.test/a%zz%4": "test,h)/a%25zz%254",
    "http://h.test/%00%0A%20%7f": "test,h)/%00%0a%20%7f",
    "http://h.test/x?b&a=1&a&B=0": "test,h)/x?a&a=1&b&b=0",
    "http://h.test/x?%3D&": "test,h)/x?&=",
    "http://h.test/x?a=%26b%23": "test,h)/x?a=&b%23",
    f"http://h.test/x?PHPSESSID={SESSION}&y=1": "test,h)/x?y=1",
    f"http://h.test/x?y=1&sid={SESSION}": "test,h)/x?&y=1",
    f"http://h.test/x?jsessionid={SESSION}": "test,h)/x",
    f"http://h.test/x?sid={SESSION}0": f"test,h)/x?sid={SESSION}0",
    "http://h.test/x?a=1&ASPSESSIONIDabcdefgh=abcdefghijklmnopqrstuvwx&b=2": "test,h)/x?a=1&b=2",
    "http://h.test/a?b=1&cfid=1&cftoken=2&c=3": "test,h)/a?b=1&c=3",
    "http://h.test/(S(abcdefghijklmnopqrstuvwx))/b.aspx": "test,h)/b.aspx",
    "http://h.test/(abcdefghijklmnopqrstuvwx)/a.ASPX": "test,h)/a.aspx",
    "http://h.test/(S(abcdefghijklmnopqrstuvwx))/b.html": "test,h)/(s(abcdefghijklmnopqrstuvwx))/b.html",
}


@pytest.mark.parametrize("url", KEYS)
def test_the_key_of_a_url(url: str) -> None:
    assert surt(url) == KEYS[url]


def lines(data: bytes) -> list[bytes]:
    made = [line_of(each, "crawl-000001.warc.gz") for each in read_records(io.BytesIO(data).read, HEAD_MOST)]
    return [line for line in made if line is not None]


def test_a_line_says_where_the_response_is() -> None:
    data = members(archived(exchange(HTML, PAGE, "http://www.h.test/A")))
    (line,) = lines(data)
    key, time, rest = line.decode("ascii").split(" ", 2)
    assert (key, time) == ("test,h)/a", "20231114221320")
    found = json.loads(rest)
    assert list(found) == ["url", "mime", "status", "digest", "length", "offset", "filename"]
    assert (found["url"], found["mime"], found["status"]) == ("http://www.h.test/A", "text/html", "200")
    assert (found["offset"], found["filename"]) == ("0", "crawl-000001.warc.gz")
    assert found["digest"].startswith("sha1:")
    (response, *_) = read_records(io.BytesIO(data).read, 0)
    assert found["length"] == str(response.length)


@pytest.mark.parametrize(
    ("capture", "mime", "status"),
    [
        (exchange(head(b"404 "), b"gone"), "unk", "404"),
        (exchange(head(b"200 OK", (b"x", b"1"), (b"CONTENT-TYPE", b" image/png ;a=b")), b""), "image/png", "200"),
        (exchange(head(b"200 OK", (b"content-type", b"\xff\x01")), b""), "\xff\x01", "200"),
        (exchange(head(b"200 OK"), b"\r\ncontent-type: text/html"), "unk", "200"),
    ],
)
def test_a_line_for_every_answer(capture: Capture, mime: str, status: str) -> None:
    (line,) = lines(members(archived(capture)))
    assert line.isascii()
    found = json.loads(line.split(b" ", 2)[2])
    assert (found["mime"], found["status"]) == (mime, status)


def test_an_answer_304_has_no_line() -> None:
    capture = exchange(head(b"304 Not Modified"), b"")
    assert list(lines(members(archived(capture)))) == []


def test_a_revisit_has_the_digest_of_its_payload() -> None:
    first, again = (
        json.loads(lines(members(archived(exchange(HTML, PAGE), earlier)))[0].split(b" ", 2)[2])
        for earlier in (None, Earlier("http://h.test/first", AT))
    )
    assert again["mime"] == "warc/revisit"
    assert again["digest"] == first["digest"]


def test_a_payload_row_keeps_the_capture() -> None:
    digest = bytes(range(20))
    assert decode_payload(digest, bytes(8) + encode_payload(AT, "http://h.test/a")) == Earlier(
        "http://h.test/a", AT, digest
    )
