"""Files with terms of use: ``/.well-known/tdmrep.json`` (TDMRep) and licenses in XML (RSL 1.0). Bytes in, rules out.

A rule consists of a path pattern, as in robots.txt, and the uses that it allows or refuses. Of the rules of one file,
those with the longest matching pattern count.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from xml.etree import ElementTree

from crawler.url.consent.statements import AI_INPUT, AI_TRAIN, RESERVATION, RESERVED, SEARCH, TDM, PathStatements, Uses

TDMREP = "/.well-known/tdmrep.json"
_USAGES = {
    "search": (SEARCH,),
    "ai-input": (AI_INPUT,),
    "ai-train": (AI_TRAIN,),
    "train-ai": (AI_TRAIN,),
    "train-genai": (AI_TRAIN,),
    "ai-all": (AI_INPUT, AI_TRAIN),
    "all": (SEARCH, AI_INPUT, AI_TRAIN, TDM),  # no usage names ``tdm`` alone
}
_UNPAID = {"free", "attribution"}
_PATH = re.compile(r"https?://([^/?#]*)(.*)", re.IGNORECASE | re.DOTALL)

Rules = list[tuple[str, Uses]]  # path patterns


TDM_FILE, RSL_FILE = "tdmrep.json", "RSL license"  # sources in records
# Rules by file: ``TDM_FILE``, or the URL of a license as robots.txt writes it or a page names it. Empty: no such file.
Terms = dict[str, Rules]


def read_terms(kind: str, body: bytes, href: str) -> tuple[Rules, str | None]:
    """Return the rules of a file for the host of ``href``, and the reason if the file cannot be read."""
    authority = href.split("/", 3)[2].rpartition("@")[2]
    try:
        found = _tdmrep(body) if kind == TDM_FILE else _license(body)
    except (ValueError, LookupError, RecursionError, ElementTree.ParseError) as error:
        return [], str(error)
    rules = ((_path(location, authority), uses) for location, uses in found if uses)
    return [(path, uses) for path, uses in rules if path is not None], None


def terms_statements(file: str, rules: Rules) -> PathStatements:
    """Return the statements of the rules of a file, by path."""
    source = TDM_FILE if file == TDM_FILE else RSL_FILE
    return PathStatements((path, {use: (word, source) for use, word in uses.items()}) for path, uses in rules)


def _path(location: str, authority: str) -> str | None:
    """Return the path pattern of a location, in Latin-1; None if the location is on another host."""
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
        if isinstance(each, dict) and isinstance(each.get("location"), str):
            rules.append((each["location"], RESERVED.get(str(each.get(RESERVATION)).strip(), {})))
    return rules


class _NoDoctype(ElementTree.TreeBuilder):
    """Refuses documents with a document type, and thus with entities."""

    def doctype(self, *_: object) -> None:
        raise ValueError("it has a document type")


def _license(body: bytes) -> Rules:
    """Return the rules of an RSL document. A use is allowed by a license that demands no payment and no license server,
    and does not restrict who may use the page or where. A use is refused by any license that prohibits it."""
    rules: Rules = []
    for content in ElementTree.fromstring(body, ElementTree.XMLParser(target=_NoDoctype())).iterfind(".//{*}content"):
        permitted, prohibited = dict[str, str](), dict[str, str]()
        for license in content.iterfind("{*}license"):
            said = {word: license.findall(f"{{*}}{word}") for word in ("permits", "prohibits", "payment")}
            kinds = {each.get("type", "usage") for each in (*said["permits"], *said["prohibits"])}
            paid = {each.get("type", "free").lower() for each in said["payment"]} - _UNPAID
            free = not paid and "server" not in content.attrib and kinds == {"usage"}
            permitted |= {purpose: "yes" for purpose in _named(said["permits"]) if free and purpose != TDM}
            prohibited |= dict.fromkeys(_named(said["prohibits"]), "no")
        rules.append((content.get("url", "/"), permitted | prohibited))
    return rules


def _named(elements: Iterable[ElementTree.Element]) -> list[str]:
    """Return the purposes that elements of the type "usage" name."""
    texts = ["".join(each.itertext()).lower() for each in elements if each.get("type", "usage") == "usage"]
    return [purpose for word in re.split(r"[,\s]+", ",".join(texts)) for purpose in _USAGES.get(word, ())]
