"""Runs a crawl from start to end, and lets users and programs watch and control it over HTTP."""
