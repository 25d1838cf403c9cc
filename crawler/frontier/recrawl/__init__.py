"""How often a page changes, as far as its visits tell, and what a further visit is worth."""

from crawler.frontier.recrawl.change_rate import ChangeRate, after_signal, after_visit, first_guess
from crawler.frontier.recrawl.visit_value import Budget, interval_at, worth

__all__ = [
    "Budget",
    "ChangeRate",
    "after_signal",
    "after_visit",
    "first_guess",
    "interval_at",
    "worth",
]
