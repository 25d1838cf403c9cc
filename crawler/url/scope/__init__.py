"""Which URLs belong to a crawl: the scope from the seeds, the patterns that narrow it, and the priority classes."""

from crawler.url.scope.boundary import Boundary, Outside, Reach
from crawler.url.scope.bounds import COUNTED, NOTHING_LEFT_OUT, OF_PAGES, Bounds, BoundsError, LeftOut, Limit
from crawler.url.scope.modes import Linked, Scope
from crawler.url.scope.patterns import Pattern, PatternError, first_match
from crawler.url.scope.priority_rules import LISTED_PRIORITY, PriorityRules
from crawler.url.scope.rule_faults import (
    RuleFault,
    foreign_hosts,
    literal_ranges,
    rule_faults,
    rules_for_seeds_alone,
)
from crawler.url.scope.store_choice import StoreChoice
from crawler.url.scope.url_sites import UrlSettings, UrlSites

__all__ = [
    "COUNTED",
    "LISTED_PRIORITY",
    "NOTHING_LEFT_OUT",
    "OF_PAGES",
    "Boundary",
    "Bounds",
    "BoundsError",
    "LeftOut",
    "Limit",
    "Linked",
    "Outside",
    "Pattern",
    "PatternError",
    "PriorityRules",
    "Reach",
    "RuleFault",
    "Scope",
    "StoreChoice",
    "UrlSettings",
    "UrlSites",
    "first_match",
    "foreign_hosts",
    "literal_ranges",
    "rule_faults",
    "rules_for_seeds_alone",
]
