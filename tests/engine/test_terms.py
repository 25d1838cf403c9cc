"""Files with terms of use, in whole crawls: when they are asked for, and what they do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from crawler.base.settings.parts import PolitenessSettings, PurposeSettings, RobotsSettings, Settings
from crawler.engine.lifecycle import Stop
from crawler.engine.robots_visit import FILES_MOST
from crawler.web.fetch import Failure, FailureKind
from tests.engine.test_directives import answer
from tests.laboratory import SETTINGS, Laboratory, apart, links

A, B = "http://a.test/", "http://b.test/"
TDM = ".well-known/tdmrep.json"
OBEYED = replace(SETTINGS, robots=RobotsSettings(), purpose=PurposeSettings(("ai-train",)))
PAGES = {A: links([f"{A}open/b", f"{A}c"]), f"{A}open/b": "b", f"{A}c": "c"}
RESERVED = answer(json.dumps([{"location": "/", "tdm-reservation": 1}, {"location": "/open/", "tdm-reservation": 0}]))
LICENSE = """<rsl xmlns="https://rslstandard.org/rsl"><content url="/c"><license>
<prohibits type="usage">ai-train</prohibits></license></content></rsl>"""


def named(url: str, more: str = "") -> Any:
    return answer(f"User-agent: *\n{more}\nLicense: {url}", kind="text/plain")


def crawled(tmp_path: Path, pages: dict[str, Any], settings: Settings = OBEYED, *seeds: str) -> Laboratory:
    lab = Laboratory(tmp_path, PAGES | pages, settings)
    assert lab.run(*(seeds or (A,))) is Stop.FINISHED
    return lab


def outcomes(lab: Laboratory) -> dict[str, str]:
    return {record["url"].removeprefix(A): record["outcome"] for record in lab.records()}


def asked(lab: Laboratory) -> list[str]:
    return [each.href.removeprefix(A) for each in lab.asked]


def test_a_reservation_of_the_host_holds_for_its_pages(tmp_path: Path) -> None:
    lab = crawled(tmp_path, {A + TDM: RESERVED})
    assert asked(lab)[:3] == ["robots.txt", TDM, ""]
    assert outcomes(lab) == {"": "excluded", "open/b": "fetched", "c": "excluded"}
    assert {record["url"]: record["consent_by"] for record in lab.records()}[f"{A}c"]["tdm"] == "tdmrep.json"


def test_a_license_of_the_host_holds_for_its_pages(tmp_path: Path) -> None:
    lab = crawled(tmp_path, {f"{A}robots.txt": named("/license.xml"), f"{A}license.xml": answer(LICENSE)})
    assert asked(lab)[:4] == ["robots.txt", TDM, "license.xml", ""]
    assert outcomes(lab) == {"": "fetched", "open/b": "fetched", "c": "excluded"}


def test_all_licenses_that_robots_txt_names_hold(tmp_path: Path) -> None:
    of_b = LICENSE.replace('"/c"', '"/open/"')
    pages = {f"{A}1.xml": answer(LICENSE), f"{A}2.xml": answer(of_b), f"{A}3.xml": answer(FREE)}
    lab = crawled(tmp_path, {f"{A}robots.txt": named("/1.xml\nLicense: /2.xml\nLicense: /3.xml"), **pages})
    assert asked(lab)[:6] == ["robots.txt", TDM, "1.xml", "2.xml", "3.xml", ""]
    assert outcomes(lab) == {"": "fetched", "open/b": "excluded", "c": "excluded"}
    assert {record["license"] for record in lab.records()} == {f"{A}1.xml"}


def test_a_host_is_asked_once_and_a_later_run_knows(tmp_path: Path) -> None:
    lab = crawled(tmp_path, {A + TDM: RESERVED, f"{A}robots.txt": named("/x.xml"), f"{A}d": "d"})
    lab.run(f"{A}d")
    assert sorted(asked(lab)) == sorted(["robots.txt", TDM, "x.xml", "", "open/b", "c", "d"])
    assert outcomes(lab)["d"] == "excluded"


def test_without_a_purpose_no_file_is_asked_for_and_with_one_later_it_is(tmp_path: Path) -> None:
    lab = crawled(tmp_path, {A + TDM: RESERVED, f"{A}d": "d"}, replace(OBEYED, purpose=PurposeSettings()))
    assert sorted(asked(lab)) == ["", "c", "open/b", "robots.txt"]
    lab.settings = OBEYED
    lab.run(f"{A}d")
    assert asked(lab)[4:] == [TDM, "d"]
    assert outcomes(lab)["d"] == "excluded"


def test_they_wait_for_the_gap_that_robots_txt_asks_for(tmp_path: Path) -> None:
    pages = {f"{A}robots.txt": named("/license.xml", "Crawl-delay: 7"), f"{A}license.xml": answer(LICENSE)}
    lab = crawled(tmp_path, pages, replace(OBEYED, politeness=PolitenessSettings(delay=1.0)))
    assert len(lab.asked) == 6
    apart(lab.asked, 7.0)


def test_hosts_that_name_the_same_license_have_it_fetched_once(tmp_path: Path) -> None:
    robots, shared = named("http://l.test/license.xml"), "http://l.test/license.xml"
    pages = {f"{A}robots.txt": robots, f"{B}robots.txt": robots, shared: answer(LICENSE), B: "b", f"{B}c": "c"}
    lab = crawled(tmp_path, pages, OBEYED, A)
    lab.run(f"{B}c")
    assert [each.href for each in lab.requests_to("l.test")] == [shared, shared]  # once a run
    assert (outcomes(lab)["c"], outcomes(lab)[f"{B}c"]) == ("excluded", "excluded")
    (tmp_path / "both").mkdir()
    both = crawled(tmp_path / "both", pages | {A: links([f"{B}c"])}, OBEYED, A)
    assert [each.href for each in both.requests_to("l.test")] == [shared]
    assert outcomes(both)[f"{B}c"] == "excluded"


def test_what_robots_txt_disallows_is_not_asked_for(tmp_path: Path) -> None:
    robots = named("/no/x.xml", "Disallow: /no/\nDisallow: /.well-known/")
    lab = crawled(tmp_path, {f"{A}robots.txt": robots, A + TDM: RESERVED})
    assert sorted(asked(lab)) == ["", "c", "open/b", "robots.txt"]


def test_a_file_is_tried_again_and_then_states_nothing(tmp_path: Path) -> None:
    down = Failure(FailureKind.UNREACHABLE, "down", 0.0)
    for number, bad in enumerate(
        [answer("", status=503), down, answer("<html>", status=200), answer("no", status=403)]
    ):
        (tmp_path / str(number)).mkdir()
        lab = crawled(tmp_path / str(number), {A + TDM: bad})
        assert (asked(lab).count(TDM) > 1) == (number < 2)
        assert outcomes(lab) == {"": "fetched", "open/b": "fetched", "c": "fetched"}


@pytest.mark.parametrize("status", [301, 302, 308])
def test_a_redirect_is_followed(tmp_path: Path, status: int) -> None:
    moved = replace(answer("", status=status), location="/tdm.json")
    lab = crawled(tmp_path, {A + TDM: moved, f"{A}tdm.json": RESERVED})
    assert asked(lab)[:3] == ["robots.txt", TDM, "tdm.json"]
    assert outcomes(lab)["c"] == "excluded"


RSL = 'rel="license"; type="application/rsl+xml"'
ELEMENT = '<link rel="license" type="application/rsl+xml" href="{}">'
FREE = LICENSE.replace("prohibits", "permits")
NO_C = answer("c" + ELEMENT.format("/l.xml"))


@pytest.mark.parametrize(
    ("pages", "refused"),
    [
        ({f"{A}c": NO_C, f"{A}l.xml": answer(LICENSE)}, True),
        ({f"{A}c": answer("c", ("Link", f"</l.xml>; {RSL}")), f"{A}l.xml": answer(LICENSE)}, True),
        ({f"{A}c": answer(None, ("Link", f"</l.xml>; {RSL}"), kind="image/png"), f"{A}l.xml": answer(LICENSE)}, True),
        ({f"{A}c": NO_C, f"{A}l.xml": answer(FREE)}, False),
        ({f"{A}c": NO_C, f"{A}l.xml": answer(LICENSE.replace('"/c"', '"/d"'))}, False),
        ({f"{A}c": NO_C, f"{A}l.xml": answer("", status=404)}, False),
        (
            {f"{A}c": NO_C, f"{A}l.xml": answer(FREE), A + TDM: answer('[{"location": "/c", "tdm-reservation": 1}]')},
            True,
        ),
        ({f"{A}c": answer("c" + ELEMENT.format("http://l.test/l.xml")), "http://l.test/l.xml": answer(LICENSE)}, True),
    ],
)
def test_a_license_of_a_page_holds_for_that_page(tmp_path: Path, pages: dict[str, Any], refused: bool) -> None:
    lab = crawled(tmp_path, pages)
    assert outcomes(lab) == {"": "fetched", "open/b": "fetched", "c": "excluded" if refused else "fetched"}
    assert (asked(lab).count("c"), sum(each.endswith("l.xml") for each in asked(lab))) == (2, 1)


@pytest.mark.parametrize(("of_header", "of_element"), [(LICENSE, FREE), (FREE, LICENSE)])
def test_of_the_licenses_in_header_and_element_the_stricter_holds(
    tmp_path: Path, of_header: str, of_element: str
) -> None:
    page = answer(ELEMENT.format("/e.xml"), ("Link", f"</h.xml>; {RSL}"))
    lab = crawled(tmp_path, {f"{A}c": page, f"{A}h.xml": answer(of_header), f"{A}e.xml": answer(of_element)})
    assert outcomes(lab) == {"": "fetched", "open/b": "fetched", "c": "excluded"}
    assert (asked(lab).count("h.xml"), asked(lab).count("e.xml")) == (1, 1)


def test_a_license_that_many_pages_name_is_asked_for_once(tmp_path: Path) -> None:
    paths = [f"{A}{number}" for number in range(9)]
    named = dict.fromkeys(paths, answer(ELEMENT.format("/l.xml")))
    lab = crawled(tmp_path, {A: links(paths), **named, f"{A}l.xml": answer(LICENSE.replace('"/c"', '"/*7"'))})
    assert asked(lab).count("l.xml") == 1
    assert [path for path, outcome in outcomes(lab).items() if outcome == "excluded"] == ["7"]


def test_licenses_of_pages_are_read_with_a_purpose_up_to_a_limit_and_where_robots_txt_allows(tmp_path: Path) -> None:
    own = {f"{A}{number}": answer(ELEMENT.format(f"/l/{number}.xml")) for number in range(FILES_MOST + 4)}
    rules = {f"{A}l/{number}.xml": answer(LICENSE.replace('"/c"', '"/"')) for number in range(FILES_MOST + 4)}
    closed = answer("User-agent: *\nDisallow: /l/", kind="text/plain")
    settings = replace(OBEYED, purpose=PurposeSettings())
    for number, (more, using, most) in enumerate(
        [({}, OBEYED, FILES_MOST - 1), ({f"{A}robots.txt": closed}, OBEYED, 0), ({}, settings, 0)]
    ):
        (tmp_path / str(number)).mkdir()
        lab = crawled(tmp_path / str(number), {A: links(list(own)), **own, **rules, **more}, using)
        assert sum(each.endswith(".xml") for each in asked(lab)) == most
        assert list(outcomes(lab).values()).count("excluded") == most
