"""Connections through a SOCKS proxy, using python-socks (the extra ``socks``)."""

from __future__ import annotations

import errno
import socket
from typing import Any

from crawler.base.settings.load import SettingsError
from crawler.web.fetch.proxies import Proxy, ProxyTrouble

# Reply codes about the destination in SOCKS 5 (RFC 1928, 6) and SOCKS 4. All others are about the proxy itself.
_OF_DESTINATION = {
    1: errno.EHOSTUNREACH,  # general failure: the proxy gave no reason
    2: errno.EHOSTUNREACH,  # its rules forbid the destination
    3: errno.ENETUNREACH,
    4: errno.EHOSTUNREACH,
    5: errno.ECONNREFUSED,
    6: errno.EHOSTUNREACH,  # timeout
    91: errno.EHOSTUNREACH,
}


def check_socks() -> None:
    """Raise SettingsError if python-socks is not installed."""
    try:
        import python_socks.async_.asyncio  # noqa: F401, PLC0415
    except ImportError as error:
        raise SettingsError("a SOCKS proxy needs python-socks: pip install python-socks") from error


async def connect_through(proxy: Proxy, host: str, port: int) -> socket.socket:
    """Return a connection to ``host``, whose name the proxy resolves. Raises ProxyTrouble if the proxy is at fault,
    OSError if the destination is. The caller limits the time."""
    import python_socks  # noqa: PLC0415, optional
    from python_socks.async_.asyncio import Proxy as Socks  # noqa: PLC0415

    url = proxy.url
    kind = python_socks.ProxyType.SOCKS5 if url.scheme.startswith("socks5") else python_socks.ProxyType.SOCKS4
    way: Any = Socks(kind, url.host or "", url.port or 0, username=url.user, password=url.password, rdns=True)
    try:
        connection: socket.socket = await way.connect(host, port, timeout=_NEVER)
    except python_socks.ProxyError as error:
        code = error.error_code
        if code in _OF_DESTINATION:
            raise OSError(_OF_DESTINATION[code], f"the proxy reports: {error}") from error
        raise ProxyTrouble(str(error)) from error
    except (python_socks.ProxyConnectionError, OSError) as error:
        raise ProxyTrouble(error.strerror or str(error)) from error
    return connection


_NEVER = 86_400.0  # seconds; the time limit of the exchange is shorter
