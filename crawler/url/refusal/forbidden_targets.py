"""The crawler's own rules for hosts that it must not contact, regardless of where a URL comes from.

A page on the public web may link to ``http://10.0.0.1/admin`` or to the mail server's port, or resolve its name to
127.0.0.1, and so use a crawler to attack services that are not public. The user can permit exceptions by flag or
setting:

    private-address    loopback, private and reserved addresses       ``--allow-private``, ``--allow-network``
    link-local         169.254.0.0/16 and fe80::/10                   ``--allow-network`` with a network inside these
    metadata-address   where clouds hand out credentials              ``--allow-network`` with exactly that address
    blocked-port       ports that browsers block                      ``fetch.allow_ports``
    too-many-ports     more than 16 ports of one name                 nothing
    too-many-hosts     more than ``traps.max_hosts`` of one domain    ``traps.max_hosts``
    budget.host_pages and the other settings of [budget]              a higher value
    traps.max_variants and others of [traps]                          a higher value
    consent            pages that refuse a named purpose              another ``--purpose``

``refusal_of`` judges a URL, ``refusal_of_address`` an address about to be dialled. A name may resolve to a different
address at every look-up, so the second check is made for each connection, on the address itself.

These checks are pure and cost no request, so they come before robots.txt and politeness.
"""

from __future__ import annotations

import contextlib
from enum import StrEnum
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final

from msgspec import Struct

from crawler.base.settings.parts import FetchSettings
from crawler.url.refusal.special_addresses import Address, bare, special_use
from crawler.url.urls.host_key import PORTS, is_address, split_origin

Network = IPv4Network | IPv6Network

# The bad ports of https://fetch.spec.whatwg.org/#port-blocking. They belong to other protocols, whose servers may
# misinterpret an HTTP request as one of theirs.
# fmt: off
BLOCKED_PORTS: Final = frozenset({
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109,
    110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530,
    531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190,
    5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
})
# fmt: on

_LINK_LOCAL: Final = (ip_network("169.254.0.0/16"), ip_network("fe80::/10"))
_INSTANCE = "169.254.169.254"
# These addresses may hand out the machine's credentials. The list follows the cloud providers' documentation.
_METADATA: Final = frozenset(
    bare(address)
    for address in (
        _INSTANCE,  # AWS, Azure, Google, Oracle, OpenStack, DigitalOcean
        "169.254.169.253",  # AWS: name server
        "169.254.170.2",  # AWS: credentials of containers
        "169.254.170.23",  # AWS: credentials of pods
        "169.254.0.23",  # Tencent
        "100.100.100.200",  # Alibaba
        "192.0.0.192",  # Oracle, formerly
        "168.63.129.16",  # Azure: the host's agent
        "fd00:ec2::254",  # AWS
        "fd00:ec2::23",  # AWS: credentials of pods
        "fd20:ce::254",  # Google
    )
)
# Names with known addresses. They are listed because behind a proxy only the proxy looks names up.
_LOOPBACK: Final = ("127.0.0.1", "::1")  # RFC 6761
_NAMES: Final = {
    "localhost": _LOOPBACK,
    "instance-data": (_INSTANCE,),
    "instance-data.ec2.internal": (_INSTANCE,),
    "metadata": (_INSTANCE,),
    "metadata.azure.internal": (_INSTANCE,),
    "metadata.goog": (_INSTANCE, "fd20:ce::254"),
    "metadata.google.internal": (_INSTANCE, "fd20:ce::254"),
    "metadata.tencentyun.com": ("169.254.0.23",),
}


class Rule(StrEnum):
    """A rule of ours that excludes a URL. The values are stored in records."""

    PRIVATE_ADDRESS = "private-address"
    LINK_LOCAL = "link-local"
    METADATA_ADDRESS = "metadata-address"
    BLOCKED_PORT = "blocked-port"
    TOO_MANY_PORTS = "too-many-ports"  # this rule and the next are checked when URLs are admitted
    TOO_MANY_HOSTS = "too-many-hosts"
    HOST_PAGES = "budget.host_pages"  # budgets are checked when it is the host's turn
    HOST_BYTES = "budget.host_bytes"
    DOMAIN_PAGES = "budget.domain_pages"
    MAX_SEGMENTS = "traps.max_segments"  # these are checked when URLs are admitted
    MAX_REPEATS = "traps.max_repeats"
    MAX_VARIANTS = "traps.max_variants"
    MAX_QUERY_SHAPES = "traps.max_query_shapes"
    DOMAIN_FACTOR = "traps.domain_factor"
    DUPLICATES = "traps.duplicates"
    MAX_ID_COPIES = "traps.max_id_copies"
    CONSENT = "consent"  # checked after the page is read

    @property
    def is_of_address(self) -> bool:
        """True if the rule refuses addresses."""
        return self in (Rule.PRIVATE_ADDRESS, Rule.LINK_LOCAL, Rule.METADATA_ADDRESS)

    @property
    def is_setting(self) -> bool:
        """True if the rule is a limit named after its setting."""
        return "." in self.value


