"""The learner of soft 404s, without a crawl."""

from __future__ import annotations

import re
from hashlib import blake2b
from html import escape
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.base.kv import Batch, Family
from crawler.base.settings import TrapSettings
from crawler.frontier import Entry
from crawler.frontier.traps import Content, Judgement, PageKind, Soft404, Soft404RecordError, check_soft404
from crawler.frontier.traps.copies import content_digest
from crawler.frontier.traps.soft404 import (
    GROUPS_A_HOST,
    HOST_MOST,
    NAMED_MOST,
    explain_rows,
    links_digests,
    probe_beside,
    stored_rows,
    text_digest,
    without_own_url,
)
from crawler.job.store import MemoryStore

SITE = "http://h.test"
LOST = ["lost/", "gone/"]
SEGMENTS = st.text("abcdefgh-_~&'+;=.", min_size=1, max_size=12).filter(lambda text: bool(text.strip(".")))
PATHS = st.lists(SEGMENTS, min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts))


class Host:
    """One host, whose pages are judged in turn; what they teach is stored as a job does it."""

    def __init__(self, store: MemoryStore | None = None, **settings: Any) -> None:
        self.store = MemoryStore() if store is None else store
        self.soft404 = Soft404(TrapSettings(**settings), self.store)
        self.digests: dict[bytes, str] = {}
        self.probes: list[str] = []

    def judge(self, path: str, body: str, hrefs: list[str] | None = None, **entry: Any) -> Judgement:
        href, data = SITE + path, body.encode()
        digest = content_digest(data)
        original = self.digests.setdefault(digest, href)
        content = Content(digest, duplicate_of=None if original == href else original)
        judged = self.soft404.judge(Entry(href, 1, **entry), data, LOST if hrefs is None else hrefs, content)
        if judged.lesson is not None:
            batch = Batch()
            judged.lesson.put(batch)
            self.store.write(batch)
            if judged.lesson.probe is not None:
                self.probes.append(judged.lesson.probe)
        for row in self.store.scan(Family.SOFT404, b""):
            check_soft404(*row)
        return judged

    def kind(self, path: str, body: str, hrefs: list[str] | None = None, **entry: Any) -> PageKind:
        return self.judge(path, body, hrefs, **entry).kind

    def learn(self, body: str = "not found") -> None:
        for path in ("/a/b/", "/c/", "/d/e/f/"):
            assert self.kind(path, body) is PageKind.PAGE
        assert self.kind(self.probes[-1].removeprefix(SITE), body, probe=True) is PageKind.NOT_FOUND


def test_a_page_is_learned_by_its_probe_alone() -> None:
    host = Host()
    host.learn()
    assert host.kind("/x/", "not found") is PageKind.NOT_FOUND
    assert host.kind("/x/", " not  found\n") is PageKind.NOT_FOUND, "white space"
    assert host.kind("/x/", "not found", ["lost/"]) is PageKind.PAGE, "another link"
    assert host.kind("/y/", "found") is PageKind.PAGE
    assert host.kind("/x/", "not found", seed=True) is PageKind.PAGE
    assert Host(host.store).kind("/x/", "not found") is PageKind.NOT_FOUND, "by the next run"
    assert Host(host.store, soft404=False).kind("/x/", "not found") is PageKind.PAGE


def test_another_answer_to_the_probe_ends_the_suspicion() -> None:
    host = Host()
    for path in ("/a/b/", "/c/", "/d/e/f/", "/g/", "/h/i/", "/k/l/m/n/"):
        assert host.kind(path, "the same") is PageKind.PAGE
    assert len(host.probes) == 1
    assert host.judge(host.probes[0].removeprefix(SITE), "something else", probe=True).lesson is None
    again = Host(host.store)
    for path in ("/a/b/", "/c/", "/d/e/f/", "/g/"):
        assert again.kind(path, "the same") is PageKind.PAGE
    assert again.probes == []


