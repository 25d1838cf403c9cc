"""The seen-set without false positives: no page is skipped by mistake.

A Bloom filter answers most lookups, but a few of its answers are wrong. Here the filter only decides which keys need a
second lookup. A key that is absent from it is new. Any other key is looked up in the rows: there is one for
every URL ever admitted, with its digest. The key is known only if its row exists.

    rows    computes the row of a key: a hash of the host, a hash of the key
    seen    the seen-set: the filter in front, the rows behind it
    ledger  rows behind an ordinary filter: URLs that the filter reports as seen are looked up later

The rows are in the job's own store and are written in the batch that queues the URLs, so the rows and the queued URLs
become durable together. The package never accesses the disk directly.
"""
