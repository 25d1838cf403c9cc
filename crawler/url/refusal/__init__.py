"""The crawler's own rules for URLs and addresses that it must not request."""
