"""``crawler bench``: a synthetic web, and a measured crawl of it.

From low to high:

    process_cost       a child process and its cost
    synthetic_web      a web that is computed on request
    synthetic_server   a process that serves a share of it
    crawl_truth        compares the result of a crawl with the web
    synthetic_crawl    the servers of a web, and one measured crawl of it
"""
