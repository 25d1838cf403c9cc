"""Shows a crawl on a terminal. Reads the statistics that ``stats --json`` prints, and nothing else.

`printable` escapes what a terminal would obey, `say` writes a line, `summary` makes the lines at the end, `live_line`
shows the crawl while it runs. Import them one by one: only the last needs more than the standard library, and tools in
a pipe do without it.
"""
