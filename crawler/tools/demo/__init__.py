"""A small web on loopback, to try a crawl without a network.

Three hosts serve the folders of ``pages``: a guide to the web, a handbook of crawling, and a glossary. The others are
what a crawler meets elsewhere:

    news      changes: new stories, corrections, stories that go away
    slow      takes seconds for each answer
    busy      answers 429 with Retry-After when it is asked too often
    mirror    has the pages of the glossary under many addresses
    dead      nobody listens on its port
    silent    takes connections and never answers
"""