@pytest.mark.parametrize(
    "paths",
    [
        [f"/item/{n}" for n in range(20)],
        [f"/tag/{name}" for name in "abcdefgh"],
        [f"/search?q={n}" for n in range(20)],
        ["/", "/index.html", "/index.html?x=1", "/index.html?y"],
        ["/a/", "/b/"],
        [f"/{year}" for year in range(2000, 2020)],
    ],
    ids=["numbers", "names", "queries", "home", "two", "numbers at the top"],
)
def test_equal_pages_of_one_shape_are_not_suspected(paths: list[str]) -> None:
    host = Host()
    assert {host.kind(path, "the same") for path in paths} == {PageKind.PAGE}
    assert host.probes == []


def test_what_has_no_links_leads_nowhere() -> None:
    host = Host()
    for path in ("/a/b/", "/c/", "/d/e/f/", "/g/h/i/j/"):
        assert host.kind(path, "empty", []) is PageKind.PAGE
    assert host.probes == []


def test_the_home_page_makes_it_an_application() -> None:
    before, after = Host(), Host()
    assert before.kind("/", "app") is PageKind.PAGE
    before.learn("app")
    after.learn("app")
    assert after.kind("/x/", "app") is PageKind.NOT_FOUND
    assert after.kind("/", "app") is PageKind.PAGE
    for host in (before, after, Host(after.store)):
        assert host.kind("/x/", "app") is PageKind.APPLICATION
        assert host.kind("/", "app") is PageKind.PAGE


def test_a_host_has_a_bounded_number_of_suspicions_and_pages_in_memory() -> None:
    host = Host()
    for number in range(3 * HOST_MOST):
        for path in ("/a/b/", "/c/", "/d/e/f/"):
            host.kind(f"{path}{number}/", "page" * number)
    assert len(host.probes) == HOST_MOST == len(stored_rows(host.store, "h.test:80"))
    other = Host()
    for number in range(GROUPS_A_HOST + 2):
        other.kind(f"/a/{number}/", "page" * number)
    for path in ("/a/1/", "/b/", "/c/d/e/"):
        other.kind(path, "page")
    assert len(other.probes) == 1, "what is forgotten may be learned later"


def test_a_page_may_tell_the_time_and_have_a_secret() -> None:
    serial = count(12345)

    def body(path: str) -> str:
        number = next(serial)
        secret = blake2b(bytes([number % 256])).hexdigest()
        return (
            f"<html><script nonce={secret}>var csrf = '{secret}'</script><p title='{secret}'>{path} does not exist."
            f"<small>Page made at 12:{number % 60} in 0.{number} s</small></p><!-- {secret} -->"
        )

    host = Host()
    for path in ("/a/b/", "/c/", "/d/e/f/", "/g/"):
        assert host.kind(path, body(path)) is PageKind.PAGE
    (probe,) = (href.removeprefix(SITE) for href in host.probes)
    assert host.kind(probe, body(probe), probe=True) is PageKind.NOT_FOUND
    assert host.kind("/x/y/", body("/x/y/")) is PageKind.NOT_FOUND
    assert host.kind("/x/z/", body("/x/z/").replace("does not", "does")) is PageKind.PAGE


def test_an_application_may_have_a_secret_in_its_page() -> None:
    host = Host()
    for number, path in enumerate(("/", "/a/b/", "/c/", "/d/e/f/")):
        assert host.kind(path, f"<meta content='{number}'>app") is PageKind.PAGE
    assert host.kind(host.probes[0].removeprefix(SITE), "<meta content='x'>app", probe=True) is PageKind.NOT_FOUND
    assert host.kind("/x/", "<meta content='y'>app") is PageKind.APPLICATION
    assert host.kind("/", "<meta content='z'>app") is PageKind.PAGE


