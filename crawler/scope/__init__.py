"""What belongs to a crawl: its scope, grown from the seeds, and the patterns that narrow it."""

from crawler.scope.boundary import Boundary, Linked, Outside
from crawler.scope.faults import Fault, rule_faults
from crawler.scope.modes import Scope
from crawler.scope.patterns import Pattern, PatternError, first_match

__all__ = ["Boundary", "Fault", "Linked", "Outside", "Pattern", "PatternError", "Scope", "first_match", "rule_faults"]
