"""Crawls inside a user's program.

deliveries        pages that wait between the crawl and the loop, and the program's data about them
keyword_options   converts keyword arguments into settings, like flags
crawl_options     the types of the keyword arguments
crawl_loop        the loop
crawl_result      the result of a crawl
blocking          a crawl for programs without an event loop
"""