@given(PATHS, PATHS, st.text("<>! XYZ\n", max_size=30))
def test_a_page_that_names_its_own_path_is_the_same_everywhere(one: str, two: str, text: str) -> None:
    def body(path: str) -> bytes:
        return f"{text}<X>{escape(path)}</X> \u00b7 '{path}' \u00b7 http://n.lynx{path}".encode()

    def prints_of(path: str) -> tuple[bytes, bytes]:
        return links_digests(SITE + path, ["x/", path, SITE + path])[-1], text_digest(SITE + path, body(path))

    assert prints_of(one) == prints_of(two)
    assert links_digests(SITE + one, ["y/"]) != links_digests(SITE + two, ["x/"])


def test_a_page_that_is_linked_by_all_pages_is_the_same_as_written() -> None:
    hrefs = ["/about", "/news/today", "/x?a=b"]
    first = {links_digests(SITE + href, hrefs)[0] for href in hrefs}
    assert len(first) == 1
    assert links_digests(SITE + "/other", hrefs) == list(first), "names no link to itself"


@given(st.lists(st.sampled_from(["<", ">", "a", "b1", " ", "<p>", "</p>", "<b class='>'>", "é"]), max_size=30))
def test_the_text_is_what_stands_outside_tags(parts: list[str]) -> None:
    body = "".join(parts).encode()
    shown = re.sub(rb"<[^>]*>?", b"", body.replace(b"\0", b""))
    while re.search(rb"<[^<>]*<", body):  # a tag that opens in a tag is in it
        body = re.sub(rb"<([^<>]*)<", rb"<\1", body)
        shown = re.sub(rb"<[^>]*>?", b"", body)
    compared = re.sub(rb"[<>\s0-9]", b"", shown)
    assert text_digest(SITE + "/own", "".join(parts).encode()) == blake2b(compared, digest_size=8).digest()


@pytest.mark.parametrize("name", ["script", "style", "SCRIPT"])
def test_what_is_not_shown_is_not_compared(name: str) -> None:
    def print_of(text: str) -> bytes:
        return text_digest(SITE + "/own", f"a<{name} x>{text}</{name} >b<{name}>{text}".encode())

    assert print_of("one <b>") == print_of("</b> two") != text_digest(SITE + "/own", b"a")


@given(st.binary(max_size=200), PATHS)
def test_only_the_own_path_is_taken_out(body: bytes, path: str) -> None:
    left = without_own_url(body, SITE + path)
    assert len(left) <= len(body)
    if not any(form in body for form in (path.encode(), path[1:].encode(), escape(path[1:]).encode())):
        assert left is body


def test_a_path_is_not_taken_out_of_a_longer_one() -> None:
    assert without_own_url(b"/about /a /a/b /a-b x/a", SITE + "/a") == b"/about  /b /a-b x"
    many = b"/a " * (NAMED_MOST + 1)
    assert without_own_url(many, SITE + "/a") is many


@given(PATHS, st.binary(min_size=16, max_size=16))
def test_a_probe_is_beside_its_page(path: str, fingerprint: bytes) -> None:
    for ending in ("", "/", "?a=b"):
        probe = probe_beside(SITE + path + ending, fingerprint)
        assert probe.startswith(SITE + path.rpartition("/")[0] + "/this-page-does-not-exist-")
        assert probe.endswith("/") == (ending == "/")
        assert "?" not in probe
    assert probe_beside(SITE + "/x/page.html", fingerprint).endswith(".html")


def test_what_is_stored_is_checked_and_explained() -> None:
    host = Host()
    host.learn()
    ((key, value),) = host.store.scan(Family.SOFT404, b"")
    for bad in (b"", b"\2" + value[1:], value[:1] + b"\2" + value[2:], value[:2] + b"ftp://x", value[:-1] + b"\xff"):
        with pytest.raises(Soft404RecordError):
            check_soft404(key, bad)
    for bad in (key[1:], key[:-1], key.replace(b"\0", b"\1")):
        with pytest.raises(Soft404RecordError):
            check_soft404(bad, value)
    (said,) = explain_rows(host.store, SITE + "/anything")
    assert said.startswith("Its host sends one page for paths that do not exist")
    assert explain_rows(host.store, host.probes[0])[0].startswith("This path was made up by the crawler")
    assert explain_rows(host.store, "http://other.test/") == []
