"""Which URLs belong to a crawl: the scope from the seeds, the patterns that narrow it, and the priority classes."""

from crawler.scope.boundary import Boundary, Outside, Reach
from crawler.scope.bounds import COUNTED, NOTHING_LEFT_OUT, OF_PAGES, Bounds, BoundsError, LeftOut, Limit
from crawler.scope.modes import Linked, Scope
from crawler.scope.patterns import Pattern, PatternError, first_match
from crawler.scope.priority_rules import LISTED_PRIORITY, PriorityRules
from crawler.scope.rule_faults import (
    RuleFault,
    RuleSettings,
    foreign_hosts,
    literal_ranges,
    rule_faults,
    rules_for_seeds_alone,
)
from crawler.scope.store_choice import StoreChoice
from crawler.scope.url_sites import UrlSettings, UrlSites

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
    "RuleSettings",
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
