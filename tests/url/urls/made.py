"""Hypothesis strategies for URLs, valid and not, and the slow reference that the fast code is held to."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from crawler.url.urls.canonicaliser import Canonical
from crawler.url.urls.normalising_steps import STEPS
from crawler.url.urls.opt_in_rules import RULES, chosen, settle
from crawler.url.urls.whatwg import Rejected, resolve

_PLAIN = "a b-1 _ ~ . .. ... .a a. : a:b @ ; = & + , ' index.html ;jsessionid=1 (S(aaaaaaaaaaaaaaaaaaaaaaaa)) www."
_PERCENT = "%2e %2E%2e %41 %2f %2F %C3%A9 %c3%a9 % %% %2 %zz %7B %7D %7E %5F %3A"
_ODD = ["", " ", "\t", "\n", "\r", "\0", "\x7f", "\u00e9", "\u2028", "\ud800", "\udc00", "\U0001f600", *'\\|[]^`{<"']
_PIECES = st.sampled_from([*_PLAIN.split(), *_PERCENT.split(), *_ODD])

_ASCII_LABELS = "a example com www a-b -a a_b 1 256 0x7f 0x 09 1a a1 xn--a xn--bcher-kva A %41 %2e ab--c xn-- !"
_LABELS = st.sampled_from(
    [*_ASCII_LABELS.split(), "", "\u00e9", "\u00df", "\u05d0", "\ud800", "com\u3002uk", "a\u00adb"]
)
_HOSTS = st.one_of(
    st.sampled_from(["example.com", "www.example.com", "a", "127.0.0.1", "[::1]", "[1::]", "localhost", "1.2.3"]),
    st.lists(_LABELS, min_size=1, max_size=4).map(".".join),
    st.sampled_from(
        ["", "[::1", "[v1.a]", "a b", "a\tb", "a<b", "0x7f.1", "1.2.3.4.5", "4294967296", "a.1.", "host\\x"]
    ),
)
_PORTS = st.sampled_from(
    ["", "", "", ":", ":80", ":443", ":8080", ":080", ":0", ":65535", ":65536", ":99999", ":59999", ":1a", ":-1"]
)
_USERS = st.sampled_from(["", "", "", "", "u@", "u:p@", ":@", "@", "a@b@", "%41:%2f@", "\u00e9@"])
_FETCHED = r"http:// https:// // HTTP:// hTTps: http: http:/ http:/// http:\\"
_FOREIGN = "ftp:// mailto: javascript: data:, file:/// a: 1: : ws://"
_SCHEMES = st.sampled_from([*["http://", "https://"] * 4, *_FETCHED.split(), *_FOREIGN.split(), "java\tscript:"])


@st.composite
def _rests(draw: st.DrawFn) -> str:
    """Path, query and fragment."""
    text = "/".join("".join(segment) for segment in draw(st.lists(st.lists(_PIECES, max_size=2), max_size=5)))
    for mark in "?#":
        if draw(st.booleans()):
            text += mark + "".join(
                draw(st.lists(_PIECES | st.sampled_from(["?", "/", "#", "a=1", "utm_x=1"]), max_size=4))
            )
    return text


_PADS = st.sampled_from(["", "", "", "", "", " ", "\n", "\t ", "\0"])


@st.composite
def absolute(draw: st.DrawFn) -> str:
    """Text with a scheme, most often http or https."""
    authority = draw(_USERS) + draw(_HOSTS) + draw(_PORTS)
    rest = draw(_rests())
    slash = "/" if draw(st.integers(0, 9)) else ""
    return draw(_PADS) + draw(_SCHEMES) + authority + slash + rest + draw(_PADS)


@st.composite
def relative(draw: st.DrawFn) -> str:
    start = draw(
        st.sampled_from(["", "", "/", "/", "./", "../", "../../", "../../../../", "//", "?", "#", "/../", "/./"])
    )
    return draw(_PADS) + start + draw(_rests()) + draw(_PADS)


#: Whatever may stand in an attribute, raw characters of any kind included.
texts = st.one_of(absolute(), relative(), relative(), st.text(st.characters(), max_size=12))

#: Mostly bases that parse, as pages have.
bases = st.one_of(
    st.sampled_from(
        [
            "http://example.com/",
            "https://a.example:8080/b/c/d.html?e",
            "http://127.0.0.1:81//x//y",
            "http://u:p@h/%7e/x",
        ]
    ),
    st.sampled_from(["http://h/a/b/c/d/e/f/g/h/i/j", "https://h/%c3%a9/?", "http://h?q", "mailto:a@b", "a", "data:,x"]),
    absolute(),
)

rule_choices = st.lists(st.sampled_from(list(RULES)), max_size=4, unique=True)


def reference(text: str, base: str | None, rules: Sequence[str] = ()) -> Canonical | Rejected:
    """The parser, then step by step."""
    href = resolve(text, base)
    if isinstance(href, Rejected):
        return href
    key = href
    for step in STEPS:
        key = step(key)
    return Canonical(href, settle(key, chosen(rules)))
