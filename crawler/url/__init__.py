"""URLs and the rules about them; no socket, no file, no clock.

urls      canonical form: what is fetched, and what is hashed
robots    robots.txt by RFC 9309, and what pages ask of robots
consent   what sites say their pages may be used for
scope     which URLs belong to a crawl, and their priority
refusal   addresses and ports that are never asked
"""
