"""Measures how fast this machine is: one benchmark that an installed package runs by itself, and a runner for the
others.

From low to high:

    machine      the machine and the versions that a figure was measured with
    child        a child process and what it cost
    made_pages   generated pages, as files
    file_server  serves such files, in a process of its own
    made_crawl   a crawl of these pages, measured
    scripts      the scripts of ``benchmarks/``, in a checkout of the source
"""
