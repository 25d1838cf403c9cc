"""What the crawler itself refuses to ask, and what permits it. Nothing here opens a socket."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.base.settings.parts import FetchSettings
from crawler.url.refusal.forbidden_targets import Permits, Rule, refusal_of, refusal_of_address, refusal_of_href
from crawler.url.urls.canonicaliser import canonicalise

NOTHING = FetchSettings()
PRIVATE = FetchSettings(allow_private=True)
METADATA = [
    "169.254.169.254",
    "169.254.170.2",
    "100.100.100.200",
    "192.0.0.192",
    "168.63.129.16",
    "fd00:ec2::254",
    "fd20:ce::254",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "2002:a9fe:a9fe::1",
]


def networks(*names: str) -> FetchSettings:
    return FetchSettings(allow_networks=names)


def rule_of(href: str, settings: FetchSettings = NOTHING) -> Rule | None:
    refusal = refusal_of_href(href, settings)
    return None if refusal is None else refusal.rule


@pytest.mark.parametrize(
    "text",
    [
        "http://127.0.0.1/",
        "http://0177.1/",
        "http://0x7f000001/",
        "http://2130706433/",
        "http://127.1:8080/x",
        "http://10.1.2.3/",
        "https://192.168.0.1/",
        "http://0/",
        "http://0.0.0.0/",
        "http://255.255.255.255/",
        "http://224.0.0.1/",
        "http://[::1]/",
        "http://[::]/",
        "http://[::ffff:7f00:1]/",
        "http://[::127.0.0.1]/",
        "http://[64:ff9b::10.0.0.1]/",
        "http://[2002:a00:1::]/",
        "http://[fc00::1]/",
        "http://[ff02::1]/",
        "http://localhost/",
        "http://LOCALHOST.:8080/",
        "http://a.b.localhost/",
        "http://①②⑦.0.0.1/",
    ],
)
def test_literal_addresses(text: str) -> None:
    href = canonicalise(text).href
    assert rule_of(href) is Rule.PRIVATE_ADDRESS
    assert rule_of(href, PRIVATE) is None


@pytest.mark.parametrize(
    "text", ["http://1.1.1.1/", "https://[2606:4700::1111]/", "http://a.test/", "http://metadata.test/"]
)
def test_what_is_not_refused(text: str) -> None:
    assert rule_of(text) is None


@pytest.mark.parametrize(
    ("network", "address", "permitted"),
    [
        ("10.0.0.0/8", "10.255.0.1", True),
        ("10.0.0.0/8", "11.0.0.1", True),  # public: needs no permission
        ("10.0.0.0/8", "192.168.0.1", False),
        ("10.0.0.0/8", "::ffff:10.1.1.1", True),
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "127.0.0.2", False),
        ("fd12::/32", "fd12::1", True),
        ("fd12::/32", "fd13::1", False),
        ("::/0", "10.0.0.1", False),
        ("0.0.0.0/0", "10.0.0.1", True),
        ("0.0.0.0/0", "169.254.1.1", False),
        ("169.254.0.0/16", "169.254.1.1", True),
        ("169.254.1.0/24", "169.254.1.1", True),
        ("169.254.1.0/24", "169.254.2.1", False),
        ("169.0.0.0/8", "169.254.1.1", False),
        ("fe80::/10", "fe80::1%eth0", True),
        ("fe00::/8", "fe80::1", False),
        ("169.254.0.0/16", "169.254.169.254", False),
        ("100.64.0.0/10", "100.100.100.200", False),
        ("fd00:ec2::/32", "fd00:ec2::254", False),
    ],
)
def test_a_network_permits_what_is_in_it(network: str, address: str, permitted: bool) -> None:
    assert (refusal_of_address(address, Permits.of(networks(network))) is None) is permitted


@pytest.mark.parametrize("address", METADATA)
def test_metadata_only_by_that_very_address(address: str) -> None:
    refusal = refusal_of_address(address, Permits.of(PRIVATE))
    assert refusal is not None
    assert refusal.rule is Rule.METADATA_ADDRESS
    everything = FetchSettings(allow_private=True, allow_networks=("0.0.0.0/0", "::/0", "169.254.0.0/16", "fe80::/10"))
    assert refusal_of_address(address, Permits.of(everything)) == refusal
    assert refusal.permit == f"--allow-network {refusal.subject}"
    assert refusal_of_address(address, Permits.of(networks(refusal.subject))) is None


@pytest.mark.parametrize("network", ["127.0.0.1", "::1", "127.0.0.0/8"])
def test_a_name_with_two_addresses_is_permitted_by_either(network: str) -> None:
    assert rule_of("http://localhost/", networks(network)) is None


@given(st.ip_addresses(network="169.254.0.0/16") | st.ip_addresses(network="fe80::/10"))
def test_link_local_addresses_are_never_private_ones(address: IPv4Address | IPv6Address) -> None:
    refusal = refusal_of_address(str(address), Permits.of(PRIVATE))
    assert refusal is not None
    assert refusal.rule in (Rule.LINK_LOCAL, Rule.METADATA_ADDRESS)
    assert refusal_of_address(str(address), Permits.of(networks(refusal.subject))) is None


@given(st.ip_addresses())
def test_what_a_refusal_names_permits_it(address: IPv4Address | IPv6Address) -> None:
    refusal = refusal_of_address(str(address), Permits.of(NOTHING))
    if refusal is not None:
        assert f"--allow-network {refusal.subject}" in refusal.permit
        assert refusal_of_address(str(address), Permits.of(networks(refusal.subject))) is None


@pytest.mark.parametrize("port", [0, 1, 9, 22, 25, 110, 6000, 6667, 10080])
def test_ports_that_browsers_block(port: int) -> None:
    href = f"http://a.test:{port}/"
    assert rule_of(href) is rule_of(href, PRIVATE) is Rule.BLOCKED_PORT
    assert rule_of(href, FetchSettings(allow_ports=(port,))) is None
    assert rule_of(f"http://127.0.0.1:{port}/") is Rule.PRIVATE_ADDRESS


@pytest.mark.parametrize("port", [80, 443, 8080, 8443, 3000, 65535])
def test_ports_that_they_do_not_block(port: int) -> None:
    assert refusal_of("a.test", port, NOTHING) is None
