"""URLs and the rules about them. Uses no sockets, files or clocks.

urls      canonical form: what is fetched, and what is hashed
robots    robots.txt by RFC 9309, and the robots directives of pages
consent   which uses of their pages sites allow or refuse
scope     which URLs belong to a crawl, and their priority
refusal   addresses and ports that are never contacted
"""
