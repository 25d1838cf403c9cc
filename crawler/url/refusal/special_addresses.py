"""Distinguishes public addresses from loopback, private and special-use ones."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

# The only part of IPv6 allocated for public use (https://www.iana.org/assignments/ipv6-address-space/).
_IPV6_GLOBAL = ip_network("2000::/3")
# Addresses with this prefix carry an IPv4 address in their last 32 bits (RFC 6052; not RFC 8215's local prefix).
_NAT64 = ip_network("64:ff9b::/96")
# Special-purpose blocks not private in some versions of `ipaddress`: AS112, 6to4 relays, documentation, SRv6.
_SPECIAL = tuple(
    ip_network(block)
    for block in (
        "192.0.0.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",
        "192.175.48.0/24",
        "2001::/23",
        "2001:db8::/32",
        "2620:4f:8000::/48",
        "3fff::/20",
    )
)


Address = IPv4Address | IPv6Address


def bare(address: str) -> Address:
    """Parse an address, without its zone. An IPv6 address that carries an IPv4 address (mapped, 6to4, NAT64) yields
    that IPv4 address. Raises ``ValueError`` for text that is not an address."""
    parsed = ip_address(address.partition("%")[0])
    return (_carried(parsed) or parsed) if isinstance(parsed, IPv6Address) else parsed


def special_use(address: str) -> str | None:
    """Return the special use of an IPv4 or IPv6 address ("loopback", "private" ...); None if it is public. An IPv6
    address that carries an IPv4 address is judged by that IPv4 address. Raises ``ValueError`` for text that is not an
    address."""
    parsed = bare(address)
    if parsed.is_unspecified:
        return "unspecified"
    if parsed.is_loopback:
        return "loopback"
    if parsed.is_link_local:
        return "link-local"
    if parsed.is_multicast:
        return "multicast"
    if isinstance(parsed, IPv6Address) and parsed not in _IPV6_GLOBAL:
        return "private" if parsed.is_private else "reserved"
    if any(parsed in block for block in _SPECIAL if block.version == parsed.version):
        return "reserved"
    if parsed.is_reserved:
        return "reserved"
    return None if parsed.is_global else "private"


def _carried(address: IPv6Address) -> IPv4Address | None:
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return None


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach ``host``: a loopback address, or ``localhost`` (RFC 6761, 6.3)."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
