"""The learner of soft 404s, without a crawl."""

from __future__ import annotations

from hashlib import blake2b
from itertools import count
from typing import Any

import pytest

from crawler.base.kv import Batch, Family
from crawler.base.settings.parts import TrapSettings
from crawler.frontier.entry import Entry
from crawler.frontier.traps.copies import Content, content_digest
from crawler.frontier.traps.soft404 import (
    GROUPS_A_HOST,
    HOST_MOST,
    Judgement,
    PageKind,
    Soft404,
    check_soft404,
    stored_rows,
)
from tests.memory_store import MemoryStore

SITE = "http://h.test"
LOST = ["lost/", "gone/"]


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
