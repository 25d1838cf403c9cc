"""One crawl run by several processes: their shared directory, which partitions each process owns, how partitions
exchange links, and how each process finds out that the crawl has ended."""
