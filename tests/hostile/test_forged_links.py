"""A page links to a URL that was made to have the digest of another: the program fetches both."""

from __future__ import annotations

import json

from tests.hostile.forge import forge
from tests.hostile.server import page
from tests.hostile.web import EVIL, Hostile
from tests.program import crawler
from tests.site import linked


def test_a_page_cannot_hide_another_url(hostile: Hostile) -> None:
    victim = hostile.url("/victim")
    forged = forge(victim, hostile.url("/?")).removeprefix(hostile.url(""))
    hostile.pages[EVIL] = {
        "/": page(linked([forged.replace("&", "&amp;"), "/later"])),
        forged: page("the forged page"),
        "/later": page(linked(["/victim"])),  # found when the forged one has been admitted
        "/victim": page("the victim"),
    }
    for flags in ((), ("--no-ledger",), ("--seen", "digest")):
        hostile.job = hostile.directory / "-".join(["job", *flags])
        hostile.innocent.asked.clear()
        ran = hostile.crawl(*flags)
        assert {path: row["outcome"] for path, row in ran.of().items()} == dict.fromkeys(
            hostile.pages[EVIL], "fetched"
        ), flags
    stats = json.loads(crawler("stats", hostile.job, "--json").out)
    assert stats["seen"]["hash"] == {"algorithm": "blake2b", "keyed": True, "forgeable": False}
