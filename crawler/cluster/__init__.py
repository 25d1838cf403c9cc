"""A process that works on partitions of a crawl: which of them it owns, what it sends and receives for them, and how it
learns that the crawl is over."""
