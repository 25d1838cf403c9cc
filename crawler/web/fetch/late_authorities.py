"""Imports aiohttp in half the time, by deferring the system's trusted authorities.

On import, aiohttp makes two TLS contexts, and loads the authorities into both, which takes 0.1 s of CPU time. A crawl
has its own context, and pages without TLS need none. So aiohttp's two contexts load the authorities only on their first
connection.
"""

from __future__ import annotations

import ssl
import sys
from typing import Any


class _Late(ssl.SSLContext):
    """A context that loads the authorities when a connection needs them."""

    def wrap_bio(self, *arguments: Any, **named: Any) -> ssl.SSLObject:
        return _complete(self).wrap_bio(*arguments, **named)

    def wrap_socket(self, *arguments: Any, **named: Any) -> ssl.SSLSocket:
        return _complete(self).wrap_socket(*arguments, **named)


def _complete(context: ssl.SSLContext) -> ssl.SSLContext:
    context.__class__ = ssl.SSLContext
    context.load_default_certs()
    return context


def leave_out(context: ssl.SSLContext, *_: ssl.Purpose) -> None:
    """Make the context load the authorities later. Replaces the functions that would load them now."""
    context.__class__ = _Late


def _import_aiohttp() -> None:
    if "aiohttp.connector" in sys.modules:
        return
    usual = ssl.SSLContext.load_default_certs
    # Contexts that other threads create meanwhile are deferred too.
    ssl.SSLContext.load_default_certs = leave_out  # type: ignore[assignment, method-assign]
    ssl.SSLContext.set_default_verify_paths = leave_out  # type: ignore[assignment, method-assign]
    try:
        import aiohttp  # noqa: F401, PLC0415
    finally:
        ssl.SSLContext.load_default_certs = usual  # type: ignore[method-assign]
        del ssl.SSLContext.set_default_verify_paths  # restores the inherited method


_import_aiohttp()
