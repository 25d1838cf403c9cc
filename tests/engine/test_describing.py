"""What records say of an exchange and of a page, in whole crawls."""

from __future__ import annotations

import hashlib
import json
from base64 import b32encode
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from multidict import CIMultiDict

from crawler.base.settings import OUTPUT_FIELDS, FetchSettings, OutputSettings, PolitenessSettings, RetrySettings
from crawler.engine.lifecycle import Stop
from crawler.web.fetch import Failure, FailureKind, Response
from crawler.web.fetch.simulated import Answers, redirect
from tests.laboratory import SETTINGS, Laboratory

A = "http://a.test/"
PAGE = """<html lang=de><title> Über
uns </title><base href=/x/><link rel=canonical href="y?b#c"><a href=/z>z</a>"""
HEADERS = [
    ("ETag", 'W/"1"'),
    ("Last-Modified", "Tue, 14 Nov 2023 21:00:00 GMT"),
    ("Server", "ngi\x00nx"),
    ("Via", "a"),
    ("Via", "b\udcff"),
    ("Content-Language", "fr"),
]


def answer(body: bytes | None, *headers: tuple[str, str], status: int = 200, kind: str = "text/html") -> Response:
    size = 0 if body is None else len(body)
    found = CIMultiDict([*HEADERS, *headers])
    return Response(status, found, kind, "latin1", body, None, None, 0.0, size, address="192.0.2.7")


def records(
    tmp_path: Path, pages: dict[str, Answers], output: OutputSettings | None = None, **settings: Any
) -> dict[str, dict[str, Any]]:
    lab = Laboratory(tmp_path, pages, replace(SETTINGS, output=output or OutputSettings(), **settings))
    assert lab.run(A) is Stop.FINISHED
    return {record["url"]: record for record in lab.records()}


def extra(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name in (*OUTPUT_FIELDS, "headers")}


def test_a_record_says_what_page_and_exchange_say_of_themselves(tmp_path: Path) -> None:
    found = records(tmp_path, {A: answer(PAGE.encode("latin1")), f"{A}z": answer(None, kind="text/css")})
    exchange = {
        "etag": 'W/"1"',
        "last_modified": "Tue, 14 Nov 2023 21:00:00 GMT",
        "address": "192.0.2.7",
        "seconds": 0.2,
        "tries": 1,
    }
    assert extra(found[A]) == {
        "title": "Über uns",
        "language": "de",
        "canonical": f"{A}x/y?b",
        "charset": "windows-1252",
        **exchange,
    }
    assert extra(found[f"{A}z"]) == {"language": "fr", "charset": "windows-1252", **exchange}
    names = list(found[A])
    assert names.index("digest") < names.index("title"), "behind the fields of before"


def test_only_what_is_wanted_is_written(tmp_path: Path) -> None:
    body = PAGE.encode("latin1")
    wanted = OutputSettings(fields=("payload_digest", "title"), headers=("Via", "SERVER", "X-None"))
    found = records(tmp_path, {A: answer(body)}, wanted)
    digest = b32encode(hashlib.sha1(body).digest()).decode()
    headers = {"via": "a, bÿ", "server": "nginx"}
    assert extra(found[A]) == {"title": "Über uns", "payload_digest": f"sha1:{digest}", "headers": headers}
    none = records(tmp_path / "none", {A: answer(body)}, OutputSettings(fields=()))
    assert extra(none[A]) == {}


def test_a_large_body_has_the_digest_of_all_of_it(tmp_path: Path) -> None:
    body = bytes(range(256)) * 3_000
    found = records(tmp_path, {A: answer(body)}, OutputSettings(fields=("payload_digest",)))
    assert found[A]["payload_digest"] == "sha1:" + b32encode(hashlib.sha1(body).digest()).decode()


def test_a_canonical_url_that_nobody_could_fetch_is_left_out(tmp_path: Path) -> None:
    stated = ["mailto:x", "http://", f"/{'x' * 3_000}", f"{A}0"]
    pages: dict[str, Answers] = {
        f"{A}{number}": answer(f"<link rel=canonical href={href}>{number}".encode())
        for number, href in enumerate(stated)
    }
    links = "".join(f"<a href=/{number}>" for number in range(len(stated)))
    found = records(tmp_path, {A: answer(links.encode()), **pages})
    assert [found[href].get("canonical") for href in pages] == [None, None, None, f"{A}0"]


def test_what_came_without_a_page_says_less(tmp_path: Path) -> None:
    gone = Failure(FailureKind.REFUSED, "refused", 0.0, address="192.0.2.8")
    links = b"".join(b"<a href=%b>" % name for name in (b"/moved", b"/gone", b"/private", b"http://10.0.0.1/"))
    found = records(
        tmp_path,
        {A: answer(links), f"{A}moved": redirect(A), f"{A}gone": gone, f"{A}private": answer(b"x", status=404)},
        retry=RetrySettings(tries=3),
        politeness=PolitenessSettings(snooze_after=0),
    )
    assert extra(found[f"{A}moved"]) == {"seconds": 0.2, "tries": 1}
    assert extra(found[f"{A}gone"]) == {"address": "192.0.2.8", "seconds": 0.2, "tries": 3}
    assert "title" not in found[f"{A}private"]
    assert found[f"{A}private"]["charset"] == "windows-1252"


def test_a_url_that_is_refused_without_a_request_has_no_exchange(tmp_path: Path) -> None:
    lab = Laboratory(tmp_path, {}, replace(SETTINGS, fetch=FetchSettings()))
    lab.run("http://169.254.169.254/")
    (record,) = lab.records()
    assert record["outcome"] == "excluded"
    assert extra(record) == {}


def test_the_throttled_tries_count(tmp_path: Path) -> None:
    found = records(tmp_path, {A: answer(b"busy", status=503)}, retry=RetrySettings(throttled_tries=3))
    assert (found[A]["status"], found[A]["tries"], found[A]["address"]) == (503, 3, "192.0.2.7")


def test_no_text_of_a_stranger_breaks_a_line(tmp_path: Path) -> None:
    evil = ("X-Evil", "a\x85b\u2028c\n{}" + "\U0010ffff" * 5_000)
    page = "<title>a\u2028{}\x85\n</title>".encode()
    found = records(tmp_path, {A: answer(page, evil)}, OutputSettings(headers=("x-evil",)))
    assert found[A]["headers"]["x-evil"].startswith("abc {}")
    assert len(found[A]["headers"]["x-evil"]) == 1_000
    (line,) = (tmp_path / "pages.jsonl").read_bytes().splitlines()
    assert json.loads(line) == found[A]
