"""URLs as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.url.urls.canonicaliser import Canonical, Canonicaliser
from crawler.url.urls.typed import completed


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("example.org", "https://example.org"),
        ("  example.org \r\n", "https://example.org"),
        ("www.example.org/path?x#y", "https://www.example.org/path?x#y"),
        ("example.org?x", "https://example.org?x"),
        ("//example.org/x", "https://example.org/x"),
        ("example.org:8443/a:b", "https://example.org:8443/a:b"),
        ("example.org:80", "http://example.org:80"),
        ("localhost", "http://localhost"),
        ("localhost:8000/x", "http://localhost:8000/x"),
        ("intranet:8080", "https://intranet:8080"),
        ("127.0.0.1", "http://127.0.0.1"),
        ("127.0.0.1:443/", "https://127.0.0.1:443/"),
        ("[::1]:8080/x", "http://[::1]:8080/x"),
        ("2001:db8::1", "http://[2001:db8::1]/"),
        ("bücher.example/ä", "https://bücher.example/ä"),
        ("例え.jp", "https://例え.jp"),
        ("example.org.", "https://example.org."),
        ("example.org/a b", "https://example.org/a b"),
    ],
)
def test_what_lacks_a_scheme_gets_one(text: str, url: str) -> None:
    assert completed(text) == url
    assert isinstance(Canonicaliser().canonicalise(url), Canonical)


@pytest.mark.parametrize(
    "text",
    [
        *("", "nonsense", "intranet", "intranet/wiki", "/path", "./x.y", "../x.y", "?x.y", "#x", ".", "..", "a..b"),
        *("http://a/", "HTTPS:/example.org", "https:example.org", "ftp://x.y", "mailto:a@b.org", "javascript:alert(1)"),
        *("C:\\urls.txt", "C:/urls.txt", "\\\\server\\share", "tel:112", "a@b.org", "user:pw@example.org"),
        *("17,example.org", "1.5", "127.1", "1.2.3.4.5", "999.1.1.1", "*.example.org", "foo bar.com", "example.org, x"),
        *("example.org:99999", "example.org:", "example.org:80:90", "[::1", "[zz]", "fe80::1%eth0", "12:30:45"),
    ],
)
def test_what_has_one_or_names_no_host_is_left_alone(text: str) -> None:
    assert completed(text) is None


@given(st.text(alphabet="ab.:/[]@#?%0189 \\-é\x00\n", max_size=20))
def test_what_is_completed_is_complete(text: str) -> None:
    url = completed(text)
    if url is not None:
        assert url.startswith(("http://", "https://"))
        assert completed(url) is None
