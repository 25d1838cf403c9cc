"""Hosts that take their time."""

from __future__ import annotations

from tests.hostile.server import Talk, head, page, silence
from tests.hostile.web import EVIL, Hostile
from tests.site import linked

HASTY = {"fetch.headers_timeout": 0.5, "fetch.body_timeout": 0.7, "retry.tries": 1}


def test_a_connection_that_is_never_answered(hostile: Hostile) -> None:
    hostile.pages[EVIL] = {"/": page(linked(["/never"])), "/never": silence}
    ran = hostile.crawl(settings=HASTY)
    assert ran.row("/never")["error"].startswith("headers_timeout")


def test_a_body_that_drips(hostile: Hostile) -> None:
    async def drip(talk: Talk) -> None:
        await talk.send(head())
        await talk.drip(b"<p>" * 1000, every=0.05)

    hostile.pages[EVIL] = {"/": page(linked(["/drip"])), "/drip": drip}
    ran = hostile.crawl(settings=HASTY)
    assert ran.row("/drip")["error"].startswith("body_timeout")
