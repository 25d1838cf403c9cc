"""Partitions: one crawl in several jobs, each with the URLs of some domains.

    placement         maps URLs to partitions, and partitions to workers
    messages          messages between partitions
    link_batch_codec  encodes messages as bytes on a carrier, and their acknowledgements
    outbox            rows waiting for other partitions, and those in flight
    inlet             batches received from other partitions
    router            sends URLs of other partitions to the outbox, in the transaction that finds them
    quota             how many pages each partition may fetch, under the limit of the whole crawl
    notes             messages between partitions that may be lost
    end_rounds        detects the end of the whole crawl
    rate_shares       lends the request rate of the whole crawl to its workers
    part_report       a partition's report to observers of the crawl

A message is a row of the outbox, written in the same transaction as the change it reports. It is sent in a numbered
batch, and the row is removed when the receiver acknowledges that the batch is durable there. A batch or an
acknowledgement may be lost on the way. These modules do no I/O on the carrier: other modules decide how and when
batches are sent.
"""
