"""Signs that a page needs its scripts: its HTML lacks the content that a browser would show.

    text        hardly any visible text; required for all other signs
    mount       an empty element for a script to fill: ``<div id="root"></div>``, ``<app-root></app-root>``
    template    markup that a script repeats or loads: ``v-for``, ``x-for``, ``hx-trigger="load"``; a frame or a shadow
                root that is written in the page
    writes      a script of the page makes elements with links, or fetches content
    scripts     it has script files of its own site, or modules
    noscript    ``noscript`` mentions JavaScript
    links       at most one link

Signs are returned only if together they show that the page needs scripts: hardly any text and the mount point of a
framework, a template, or an empty element that a script of the page fills; or almost no visible content, and a trace of
scripts that would show it. A page that is merely short has text, a form, pictures or a redirect, or only scripts that
count visitors. A server-rendered page contains its text. Pages with their own text whose lists come from scripts in
other files are not recognised.

Tags are read one by one, without a tree, and reading stops after ``TEXT_MOST`` bytes of text, so usually only the start
of a page is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

LINKS_MOST = 8  # maximum links of a page without content, for example to an imprint
TEXT_MOST = 200  # maximum bytes of text, not counting white space
BLANK_MOST = 40  # ... for a page that shows only its name
MEDIA_MOST = 2  # maximum pictures on the page
SIZE_MOST = 1024 * 1024  # maximum bytes that are read of the page, and ...
WORDS_MOST = 16 * 1024  # ... of the content between two tags
TAGS_MOST = 2_000
TAG_MOST = 4 * 1024  # maximum bytes of a tag
INSIDE = 64  # bytes after a tag that are examined
BLOCKS_MOST = 20  # maximum number of empty elements that a script may name
ENDS_MOST = 50  # maximum end tags; counting them rules out most pages at a tenth of the cost
QUICK = 8 * 1024  # bytes at the start and at the end of the page in which end tags are counted

_CAUSES = (b"<script", b"<SCRIPT", b"srcdoc", b"shadowrootmode")
_TAG = re.compile(rb"""<(!--|[/!?]?[a-zA-Z][a-zA-Z0-9:_-]*+)(?:[^>"']++|"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z))*+(?:>|\Z)""")
_HIDDEN = (b"script", b"style", b"noscript", b"template", b"title", b"svg", b"iframe")
_ENDS = {name: re.compile(rb"</(?i:%b)(?=[\s>/])[^>]*+>?" % name) for name in _HIDDEN} | {b"!--": re.compile(b"-->")}
_SHOWN = dict.fromkeys((b"img", b"video", b"audio", b"object", b"embed", b"iframe", b"frame", b"canvas"), 1)
_SHOWN |= dict.fromkeys((b"input", b"textarea", b"select"), 1 + MEDIA_MOST)  # a single form field counts as content
_WAITS = re.compile(rb"(?i:hidden|spin|loader|progress|splash)")  # in a field, or in the name of a picture
_UNSEEN = re.compile(rb"&(?:nbsp|zwnj|hellip|#160);|(?i:loading|please wait)|[\s.\xc2\xa0\xe2\x80\xa6]+")
_ID = re.compile(rb"""[\s"'](?i:id)\s*+=\s*+["']?([^\s"'>]++)""")
_MOUNTS = re.compile(
    rb"(?i)_*(?:next|nuxt|gatsby)|svelte|q-app|main|article|content|(?:react|vue|main|my)?[-_]?(?:root|app)(?:-root)?"
)
_TEMPLATE = re.compile(
    rb"""\s(?:[vx]-for|(?:data-)?ng-(?:repeat|view)|ui-view|\*ngFor|srcdoc\s*=|shadowrootmode|hx-trigger\s*=\s*["']?[lri])"""
)
_OWN = re.compile(rb"""(?i)type\s*=\s*["']?module|src\s*=\s*["']?(?!//|https?:)[^\s"'>]""")
_MAKES = re.compile(rb"createElement|innerHTML|insertAdjacent|document\.write|\.(?:append|html|replace)|attachShadow")
_LINKS = re.compile(rb"(?<!location\.)href|<a[\s>\\]|\bfetch\s*\(|XMLHttp|\.(?:ajax|get|getJSON|load)\s*\(|Worker\s*\(")
_LEAVES = re.compile(rb"location(?:\.href)?\s*=[^=]|location\.(?:replace|assign)\s*\(")


def signs_of(body: bytes, links: int, *, moves: bool = False) -> tuple[str, ...]:
    """Return the signs that an HTML page with ``links`` links needs scripts; none for most pages. ``moves``: it
    redirects its visitors."""
    if links > LINKS_MOST or moves or body.count(b"</", -QUICK) > ENDS_MOST or body.count(b"</", 0, QUICK) > ENDS_MOST:
        return ()
    body = body[:SIZE_MOST]
    if not any(each in body for each in _CAUSES):
        return ()
    signs, blocks, scripts = set[str](), list[bytes](), list[bytes]()
    text, media, mount, depth, before = 0, 0, b"", 0, 0
    for words, name, tag, inside in _tags(body):
        text += len(_UNSEEN.sub(b"", words[:WORDS_MOST])) if words else 0
        media += 0 if _WAITS.search(tag) else _SHOWN.get(name, 0)
        if text > TEXT_MOST or media > MEDIA_MOST:
            return ()
        signs |= _said(name, tag, inside)
        if name == b"script" and b"json" not in tag:
            scripts.append(inside)
        depth += (name == mount) - (name == b"/" + mount)
        if mount and not depth:
            signs |= {"mount"} if text + media == before else set()
            mount = b""
        if name[:1] != b"/":
            found = _ID.search(tag)
            word = name if found is None else found[1]
            if _MOUNTS.fullmatch(word) or _MOUNTS.fullmatch(name):
                mount, depth, before = name, 1, text + media
            elif (found or b"-" in name) and _UNSEEN.sub(b"", inside[:INSIDE]).startswith(b"</"):
                blocks.append(word)
    if mount and text + media == before:
        signs.add("mount")
    script = b"\n".join(scripts)
    named = (re.search(rb"""["'`#.]%b["'`\s]""" % re.escape(word), script) for word in blocks[:BLOCKS_MOST])
    is_blank, is_named = links <= 1 and not media and text <= BLANK_MOST, any(named)
    if (is_blank or is_named) and _MAKES.search(script) and _LINKS.search(script):
        signs |= {"mount", "writes"} if is_named else {"writes"}
    if not signs & {"mount", "template"}:
        # A page with a word of text does not count as blank if its only scripts are counters, comments or widgets.
        traced = "writes" in signs or ("scripts" in signs and blocks) or (signs and not text)
        if not (is_blank and traced) or _LEAVES.search(script):
            return ()
    return ("text", *sorted(signs | ({"links"} if links <= 1 else set())))


def _said(name: bytes, tag: bytes, inside: bytes) -> set[str]:
    """Return the signs of one tag, or of its hidden content."""
    if (b"=" in tag and _TEMPLATE.search(tag)) or (name == b"template" and _TEMPLATE.search(inside)):
        return {"template"}
    if name == b"script" and (_OWN.search(tag) or b"import(" in inside or b"import " in inside):
        return {"scripts"}
    return {"noscript"} if name == b"noscript" and b"javascript" in inside.lower() else set()


def _tags(body: bytes) -> Iterator[tuple[bytes, bytes, bytes, bytes]]:
    """Yield the tags, each with the text before it, its name in lower case, and its hidden or following content. The
    last item is the text after them."""
    at = 0
    for _ in range(TAGS_MOST):
        tag = _TAG.search(body, at)
        if tag is None:
            yield body[at:], b"", b"", b""
            return
        words, name, at = body[at : tag.start()], tag[1].lower(), tag.end()
        inside = body[at : at + INSIDE]
        if name in _ENDS:
            close = _ENDS[name].search(body, tag.start() + 4)
            inside = body[at : len(body) if close is None else close.start()]
            at = len(body) if close is None else close.end()
        yield words, name, tag[0][:TAG_MOST], inside
