"""A small web of real pages on loopback, to try a crawl without a network.

The pages are the standard library's documentation as ``pydoc`` writes it, with its own links, sizes and irregularities:
from 1 KB to 600 KB, some with a thousand links. Beside them are hosts that are slow, busy, dead or changing, and one
that has each page many times.
"""

from crawler.tools.demo.render import Pages, RenderError
from crawler.tools.demo.site import DemoSite
from crawler.tools.demo.web import DemoWeb, Place

__all__ = ["DemoSite", "DemoWeb", "Pages", "Place", "RenderError"]
