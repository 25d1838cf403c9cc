"""One crawl by several processes: the directory that they share, which partitions each of them owns, what it sends and
receives for them, and how it learns that the crawl is over."""
