"""Shows a crawl on a terminal, from the statistics that ``stats --json`` prints.

`printable` escapes control characters for the terminal, `say` writes a line, `summary` builds the lines at the end,
`live_line` shows the running crawl. Import them individually: only `live_line` needs more than the standard library,
and tools in a pipe do without it.
"""
