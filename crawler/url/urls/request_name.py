"""The stored address of a request that another fetcher makes: its URL, and after ``#`` the name that identifies it.

A crawl stores hrefs without fragments, one for each URL. Another fetcher may have several requests for one URL, which
differ in method, body or headers. The fragment distinguishes them, and is part of what the seen-set hashes.
"""

from __future__ import annotations


def with_name(href: str, name: str) -> str:
    """Return the stored address of the request ``name`` of a canonical URL without fragment."""
    return f"{href}#{name}"


def name_in(href: str) -> str:
    """Return the name of the request in its stored address; empty for the href of a crawl."""
    return href.partition("#")[2]


def without_name(href: str) -> str:
    """Return the URL in a stored address."""
    return href.partition("#")[0]
