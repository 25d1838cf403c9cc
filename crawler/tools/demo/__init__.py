"""A small web on loopback, to try a crawl without a network.

Three hosts serve the folders of ``pages``: a guide to the web, a handbook of crawling, and a glossary. The other hosts
show typical problems:

    news      changes: new stories, corrections, deleted stories
    slow      takes seconds for each response
    busy      responds 429 with Retry-After when it gets too many requests
    mirror    has the pages of the glossary at many addresses
    dead      refuses connections
    silent    accepts connections and never responds
"""
