"""What the records of a crawl tell, counted one by one in bounded memory."""
