"""A job that has kept the links of its pages."""

from __future__ import annotations

from pathlib import Path

from tests.program import crawler
from tests.site import Site, tree


def linking_job(directory: Path) -> Path:
    """It was stopped when some pages of a site were left."""
    with Site(tree(40)) as site:
        words = ("--allow-private", "--delay", "0", "--quiet", "--output", "links", "--max-pages", "30")
        ran = crawler(site.url("/"), "--job", directory, *words)
    assert ran.code == 0, ran.err
    return directory
