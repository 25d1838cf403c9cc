"""How fast is this machine? One benchmark that an installed package runs by itself, and a runner for the others.

From low to high:

    machine      the machine and the versions that a figure was measured with
    child        a child process and what it cost
    made_pages   a web of made pages, as files
    file_server  serves such files, in a process of its own
    made_crawl   a crawl of that web, measured
    scripts      the scripts of ``benchmarks/``, where there is a checkout of the source
"""
