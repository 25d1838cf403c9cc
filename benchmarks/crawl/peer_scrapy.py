"""The same crawl by Scrapy, as its manual would have it: a CrawlSpider that follows every link within its hosts.

python -m scrapy runspider peer_scrapy.py -a seeds=FILE -o PAGES.jsonl [-s JOBDIR=DIR]
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from scrapy.http import Response
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule


class WholeHosts(CrawlSpider):
    """Every page of the seeds' hosts; one line of output a page."""

    name = "whole-hosts"
    custom_settings = {  # noqa: RUF012, as Scrapy declares it
        "CONCURRENT_REQUESTS": 64,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
        "DOWNLOAD_DELAY": 0,
        "AUTOTHROTTLE_ENABLED": False,
        "ROBOTSTXT_OBEY": True,
        "LOG_LEVEL": "INFO",
        "TELNETCONSOLE_ENABLED": False,
    }

    def __init__(self, seeds: str, **options: Any) -> None:
        self.start_urls = Path(seeds).read_text().split()
        hosts = sorted({urlsplit(url).netloc for url in self.start_urls})
        # Offsite requests are told by host name, links by host and port.
        self.allowed_domains = [host.partition(":")[0] for host in hosts]
        self.rules = (Rule(LinkExtractor(allow_domains=hosts), callback="page", follow=True),)
        super().__init__(**options)

    def parse_start_url(self, response: Response, **_: Any) -> Iterator[dict[str, Any]]:
        return self.page(response)

    def page(self, response: Response) -> Iterator[dict[str, Any]]:
        yield {
            "url": response.url,
            "status": response.status,
            "content_type": (response.headers.get("Content-Type") or b"").decode("latin-1"),
            "depth": response.meta.get("depth", 0),
            "bytes": len(response.body),
            "seconds": response.meta.get("download_latency"),
        }
