"""A crawl as a loop in somebody else's program.

page         a page in the hands of the loop
deliveries   what waits between the crawl and the loop
options      arguments into settings, as flags are
crawl        the loop
blocking     the same for programs without an event loop
"""
