"""Keeps a crawl in object storage; the local disk is only a cache.

The bucket holds the steps of each job as a log of numbered objects, and its files as snapshots
(docs/internals/format-bucket).
"""
