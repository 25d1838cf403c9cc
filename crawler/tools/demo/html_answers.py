"""HTML answers of the demo's web."""

from __future__ import annotations

import html
import zlib

from aiohttp import ETag, web

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>{head}</head>
<body><h1>{title}</h1>{body}</body></html>
"""


def html_page(title: str, body: str, status: int = 200, head: str = "") -> web.Response:
    """Return an HTML response. ``body`` and ``head`` are HTML, ``title`` is text."""
    text = _PAGE.format(title=html.escape(title), body=body, head=head)
    return web.Response(status=status, text=text, content_type="text/html", charset="utf-8")


def tagged(request: web.Request, response: web.Response) -> web.Response:
    """Return the response with an entity tag of its body, or 304 if the request names that tag."""
    assert isinstance(response.body, bytes)
    tag = ETag(f"{zlib.crc32(response.body):08x}")
    if request.if_none_match and tag in request.if_none_match:
        response = web.Response(status=304)
    response.etag = tag
    return response


def items(links: dict[str, str]) -> str:
    """Return a list of links: address -> words, which are text."""
    return "<ul>" + "".join(f'<li><a href="{url}">{html.escape(words)}</a>' for url, words in links.items()) + "</ul>"
