"""Extracts the outlinks from the bytes of an HTML page.

``extract_links`` decodes as browsers do (``sniff_encoding``). It reads the links (``a``, ``area``, and the kinds that
``links.kinds`` names) in document order, the first ``base[href]`` and the meta elements. Hrefs are returned as written;
``crawler.url.urls`` resolves them. The HTML tree defines the result; ``token_links`` nearly always finds the same links
without a tree, in a tenth of the time. The cost of a tree is not bounded by the size of the page: ``is_cheap`` returns
whether it may be built here, and ``scan_links`` finds nearly the same links in a page that exceeds all bounds (see
``scan_tags``).
"""
