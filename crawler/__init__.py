"""A streaming web crawler that loses nothing and says how far its seen-set can be trusted.

Packages from low to high; a module imports only from lower ones:

    urls, filters, robots, settings, clock     pure: no socket, no file, no event loop
    links, scope, frontier, records            pure, built on those
    disk, store, exact, checkpoint, output     the job's files, and the seen-set that lies in them
    fetch, metrics, dashboard, progress        the network, and what people see
    crawl                                      the loop: the only package that knows all others
    demo, bench, dedup, cli                    the edge

The life of one URL is told in ``crawl.loop``.
"""
