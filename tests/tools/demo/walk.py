"""The demo's web, walked through as a crawler would."""

from __future__ import annotations

import re
from urllib.parse import urljoin, urlsplit

import aiohttp

from crawler.tools.demo.site import DemoSite

HREF = re.compile(r'href="([^"#]+)')


async def walk(site: DemoSite) -> dict[str, tuple[int, str, str]]:
    """Status, body and Location of everything that can be reached on the site's own hosts."""
    hosts = {urlsplit(seed).netloc for seed in site.seeds}
    known = dict.fromkeys(site.seeds)
    answers: dict[str, tuple[int, str, str]] = {}
    async with aiohttp.ClientSession() as session:
        while left := known.keys() - answers.keys():
            url = left.pop()
            async with session.get(url, allow_redirects=False) as response:
                body = await response.text()
                location = response.headers.get("Location", "")
                answers[url] = response.status, body, location
            for href in [*HREF.findall(body), location]:
                target = urljoin(url, href)
                if urlsplit(target).netloc in hosts:
                    known.setdefault(target)
    return answers
