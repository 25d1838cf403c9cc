"""Detects generated ids in links: URLs that a host makes up at each visit and that show a page already seen.

Parameter names prove nothing; the decision is based on visits of the host. The *forms* of a URL are the parts that may
vary:

    ?sid=* ;sid=*    a parameter of the query or the path; its value has a digit among 8 characters, or 16 characters
    ?n=              a parameter with any other value
    /1/((*))         an id in a path segment: the number of the segment, and the punctuation around the id
    several          all ids of the URL together
    & //             repeated query pairs or path segments: a URL that grows by itself

The *rest* is the URL without a form. A visit is evidence for the form if its rest was seen before, its page was seen
before (ignoring the values that its links have in that place), and it brings new links. Pages are compared by their
bytes. A page that states a canonical URL is compared by that URL and its text, and without its numbers if the canonical
URL has none of these values; a page whose URL grows is compared by its text. Values that are not ids are evidence only
once. A page that links to no other values, or whose bytes are those of another page, is not evidence: such pages lead
to nothing new. A rest whose pages differ more than once counts against the form, as much as four pages count for it:
``?t=`` of a forum leads to different threads, even if many are empty.

Evidence from N visits, of at least two pages, closes a form: further URLs with it are refused if their rest was seen. A
form with only one page, or with values that are not ids, needs five times as much evidence. N is
``traps.max_id_copies``. Everything is counted under digests (``counts``), in the batch of the step that finishes the
page.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from crawler.base.kv import Batch
from crawler.frontier.traps.copies import TAG, content_digest
from crawler.frontier.traps.counts import Counts, digest_of
from crawler.frontier.traps.shape import fold
from crawler.frontier.traps.soft404 import without_hidden
from crawler.url.urls.host_key import host_key

MAX_ID_COPIES = 8  # visits that find a page again under another id, such as a session id
SLOWER = 5  # multiplier of the required evidence where the evidence is weaker
FORMS_MOST = 8  # maximum number of forms of a URL, not counting those for all ids together and for growth
CLOSED_MOST = 64  # maximum number of closed forms of a host
BODY_MOST = 2**18  # masking a larger page would delay the crawl
_LONG = 16  # length from which any value counts as an id
_ANYWHERE = 8  # least length of an id that is also masked outside links, for example in a hidden field
_ANYWHERE_MOST = 4  # maximum number of ids of a page that are masked in this way
_ID = (
    r"(?<![0-9A-Za-z])(?:[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
    r"|(?=[A-Za-z]*[0-9])[0-9A-Za-z]{8,}+)(?![0-9A-Za-z])"
)
_HAS_ID = re.compile(_ID)
_IDS = re.compile(_ID.encode("ascii"))
_WORD = re.compile("[0-9A-Za-z_]+")
_NUMBERS = re.compile(rb"[0-9]+")
_PAIR = re.compile(r";[^/;?]*|[?&][^&]*")
_SEEN, _PAGE, _DIFFERENT, _COUNTED = 1, 2, 4, 8  # states of a rest (3: one of its pages was different)


class Form(Struct, frozen=True):
    """The ``parts`` of a URL that vary, its ``rest`` without them, and the ``value`` found there."""

    parts: tuple[str, ...]
    rest: str = ""
    value: str = ""

    @property
    def name(self) -> str:
        return " ".join(self.parts)

    @property
    def words(self) -> str:
        return "the parts of URLs repeat" if self.grows else f"URLs differ in session ids like {self.name}"

    @property
    def grows(self) -> bool:
        return self.name in ("&", "//")

    @property
    def is_id(self) -> bool:
        return not self.name.endswith("=")


Sight = tuple[Form, bytes | None]  # the form of a visited URL, and the page's identity if the visit is evidence


def forms_of(href: str) -> list[Form]:
    """Return the forms of a URL."""
    target = href[href.find("/", 8) :]
    path, mark, _ = target.partition("?")
    segments = path.split("/")[1:]
    repeats = len(set(segments)) < len(segments)
    if not (mark or repeats or ";" in path or _HAS_ID.search(path)):
        return []
    found = []
    if repeats:
        found.append(Form(("//",), "/".join(sorted(set(segments))), target))
    pairs = _PAIR.findall(target)
    if len(distinct := sorted({pair[1:] for pair in pairs})) < len(pairs):
        found.append(Form(("&",), f"{path}?{'&'.join(distinct)}", target))
    values: dict[str, str] = {}
    for place, segment in enumerate(segments, 1):
        if _HAS_ID.search(segment := segment.partition(";")[0]):
            values[f"/{place}/{_WORD.sub('', _HAS_ID.sub('*', segment))}"] = segment
    for pair in pairs:
        name, value = _name(pair)
        values[name] = values.get(name, "") + value
    names = sorted(values, key=lambda name: name.endswith("="))[:FORMS_MOST]
    ids = sorted(name for name in names if not name.endswith("="))
    if len(ids) > 1:
        found.append(Form(tuple(ids), _without(target, ids)))
    return found + [Form((name,), _without(target, [name]), values[name]) for name in names]


class Ids:
    """The forms of all hosts of a job. ``closed`` maps a host to the names of its refused forms."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self.closed: dict[str, set[str]] = {}

    def look(self, href: str, body: bytes, canonical: str | None, *, is_new: bool) -> list[Sight]:
        """Return the evidence of a page for the forms of its URL.

        ``is_new`` is True if no other page of its host has its bytes.
        """
        if len(body) > BODY_MOST or not (forms := forms_of(href)):
            return []
        host, sights = host_key(href), list[Sight]()
        for form in forms:
            state = self._counts.number(_key(host, form, form.rest)) & ~_COUNTED
            page = None
            if state not in (0, _DIFFERENT) and (is_new or form.grows):
                page = _page(form, body, canonical)
            if state != _DIFFERENT:
                sights.append((form, page))
        return sights

    def note(self, href: str, sights: Sequence[Sight], batch: Batch) -> tuple[list[Form], int]:
        """Count a visit. Returns the forms that it closes, and the total increase of all counts."""
        host, grown, closing = host_key(href), 0, list[Form]()

        def add(key: bytes, number: int = 1) -> None:
            nonlocal grown
            grown += self._counts.set(key, self._counts.number(key) + number, batch)

        for form, page in sights:
            rest = _key(host, form, form.rest)
            state = self._counts.number(rest)
            if not state:
                add(rest)
            if page is None or not state:
                continue
            mark, value = _key(host, form, page.hex()), _key(host, form, f"value {form.value}")
            times = self._counts.number(mark)
            if not times:
                add(rest)
                if self._counts.number(rest) & ~_COUNTED == _DIFFERENT:
                    add(_key(host, form, "against"))
            elif form.is_id or not self._counts.number(value):
                add(form_key(host, form))
                if times == 1 and not state & _COUNTED:
                    add(rest, _COUNTED)
                    add(_key(host, form, "pages"))
            add(mark)
            if not form.is_id and not self._counts.number(value):
                add(value)
            names = self.closed.get(host, set[str]())
            if form.name not in names and len(names) < CLOSED_MOST and self.is_closed(host, form):
                self.closed[host] = names | {form.name}
                closing.append(form)
        return closing, grown

    def is_closed(self, host: str, form: Form) -> bool:
        """Return True if there is enough evidence to close the form."""
        pages = self._counts.number(_key(host, form, "pages"))
        slow = not form.grows and (pages < 2 or not form.is_id)
        enough = self._counts.number(form_key(host, form)) >= MAX_ID_COPIES * (SLOWER if slow else 1)
        return enough and 4 * self._counts.number(_key(host, form, "against")) <= pages

    def met(self, href: str, changed: dict[bytes, int] | None = None) -> Form | None:
        """Return the closed form that refuses a URL because its rest was seen before, or None.

        If ``changed`` is given, an accepted URL marks its rest as seen there.
        """
        names = self.closed.get(host := host_key(href))
        if not names:
            return None
        forms = [form for form in forms_of(href) if form.name in names]
        for form in forms:
            next_key = _key(host, form, f"next {form.rest}")
            is_next = changed is not None and changed.get(next_key, self._counts.number(next_key))
            if is_next or self._counts.number(_key(host, form, form.rest)):
                return form
        if changed is not None:
            changed |= {_key(host, form, f"next {form.rest}"): 1 for form in forms}
        return None


