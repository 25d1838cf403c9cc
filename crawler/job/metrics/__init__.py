"""Turns the statistics of a crawl into time series, sentences and (in `prometheus`) metrics.

Everything here is pure and reads one mapping, the one that ``stats --json`` prints. If a key is null or missing, that
part of the crawl does not exist: it yields no sample, never a zero.
"""
