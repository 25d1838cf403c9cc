"""Properties that hold for any text: the fast ways agree with the steps, keys are ASCII and stay what they are."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from crawler.url.urls.canonicaliser import Canonical, Canonicaliser
from crawler.url.urls.host_key import host_key
from crawler.url.urls.normalising_steps import STEPS, identity
from crawler.url.urls.whatwg import TRIMMED, Rejected
from tests.examples import TIMES
from tests.url.urls.made import absolute, bases, reference, rule_choices, texts

many = settings(max_examples=82 * TIMES)


@many
@given(texts | absolute(), st.none() | bases, rule_choices)
def test_agrees_with_parser_and_steps(text: str, base: str | None, rules: list[str]) -> None:
    assert Canonicaliser(rules).canonicalise(text, base) == reference(text, base, rules)


@many
@given(bases, st.lists(texts, max_size=8), rule_choices)
@example("http://h/", ["http://a.com/", "http://a.com", "http://a.comx"], [])
@example("http://h/a", ["b ", "b #c", "b", "b#c"], [])
@example("http://h/", ["\ud800\n\udc00"], [])
@example("http://h/a/b", ["../c?", "../../c", "..", "../.", "../\0", "?", "c?\n", "?"], [])
@example(
    "http://127.0.0.1:8080/a/b", ["c", "http://127.0.0.1:8080/d?", "http://127.0.0.1:08080/d", "//u@127.0.0.1/"], []
)
@example(
    "http://xn--fsq.test/a", ["http://xn--fsq.test/b", "//xn--fsq.test", "http://XN--fsq.test/b", "http://xn--/"], []
)
def test_links_of_a_page_agree_with_parser_and_steps(base: str, hrefs: list[str], rules: list[str]) -> None:
    canonicaliser = Canonicaliser(rules)
    expected: dict[str, Canonical] = {}
    rejected: set[str] = set()
    for text in hrefs:
        one = reference(text, base, rules)
        if isinstance(one, Rejected):
            trimmed = text.strip(TRIMMED).replace("\n", "")
            rejected.add(trimmed.partition("#")[0])
        else:
            expected.setdefault(one.key, one)
    # The second time, hosts are remembered.
    for _ in range(2):
        assert canonicaliser.outlinks(base, hrefs) == (list(expected.values()), len(rejected))
        *traced, sources = canonicaliser.traced_outlinks(base, hrefs)
        assert tuple(traced) == (list(expected.values()), len(rejected))
        # A fragment keeps white space at the end of a link from being trimmed.
        again = [canonicaliser.canonicalise(source + "#", base) for source in sources]
        assert again == list(expected.values())


@many
@given(st.lists(absolute() | texts, max_size=8), rule_choices)
@example(["http://a.com/", "http://a.com", "http://a.comx", "http://a.com?b/c", "http://a.com/?"], [])
@example(["http://a.com/ #b", "http://a.com/ ", "http://a.com/\r", "http://a.com/\nb", ""], [])
def test_keys_of_a_list_agree_with_parser_and_steps(urls: list[str], rules: list[str]) -> None:
    canonicaliser = Canonicaliser(rules)
    expected = [one if isinstance(one := reference(url, None, rules), Rejected) else one.key for url in urls]
    for _ in range(2):
        assert canonicaliser.keys(urls) == expected
    assert [key for url in urls for key in canonicaliser.keys([url])] == expected


@many
@given(texts, bases)
def test_one_pass_equals_the_steps(text: str, base: str) -> None:
    got = Canonicaliser().canonicalise(text, base)
    if not isinstance(got, Rejected):
        key = got.href
        for step in STEPS:
            key = step(key)
        assert identity(got.href) == key


@many
@given(texts | absolute(), bases, rule_choices)
def test_key_is_ascii_and_its_own_key(text: str, base: str, rules: list[str]) -> None:
    canonicaliser = Canonicaliser(rules)
    got = canonicaliser.canonicalise(text, base)
    if not isinstance(got, Rejected):
        assert got.href.isascii()
        assert got.key.isascii()
        assert canonicaliser.canonicalise(got.key) == (got.key, got.key)


@many
@given(texts | absolute(), st.none() | bases, rule_choices)
def test_explanation_ends_with_the_key_or_the_reason(text: str, base: str | None, rules: list[str]) -> None:
    canonicaliser = Canonicaliser(rules)
    got = canonicaliser.canonicalise(text, base)
    told = canonicaliser.explain(text, base)
    if isinstance(got, Rejected):
        assert told[-1] == ("rejected", got.reason)
    else:
        assert dict(told)["drop userinfo"] == got.href
        assert told[-1][1] == got.key


def test_unknown_rule_is_named_with_the_nearest() -> None:
    with pytest.raises(ValueError, match="sort_qery"):
        Canonicaliser(["drop-www", "sort_qery"])


@pytest.mark.parametrize(
    ("text", "server"),
    [
        ("https://example.com/a?b", ("https", "example.com", "example.com:443")),
        ("http://example.com:8080/", ("http", "example.com", "example.com:8080")),
        ("HTTP://u:p@EXAMPLE.com:80/", ("http", "example.com", "example.com:80")),
        ("http://[::1]/", ("http", "[::1]", "[::1]:80")),
        ("https://[::1]:8443/@:1/", ("https", "[::1]", "[::1]:8443")),
    ],
)
def test_a_canonical_url_names_its_server(text: str, server: tuple[str, str, str]) -> None:
    url = Canonicaliser().canonicalise(text)
    assert isinstance(url, Canonical)
    assert (url.scheme, url.host, host_key(url.href)) == server
    assert url == (url.href, url.key), "what it is compared and stored by is these two"
