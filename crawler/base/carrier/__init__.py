"""What carries links, claims and small values between the partitions of one crawl."""
