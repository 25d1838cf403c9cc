"""Traps: endless generated URLs, hosts and ports, and copies of pages."""
