"""Which URLs belong to a crawl: the scope from the seeds, the patterns that narrow it, and the priority classes."""
