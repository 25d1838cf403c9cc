"""Links and the pages they stand on, against ada asked about each of them.

The canonicaliser answers most links without the parser, and all links of a page in one go. Whatever shortcut it takes,
it must give what ada gives for the one link.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

import ada_url

from crawler.url.urls.canonicaliser import Canonical, Canonicaliser
from crawler.url.urls.normalising_steps import STEPS, drop_userinfo
from crawler.url.urls.opt_in_rules import RULES, chosen, settle
from crawler.url.urls.whatwg import Rejected

_BASES = (
    "http://h.test/",
    "http://h.test/a/b/c?q=1",
    "https://sub.h.test:8443/a//b/../c/",
    "http://h.test/%7Ea/./x;p",
    "http://[2001:db8::1]/a",
    "http://192.0.2.1/a/",
    "https://user:pw@h.test/",
    "http://xn--bcher-kva.test/x",
)
_STARTS = (
    *("http://", "https://", "HTTP://", "http:/", "http:", "//", "/", "", ".", "..", "../", "./", "?", "#"),
    *("\\", "///", "mailto:", "javascript:", "data:", "ftp://", "ws://", "file:///", "http://h.test"),
    *("http://H.test:80", "https:\\\\", "http://a.b.c/", "http://1.2.3/", "http://0x7f.1/", "http://[::1]"),
    *("http://u@h/", "http://xn--", "blob:", "http:a"),
)
_PARTS = (
    *("a", "b", "index.html", "A", "Z", "~", "%7e", "%7E", "%2F", "%2f", "%", "%zz", "%00", "%C3%A9", "%e9"),
    *("é", "ü", "中", "/", "//", "/.", "/..", "/../", "/./", "/.a", "%2e", "/%2e%2E/", ".", "..", "...", "\\"),
    *("/\\", ";", ";x=1", ":", "@", "?", "??", "?a=1", "&b=2", "&amp;", "=", "+", "%20", " ", "\t", "\n", "\r"),
    *("\x00", "\x0b", "\x1f", "\x7f", "\xa0", "#", "#f", "##", "'", '"', "<", ">", "`", "{", "}", "|", "^"),
    *("[", "]", "!", "$", "(", ")", "*", ",", "-", "_", "\ud800", "\udc00", "\ud83d\ude00", "\u2028", "\u200d"),
    *("\u00ad", "\uff0e", "\u3002", "\u212a", "ß", "İ", "\ufeff", ":80", ":443", ":8080", ":0", ":65536"),
    *(":080", ":", "0", "7", "65535", ".test", "www.", "xn--", "-", "h"),
)
_RULES = tuple(RULES)


class Page(NamedTuple):
    """A base, the links of its page, and the rules of the canonicaliser."""

    base: str
    texts: list[str]
    rules: tuple[str, ...]


def make(chance: random.Random) -> Page:
    """One to eight links: starts, parts, and mutations of addresses as they are."""
    rules = tuple(chance.sample(_RULES, chance.randrange(1, 3))) if chance.random() < 0.2 else ()
    return Page(chance.choice(_BASES), [_text(chance) for _ in range(chance.randrange(1, 9))], rules)


def _text(chance: random.Random) -> str:
    text = chance.choice(_STARTS) + "".join(chance.choices(_PARTS, k=chance.randrange(0, 8)))
    if chance.random() < 0.1:
        at = chance.randrange(len(text) + 1)
        text = text[:at] + chr(chance.choice((chance.randrange(0x100), chance.randrange(0x110000)))) + text[at:]
    if chance.random() < 0.05:
        text += chance.choice(_PARTS) * chance.choice((10, 100, 3000))
    return text


def check(page: Page) -> str:
    """Every way through the canonicaliser gives what the parser gives."""
    canonicaliser = Canonicaliser(page.rules)
    wanted = [_asked(page.rules, text, page.base) for text in page.texts]
    for text, want in zip(page.texts, wanted, strict=True):
        _same(canonicaliser.canonicalise(text, page.base), want, f"canonicalise {text!r}")
        name, value = canonicaliser.explain(text, page.base)[-1]
        assert value == want.key if want else name == "rejected", f"explain {text!r}: {value!r}, not {want!r}"
    found, _ = canonicaliser.outlinks(page.base, page.texts)
    distinct: dict[str, str] = {}
    for each in wanted:
        if each is not None:
            distinct.setdefault(each.key, each.href)
    assert [(url.key, url.href) for url in found] == list(distinct.items()), "outlinks"
    _check_absolute(canonicaliser, page)
    for url in distinct:
        again = canonicaliser.canonicalise(url)
        assert isinstance(again, Canonical), f"its own key is rejected: {url!r}"
        assert again.key == url, f"the key {url!r} has another key: {again.key!r}"
        assert url.isascii(), f"{url!r} is not ASCII"
    return "some" if distinct else "none"


def _check_absolute(canonicaliser: Canonicaliser, page: Page) -> None:
    for text, key in zip(page.texts, canonicaliser.keys(page.texts), strict=True):
        want = _asked(page.rules, text, None)
        got = None if isinstance(key, Rejected) else key
        assert got == (want and want.key), f"keys {text!r}: {got!r}, not {want!r}"
        _same(canonicaliser.canonicalise(text), want, f"canonicalise {text!r} without a base")


def _asked(rules: Sequence[str], text: str, base: str | None) -> Canonical | None:
    """What ada says, and the key of that by the steps that every href goes through."""
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    try:
        href = ada_url.URL(text).href if base is None else ada_url.URL(text, base).href
    except ValueError:
        return None
    if not href.startswith(("http://", "https://")):
        return None
    # No page chooses the name and the password that a request carries.
    href = key = drop_userinfo(href.partition("#")[0])
    for step in STEPS:
        key = step(key)
    return Canonical(href, settle(key, chosen(rules)))


def _same(got: Canonical | Rejected, want: Canonical | None, what: str) -> None:
    assert (None if isinstance(got, Rejected) else got) == want, f"{what}: {got!r}, not {want!r}"
