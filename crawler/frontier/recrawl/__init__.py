"""Estimates how often a page changes, and the value of visiting it again."""
