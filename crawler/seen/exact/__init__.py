"""The seen-set without false positives: no page is skipped by mistake.

A Bloom filter answers most lookups, but a few of its answers are wrong. Here it only decides which keys need a second
lookup. A key that is absent from the filter is new. Any other key is looked up among rows that hold a digest of every
URL ever admitted; it is known only if its row exists.

    rows    computes the row of a key: a hash of the host, a hash of the key
    seen    the seen-set: the filter in front, the rows behind it
    ledger  rows behind an ordinary filter: URLs that the filter reports as seen are looked up later

The rows are in the job's own store and are written in the batch that queues the URLs, so both become durable together.
The package never accesses the disk directly.
"""
