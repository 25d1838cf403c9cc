"""What records say of an exchange and of a page, in whole crawls."""

from __future__ import annotations

import hashlib
import json
from base64 import b32encode
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from multidict import CIMultiDict

from crawler.base.settings.parts import OUTPUT_FIELDS, OutputSettings
from crawler.engine.lifecycle import Stop
from crawler.web.fetch import Response
from tests.laboratory import SETTINGS, Laboratory
from tests.simulated_web import Answers

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


def test_no_text_of_a_stranger_breaks_a_line(tmp_path: Path) -> None:
    evil = ("X-Evil", "a\x85b\u2028c\n{}" + "\U0010ffff" * 5_000)
    page = "<title>a\u2028{}\x85\n</title>".encode()
    found = records(tmp_path, {A: answer(page, evil)}, OutputSettings(headers=("x-evil",)))
    assert found[A]["headers"]["x-evil"].startswith("abc {}")
    assert len(found[A]["headers"]["x-evil"]) == 1_000
    (line,) = (tmp_path / "pages.jsonl").read_bytes().splitlines()
    assert json.loads(line) == found[A]
