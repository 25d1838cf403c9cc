"""What a host asks of crawlers, as plain data: robots.txt by RFC 9309, and the directives of a page."""
