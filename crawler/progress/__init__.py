"""A crawl seen from a terminal. Reads the statistics that ``stats --json`` prints, and nothing else.

`say` writes a line, `summary` is what stands at the end, `live` what changes while the crawl runs. They are imported by
themselves: only the last needs more than the standard library, and tools in a pipe do without it.
"""
