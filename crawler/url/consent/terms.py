"""Files with terms of use: ``/.well-known/tdmrep.json`` (TDMRep) and licenses in XML (RSL 1.0). Bytes in, rules out.

A rule is a pattern of paths, as in robots.txt, and the uses that it allows or refuses. Of the rules of one file, those
with the longest pattern that matches count.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from xml.parsers import expat

import msgspec

from crawler.url.consent.robots_lines import PathStatements
from crawler.url.consent.statements import AI_INPUT, AI_TRAIN, SEARCH, TDM, reserved, stricter

BYTES_MOST = 128 * 1024  # of a file that is read
RULES_MOST = 500  # of a file that count: each is looked at for each page
TDMREP = "/.well-known/tdmrep.json"
_USAGES = {
    "search": (SEARCH,),
    "ai-input": (AI_INPUT,),
    "ai-train": (AI_TRAIN,),
    "train-ai": (AI_TRAIN,),
    "train-genai": (AI_TRAIN,),
    "ai-all": (AI_INPUT, AI_TRAIN),
    "all": (SEARCH, AI_INPUT, AI_TRAIN),
}
_UNPAID = ("free", "attribution")
_PATH = re.compile(r"https?://([^/?#]*)(.*)", re.IGNORECASE | re.DOTALL)

Rules = list[tuple[str, dict[str, bool]]]


class TermsFile(StrEnum):
    """A kind of file, by the source that records name."""

    TDM = "tdmrep.json"
    RSL = "RSL license"


Terms = dict[TermsFile, Rules]  # of the files that were asked for; no rules if there is no such file


def read_terms(kind: TermsFile, body: bytes, href: str) -> tuple[Rules, str | None]:
    """The rules of a file for the host of ``href``, and why it cannot be read."""
    if len(body) > BYTES_MOST:
        return [], f"it is longer than {BYTES_MOST // 1024} KiB"
    authority = href.split("/", 3)[2].rpartition("@")[2]
    try:
        found = _tdmrep(body) if kind is TermsFile.TDM else _License(body).rules
    except (ValueError, LookupError, RecursionError, expat.ExpatError) as error:
        return [], str(error)
    rules = ((_path(location, authority), uses) for location, uses in found if uses)
    return [(path, uses) for path, uses in rules if path is not None][:RULES_MOST], None


def encode_terms(terms: Terms) -> bytes:
    """The terms as they are stored."""
    return msgspec.json.encode(terms)


def decode_terms(stored: bytes) -> Terms:
    """Raises ValueError."""
    return msgspec.json.decode(stored, type=Terms)


def terms_statements(terms: Terms) -> PathStatements | None:
    """What the terms state by path; None if they say nothing."""
    lines = [
        (kind, path, {purpose: (allowed, str(kind)) for purpose, allowed in uses.items()})
        for kind, rules in terms.items()
        for path, uses in rules
    ]
    return PathStatements(lines) if lines else None


def _path(location: str, authority: str) -> str | None:
    """The pattern of paths of a location, in Latin-1; None if it is of another host."""
    full = _PATH.fullmatch(location)
    if full is not None and full[1].lower() != authority and not fnmatchcase(authority, full[1].lower()):
        return None
    path = location if full is None else full[2]
    path = path if path.startswith(("/", "*")) else f"/{path}"
    return path.encode("utf-8", "replace").decode("latin-1")


def _tdmrep(body: bytes) -> Rules:
    found = json.loads(body)
    rules: Rules = []
    for each in found if isinstance(found, list) else [found]:
        location = each.get("location") if isinstance(each, dict) else None
        if isinstance(location, str):
            uses = reserved(str(each.get("tdm-reservation")), TermsFile.TDM)
            rules.append((location, {purpose: allowed for purpose, (allowed, _) in uses.items()}))
    return rules


class _License:
    """Reads an RSL document. A use is allowed only by a license that asks for nothing: no payment, no server to get it
    from, and no condition on who uses it where. It is refused by any license that prohibits it."""

    def __init__(self, body: bytes) -> None:
        """Raises ExpatError and ValueError. Without a document type there are no entities."""
        self.rules: Rules = []
        self._url = ""
        self._served = self._bound = False
        self._said: list[tuple[bool, str]] = []
        self._text: list[str] | None = None
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.StartDoctypeDeclHandler = self._refuse
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler = lambda text: self._text.append(text) if self._text is not None else None
        parser.Parse(body, True)

    def _refuse(self, *_: object) -> None:
        raise ValueError("it has a document type")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        kind = attributes.get("type", "").lower()
        match name.rpartition(" ")[2]:
            case "content":
                self._url, self._served = attributes.get("url", "/"), "server" in attributes
            case "license":
                self._said, self._bound = [], self._served
            case "permits" | "prohibits" if kind in ("", "usage"):
                self._text = []
            case "permits" | "prohibits":
                self._bound = True
            case "payment":
                self._bound |= bool(kind) and kind not in _UNPAID

    def _end(self, name: str) -> None:
        match name.rpartition(" ")[2]:
            case "permits" | "prohibits" as word if self._text is not None:
                self._said += [(word == "permits", each) for each in re.split(r"[,\s]+", "".join(self._text).lower())]
                self._text = None
            case "license":
                self.rules.append((self._url, _uses(self._said, bound=self._bound)))


def _uses(said: Sequence[tuple[bool, str]], *, bound: bool) -> dict[str, bool]:
    parts = [
        dict.fromkeys((*_USAGES.get(word, ()), *((TDM,) if word == "all" and not allowed else ())), (allowed, ""))
        for allowed, word in said
        if not (allowed and bound)
    ]
    return {purpose: allowed for purpose, (allowed, _) in stricter(*parts).items()}