_FIXED = (Rule.MAX_SEGMENTS, Rule.MAX_REPEATS, Rule.MAX_QUERY_SHAPES, Rule.DOMAIN_FACTOR, Rule.MAX_ID_COPIES)


class Refusal(Struct, frozen=True):
    """A refusal by a rule of ours. ``subject`` is the address or the port; ``permit`` names the flag or setting that
    permits it."""

    rule: Rule
    subject: str
    why: str
    permit: str

    @classmethod
    def of_setting(cls, rule: Rule, why: str) -> Refusal:
        """Create the refusal for a limit that a setting defines, so that another value of that setting lifts it, or for
        a fixed trap limit."""
        permit = 'traps.duplicates = "record"' if rule is Rule.DUPLICATES else f"a higher {rule.value}"
        return cls(rule, why, why, "" if rule in _FIXED else permit)

    @property
    def words(self) -> str:
        return f"{self.why}; {self.permit} permits it" if self.permit else self.why

    @property
    def error(self) -> str:
        """The ``error`` field of a record."""
        return f"{self.rule.value}: {self.why if self.rule.is_setting else self.words}"


class Permits(Struct, frozen=True):
    """The exceptions that the user permits."""

    private: bool
    networks: tuple[Network, ...]
    ports: frozenset[int]

    @classmethod
    def of(cls, settings: FetchSettings) -> Permits:
        return _permits(settings.allow_private, settings.allow_networks, settings.allow_ports)


@lru_cache(maxsize=64)
def _permits(private: bool, networks: tuple[str, ...], ports: tuple[int, ...]) -> Permits:
    return Permits(private, tuple(map(ip_network, networks)), frozenset(ports))


def refusal_of(host: str, port: int, settings: FetchSettings) -> Refusal | None:
    """Return why a URL with this host and port must not be requested, as far as known without a name server; None if it
    may be requested. ``host`` is that of a canonical URL: an IPv6 address may have its brackets."""
    return _refusal_of(host, port, Permits.of(settings))


@lru_cache(maxsize=4_096)
def _refusal_of(host: str, port: int, permits: Permits) -> Refusal | None:
    name = host.rstrip(".")
    addresses = _NAMES.get(name, _LOOPBACK if name.endswith(".localhost") else ())
    if is_address(host):
        addresses = (host.strip("[]"),)
    refused = None
    with contextlib.suppress(ValueError):  # a host like 1.2.3 cannot be requested, and no URL parser returns it
        refusals = [refusal_of_address(address, permits) for address in addresses]
        refused = refusals[0] if refusals and all(refusals) else None
    if refused is None and port in BLOCKED_PORTS and port not in permits.ports:
        return refusal_of_port(port)
    return refused


def refusal_of_port(port: int) -> Refusal:
    """Return the refusal of a blocked port."""
    why = f"browsers block port {port}, which another protocol uses"
    return Refusal(Rule.BLOCKED_PORT, str(port), why, f"fetch.allow_ports = [{port}]")


def refusal_of_href(href: str, settings: FetchSettings) -> Refusal | None:
    """Return ``refusal_of`` for the host and port of an href."""
    scheme, host, port, _ = split_origin(href)
    return refusal_of(host, int(port) if port else PORTS[scheme], settings)


def refusal_of_address(text: str, permits: Permits) -> Refusal | None:
    """Return why the address must not be dialled; None if it may be dialled. Raises ValueError for text that is not an
    address."""
    address = bare(text)
    if address in _METADATA:
        if any(network.num_addresses == 1 and _within(address, network) for network in permits.networks):
            return None
        why = f"{address} hands out metadata of machines in clouds"
        return Refusal(Rule.METADATA_ADDRESS, str(address), why, f"--allow-network {address}")
    use = special_use(text)
    if use is None:
        return None
    if use == "link-local":
        if any(_within(address, network) and _is_link_local(network) for network in permits.networks):
            return None
        return Refusal(Rule.LINK_LOCAL, str(address), f"{address} is link-local", f"--allow-network {address}")
    if permits.private or any(_within(address, network) for network in permits.networks):
        return None
    permit = f"--allow-private or --allow-network {address}"
    return Refusal(Rule.PRIVATE_ADDRESS, str(address), f"{address} is {use}", permit)


def _within(address: Address, network: Network) -> bool:
    return address.version == network.version and address in network


def _is_link_local(network: Network) -> bool:
    return any(each.version == network.version and network.subnet_of(each) for each in _LINK_LOCAL)  # type: ignore[arg-type]
