"""A robots.txt that redirects to another host: what follows is a request to that host, with its gap and its leases."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from crawler.base.settings import PolitenessSettings, RobotsSettings
from crawler.engine.lifecycle import Stop
from crawler.web.fetch import Failure, FailureKind, Response
from crawler.web.fetch.simulated import redirect
from tests.examples import TIMES
from tests.laboratory import SETTINGS, Laboratory, links
from tests.program import crawler
from tests.site import Site

WITH_ROBOTS = replace(SETTINGS, robots=RobotsSettings())
A, B = "http://a.test/", "http://b.test/"


def laboratory(tmp_path: Path, pages: dict[str, object], **politeness: object) -> Laboratory:
    polite = replace(WITH_ROBOTS, politeness=PolitenessSettings(**politeness))  # type: ignore[arg-type]
    return Laboratory(tmp_path, pages, polite)  # type: ignore[arg-type]


def apart(lab: Laboratory, *names: str, gap: float) -> None:
    asked = sorted(lab.requests_to(*names), key=lambda each: each.begin)
    for one, other in itertools.pairwise(asked):
        assert other.begin - one.end >= gap - 1e-6, (one, other)


def small_web(own: str = "robots.txt") -> dict[str, object]:
    pages: dict[str, object] = {B: links([f"{B}{n}" for n in range(10)]), f"{B}robots.txt": "", f"{B}{own}": ""}
    for n in range(5):
        pages |= {f"http://a{n}.test/": "a", f"http://a{n}.test/robots.txt": redirect(f"{B}{own}")}
    return pages | {f"{B}{n}": "b" for n in range(10)}


@pytest.mark.parametrize("own", ["robots.txt", "common/robots.txt"])
@pytest.mark.parametrize("delay", [0.0, 1.0])
def test_the_other_host_is_never_asked_twice_at_once_nor_before_its_gap_is_over(
    tmp_path: Path, own: str, delay: float
) -> None:
    lab = laboratory(tmp_path, small_web(own), delay=delay)
    assert lab.run(B, *(f"http://a{n}.test/" for n in range(5))) is Stop.FINISHED
    assert {record["outcome"] for record in lab.records()} == {"fetched"}
    assert len(lab.records()) == 16
    for name in ("b.test", *(f"a{n}.test" for n in range(5))):
        apart(lab, name, gap=delay)


def test_what_the_other_host_says_of_itself_is_not_asked_again(tmp_path: Path) -> None:
    lab = laboratory(tmp_path, small_web())
    lab.run(B)
    lab.asked.clear()
    assert lab.run(*(f"http://a{n}.test/" for n in range(5))) is Stop.FINISHED
    assert lab.requests_to("b.test") == []


def test_a_host_that_nothing_is_queued_of_is_asked_once_for_all(tmp_path: Path) -> None:
    lab = laboratory(tmp_path, small_web())
    assert lab.run(*(f"http://a{n}.test/" for n in range(5))) is Stop.FINISHED
    assert [asked.href for asked in lab.requests_to("b.test")] == [f"{B}robots.txt"]
    assert lab.run(B) is Stop.FINISHED
    assert len(lab.records()) == 16


@pytest.mark.parametrize("host_key", ["host", "origin", "domain", "address"])
def test_hosts_of_one_key_wait_for_no_lease_that_they_hold_themselves(tmp_path: Path, host_key: str) -> None:
    names = ("a.one.test", "b.one.test", "c.two.test")
    pages: dict[str, object] = {f"http://{name}/": links([f"/{n}" for n in range(3)]) for name in names}
    pages |= {f"http://{name}/{n}": "x" for name in names for n in range(3)}
    for name, to in itertools.pairwise((*names, names[0])):
        pages |= {f"http://{name}/robots.txt": redirect(f"http://{to}/r"), f"http://{to}/r": ""}
    lab = laboratory(tmp_path, pages, host_key=host_key)
    lab.addresses = {names[0]: "192.0.2.1", names[1]: "192.0.2.1", names[2]: "192.0.2.2"}
    assert lab.run(*(f"http://{name}/" for name in names)) is Stop.FINISHED
    assert [record["outcome"] for record in lab.records()] == ["fetched"] * 12


def test_hosts_that_lead_to_each_other_have_none(tmp_path: Path) -> None:
    pages: dict[str, object] = {A: "a", B: "b", f"{A}robots.txt": redirect(f"{B}robots.txt")}
    lab = laboratory(tmp_path, pages | {f"{B}robots.txt": redirect(f"{A}robots.txt")})
    assert lab.run(A, B, max_time=600.0) is Stop.FINISHED
    assert [record["outcome"] for record in lab.records()] == ["fetched"] * 2
    apart(lab, "a.test", gap=1.0)
    apart(lab, "b.test", gap=1.0)


def test_the_strike_is_of_the_host_that_gave_no_answer(tmp_path: Path) -> None:
    gone = Failure(FailureKind.REFUSED, "connection refused", 0.0)
    lab = laboratory(tmp_path, {A: "a", f"{A}robots.txt": redirect(f"{B}r"), f"{B}r": gone})
    rows = []

    async def look(crawl: object, job: object) -> None:
        rows.append(job)

    assert lab.run(A, during=look) is Stop.FINISHED
    frontier = rows[0].frontier  # type: ignore[attr-defined]
    a, b = (frontier.describe(f"{name}.test:80", lab.now) for name in "ab")
    assert (a.errors, b.errors) == ({}, {"refused": 4})
    assert lab.records()[0]["error"] == "robots.txt could not be fetched: refused: connection refused"


def test_a_host_that_is_held_is_not_asked_before_its_time(tmp_path: Path) -> None:
    pages: dict[str, object] = {A: "a", f"{A}robots.txt": redirect(f"{B}r"), f"{B}r": "", f"{B}robots.txt": ""}
    lab = laboratory(tmp_path, pages | {B: Response(429, {}, None, None, None, None, "600", 0.0, 0)})
    lab.run(B, max_time=5.0)
    lab.pages[B] = "b"
    assert lab.run(A, max_time=500.0) is Stop.MAX_TIME
    assert len(lab.requests_to("b.test")) == 2
    lab.run(max_time=700.0)
    assert {record["url"]: record["outcome"] for record in lab.records()} == {A: "fetched", B: "fetched"}
    apart(lab, "b.test", gap=1.0)


def test_a_host_that_was_lent_has_its_turn_before_the_other_is_done(tmp_path: Path) -> None:
    pages: dict[str, object] = {A: "a", B: "b", f"{A}robots.txt": redirect(f"{B}r"), f"{A}r": "", f"{B}robots.txt": ""}
    lab = laboratory(tmp_path, pages | {f"{B}r": redirect(f"{A}r")}, delay=30.0)
    began = lab.now
    assert lab.run(A, B) is Stop.FINISHED
    asked = {each.href: each.begin - began for each in lab.asked}
    assert asked[f"{B}r"] < 31 + 1
    assert asked[B] < 62 + 1, "its gap after that, and no more"
    apart(lab, "b.test", gap=30.0)


def test_a_blocked_host_is_not_asked(tmp_path: Path) -> None:
    lab = laboratory(tmp_path, {A: "a", f"{A}robots.txt": redirect(f"{B}r"), f"{B}r": "", B: "b", f"{B}robots.txt": ""})
    lab.run(B)
    before = len(lab.requests_to("b.test"))

    async def block(crawl: object, job: object) -> None:
        job.change_hosts(lambda batch: job.frontier.overrides.block("b.test:80", batch))  # type: ignore[attr-defined]

    assert lab.run(A, during=block) is Stop.FINISHED
    assert len(lab.requests_to("b.test")) == before
    assert "asked no more: blocked" in lab.records()[-1]["error"]


def test_a_long_crawl_delay_is_cut_between_two_redirects_too(tmp_path: Path) -> None:
    pages: dict[str, object] = {A: "a", f"{A}robots.txt": "User-agent: *\nCrawl-delay: 86400"}
    lab = laboratory(tmp_path, pages)
    lab.run(A)
    lab.pages |= {f"{A}robots.txt": redirect("/r"), f"{A}r": "", f"{A}x": "x"}
    lab.now += 90_000
    began = lab.now
    assert lab.run(f"{A}x") is Stop.FINISHED
    assert lab.now - began < 400


def test_a_job_that_met_a_host_only_so_is_whole(tmp_path: Path) -> None:
    with Site({"/": "a", "/r": "User-agent: *\nDisallow: /no", "/no": "no"}, ports=2) as site:

        async def robots(request: web.Request) -> web.Response:
            raise web.HTTPFound(site.url("/r", 1))

        site.robots = robots
        seeds = tmp_path / "seeds"
        seeds.write_text(site.url("/") + "\n" + site.url("/no") + "\n")
        words = ("--job", tmp_path / "job", "--allow-private", "--delay", "0.05", "--host-key", "origin")
        assert crawler("crawl", seeds, *words).code == 0
    outcomes = [json.loads(line)["error"] for line in (tmp_path / "job" / "pages.jsonl").read_text().splitlines()]
    assert outcomes == [None, "disallowed by robots.txt"]
    assert [asked.path for asked in site.asked if asked.host == site.hosts[1]] == ["/r"]
    whole = crawler("verify", tmp_path / "job")
    assert (whole.code, whole.err) == (0, "")
    hosts = json.loads(crawler("hosts", tmp_path / "job", "--json").out)
    assert hosts["total"] == 2


@given(
    seed=st.integers(0, 2**32),
    host_key=st.sampled_from(["host", "domain", "address"]),
    delay=st.sampled_from([0.0, 0.5, 2.0]),
)
@settings(max_examples=6 * TIMES)
def test_whatever_leads_where_nobody_is_hurt_and_all_come_to_an_end(seed: int, host_key: str, delay: float) -> None:
    chance = Random(seed)
    names = [f"{'abc'[n % 3]}.{'xyz'[n // 3]}.test" for n in range(9)]
    addresses = {name: f"192.0.2.{chance.randrange(4)}" for name in names[:-1]}
    pages: dict[str, object] = {}
    for name in names:
        pages |= {
            f"http://{name}/": links([f"/{n}" for n in range(3)]),
            f"http://{name}/r": "User-agent: *\nDisallow: /2",
        }
        pages |= {f"http://{name}/{n}": "x" for n in range(3)}
        to = chance.choice([*names, "elsewhere.test"])
        pages[f"http://{name}/robots.txt"] = chance.choice(
            [
                redirect(f"http://{to}/robots.txt"),
                redirect(f"http://{to}/r"),
                Response(503, {}, None, None, b"", None, "7", 0.0, 0),
                "",
            ]
        )
    with TemporaryDirectory() as directory:
        lab = laboratory(Path(directory), pages, host_key=host_key, delay=delay)
        lab.addresses = addresses
        assert lab.run(*(f"http://{name}/" for name in names)) is Stop.FINISHED
        urls = [record["url"] for record in lab.records()]
    assert len(urls) == len(set(urls)) >= len(names)
    keys = {
        "host": lambda name: name,
        "domain": lambda name: name[2:],
        "address": lambda name: addresses.get(name, name),
    }
    for key in {keys[host_key](name) for name in names}:
        apart(lab, *(name for name in names if keys[host_key](name) == key), gap=delay)
