"""Partitions: one crawl in several jobs, each with the URLs of some domains.

    placement     which partition a URL belongs to; which worker has which partitions
    messages      what a partition tells another
    link_batch_codec  messages as bytes on a carrier, and their acknowledgements
    outbox        what waits for other partitions, and what of it is on its way
    inlet         what has come from other partitions
    router        sends URLs that belong elsewhere to the outbox, in the transaction that finds them
    quota         how many pages a partition may fetch, of those that the whole crawl may
    notes         what partitions tell each other in passing
    end_rounds    when the whole crawl is over
    rate_shares   the requests a second of the whole crawl, lent to its workers
    part_report   what the owner of a partition tells whoever looks at the crawl

A message is a row of the outbox, written in the transaction that it tells of. It goes on its way in a batch with a
number, and the row is removed when the receiver says that the batch is durable there. Whatever lies between may lose
everything. All of it is pure: what carries the batches, and when, is decided elsewhere.
"""
