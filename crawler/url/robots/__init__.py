"""The instructions of hosts and pages for crawlers, as plain data: robots.txt by RFC 9309, and robots directives."""
