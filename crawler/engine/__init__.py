"""The engine runs a crawl: it hands out leases until no URLs are left, and builds the parts that a visit needs.

Read ``run``, ``visit`` and ``links_and_redirects`` in this order: together they describe the life of one URL.
"""
