"""What files with terms of use say of each purpose: tdmrep.json and RSL licenses."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest

from crawler.url.consent.statements import LINES_MOST
from crawler.url.consent.terms import (
    RSL_FILE,
    TDM_FILE,
    read_terms,
    terms_statements,
)
from crawler.url.robots.parse import MAX_BYTES
from tests.url.consent.test_statements import as_words

RESERVED, FREE = {"tdm": "no", "ai-train": "no"}, {"tdm": "yes"}
HOST = "http://h.test:8080/"


def said(kind: str, body: bytes, path: str, href: str = HOST) -> dict[str, str]:
    rules, why = read_terms(kind, body, href)
    assert why is None
    return as_words(terms_statements(kind, rules).of(path))


def rule(location: Any, reservation: Any = 1) -> dict[str, Any]:
    return {"location": location, "tdm-reservation": reservation}


TDM: list[tuple[Any, str, dict[str, str]]] = [
    ([rule("/")], "/a/b?c", RESERVED),
    ([rule("/", 0)], "/a", FREE),
    ([rule("/", "1")], "/a", RESERVED),
    (rule("/"), "/a", RESERVED),
    ([rule("/"), rule("/open/", 0)], "/open/a", FREE),
    ([rule("/"), rule("/open/", 0)], "/opener", RESERVED),
    ([rule("/open/", 0), rule("/")], "/open/a", FREE),
    ([rule("/a", 0), rule("/a")], "/a", RESERVED),
    ([rule("*.pdf$")], "/a/b.pdf", RESERVED),
    ([rule("/*.pdf$")], "/a/b.pdf?c", {}),
    ([rule("/*/images/*.jpg")], "/a/images/b.jpg", RESERVED),
    ([rule("/caf\u00e9/")], "/caf%C3%A9/a", RESERVED),
    ([rule("images/")], "/images/a", RESERVED),
    ([rule("http://h.test:8080/a/")], "/a/b", RESERVED),
    ([rule("https://other.test/")], "/a", {}),
    ([rule("/", 2), rule("/", True), rule("/", None), rule("/", [1])], "/a", {}),
    ([rule(None), rule(1), {"tdm-reservation": 1}, "x", None, [rule("/")]], "/a", {}),
    ([], "/", {}),
    ({}, "/", {}),
    ("x", "/", {}),
    ([rule("/a", 0)] * LINES_MOST + [rule("/b")], "/c", RESERVED),
    ([rule("/a")] * LINES_MOST + [rule("/b", 0)], "/b", {}),
]


@pytest.mark.parametrize(("rules", "path", "consent"), TDM)
def test_tdmrep(rules: Any, path: str, consent: dict[str, str]) -> None:
    assert said(TDM_FILE, json.dumps(rules).encode(), path) == consent


def content(licenses: str, url: str = "/", more: str = "") -> str:
    return f'<content url="{url}" {more}>{licenses}</content>'


def license_of(*said: tuple[str, str], payment: str | None = None) -> str:
    paid = "" if payment is None else f'<payment type="{payment}"><amount>1</amount></payment>'
    uses = "".join([f'<{name} type="usage">{words}</{name}>' for name, words in said])
    return f"<license>{uses}{paid}</license>"


def rsl(*contents: str) -> bytes:
    return f'<?xml version="1.0"?><rsl xmlns="https://rslstandard.org/rsl">{"".join(contents)}</rsl>'.encode()


YES, NO = "permits", "prohibits"
THREE = ("search", "ai-input", "ai-train")
RSL: list[tuple[bytes, str, dict[str, str]]] = [
    (rsl(content(license_of((NO, "ai-train")))), "/a", {"ai-train": "no"}),
    (rsl(content(license_of((NO, "train-ai, search")))), "/a", {"ai-train": "no", "search": "no"}),
    (rsl(content(license_of((NO, " AI-Input\n ai-train ")))), "/a", {"ai-input": "no", "ai-train": "no"}),
    (
        rsl(content(license_of((YES, "search"), (NO, "ai-all")))),
        "/",
        dict(zip(THREE, ("yes", "no", "no"), strict=True)),
    ),
    (rsl(content(license_of((NO, "all")))), "/a", dict.fromkeys((*THREE, "tdm"), "no")),
    (rsl(content(license_of((YES, "all")))), "/a", dict.fromkeys(THREE, "yes")),
    (rsl(content(license_of((YES, "all"), (NO, "search")))), "/a", {**dict.fromkeys(THREE, "yes"), "search": "no"}),
    (rsl(content(license_of((YES, "ai-train"), payment="free"))), "/a", {"ai-train": "yes"}),
    (rsl(content(license_of((YES, "ai-train"), payment="attribution"))), "/a", {"ai-train": "yes"}),
    (rsl(content(license_of((YES, "ai-train"), payment="subscription"))), "/a", {}),
    (rsl(content(license_of((NO, "ai-train"), payment="crawl"))), "/a", {"ai-train": "no"}),
    (rsl(content(license_of((YES, "search")) + license_of((NO, "search")))), "/a", {"search": "no"}),
    (rsl(content(license_of((YES, "search")), more='server="https://l.test"')), "/a", {}),
    (rsl(content('<license><permits type="user">education</permits></license>')), "/a", {}),
    (
        rsl(content('<license><permits type="geo">EU</permits><permits type="usage">search</permits></license>')),
        "/a",
        {},
    ),
    (rsl(content('<license><prohibits type="geo">US</prohibits></license>')), "/a", {}),
    (
        rsl(content(license_of((NO, "search")), "/private/"), content(license_of((YES, "search")))),
        "/a",
        {"search": "yes"},
    ),
    (rsl(content(license_of((NO, "search")), "/p/"), content(license_of((YES, "search")))), "/p/a", {"search": "no"}),
    (rsl(content(license_of((NO, "search")), "/*.pdf$")), "/a.pdf", {"search": "no"}),
    (rsl(content(license_of((NO, "search")), "https://h.test:8080/a")), "/a/b", {"search": "no"}),
    (rsl(content(license_of((NO, "search")), "https://h.test/a")), "/a/b", {}),
    (rsl(content(license_of((NO, "search")), "https://*/*")), "/a/b", {"search": "no"}),
    (rsl(content(license_of((NO, "ai-index, other")))), "/a", {}),
    (rsl(content("<license/>")), "/a", {}),
    (rsl(), "/a", {}),
    (
        b"<rsl><content url='/'><license><prohibits type='usage'>search</prohibits></license></content></rsl>",
        "/a",
        {"search": "no"},
    ),
]


@pytest.mark.parametrize(("body", "path", "consent"), RSL)
def test_rsl(body: bytes, path: str, consent: dict[str, str]) -> None:
    assert said(RSL_FILE, body, path) == consent


ENTITIES = "".join([f'<!ENTITY e{n + 1} "' + f"&e{n};" * 10 + '">' for n in range(9)])
BAD: list[tuple[str, bytes]] = [
    (TDM_FILE, b""),
    (TDM_FILE, b"[" * 100_000),
    (TDM_FILE, b"\xff\xfe\x00"),
    (RSL_FILE, b""),
    (RSL_FILE, rsl(content(license_of((NO, "all"))))[:-10]),
    (RSL_FILE, b"<!DOCTYPE rsl>" + rsl()[21:]),
    (RSL_FILE, f'<!DOCTYPE r [<!ENTITY e0 "x">{ENTITIES}]><rsl>&e9;</rsl>'.encode()),
    (RSL_FILE, b'<!DOCTYPE r [<!ENTITY e SYSTEM "file:///etc/passwd">]><rsl><content url="/">&e;</content></rsl>'),
    (RSL_FILE, b'<!DOCTYPE r SYSTEM "http://127.0.0.1:9/x.dtd"><rsl/>'),
    (RSL_FILE, b'<!DOCTYPE r [<!ENTITY % e SYSTEM "http://127.0.0.1:9/x"> %e;]><rsl/>'),
    (RSL_FILE, b"<rsl>&undefined;</rsl>"),
    (RSL_FILE, b"<rsl>" + b"<content>" * (MAX_BYTES // 9)),
    (RSL_FILE, b'<?xml version="1.0" encoding="no-such"?><rsl/>'),
]


@pytest.mark.parametrize(("kind", "body"), BAD)
def test_what_cannot_be_read_says_nothing(kind: str, body: bytes) -> None:
    rules, why = read_terms(kind, body, HOST)
    assert rules == []
    assert why


def test_many_licenses_of_one_long_location_take_little_memory() -> None:
    body = rsl(content(license_of((NO, "all")) * 4_000, "/" + "a" * (MAX_BYTES // 2)))
    tracemalloc.start()
    rules, _ = read_terms(RSL_FILE, body, HOST)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(rules) == 1
    assert most < 30 * len(body)
