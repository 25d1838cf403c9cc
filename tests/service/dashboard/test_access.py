"""Where to listen and who may look: no socket involved."""

from __future__ import annotations

import pytest

from crawler.base.settings.parts import DashboardSettings
from crawler.service.dashboard.access import names_this_machine
from crawler.service.dashboard.feed import Feed
from crawler.service.dashboard.listen import parse_listen
from crawler.service.dashboard.server import Dashboard


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


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0", "example.com:0"])
@pytest.mark.parametrize("token", [None, ""])
def test_beyond_loopback_a_token_is_needed(listen: str, token: str | None) -> None:
    with pytest.raises(ValueError, match="needs a token"):
        Dashboard(DashboardSettings(listen=listen, token=token), Feed(dict, float))


@pytest.mark.parametrize("header", ["127.0.0.1:8080", "localhost", "LOCALHOST:9", "[::1]:8080", "[::1]", "127.0.0.1"])
def test_names_of_this_machine_are_answered(header: str) -> None:
    assert names_this_machine(header)
