"""The web as it answers: requests, answers, what a page says, and archives of it.

fetch     HTTP: connections, redirects, bodies, robots.txt
links     reading HTML, sitemaps and headers for links
parsing   processes that read large or costly pages
extract   the main text of a page
archive   WARC records and their index
identity  signed requests
"""
