"""Computes the key of a line. A line counts as seen if its key was seen before.

    raw     the key is the line's bytes
    URLs    the key is that of the URL in the line (``crawler.url.urls``), the same for all spellings of a URL; lines
            that are not UTF-8 or not an http(s) URL are skipped and counted by reason

A line ends with a line feed, which is not part of it; the last line may lack one. All work is done on blocks of lines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Protocol

from msgspec import Struct

from crawler.base.figures import counted
from crawler.seen.filters import JSON, FilterError, KeyHash
from crawler.url.urls.canonicaliser import Canonicaliser
from crawler.url.urls.whatwg import Rejected

NOT_UTF8 = Rejected("not UTF-8")
EMPTY = Rejected("empty line")


class KeySpec(Struct, frozen=True):
    """How the keys of a filter were computed from lines. It is stored with the filter, because keys computed
    differently would never match."""

    raw: bool = False
    rules: tuple[str, ...] = ()  # rules of canonicalisation

    def __str__(self) -> str:
        return self.named("raw lines" if self.raw else "URLs")

    def counted(self, lines: int) -> str:
        """Return a number of lines together with the noun for lines of this kind."""
        return self.named(counted(lines, "raw line" if self.raw else "URL"))

    def named(self, lines: str) -> str:
        return f"{lines} by the rules {', '.join(self.rules)}" if self.rules and not self.raw else lines

    def as_json(self) -> dict[str, JSON]:
        return {"from": "lines" if self.raw else "urls", "rules": list(self.rules)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> KeySpec:
        """Load the specification from the output of ``as_json``. Raises FilterError for an unknown way to compute
        keys."""
        made, rules = stored.get("from"), stored.get("rules")
        if made not in ("lines", "urls") or not isinstance(rules, list):
            raise FilterError(f"its keys were computed in an unknown way: {dict(stored)}")
        return cls(made == "lines", tuple(rules))

    def reader(self, hash: KeyHash) -> LineKeys:
        """Return a reader of lines whose keys are hashed with ``hash``. Raises ValueError for an unknown rule."""
        return RawLines(hash) if self.raw else UrlLines(hash, Canonicaliser(self.rules))


class LineKeys(Protocol):
    """Computes keys from lines. ``skipped`` counts the lines without a key, by reason."""

    skipped: Counter[str]

    def read(self, block: bytes) -> tuple[list[bytes], bytes]:
        """Return the lines of a block that have a key, and the digests of those keys, 16 bytes each."""


def split_lines(block: bytes) -> list[bytes]:
    lines = block.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return lines


class RawLines:
    """Uses each line as its key."""

    def __init__(self, hash: KeyHash) -> None:
        self.skipped: Counter[str] = Counter()
        self._hash = hash

    def read(self, block: bytes) -> tuple[list[bytes], bytes]:
        lines = split_lines(block)
        return lines, self._hash.digest_keys(lines)


class UrlLines:
    """Uses the key of the URL in each line."""

    def __init__(self, hash: KeyHash, canonicaliser: Canonicaliser) -> None:
        self.skipped: Counter[str] = Counter()
        self._hash = hash
        self._canonicaliser = canonicaliser

    def read(self, block: bytes) -> tuple[list[bytes], bytes]:
        lines = split_lines(block)
        try:
            texts = block.decode().split("\n")[: len(lines)]
        except UnicodeDecodeError:
            lines, texts = self._decodable(lines)
        if b"\r" in block:
            texts = [text.removesuffix("\r") for text in texts]
        keys = self._canonicaliser.keys(texts)
        known = [key for key in keys if isinstance(key, str)]
        if len(known) < len(keys):
            for text, key in zip(texts, keys, strict=True):
                if isinstance(key, Rejected):
                    self.skipped[(key if text.strip() else EMPTY).reason] += 1
            lines = [line for line, key in zip(lines, keys, strict=True) if isinstance(key, str)]
        return lines, self._hash.digest_keys(known)

    def _decodable(self, lines: list[bytes]) -> tuple[list[bytes], list[str]]:
        kept, texts = [], []
        for line in lines:
            try:
                texts.append(line.decode())
            except UnicodeDecodeError:
                self.skipped[NOT_UTF8.reason] += 1
            else:
                kept.append(line)
        return kept, texts
