"""What stands beside the crawl: each uses the crawler, and nothing below knows of it.

dedup     new lines of a stream of URLs
scrapy    a spider of Scrapy on the durable frontier
bench     a made web, and a crawl of it that is measured
demo      a small web on this machine, to try the program with
"""
