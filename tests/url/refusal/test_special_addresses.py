"""What addresses are for."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.url.refusal.special_addresses import special_use


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("127.0.0.1", "loopback"),
        ("127.255.1.2", "loopback"),
        ("::1", "loopback"),
        ("::ffff:127.0.0.1", "loopback"),
        ("0.0.0.0", "unspecified"),
        ("::", "unspecified"),
        ("0.1.2.3", "private"),
        ("10.1.2.3", "private"),
        ("172.16.0.1", "private"),
        ("172.31.255.255", "private"),
        ("192.168.0.1", "private"),
        ("100.64.0.1", "private"),
        ("fc00::1", "private"),
        ("fd12:3456::1", "private"),
        ("::ffff:10.0.0.1", "private"),
        ("64:ff9b::10.0.0.1", "private"),
        ("2002:0a00:0001::1", "private"),
        ("169.254.169.254", "link-local"),
        ("fe80::1", "link-local"),
        ("fe80::1%eth0", "link-local"),
        ("::ffff:169.254.169.254", "link-local"),
        ("224.0.0.1", "multicast"),
        ("ff02::1", "multicast"),
        ("240.0.0.1", "reserved"),
        ("255.255.255.255", "reserved"),
        ("192.0.0.8", "reserved"),
        ("192.88.99.1", "reserved"),
        ("2001::1", "reserved"),
        ("2001:db8::1", "reserved"),
        ("192.0.2.1", "private"),
        ("198.18.0.1", "private"),
    ],
)
def test_refused(address: str, reason: str) -> None:
    assert special_use(address) == reason


@pytest.mark.parametrize("address", ["::7f00:1", "100::1", "64:ff9b:1::1", "5f00::1", "fec0::1", "4000::1"])
def test_all_of_ipv6_that_is_not_handed_out_is_refused(address: str) -> None:
    assert special_use(address) is not None


@pytest.mark.parametrize(
    "address",
    ["1.1.1.1", "93.184.216.34", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::1.1.1.1"],
)
def test_public(address: str) -> None:
    assert special_use(address) is None


@given(st.ip_addresses())
def test_public_is_at_least_what_the_library_calls_global(address: IPv4Address | IPv6Address) -> None:
    if special_use(str(address)) is None and not (isinstance(address, IPv6Address) and address.sixtofour):
        assert address.is_global
        assert not address.is_multicast
