"""A streaming web crawler that loses nothing and says how far its seen-set can be trusted.

Packages from low to high; a module imports only from lower ones:

    urls, filters, robots, settings, clock     pure: no socket, no file, no event loop
    links, scope, frontier, records            pure, built on those
    store, checkpoint, output                  the job's files
    fetch, metrics, dashboard, progress        the network, and what people see
    crawl                                      the loop: the only package that knows all others
    demo, cli                                  the edge

The life of one URL is told in ``crawl.loop``.
"""
