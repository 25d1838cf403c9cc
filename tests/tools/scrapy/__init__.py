"""Scrapy on the frontier: with the real Scrapy, as a program of its own, against a site on loopback."""
