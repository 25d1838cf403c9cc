"""Rendering: pages that need scripts get a browser, whose requests go through the frontier like all others."""
