"""Fetches pages from the web, extracts their contents, and archives them.

fetch     HTTP: connections, redirects, bodies, robots.txt
links     reading HTML, sitemaps and headers for links
parsing   processes that read large or costly pages
extract   the main text of a page
archive   WARC records and their index
identity  signed requests
"""
