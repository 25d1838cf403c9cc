"""The identity of a URL: what is fetched, what is hashed, and what politeness groups by.

``Canonicaliser`` maps the text of a link to a ``Canonical``: its *href* (what is fetched, by the WHATWG URL Standard)
and its *key* (what the seen-set hashes). From low to high level:

    whatwg         text and base -> href, or why not (the parser)
    normalising_steps
                   href -> key, one small step after another
    opt_in_rules   key -> key, the opt-in heuristics
    clean          patterns that recognise text that needs no parser
    canonicaliser  all of these together, with a fast path for the links of a whole page
    host_key       href -> host key, origin and SURT
    domain         host -> registrable domain
    typed          text typed by a person -> text with a scheme
"""
