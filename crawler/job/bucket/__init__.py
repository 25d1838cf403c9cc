"""A crawl whose store of record is object storage: the disk of its machine is a cache.

The steps of a job go to the bucket as a log of numbered objects, its files as snapshots (docs/internals/format-bucket).
"""
