"""A streaming web crawler that loses nothing and says how far its seen-set can be trusted.

Packages from low to high; a module imports only from lower ones:

    urls, filters, robots, settings, clock, kv    pure: no socket, no file, no event loop
    links, scope, frontier, traps, records        pure, built on those
    disk, store, exact, checkpoint, output        the job's files, and the seen-set that lies in them
    fetch, metrics, dashboard, progress           the network, and what people see
    job                                           what lasts: the durable state of a crawl
    inspect, integrity                            looking at a job; verifying and repairing it
    engine                                        what runs: leases, visits, discovery
    service                                       a run from start to end, its control, its HTTP interface
    demo, bench, dedup, cli                       the edge

The life of one URL is told in ``engine.run``.
"""
