"""The same crawl by Crawlee, as its manual would have it: a ParselCrawler that follows every link within its hosts.

python -m benchmarks.crawl.peer_crawlee SEEDS PAGES.jsonl
"""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from crawlee.crawlers import ParselCrawlingContext

CONCURRENCY = 64


async def crawl(seeds: list[str], pages: Path) -> None:
    """Crawl the hosts of the seeds, and write a line for each page. Raises ImportError if Crawlee is not installed."""
    from crawlee import ConcurrencySettings, Glob  # noqa: PLC0415, not everybody has it
    from crawlee.crawlers import ParselCrawler  # noqa: PLC0415

    origins = {(parts.scheme, parts.netloc) for parts in map(urlsplit, seeds)}
    hosts = [Glob(f"{scheme}://{netloc}/**") for scheme, netloc in sorted(origins)]
    crawler = ParselCrawler(
        concurrency_settings=ConcurrencySettings(
            min_concurrency=CONCURRENCY, desired_concurrency=CONCURRENCY, max_concurrency=CONCURRENCY
        ),
        respect_robots_txt_file=True,
        request_handler_timeout=timedelta(seconds=60),
        configure_logging=False,
    )
    with pages.open("w") as sink:

        async def handle(context: ParselCrawlingContext) -> None:
            row = {
                "url": context.request.loaded_url or context.request.url,
                "status": context.http_response.status_code,
            }
            sink.write(json.dumps(row) + "\n")
            await context.enqueue_links(strategy="all", include=hosts)

        crawler.router.default_handler(handle)
        await crawler.run(seeds)


def main() -> None:
    seeds, pages = map(Path, sys.argv[1:])
    asyncio.run(crawl(seeds.read_text().split(), pages))


if __name__ == "__main__":
    main()
