"""Links in the headers of an answer: ``Link`` (RFC 8288) and ``Refresh``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from crawler.base.settings.parts import LinkSettings
from crawler.web.links.refresh import parse_refresh

LINKS_MOST = 100  # maximum links of one answer
_VALUES = 16  # maximum headers that are read
_CHARACTERS = 16_384  # characters read of each header
RSL = "application/rsl+xml"

SPACE = " \t\n\f\r"
_RELATIONS = {"canonical": "canonical", "next": "next", "prev": "next", "previous": "next", "alternate": "alternate"}
# Relations of resources that a browser loads to show the page. With one of these, `alternate` means another style or
# icon, not another page.
RESOURCES = frozenset(
    (
        "stylesheet",
        "icon",
        "apple-touch-icon",
        "apple-touch-icon-precomposed",
        "mask-icon",
        "manifest",
        "preload",
        "modulepreload",
    )
)
_PAGE_TYPES = frozenset(("", "text/html", "application/xhtml+xml"))
# Kinds of links without a setting of their own: feeds are enabled if a run revisits pages, Markdown if a run keeps it.
FEED, MARKDOWN = "feed", "markdown"
_ALTERNATES = {
    FEED: frozenset(("application/rss+xml", "application/atom+xml", "application/rdf+xml")),
    MARKDOWN: frozenset(("text/markdown",)),
}
# A target and its parameters. The pattern is unambiguous, so it never backtracks.
_LINK = r"""(?x)
    <(?P<target>[^<>]*+)>
    (?P<parameters>
      (?: [ \t]*+ ; [ \t]*+ [^\s=;,"<>]*+ (?: [ \t]*+ = [ \t]*+ (?: "(?:[^"\\]|\\.)*+" | [^\s";,]*+ ) )?+ )*+
    )"""
_PARAMETER = r"""(?x)
    ; [ \t]*+ (?P<name>[^\s=;,"<>]++) [ \t]*+ = [ \t]*+
    (?: "(?P<quoted>(?:[^"\\]|\\.)*+)" | (?P<plain>[^\s";,]*+) )"""


def header_links(links: Sequence[str], refresh: str | None, settings: LinkSettings) -> tuple[list[str], str | None]:
    """Return the distinct targets, as written, of the enabled kinds, and the URL of the first RSL terms of use.
    ``links`` are the values of ``Link``, ``refresh`` is the value of ``Refresh``.

    A link about another resource (``anchor``) is ignored."""
    found: dict[str, None] = {}
    license = None
    for value in links[:_VALUES]:
        for link in re.finditer(_LINK, value[:_CHARACTERS]):
            target, given = link["target"].strip(SPACE), _given(link["parameters"])
            if "anchor" in given:
                continue
            if names_license(given.get("rel", ""), given.get("type", "")):
                license = license or target or None
            if len(found) < LINKS_MOST and _names_a_page(given, settings):
                found[target] = None
    moves = None if refresh is None or "refresh" not in settings.kinds else parse_refresh(refresh[:_CHARACTERS])
    if moves is not None and moves.target:
        found[moves.target] = None
    return list(found), license


def names_license(rel: str, media_type: str) -> bool:
    """Return whether a link with these attributes leads to terms of use in RSL."""
    return media_type.partition(";")[0].strip(SPACE).lower() == RSL and "license" in rel.lower().split()


def _given(parameters: str) -> dict[str, str]:
    given: dict[str, str] = {}
    for parameter in re.finditer(_PARAMETER, parameters):
        value = parameter["plain"] if parameter["quoted"] is None else re.sub(r"\\(.)", r"\1", parameter["quoted"])
        given.setdefault(parameter["name"].lower(), value.lower())  # the first one counts (RFC 8288, 3.3)
    return given


def _names_a_page(given: Mapping[str, str], settings: LinkSettings) -> bool:
    """Return whether a link of a header with these parameters names a page."""
    relations = given.get("rel", "").split()
    if settings.respect_rel_nofollow and "nofollow" in relations:
        return False
    return leads_on(relations, given.get("type", ""), settings)


def leads_on(relations: Sequence[str], media_type: str, settings: LinkSettings) -> bool:
    """Return whether a link with these relations and this media type (empty if not stated) names a page of an enabled
    kind. Both are in lower case."""
    kinds = {_RELATIONS.get(relation) for relation in relations}
    if not RESOURCES.isdisjoint(relations):
        kinds.discard("alternate")
    stated = media_type.partition(";")[0].strip(SPACE)
    if "alternate" in kinds and any(kind in settings.kinds and stated in _ALTERNATES[kind] for kind in _ALTERNATES):
        return True
    return not kinds.isdisjoint(settings.kinds) and stated in _PAGE_TYPES
