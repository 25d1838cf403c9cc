"""From the bytes of an HTML page to its outlinks.

``extract_links`` decodes as browsers do (``sniff_encoding``), reads what leads on (``a``, ``area``, and the kinds that
``links.kinds`` names) in document order, the first ``base[href]`` and the meta elements. Hrefs stay as they were
written: resolving them is the work of ``crawler.url.urls``. Its tree is what tells; ``token_links`` tells nearly always
the same without one, in a tenth of the time. What a tree costs is not bounded by the size of the page: ``is_cheap``
says whether it may be built here, and ``scan_links`` tells nearly the same of a page that breaks all bounds (see
``tags``).
"""
