"""Sites that make up URLs and hosts without end."""

from __future__ import annotations

import re

from tests.hostile.server import Answer, page
from tests.hostile.web import EVIL, Hostile
from tests.site import linked


def test_a_calendar_without_end(hostile: Hostile) -> None:
    def answer(path: str) -> Answer | None:
        if day := re.fullmatch(r"/calendar/(\d+)", path):
            return page(linked([f"/calendar/{int(day[1]) + 1}", f"/calendar/{int(day[1]) + 2}", "/"]))
        return {"/": page(linked(["/calendar/1", "/ok"])), "/ok": page("still here")}.get(path)

    hostile.pages[EVIL] = answer
    ran = hostile.crawl(settings={"traps.max_variants": 40})
    calendar = [row for path, row in ran.of().items() if path.startswith("/calendar/")]
    assert sum(row["outcome"] == "fetched" for row in calendar) == 40
    refused = [row["error"] for row in calendar if row["outcome"] == "excluded"]
    assert refused == ["traps.max_variants: more than 40 URLs like /calendar/#"] * 2
    assert ran.row("/ok")["outcome"] == "fetched"


def test_a_site_that_answers_every_path(hostile: Hostile) -> None:
    """Eleven pages, and for every other path one that says that it was not found, and links on."""
    real = {"/": page(linked([*(f"/p{n}" for n in range(10)), "/missing/"]))}
    real |= {f"/p{n}": page(f"page {n}" + linked([f"broken-{n}/"])) for n in range(10)}
    hostile.pages[EVIL] = lambda path: real.get(path, page("not found" + linked(["lost/", "gone/"])))
    ran = hostile.crawl()
    rows = ran.of()
    assert {rows[path]["outcome"] for path in real} == {"fetched"}
    (probe,) = (path for path, row in rows.items() if row.get("probe"))
    assert rows[probe]["outcome"] == "soft404"
    assert hostile.server.count(probe, EVIL) == 1
    assert ran.outcomes()["soft404"] > 10
    assert len(rows) < 60


def test_a_page_with_links_to_100_000_hosts(hostile: Hostile) -> None:
    many = page(linked(f"http://h{number}.example/" for number in range(100_000)))
    hostile.pages[EVIL] = {"/": page(linked(["/many", "/ok"])), "/many": many, "/ok": page("still here")}
    ran = hostile.crawl()
    assert ran.row("/many")["links"] == 100_000
    assert ran.outcomes() == {"fetched": 3}


def test_hosts_that_are_not_there(hostile: Hostile) -> None:
    odd = [
        "http://-.example/",
        "http://a..example/",
        f"http://{'a.' * 120}example/",
        "http://xn--a/",
        "http://_x.example/",
    ]
    nowhere = [f"http://no-{number}.example/" for number in range(200)]
    hostile.pages[EVIL] = {"/": page(linked([*nowhere, *odd, "/ok"])), "/ok": page("still here")}
    ran = hostile.crawl("--scope", "any", settings={"retry.tries": 1})
    lost = [row for row in ran.rows if ".example" in row["url"]]
    assert len(lost) >= len(nowhere)
    assert {row["outcome"] for row in lost} == {"failed"}
    assert ran.row("/ok")["outcome"] == "fetched"
