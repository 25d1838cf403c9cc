"""Measures how fast this machine is: one benchmark that an installed package runs by itself, and a runner for the
others.

From low to high:

    machine      the machine and the versions that a figure was measured with
    child        a child process and what it cost
    made_pages   generated pages, as files
    scripts      the scripts of ``benchmarks/``, in a checkout of the source

and of ``bench crawl``:

    floor, peer_scrapy, peer_crawlee   what a crawl is compared with
    stage_samples, loopback_run        samples where a process spends its time; keeps it on this machine
    synthetic_web, synthetic_server    a web that is computed on request; the processes that serve it
    crawl_truth                        what a crawl of that web found, beside what there is
    contenders, synthetic_crawl        the commands that are compared; one crawl, measured
    crawl_report, bench_crawl          tables and plots; the benchmark itself
"""
