"""The job: the durable state of a crawl in its directory, and the transactions that change it."""
