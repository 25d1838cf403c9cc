"""Where to listen and who may look: no socket involved."""

from __future__ import annotations

import pytest

from crawler.base.settings.parts import DashboardSettings
from crawler.service.dashboard.access import (
    Access,
    bearer,
    cookie_matches,
    cookie_value,
    names_this_machine,
    token_matches,
)
from crawler.service.dashboard.feed import Feed
from crawler.service.dashboard.listen import is_loopback, parse_listen
from crawler.service.dashboard.server import Dashboard

WITH = {"Authorization": "Bearer secret"}


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("8080", "127.0.0.1", 8080),
        ("0", "127.0.0.1", 0),
        ("localhost:80", "localhost", 80),
        ("0.0.0.0:65535", "0.0.0.0", 65535),
        ("[::1]:8080", "::1", 8080),
        (" 192.0.2.7:1 ", "192.0.2.7", 1),
    ],
)
def test_addresses_that_can_be_listened_on(text: str, host: str, port: int) -> None:
    assert parse_listen(text) == (host, port)


@pytest.mark.parametrize(
    "text", ["", "host", ":8080", "host:", "::1:8080", "[::1]", "[nonsense]:1", "8080x", "-1", "65536", "1:2:3", "٣"]
)
def test_other_addresses_are_refused_in_one_line(text: str) -> None:
    with pytest.raises(ValueError, match="dashboard") as caught:
        parse_listen(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost", "crawl.localhost"])
def test_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.1", "example.com", "localhost.example.com", ""])
def test_other_machines(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0", "example.com:0"])
@pytest.mark.parametrize("token", [None, ""])
def test_beyond_loopback_a_token_is_needed(listen: str, token: str | None) -> None:
    with pytest.raises(ValueError, match="needs a token"):
        Dashboard(DashboardSettings(listen=listen, token=token), Feed(dict, float))


@pytest.mark.parametrize("header", ["127.0.0.1:8080", "localhost", "LOCALHOST:9", "[::1]:8080", "[::1]", "127.0.0.1"])
def test_names_of_this_machine_are_answered(header: str) -> None:
    assert names_this_machine(header)


@pytest.mark.parametrize("header", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "", "[::2]:80"])
def test_names_that_lead_here_without_being_ours_are_refused(header: str) -> None:
    assert not names_this_machine(header)
    assert Access("secret", to_look=True).refusal("GET", "/", {"Host": header, **WITH}, {}, {}) is None


def test_only_the_token_matches_and_its_cookie_does_not_hold_it() -> None:
    assert token_matches("s3cret", "s3cret")
    assert not token_matches("s3cret", "s3cre")
    assert not token_matches("s3cret", None)
    assert not token_matches("s3cret", "\udcff")
    assert "s3cret" not in cookie_value("s3cret")
    assert cookie_matches("s3cret", cookie_value("s3cret"))
    assert not cookie_matches("s3cret", "s3cret")
    assert not cookie_matches("s3cret", cookie_value("other"))


@pytest.mark.parametrize(
    ("header", "token"),
    [("Bearer abc", "abc"), ("bearer abc ", "abc"), ("Basic abc", None), ("abc", None), (None, None)],
)
def test_bearer_credentials(header: str | None, token: str | None) -> None:
    assert bearer(header) == token
