"""Turns the statistics of a crawl into time series, sentences and (in `prometheus`) metrics.

All functions here are pure, and read only the mapping that ``stats --json`` prints. If a key is null or missing, the
crawl does not have that part, so the key yields no sample rather than a zero.
"""
