"""The known, unfinished URLs of each host, and the order in which they are taken.

Callers use ``Frontier``: its methods ``load``, ``admit``, ``take``, ``finish`` (with one of the completions in
``lease``) and ``release``, and ``written`` after each batch. The package does I/O only through the ``Reader`` of a
store, and never reads a clock. To follow a lease, read ``frontier``, ``workbench``, ``gate`` and ``queues``. From low
to high:

    entry, order, page       a URL and its place in a queue; the order of a crawl; a page that is visited again
    request_outcome          the outcome of a request, and when a URL is tried again
    politeness               why a host must wait, and the gap between two requests
    host, limits             the state of one host and its stored record; limits common to all hosts
    backoff_policy           how failures and responses change a host; ``host_closed``: when requests to it stop
    slot_share, capacity     how slots are shared by time; what a crawl can do for hosts that are due
    host_session             how long a host keeps its turns
    domain_shares            fair turns of domains
    front_queues             the front queues, and whose turn it is
    queues, working_set      back queues on disk with a window in memory; which hosts are in memory
    opic_score, revisits     OPIC scores; when visited pages are due again
    fair_semaphore, gate     lines of hosts; gaps, holds, groups of hosts
    lease                    the unit that is handed out, and how it ends
    workbench                finds a host in whichever place it is; each host is in one place only
    pace                     how long a host takes for its queued URLs
    ad_hoc_lease, overrides  requests without a queued URL; the user's changes to single hosts
    outage                   detects that failures of many hosts are due to our own network
    frontier                 the public interface
    host_keys                which hosts share a gap and lease slots
    host_status              a host as tables show it
    postponement             moves a URL behind all others of its host, before the frontier is loaded
"""
