"""Carries links, claims and small values between the partitions of a crawl."""
