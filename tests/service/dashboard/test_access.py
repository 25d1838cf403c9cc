"""Where to listen and who may look: no socket involved."""

from __future__ import annotations

import pytest

from crawler.service.dashboard.access import cookie_name, names_this_machine, parse_listen


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


@pytest.mark.parametrize("header", ["127.0.0.1:8080", "localhost", "LOCALHOST:9", "[::1]:8080", "[::1]", "127.0.0.1"])
def test_names_of_this_machine_are_answered(header: str) -> None:
    assert names_this_machine(header)


FOREIGN = (
    *("", "evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.", "[::2]"),
    *("[::1]evil", "[::1]evil:80"),
    *("[::1].evil.example", "[::1", "::1]", "::1", "[localhost]", "[127.0.0.1]", "localhost:8080:80", "localhost:port"),
    *("evil@localhost", "localhost/evil", "localhost evil", "localhost\n"),
    *("localhost:\N{SUPERSCRIPT TWO}", "localhost%00"),
)


@pytest.mark.parametrize("header", FOREIGN)
def test_everything_else_is_foreign(header: str) -> None:
    assert not names_this_machine(header)


def test_the_cookies_of_two_dashboards_on_a_host_have_different_names() -> None:
    assert cookie_name("localhost:8080") == cookie_name("[::1]:8080") != cookie_name("localhost:8081")
    assert cookie_name("localhost") == cookie_name("[::1]evil") != cookie_name("localhost:80")
