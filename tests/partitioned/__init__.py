"""Crawl directories of partitions, looked at as a job is."""
