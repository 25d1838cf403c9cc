"""``crawler bench``: a synthetic web, and a measured crawl of it.

From low to high:

    child              a child process and what it cost
    synthetic_web      a web that is computed on request
    synthetic_server   a process that serves a share of it
    crawl_truth        what a crawl of that web found, beside what there is
    synthetic_crawl    the servers of a web, and one crawl of it, measured
"""
