"""Own rules that refuse to ask a host, whatever leads there."""

from crawler.url.refusal.own_rules import (
    Permits,
    Refusal,
    Rule,
    refusal_of,
    refusal_of_address,
    refusal_of_href,
    refusal_of_port,
)

__all__ = ["Permits", "Refusal", "Rule", "refusal_of", "refusal_of_address", "refusal_of_href", "refusal_of_port"]
