"""Traps: endless generated URLs, hosts and ports, and pages that are copies of others."""
