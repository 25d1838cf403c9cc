"""Own rules in a crawl: excluded records, without a request, that a run which permits them queues again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from msgspec.structs import replace

from crawler.base.settings.parts import FetchSettings, RobotsSettings
from crawler.engine.lifecycle import Stop
from crawler.url.refusal.forbidden_targets import Permits, refusal_of_address
from crawler.web.fetch import Failure
from tests.jobs import rows, verify
from tests.laboratory import SETTINGS, Laboratory, links
from tests.program import crawler
from tests.simulated_web import redirect
from tests.site import Site, linked

WITH_ROBOTS = replace(SETTINGS, robots=RobotsSettings())
INSIDE = "http://10.0.0.1/"
A = "http://a.test/"


def private(address: str = "10.0.0.1") -> Failure:
    """What a fetcher says of a name that resolves to a private address."""
    refusal = refusal_of_address(address, Permits.of(FetchSettings()))
    assert refusal is not None
    return Failure.refused(refusal)


def permitting(lab: Laboratory, **fetch: Any) -> Laboratory:
    lab.settings = replace(lab.settings, fetch=FetchSettings(**fetch))
    return lab


def rules(lab: Laboratory) -> Counter[str | None]:
    return Counter(record.get("rule") for record in lab.records())


@pytest.mark.parametrize("settings", [SETTINGS, WITH_ROBOTS])
def test_refused_urls_cost_no_request_and_no_time(tmp_path: Path, settings: Any) -> None:
    pages = {A: links([f"{INSIDE}{n}" for n in range(30)] + ["http://b.test:25/"]), f"{A}robots.txt": ""}
    lab = Laboratory(tmp_path, pages, settings)
    began = lab.now
    assert lab.run(A, *(f"http://192.168.0.1/{n}" for n in range(300))) is Stop.FINISHED
    assert lab.now - began < 5.0, "their hosts have no gap"
    assert rules(lab) == {"private-address": 330, "blocked-port": 1, None: 1}
    assert {record["outcome"] for record in lab.records() if "rule" in record} == {"excluded"}
    assert {asked.href for asked in lab.asked} <= {A, f"{A}robots.txt"}


@pytest.mark.parametrize("settings", [SETTINGS, WITH_ROBOTS])
def test_a_name_that_resolves_to_a_private_address_is_asked_for_once(tmp_path: Path, settings: Any) -> None:
    inner = {f"http://inner.test/{n}": private() for n in range(50)} | {"http://inner.test/robots.txt": private()}
    lab = Laboratory(tmp_path, {A: links(list(inner)[:50]), f"{A}robots.txt": "", **inner}, settings)
    began = lab.now
    assert lab.run(A) is Stop.FINISHED
    assert lab.now - began < 10.0
    assert rules(lab) == {"private-address": 50, None: 1}
    assert len(lab.requests_to("inner.test")) == 1


def test_redirects_are_judged_too(tmp_path: Path) -> None:
    pages = {
        A: redirect(INSIDE),
        f"{A}robots.txt": "",
        "http://b.test/": "b",
        "http://b.test/robots.txt": redirect(f"{INSIDE}robots.txt"),
        "http://c.test/": "c",
        "http://c.test/robots.txt": redirect("http://inner.test/robots.txt"),
        "http://inner.test/robots.txt": private(),
    }
    lab = Laboratory(tmp_path, pages, WITH_ROBOTS)
    assert lab.run(A, "http://b.test/", "http://c.test/") is Stop.FINISHED
    found = {record["url"]: record.get("rule", record["outcome"]) for record in lab.records()}
    assert found == {A: "redirect", INSIDE: "private-address", "http://b.test/": "private-address"} | {
        "http://c.test/": "private-address"
    }
    assert not lab.requests_to("10.0.0.1")


def test_a_run_that_permits_them_queues_them_again(tmp_path: Path) -> None:
    inside = [f"{INSIDE}{n}" for n in range(600)]
    lab = Laboratory(tmp_path, {A: links([*inside, "http://b.test:25/"]), **dict.fromkeys(inside, "inside")})
    lab.with_politeness(delay=0.0)
    assert lab.run(A, "http://192.168.0.1/") is Stop.FINISHED
    assert lab.run(A) is Stop.FINISHED
    assert len(lab.records()) == 603, "nothing has changed: nothing is looked at"

    assert permitting(lab, allow_networks=("10.0.0.0/8",)).run(A) is Stop.FINISHED
    assert Counter(record["url"] for record in lab.records() if record["outcome"] == "fetched") == Counter([A, *inside])
    assert rules(lab) == {"private-address": 601, "blocked-port": 1, None: 601}
    assert permitting(lab, allow_networks=("10.0.0.0/8",), allow_ports=(25,)).run(A) is Stop.FINISHED
    assert lab.records()[-1]["url"] == "http://b.test:25/"
    assert permitting(lab, allow_private=True).run(A) is Stop.FINISHED
    assert lab.records()[-1]["url"] == "http://192.168.0.1/"
    assert len(lab.records()) == 603 + 600 + 2


# -- the program -----------------------------------------------------------------------------------------------


def test_no_page_chooses_credentials(tmp_path: Path) -> None:
    sent: list[str | None] = []

    async def secret(request: web.Request) -> web.StreamResponse:
        sent.append(request.headers.get("Authorization"))
        return web.Response(text="x")

    async def away(request: web.Request) -> web.StreamResponse:
        raise web.HTTPFound(f"http://user:pw@{request.host}/redirected")

    names = ("/linked", "/redirected", "/relative", "/seed")
    pages: dict[str, Any] = dict.fromkeys(names, secret)
    with Site(pages) as site:
        base = f"http://user:pw@{site.hosts[0]}/"
        pages |= {"/": linked([f"{base}linked", "/based", "/away"]), "/away": away}
        pages["/based"] = f'<base href="{base}"><a href="relative">x</a>'
        (tmp_path / "seeds.txt").write_text(f"{site.url('/')}\n{base}seed\n")
        ran = crawler(tmp_path / "seeds.txt", "--job", tmp_path / "job", "--quiet", "--delay", "0", "--allow-private")
    assert sent == [None] * 4
    assert ran.code == 0
    assert site.url("/seed") in ran.err
    assert ran.err.count("\n") == 1
    assert "user:pw" not in (tmp_path / "job" / "pages.jsonl").read_text()
    assert {row["url"] for row in rows(tmp_path / "job")} >= {site.url(name) for name in names}


def test_a_page_does_not_choose_300_ports(tmp_path: Path) -> None:
    with Site({}) as site:
        address = site.hosts[0].rpartition(":")[0]
        port = int(site.hosts[0].rpartition(":")[2])
        others = [number for number in range(20_000, 20_301) if number != port][:300]
        site.pages = {"/": linked([f"http://{address}:{number}/" for number in (*others, 25, 0)])}  # type: ignore[misc]
        (tmp_path / "seeds.txt").write_text(site.url("/") + "\n")
        (tmp_path / "c.toml").write_text("[retry]\ntries = 1\n[robots]\nignore = true\n")
        words = ("--job", tmp_path / "job", "--config", tmp_path / "c.toml", "--scope", "domain", "--allow-private")
        ran = crawler(tmp_path / "seeds.txt", *words, "--quiet", "--delay", "0")
    assert ran.code == 0
    found = Counter(row.get("rule", row["outcome"]) for row in rows(tmp_path / "job"))
    assert found == {"fetched": 1, "failed": 16, "too-many-ports": 284, "blocked-port": 2}
    assert verify(tmp_path / "job").code == 0
