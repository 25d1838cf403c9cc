"""A crawl as a loop in somebody else's program.

deliveries        what waits between the crawl and the loop
page_data         what the program says of a page, as its record can keep it
delivered_page    a page in the hands of the loop
keyword_options   arguments into settings, as flags are
crawl_options     their types
crawl_loop        the loop
crawl_result      what came of a crawl
blocking          the same for programs without an event loop
"""
