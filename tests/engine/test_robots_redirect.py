"""A robots.txt that redirects to another host: what follows is a request to that host, with its gap and its leases."""

from __future__ import annotations

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from crawler.base.settings.parts import PolitenessSettings, RobotsSettings
from crawler.engine.lifecycle import Stop
from crawler.web.fetch import Response
from tests.examples import TIMES
from tests.laboratory import SETTINGS, Laboratory, apart, links
from tests.simulated_web import redirect

WITH_ROBOTS = replace(SETTINGS, robots=RobotsSettings())
A, B = "http://a.test/", "http://b.test/"


def laboratory(tmp_path: Path, pages: dict[str, object], **politeness: object) -> Laboratory:
    polite = replace(WITH_ROBOTS, politeness=PolitenessSettings(**politeness))  # type: ignore[arg-type]
    return Laboratory(tmp_path, pages, polite)  # type: ignore[arg-type]


def test_a_host_that_is_held_is_not_asked_before_its_time(tmp_path: Path) -> None:
    pages: dict[str, object] = {A: "a", f"{A}robots.txt": redirect(f"{B}r"), f"{B}r": "", f"{B}robots.txt": ""}
    lab = laboratory(tmp_path, pages | {B: Response(429, {}, None, None, None, None, "600", 0.0, 0)})
    lab.run(B, max_time=5.0)
    lab.pages[B] = "b"
    assert lab.run(A, max_time=500.0) is Stop.MAX_TIME
    assert len(lab.requests_to("b.test")) == 2
    lab.run(max_time=700.0)
    assert {record["url"]: record["outcome"] for record in lab.records()} == {A: "fetched", B: "fetched"}
    apart(lab.requests_to("b.test"), 1.0)


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
        apart(lab.requests_to(*(name for name in names if keys[host_key](name) == key)), delay)