def form_key(host: str, form: Form) -> bytes:
    """Return the key of the evidence count of a form."""
    return digest_of(f"{host} {form.name} ids")


def _key(host: str, form: Form, what: str) -> bytes:
    return digest_of(f"{host} {form.name} ids {what}")


def _name(pair: str) -> tuple[str, str]:
    """Return the name of the part that a pair forms, and its value."""
    name, _, value = pair[1:].partition("=")
    value = value or name
    is_id = len(value) >= _LONG or _HAS_ID.search(value)
    return f"{';' if pair[0] == ';' else '?'}{fold(name)}={'*' if is_id else ''}", value


def _without(target: str, names: Sequence[str]) -> str:
    segments = target.split("/")
    for name in names:
        if name[0] == "/":
            place = int(name[1 : name.index("/", 1)])
            segment = re.split("[;?]", segments[place])[0]
            segments[place] = _HAS_ID.sub("*", segment) + segments[place][len(segment) :]
    return _PAIR.sub(lambda pair: "" if _name(pair[0])[0] in names else pair[0], "/".join(segments))


def _page(form: Form, body: bytes, canonical: str | None) -> bytes | None:
    """Return the identity of a page, ignoring the values that its links have where the form varies."""
    own, others = form.value.encode("ascii"), dict[bytes, None]()

    def masked(found: re.Match[bytes]) -> bytes:
        if found[1] == own:
            return found[0]  # the page contains its own value
        others[found[1]] = None
        return b""

    stated, left = (canonical or "").encode("utf-8", "replace"), body
    for mask in () if form.grows else map(_mask, form.parts):
        left, stated = mask.sub(masked, left), mask.sub(masked, stated)
    if not (others or form.grows):
        return None
    if form.grows or stated:
        left = TAG.sub(b" ", without_hidden(body))
    if canonical and stated == canonical.encode("utf-8", "replace"):
        left = _NUMBERS.sub(b"0", left)  # the page states another canonical URL: clocks and counters may differ
    long = {part for value in others for part in _IDS.findall(value) or [value] if len(part) >= _ANYWHERE}
    for value in long if len(long) <= _ANYWHERE_MOST else ():
        left = left.replace(value, b"")
    return content_digest(left if form.grows else left + b"\0" + stated)


@lru_cache(maxsize=1_024)
def _mask(part: str) -> re.Pattern[bytes]:
    """Return the pattern to mask in a page; its first group is the value."""
    if part[0] == "/":
        signs = (_ID if sign == "*" else re.escape(sign) for sign in part.split("/")[2])
        inner = "[0-9A-Za-z_]*".join(["", *signs, ""]).encode("ascii")
        return re.compile(rb"(?<=[/\"'=])(" + inner + rb")(?=[/?;#\"'\s>])")
    name = re.escape(unquote_to_bytes(part[1:].removesuffix("*").removesuffix("=")))
    name = name.replace(rb"\#", b"[0-9]+").replace(rb"\*", b"[0-9A-Za-z-]+")
    end = rb"/?" if part[0] == ";" else b""
    return re.compile(rb"(?:&amp;|[?&;])(?:" + name + rb"(?=[=&\"'<>\s#/?;])=?)([^&;\"'<>\s#" + end + rb"]*)")
