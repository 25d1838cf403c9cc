"""Statistics over the records of a crawl, collected one record at a time in bounded memory."""
