"""Checks the settings for outgoing requests: proxies, headers and logins of named sites, and references to secrets.

Each function returns a short error without the value, which may be a password.
"""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

PROXY_SCHEMES = ("http", "https", "socks4", "socks4a", "socks5", "socks5h")
DIRECT = "direct"

_NAME = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
# Headers that the crawler writes itself, or by which rules in robots.txt identify it.
_OWN_HEADERS = frozenset(
    (
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
    )
)


def secret_reference(text: str) -> tuple[str, str] | None:
    """Return the target of ``env:NAME`` or ``file:PATH``: ("env" or "file", NAME or PATH)."""
    kind, colon, place = text.partition(":")
    if not colon or kind not in ("env", "file") or not place:
        return None
    return None if kind == "env" and not re.fullmatch(_VARIABLE, place) else (kind, place)


def fault_of_reference(text: str) -> str | None:
    if secret_reference(text) is None:
        return "must be env:NAME or file:PATH, so that no other file contains the secret"
    return None


def fault_of_proxy(text: str) -> str | None:
    scheme, separator, rest = text.partition("://")
    if text == DIRECT:
        return None
    if separator and scheme not in PROXY_SCHEMES:
        return f'must be "direct" or the URL of a proxy: {", ".join(PROXY_SCHEMES)}'
    if "@" in (rest if separator else text):
        return "must not contain a login: use fetch.proxy_login to refer to it"
    return None


def fault_of_webhook(text: str) -> str | None:
    """Check the URL of a webhook, or a reference to one."""
    if secret_reference(text) is not None:
        return None
    if re.fullmatch(r"https?://[^\s/?#@]+(?:[/?][!-~]*)?", text) is None or not _names_a_server(text):
        return "must be an http or https URL without a login, or env:NAME or file:PATH that contains one"
    return None


def _names_a_server(url: str) -> bool:
    """Return True if the URL has a valid host name or address, and a valid port."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        if ":" not in host:
            host.encode("idna")  # fails if a label is empty or has more than 63 characters
    except ValueError:
        return False
    return bool(host) and port != 0


_SECRET_HEADERS = frozenset(("authorization", "cookie"))


def is_secret(line: str) -> bool:
    """Return True if the settings indicate that a header may reveal a secret."""
    name, _, value = line.partition(":")
    return name.lower() in _SECRET_HEADERS or secret_reference(value.strip()) is not None


_TYPE = r"(?:\*|[!#$%&'+.^_`|~0-9A-Za-z-]+)/(?:\*|[!#$%&'+.^_`|~0-9A-Za-z-]+)"
_STATUS = r"[1-5](?:xx|[0-9]{2})"


def fault_of_type(text: str) -> str | None:
    """Check a media type, or a pattern for all subtypes."""
    fits = re.fullmatch(_TYPE, text) and (text == "*/*" or not text.startswith("*"))
    return None if fits else f'must be media types, as in ["text/html", "image/*"], not {text!r}'


def fault_of_status(text: str) -> str | None:
    """Check a status code, or a class of status codes."""
    return None if re.fullmatch(_STATUS, text) else f'must be status codes, as in ["200", "3xx"], not {text!r}'


def fault_of_header_name(text: str) -> str | None:
    return None if re.fullmatch(_NAME, text) else 'must be names of headers, as in ["Server"]'


def fault_of_header(line: str) -> str | None:
    name, colon, value = line.partition(":")
    if not colon or re.fullmatch(_NAME, name) is None or not (value.isascii() and value.isprintable()):
        return 'must be lines such as "X-Name: value", in printable ASCII'
    if name.lower() in _OWN_HEADERS or name.lower().startswith("proxy-"):
        return f"must not contain {name}: the crawler writes it itself"
    return None


def fault_of_header_text(text: str) -> str | None:
    if text.isprintable() and text.isascii():
        return None
    return f"must be one line of printable ASCII, not {text!r}: it is sent as a header"


def fault_of_agent(text: str) -> str | None:
    return fault_of_header_text(text) if text.strip() else "must not be empty"


def fault_of_origin(text: str) -> str | None:
    if re.fullmatch(r"https://[a-z0-9.-]+(?::[1-9][0-9]{0,4})?", text) and _names_a_server(text):
        return None
    return "must be an https origin in lower case and without a path, as in https://bot.example"


def fault_of_network(text: str) -> str | None:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        return f"must be networks, not {shortened(text)}{_network_hint(text)}"
    return None


def _network_hint(text: str) -> str:
    """Return a hint for a network whose address has bits set after the prefix, as in 10.0.0.1/8."""
    try:
        return f": did you mean {ipaddress.ip_network(text, strict=False)}?"
    except ValueError:
        return ": write an address or a prefix, as in 192.168.1.7, 10.0.0.0/8 or fd12:3456::/32"


def shortened(value: object) -> str:
    """Return the value on one line, shortened if it is long."""
    if isinstance(value, int) and abs(value) > 10**30:
        # Python refuses to format a number of thousands of digits.
        return "a number of more than 30 digits"
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
