"""The seeds named on a command line: URLs, files and streams, in any combination."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

from msgspec import Struct, field

from crawler.base.figures import noun
from crawler.cli.exit_codes import UsageError
from crawler.cli.named_urls import say_taken
from crawler.engine.seeds import (
    BATCH,
    STDIN,
    SeedsError,
    check_seeds_file,
    file_batches,
    is_stream,
    named,
    no_url,
    read_urls,
    streams_batches,
)
from crawler.url.urls.canonicaliser import Canonical, Canonicaliser
from crawler.url.urls.domain import has_known_suffix
from crawler.url.urls.typed import completed, has_url_scheme
from crawler.url.urls.whatwg import Rejected

# Top-level domains that are also file extensions: a word such as `urls.zip` is more likely a mistyped file name.
_ENDINGS = frozenset({"md", "pl", "py", "rs", "sh", "zip"})
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+-]+:")  # not a single letter (a drive), nor a name with a dot (a file)
_SHOWN = 5  # names that a message lists before "N more"
_OF_LISTS = frozenset({"bz2", "csv", "gz", "json", "jsonl", "list", "log", "lst", "tsv", "txt", "urls", "xz", "zst"})


class NamedSeeds(Struct, frozen=True):
    """The sources of seeds, in the order of reading: URLs first, then files, then streams, which can be read only
    once."""

    urls: list[str] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    streams: list[Path | int] = field(default_factory=list)

    @classmethod
    def of(cls, words: Sequence[str], canonicaliser: Canonicaliser, *, quiet: bool) -> NamedSeeds:
        """Sort the words, check everything that can be checked before anything is changed, and report which words
        without a scheme were taken as URLs. Raises UsageError."""
        seeds, taken = cls(), list[tuple[str, str]]()
        for word in words:
            path = Path(word)
            if not word.strip():
                raise UsageError("an empty argument names no seeds: give a URL, a file, or - for standard input")
            if word == "-":
                seeds.streams.append(STDIN)
            elif has_url_scheme(word):
                seeds.urls.append(word.strip())
            elif os.path.exists(word):  # False if the text is too long for a file name
                (seeds.streams if is_stream(path) else seeds.files).append(path)
            elif (url := _as_url(word, canonicaliser)) is not None:
                seeds.urls.append(url)
                taken.append((word, url))
            elif _SCHEME.match(word):
                raise UsageError(f"{word!r} is not an http or https URL, and no file of that name exists")
            else:
                seeds.files.append(path)
        seeds._check(canonicaliser)
        if not quiet:
            say_taken(taken, f"no such {noun(len(taken), 'file')}: ")
        return seeds

    @property
    def finite(self) -> bool:
        """True if all seeds can be read now."""
        return not self.streams

    @property
    def begins_at_once(self) -> bool:
        """True if there are URLs or files, which are read before the streams."""
        return bool(self.urls or self.files)

    def words(self) -> list[str]:
        """Return command-line words that name these seeds; a single ``-`` stands for all streams."""
        return [*self.urls, *map(_word, self.files), *(["-"] if self.streams else [])]

    def known(self) -> Iterator[str]:
        """Yield the URLs that can be read now. Raises SeedsError."""
        yield from self.urls
        for path in self.files:
            yield from read_urls(path)

    async def batches(self) -> AsyncIterator[list[str]]:
        """Yield all seeds. Raises SeedsError."""
        for start in range(0, len(self.urls), BATCH):
            yield self.urls[start : start + BATCH]
        for path in self.files:
            async for batch in file_batches(path):
                yield batch
        async for batch in streams_batches(self.streams):
            yield batch

    def __str__(self) -> str:
        names = [*self.urls, *map(str, self.files), *map(named, self.streams)]
        more = [f"{len(names) - _SHOWN} more"] if len(names) > _SHOWN else []
        return ", ".join([*names[:_SHOWN], *more])

    def _check(self, canonicaliser: Canonicaliser) -> None:
        if self.streams.count(STDIN) > 1:
            raise UsageError("- names standard input, which can be read only once")
        for text in self.urls:
            url = canonicaliser.canonicalise(text)
            if isinstance(url, Rejected):
                raise UsageError(f"{text!r} is not an http or https URL: {url.reason}")
        for path in self.files:
            _check_file(path, canonicaliser)


def _word(file: Path) -> str:
    """Return a command-line word that can only mean this file."""
    text = str(file)
    return f"./{text}" if text == "-" or has_url_scheme(text) else text


def _as_url(word: str, canonicaliser: Canonicaliser) -> str | None:
    """Return the URL that a word means if no file has that name; None if the word more likely names a file."""
    text = completed(word)
    url = Rejected("") if text is None else canonicaliser.canonicalise(text)
    if isinstance(url, Rejected):
        return None
    # File names have no port, do not start with www., and are not addresses or this machine's name.
    plain = ":" not in word and url.scheme == "https" and not url.host.startswith("www.")
    if plain and (not has_known_suffix(url.host) or (word.lower() == url.host and _ending(word) in _ENDINGS)):
        return None
    return text


def _ending(word: str) -> str:
    return word.rpartition(".")[2].lower()


def _check_file(path: Path, canonicaliser: Canonicaliser) -> None:
    """Raise UsageError, before anything is changed, if the seeds file has no valid seed."""
    try:
        check_seeds_file(path)
        reason = ""
        for text in read_urls(path):
            url = canonicaliser.canonicalise(text)
            if isinstance(url, Canonical):
                return
            reason = reason or no_url(text, url.reason)
    except SeedsError as error:
        raise UsageError(f"{error}{_hint(path)}") from error
    raise UsageError(f"seeds file {path} {reason}")


def _hint(path: Path) -> str:
    """Return a hint with the URL that the user may have meant by the name of a missing file."""
    word = str(path)
    url = completed(word)
    if url is None or path.is_file() or _ending(word) in _OF_LISTS:
        return ""
    return f"; for the site, write {url}"
