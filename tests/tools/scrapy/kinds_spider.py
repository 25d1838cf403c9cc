"""Requests of all kinds. What a callback saw goes to the file ``saw``, one JSON object a line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from scrapy import FormRequest, Request, Spider

CLOSED = "http://127.0.0.1:1/"  # where nothing listens


class KindsSpider(Spider):
    name = "kinds"

    def __init__(self, web: str, saw: str, **options: Any) -> None:
        super().__init__(**options)
        self.start_urls = [f"{web}/"]
        self.web = web
        self.saw = open(saw, "a", encoding="utf-8")  # noqa: SIM115 - open until the process ends

    def see(self, kind: str, **what: Any) -> None:
        self.saw.write(json.dumps({"kind": kind, **what}) + "\n")
        self.saw.flush()

    def parse(self, response: Any) -> Iterator[Any]:
        self.see("start")
        web = self.web
        yield Request(f"{web}/page/0", self.page)
        for text in ("a", "b"):
            yield FormRequest(f"{web}/post", self.posted, formdata={"text": text}, cb_kwargs={"text": text})
        for _ in range(2):
            yield Request(f"{web}/again", self.other, dont_filter=True)
            yield Request(f"{web}/once", self.other)
        yield Request(f"{web}/missing", self.other, errback=self.failed)
        yield Request(CLOSED, self.other, errback=self.failed, meta={"max_retry_times": 1})
        yield Request(f"{web}/old", self.other, meta={"from": "old"})
        yield Request(f"{web}/flaky", self.other)
        yield Request(f"{web}/raises", self.raises)
        yield Request(
            f"{web}/told",
            self.told,
            meta={"deep": {"list": [1, "two"]}},
            cb_kwargs={"word": "kept"},
            headers={"X-Own": "mine"},
            cookies={"biscuit": "sweet"},
            flags=["flagged"],
        )
        yield Request(f"{web}/in-memory", lambda answer: self.see("in-memory", url=answer.url))
        for priority in (-5, 10**12, 7):
            yield Request(f"{web}/priority/{priority}", self.other, priority=priority)

    def page(self, response: Any) -> Iterator[Any]:
        for path in re.findall('href="([^"]+)"', response.text):
            yield Request(self.web + path, self.page)
        yield {"url": response.url}

    def posted(self, response: Any, text: str) -> None:
        self.see("posted", text=text, body=response.text)

    def other(self, response: Any) -> None:
        self.see("other", url=response.url, came_from=response.meta.get("from"))

    def raises(self, response: Any) -> Iterator[Any]:
        yield Request(f"{self.web}/before-it-raised", self.other)
        raise ValueError("a fault of the spider")

    def told(self, response: Any, word: str) -> None:
        request = response.request
        self.see("told", deep=response.meta["deep"], word=word, flags=request.flags, echo=json.loads(response.text))

    def failed(self, failure: Any) -> Iterator[Any]:
        # In some versions Scrapy wraps the exceptions of Twisted.
        error = failure.type.__name__.removeprefix("Download")
        self.see("failed", url=failure.request.url, error=error)
        yield Request(f"{self.web}/after-a-failure/{error}", self.other)
