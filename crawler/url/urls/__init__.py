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

from crawler.url.urls.canonicaliser import Canonical, Canonicaliser, canonicalise
from crawler.url.urls.domain import domain_of_key, has_known_suffix, registrable_domain, suffix_list_version
from crawler.url.urls.host_key import host_key, host_name, surt
from crawler.url.urls.rules import RULES, Rule
from crawler.url.urls.steps import identity
from crawler.url.urls.typed import completed, has_url_scheme
from crawler.url.urls.whatwg import Rejected, foreign_scheme

__all__ = [
    "RULES",
    "Canonical",
    "Canonicaliser",
    "Rejected",
    "Rule",
    "canonicalise",
    "completed",
    "domain_of_key",
    "foreign_scheme",
    "has_known_suffix",
    "has_url_scheme",
    "host_key",
    "host_name",
    "identity",
    "registrable_domain",
    "suffix_list_version",
    "surt",
]
