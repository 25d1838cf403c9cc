"""Imports aiohttp in half the time: without the authorities that the system trusts.

aiohttp makes two contexts for TLS when it is imported, and has both read those, which takes 0.1 s of CPU time. A crawl
has a context of its own, and pages without TLS need none. So the two read them when they make their first connection.
"""

from __future__ import annotations

import ssl
import sys
from typing import Any


class _Late(ssl.SSLContext):
    """A context without the authorities, until a connection needs them."""

    def wrap_bio(self, *arguments: Any, **named: Any) -> ssl.SSLObject:
        return _complete(self).wrap_bio(*arguments, **named)

    def wrap_socket(self, *arguments: Any, **named: Any) -> ssl.SSLSocket:
        return _complete(self).wrap_socket(*arguments, **named)


def _complete(context: ssl.SSLContext) -> ssl.SSLContext:
    context.__class__ = ssl.SSLContext
    context.load_default_certs()
    return context


def leave_out(context: ssl.SSLContext, *_: ssl.Purpose) -> None:
    """Have the context read them later. In place of what would read them now."""
    context.__class__ = _Late


def _import_aiohttp() -> None:
    if "aiohttp.connector" in sys.modules:
        return
    usual = ssl.SSLContext.load_default_certs
    # A context that another thread makes meanwhile is a late one too.
    ssl.SSLContext.load_default_certs = leave_out  # type: ignore[assignment, method-assign]
    ssl.SSLContext.set_default_verify_paths = leave_out  # type: ignore[assignment, method-assign]
    try:
        import aiohttp  # noqa: F401, PLC0415
    finally:
        ssl.SSLContext.load_default_certs = usual  # type: ignore[method-assign]
        del ssl.SSLContext.set_default_verify_paths  # so that the inherited one is back


_import_aiohttp()
