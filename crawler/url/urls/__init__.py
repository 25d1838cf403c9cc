"""The identity of a URL: what is fetched, what is hashed, and what politeness groups by.

``Canonicaliser`` maps the text of a link to a ``Canonical``: its *href* (what is fetched, by the WHATWG URL
Standard) and its *key* (what the seen-set hashes). From low to high:

    whatwg         text and base -> href, or why not (the parser)
    steps          href -> key, one small step after the other
    rules          key -> key, the opt-in heuristics
    clean          patterns that recognise text which needs no parser
    canonicaliser  all of it together, with the path for the links of a whole page
    host           href -> host key, origin and SURT
    domain         host -> registrable domain
    typed          what a person typed -> text with a scheme
"""
