"""Sites that put fresh ids into their links end with every page, and honest sites lose nothing."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from crawler.engine.lifecycle import Stop
from crawler.frontier.traps.traps import Traps
from tests.engine.test_lifted_limits import whole
from tests.engine.test_soft404 import HOME, laboratory
from tests.traps import limit_traps

TEXTS = {"": "home", "a": "alpha", "b": "beta", "c": "gamma", "d": "delta"}
WORDS = ["red", "blue", "green", "small", "large", "old", "new", "fast", "slow", "iron", "wood", "glass", "stone"]
FORMS = {
    "?osCsid=*": "/{page}?osCsid={hex}",
    ";jsessionid=*": "/{page};jsessionid={hex}",
    "?s=*": "/{page}?q=1&amp;s={low:08x}",
    "?sessid=*": "/?page={page}&amp;sessid={hex}",
    "/1/((*))": "/(S({hex}))/{page}",
    "/2/*": "/s/{hex}/{page}",
    "/1/-*.": "/{page}-{hex}.html",
    "?n=": "/{page}?n={small}",
    "?*=*": "/{page}?{hex}",
    "?CFID=* ?CFTOKEN=*": "/{page}?CFID={number:08}&amp;CFTOKEN={hex}",
}


def page(text: str, links: list[str], head: str = "") -> str:
    return f"<head>{head}</head><p>{text}</p>" + "".join(f'<a href="{link}">x</a>' for link in links)


def ids(form: str, head: str, *, each: bool) -> Callable[[str], Any]:
    """The pages with new ids in their links, or for ``each`` page one in all of them."""
    rng, visits = random.Random(1), count(10**8)

    def answer(href: str) -> Any:
        text = TEXTS[(re.findall(r"\b([abcd])\b", href.removeprefix(HOME)) or [""])[0]]
        same = next(visits)

        def link(to: str) -> str:
            number = same if each else rng.getrandbits(128)
            return form.format(
                page=to, hex=f"{number:032x}", number=number, low=number % 2**32, small=next(visits) % 10**7
            )

        stated = f"<script>{rng.random()}</script><link rel=canonical href=/{text}>" if head else ""
        return page(text, [link(to) for to in TEXTS], stated)

    return answer


@pytest.mark.parametrize(
    ("name", "near", "each"),
    [(name, False, False) for name in FORMS]
    + [("?s=*", False, True), ("/2/*", False, True), ("?osCsid=*", True, False)],
)
def test_fresh_ids_in_links_end(tmp_path: Path, name: str, near: bool, each: bool) -> None:
    lab = laboratory(tmp_path, {}, ids(FORMS[name], "x" * near, each=each), near_duplicates=near)
    assert lab.run(HOME) is Stop.FINISHED
    rows = lab.records()
    assert sum(row["outcome"] == "fetched" for row in rows) < 60
    refused = [row for row in rows if row["outcome"] == "excluded"]
    assert refused
    assert all(row["error"].endswith(f" {name}") and "a.test" in row["error"] for row in refused)
    assert f" {name}." in "".join(Traps(lab.settings.traps, lab.store).explain(refused[-1]["url"]))
    whole(lab)


GROWING: dict[str, Callable[[str], Any]] = {
    "one page": lambda _: page("one", [f"/?sid={random.getrandbits(128):032x}"]),
    "pairs": lambda href: page("one", [f"{href}{'&' if '?' in href else '?'}x=1"]),
    "names": lambda href: page("one", [f"{href}{'&' if '?' in href else '?'}x{len(href)}=1"]),
    "two": lambda href: page("one", [f"{href}{'&' if '?' in href else '?'}{name}=1" for name in "ab"]),
    "nested": lambda href: page("one", ["/x?back=" + href.removeprefix(HOME).replace("?", "%3F").replace("=", "%3D")]),
    "path": lambda href: page(TEXTS.get(href[-2], "home"), ["a/", "b/", "c/"]),
}


@pytest.mark.parametrize("kind", GROWING)
def test_urls_that_grow_end(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    limit_traps(monkeypatch, max_repeats=10**6)
    lab = laboratory(tmp_path, {}, GROWING[kind], soft404=False)
    assert lab.run(HOME) is Stop.FINISHED
    assert len(lab.records()) < 200


def number_in(href: str) -> int:
    return int((re.findall("[0-9]+$", href) or ["0"])[0])


def thread(href: str) -> Any:
    """Of a forum: few threads have posts; the others are empty, or lost and ask to log in."""
    number = number_in(href) if "login" not in href else 3
    if number % 10 == 0:
        return page(f"about {WORDS[number // 10 % 13]}", [f"/thread?t={number + 1}"])
    if number % 3 == 0:
        return page("not found", [f"/login?next=%2Fthread%3Ft%3D{number}"])
    return page("no posts", [f"/thread?t={(number + more) % 200}" for more in (1, 2, 4)])


HONEST: dict[str, Callable[[str], Any]] = {
    "forum": thread,
    "search": lambda href: page(
        f"found {href[-3:]}" if len(href) % 2 else "nothing",
        [f"/?s={one}+or+{two}+things" for one in WORDS for two in WORDS],
    ),
    "calendar": lambda href: page(
        f"no events in {number_in(href)}", [f"/day/{20260101 + (number_in(href) + more) % 90}" for more in (1, 2)]
    ),
    "languages": lambda href: page(
        href,
        [f"/a{n}?lang={lang}" for n in range(50) for lang in ("de", "en")],
        f"<link rel=canonical href={href[:16]}>",
    ),
    "colours": lambda href: page(
        f"shirt {href[16:18]}",
        [f"/p{n}?color={word}" for n in range(10) for word in WORDS],
        f"<link rel=canonical href={href.partition('?')[0]}>",
    ),
    "tokens": lambda href: page(
        "home" if href == HOME else "text",
        [f"/a?id={10**9 + number}" for number in range(100)],
        f"<meta name=csrf content={random.getrandbits(64):x}>",
    ),
}


@pytest.mark.parametrize("kind", HONEST)
def test_honest_sites_lose_nothing(tmp_path: Path, kind: str) -> None:
    lab = laboratory(tmp_path, {}, HONEST[kind])
    assert lab.run(HOME) is Stop.FINISHED
    assert not [row["error"] for row in lab.records() if "max_id_copies" in str(row["error"])]
    assert len(lab.records()) > 50
