"""The URLs named on a command line, as people write them, with or without a scheme."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from msgspec import Struct

from crawler.base.figures import count
from crawler.base.printable import one_line
from crawler.base.say import say
from crawler.cli.exit_codes import UsageError
from crawler.url.urls.canonicaliser import Canonical, Canonicaliser
from crawler.url.urls.typed import completed
from crawler.url.urls.whatwg import Rejected

_SHOWN = 5  # maximum number of URLs that a line lists


class NamedUrl(Struct, frozen=True):
    """``text`` is the URL as given, completed with a scheme."""

    text: str
    url: Canonical


def say_taken(taken: Sequence[tuple[str, str]], why: str = "") -> None:
    """Report which words without a scheme were taken as URLs, if any, and as which URLs."""
    if taken:
        named = [f"{word} as {url}" for word, url in taken[:_SHOWN]]
        more = [f"{count(len(taken) - _SHOWN)} more"] if len(taken) > _SHOWN else []
        say(sys.stderr, f"crawler: {why}taking {one_line(', '.join([*named, *more]))}")


def completed_urls(words: Iterable[str]) -> list[str]:
    """Return the words, with a scheme added by ``completed`` where missing. Reports the words that it completed."""
    texts, taken = list[str](), list[tuple[str, str]]()
    for word in words:
        url = completed(word)
        texts.append(word if url is None else url)
        if url is not None:
            taken.append((word, url))
    say_taken(taken)
    return texts


def named_urls(words: Iterable[str], canonicaliser: Canonicaliser) -> list[NamedUrl]:
    """Return the URLs that the words name. Raises UsageError for a word that names none."""
    found = list[NamedUrl]()
    for text in completed_urls(words):
        url = canonicaliser.canonicalise(text)
        if isinstance(url, Rejected):
            raise UsageError(f"{text!r}: {url.reason}")
        found.append(NamedUrl(text, url))
    return found
