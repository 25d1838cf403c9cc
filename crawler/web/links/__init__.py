"""From the bytes of an HTML page to its outlinks.

``extract_links`` decodes as browsers do (``sniff_encoding``), reads what leads on (``a``, ``area``, and the kinds that
``links.kinds`` names) in document order, the first ``base[href]`` and the meta elements. Hrefs stay as they were
written: resolving them is the work of ``crawler.url.urls``. Its tree is what tells; ``token_links`` tells nearly always
the same without one, in a tenth of the time. What a tree costs is not bounded by the size of the page: ``is_cheap``
says whether it may be built here, and ``scan_links`` tells nearly the same of a page that breaks all bounds (see
``tags``).
"""

from crawler.web.links.about import NOTHING_SAID, About, about, clean, language
from crawler.web.links.described import Described, without_fragments
from crawler.web.links.encoding import encoding_name, python_codec, sniff_encoding
from crawler.web.links.extract import PageLinks, extract_links, is_cheap, scan_links
from crawler.web.links.headers import FEED, header_links
from crawler.web.links.query import encode_queries
from crawler.web.links.sitemap import (
    FEED_TYPES,
    FREQUENCY_MOST,
    XML_TYPES,
    Listed,
    Sitemap,
    SitemapForm,
    called_sitemap,
    form_of,
    is_feed,
    is_page,
    is_sitemap,
    is_text_sitemap,
    named_like_sitemap,
)
from crawler.web.links.sitemap import TYPES as SITEMAP_TYPES
from crawler.web.links.text import text_digest
from crawler.web.links.tokens import TOKENS_BYTES, Undecided, token_links

__all__ = [
    "FEED",
    "FEED_TYPES",
    "FREQUENCY_MOST",
    "NOTHING_SAID",
    "SITEMAP_TYPES",
    "TOKENS_BYTES",
    "XML_TYPES",
    "About",
    "Described",
    "Listed",
    "PageLinks",
    "Sitemap",
    "SitemapForm",
    "Undecided",
    "about",
    "called_sitemap",
    "clean",
    "encode_queries",
    "encoding_name",
    "extract_links",
    "form_of",
    "header_links",
    "is_cheap",
    "is_feed",
    "is_page",
    "is_sitemap",
    "is_text_sitemap",
    "language",
    "named_like_sitemap",
    "python_codec",
    "scan_links",
    "sniff_encoding",
    "text_digest",
    "token_links",
    "without_fragments",
]
