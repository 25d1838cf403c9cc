"""Tools based on the crawler. Only the package of the command line imports them.

dedup     prints the new lines of a stream of URLs
scrapy    runs a Scrapy spider on the durable frontier
bench     a synthetic web, and a measured crawl of it
demo      a small local web for trying out the program
"""
