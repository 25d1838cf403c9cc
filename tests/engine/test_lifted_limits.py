"""What a limit left out comes back when a later run lifts it: a crawl under limits, then one without them, finds what a
single crawl without them finds."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from crawler.base.kv import Family
from crawler.base.settings.parts import (
    BudgetSettings,
    FetchSettings,
    LinkSettings,
    ScopeSettings,
    SeenSettings,
    Settings,
    TrapSettings,
)
from crawler.job.left_out import ROWS
from crawler.job.recovery import stored_counters
from crawler.url.scope.bounds import Limit
from crawler.web.fetch import Failure, FailureKind, Response
from tests.jobs import change, findings, repair, verify
from tests.laboratory import SETTINGS, Laboratory, links
from tests.program import crawler
from tests.simulated_web import Answers, page
from tests.site import Site, tree
from tests.traps import limit_traps

ROOT = "http://a.test/"


def web(fan: int = 3, deep: int = 3) -> dict[str, str]:
    """A tree of pages on one host, each of which also links to another host, to a long URL and to a document."""
    pages, paths = {}, [""]
    for depth in range(deep + 1):
        below = [f"{path}{number}/" for path in paths for number in range(fan)] if depth < deep else []
        for path in paths:
            hrefs = [f"{ROOT}{each}" for each in below if each.startswith(path) and len(each) == len(path) + 2]
            extra = [f"http://b.test/{path}", f"{ROOT}{path}{'long' * 10}", f"{ROOT}{path}doc.pdf"]
            words = path.translate(str.maketrans("012/", "abc "))  # or they would look like one page for all paths
            pages[f"{ROOT}{path}"] = f"<p>page {words}" + links([*hrefs, *extra])
            pages |= {href: f"<p>number {len(pages) + number}" for number, href in enumerate(extra)}
        paths = below
    return pages


def limited(**tables: Any) -> Settings:
    crawl = replace(SETTINGS.crawl, **{"scope": "host", **tables.pop("crawl", {})})
    return replace(SETTINGS, crawl=crawl, **tables)


LIMITS: dict[str, tuple[Settings, Limit]] = {
    "depth": (limited(crawl={"scope": "any", "max_depth": 1}), Limit.MAX_DEPTH),
    "scope": (limited(), Limit.SCOPE),
    "include": (limited(crawl={"scope": "any"}, scope=ScopeSettings(include=("/0/*",))), Limit.INCLUDE),
    "exclude": (limited(crawl={"scope": "any"}, scope=ScopeSettings(exclude=("*.pdf", "/1/*"))), Limit.EXCLUDE),
    "length": (limited(crawl={"scope": "any"}, links=LinkSettings(max_url_length=40)), Limit.MAX_URL_LENGTH),
    "links": (limited(crawl={"scope": "any"}, links=LinkSettings(max_links=2)), Limit.MAX_LINKS),
}


def whole(lab: Laboratory) -> None:
    assert findings(lab.directory, lab.store, stored_counters(lab.store)) == []


@pytest.mark.parametrize(("name", "seen"), list(zip(LIMITS, itertools.cycle(["scalable", "exact"]), strict=False)))
def test_a_run_that_lifts_a_limit_finds_what_it_left_out(tmp_path: Path, name: str, seen: str) -> None:
    pages = web()
    settings, limit = LIMITS[name]
    lab = Laboratory(tmp_path, pages, replace(settings, seen=SeenSettings(kind=seen)))
    lab.run(ROOT)
    before = {record["url"] for record in lab.records()}
    assert before < set(pages)
    border = stored_counters(lab.store)
    assert border.links_left_out[limit] > 0
    assert border.pages_at_border == len(lab.store.scan(Family.LEFT_OUT, b""))
    whole(lab)

    lab.settings = replace(limited(crawl={"scope": "any"}), seen=SeenSettings(kind=seen))
    asked = len(lab.asked)
    lab.run(ROOT)

    assert {record["url"] for record in lab.records()} == set(pages)
    again = Counter(record["url"] for record in lab.records() if record.get("visit", 1) > 1)
    assert set(again) <= before
    assert set(again.values()) == {1}
    assert len(again) <= border.pages_at_border
    assert len(lab.asked) - asked == len(pages) - len(before) + len(again), "nothing else was asked for again"
    assert stored_counters(lab.store).pages_at_border == 0
    whole(lab)

    asked = len(lab.asked)
    lab.run(ROOT)
    assert len(lab.asked) == asked, "once"


def test_a_body_that_was_too_large_is_fetched_again(tmp_path: Path) -> None:
    large = Failure(FailureKind.TOO_LARGE, "body larger than 10 bytes", 0.0)
    lab = Laboratory(tmp_path, {ROOT: links([f"{ROOT}large"]), f"{ROOT}large": large})
    lab.settings = replace(lab.settings, fetch=FetchSettings(max_body=10))
    lab.run(ROOT)
    lab.pages[f"{ROOT}large"] = page("<p>large")
    lab.run(ROOT)
    assert [record["outcome"] for record in lab.records()] == ["fetched", "excluded"]
    lab.settings = replace(lab.settings, fetch=FetchSettings(max_body=100))
    lab.run(ROOT)
    assert [record["outcome"] for record in lab.records()] == ["fetched", "excluded", "fetched"]
    whole(lab)


def test_a_sitemap_that_was_cut_is_read_again(tmp_path: Path) -> None:
    low, limit = LinkSettings(max_links=1), Limit.MAX_LINKS
    listed = [f"{ROOT}{number}" for number in range(9)]
    body = "".join(f"<url><loc>{href}</loc></url>" for href in listed).encode()
    sitemap = b"<urlset>%b</urlset>" % body
    answer = Response(200, {}, "text/xml", None, sitemap, None, None, 0.0, len(sitemap))
    pages: dict[str, Answers] = {href: f"<p>number {href}" for href in listed}
    lab = Laboratory(tmp_path, pages | {f"{ROOT}sitemap.xml": answer}, replace(SETTINGS, links=low))
    lab.run(f"{ROOT}sitemap.xml")
    assert len(lab.records()) < len(listed)
    counts = stored_counters(lab.store)
    assert (counts.pages_at_border, counts.links_left_out) == (1, {limit: 1})
    lab.settings = SETTINGS
    lab.run()
    assert {record["url"] for record in lab.records()} == {*listed, f"{ROOT}sitemap.xml"}
    assert stored_counters(lab.store).pages_at_border == 0
    whole(lab)


def trapped() -> dict[str, Any]:
    """A site whose pages are of the kinds that traps count: on some hosts and ports, and missing ones and copies."""
    odd = [f"{ROOT}{'x/' * depth}" for depth in range(1, 9)] + [f"{ROOT}{'ab'[n % 2]}/s/s/s/s/{n}" for n in range(8)]
    odd += [f"{ROOT}list?{name}=1" for name in "abcdefgh"] + [f"http://a.test:{port}/" for port in range(8001, 8009)]
    odd += [f"http://h{n}.wild.test/" for n in range(8)]
    numbers = [f"{ROOT}n/{n}" for n in range(120)]
    ids = [f"{ROOT}s/{'ab'[n % 2]}?k={n // 2:016x}" for n in range(24)]
    pages: dict[str, Any] = {ROOT: links([*odd, *ids[:2], numbers[0], f"{ROOT}one/", f"{ROOT}two/"])}
    pages |= {href: f"<p>{name_of(n)}" + links([f"{href}y/{'abcdefgh'[n % 8]}"]) for n, href in enumerate(odd[:16])}
    pages |= {f"{href}y/{'abcdefgh'[n % 8]}": f"<p>below {name_of(n)}" for n, href in enumerate(odd[:16])}
    pages |= {href: f"<p>page {href[16]}" + links(ids[n // 2 * 2 + 2 :][:2]) for n, href in enumerate(ids)}
    pages |= {href: f"<p>other {name_of(n)}" for n, href in enumerate(odd[16:])}
    pages |= {
        href: f"<p>number {name_of(n)}" + links([f"{ROOT}n/{each}" for each in (2 * n + 1, 2 * n + 2) if each < 120])
        for n, href in enumerate(numbers)
    }
    copies = {f"{ROOT}{name}/": '<p>the same <a href="below">x</a>' for name in ("one", "two")}
    return pages | copies | {f"{href}below": f"<p>below {href[-4:-1]}" for href in copies}


def name_of(number: int) -> str:
    return "".join("abcdefghij"[int(digit)] for digit in str(number))


def below(**limits: Any) -> Settings:
    traps = TrapSettings(0, 0, soft404=False)
    budget = BudgetSettings(**{name: most for name, most in limits.items() if hasattr(BudgetSettings(), name)})
    traps = replace(traps, **{name: most for name, most in limits.items() if hasattr(traps, name)})
    return limited(crawl={"scope": "any"}, traps=traps, budget=budget)


@pytest.mark.parametrize("halfway", [False, True], ids=["at once", "in two steps"])
@pytest.mark.parametrize(
    ("setting", "most"),
    [
        ("host_pages", 5),
        ("host_bytes", 400),
        ("domain_pages", 5),
        ("max_variants", 4),
        ("max_hosts", 2),
        ("duplicates", "skip-links"),
    ],
)
def test_what_a_budget_or_a_trap_left_out_comes_when_it_is_lifted(
    tmp_path: Path, setting: str, most: Any, halfway: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    off = dict.fromkeys(("max_segments", "max_repeats", "max_query_shapes", "max_ports", "max_id_copies"), 10**6)
    limit_traps(monkeypatch, **off, max_records=2)
    pages = trapped()
    lab = Laboratory(tmp_path, pages, below(**{setting: most})).with_politeness(delay=0.0, per_host=1)
    lab.run(ROOT)
    assert {record["url"] for record in lab.records() if record["outcome"] == "fetched"} < set(pages)
    assert any(setting in str(record["error"]) for record in lab.records())
    whole(lab)

    free = Laboratory(tmp_path / "free", pages, below()).with_politeness(delay=0.0, per_host=1)
    free.run(ROOT)
    lifted = {"duplicates": "record"}.get(setting, None if setting.startswith(("host_", "domain_")) else 0)
    steps = [most if setting == "duplicates" else most + 2, lifted] if halfway else [lifted]
    for step in steps:
        lab.settings = replace(below(**{setting: step}), politeness=lab.settings.politeness)
        if halfway:
            lab.run(max_time=2 * lab.seconds)
        lab.run()
    fetched = [record for record in lab.records() if record["outcome"] == "fetched"]
    assert {record["url"] for record in fetched} == {r["url"] for r in free.records() if r["outcome"] == "fetched"}
    firsts = Counter(record["url"] for record in fetched if record.get("visit", 1) == 1)
    assert set(firsts.values()) == {1}, "each once"
    assert stored_counters(lab.store).pages_at_border == 0
    counters = stored_counters(lab.store)
    assert not counters.urls_held_back
    whole(lab)


@pytest.mark.parametrize("stopped_after", [3])  # the third run is one that is resumed twice
def test_pages_are_queued_once_whenever_the_run_that_lifts_a_limit_ends(tmp_path: Path, stopped_after: int) -> None:
    hrefs = [f"{ROOT}{number}" for number in range(2 * ROWS + 9)]
    pages: dict[str, Any] = {ROOT: links(hrefs)} | {href: links([f"{href}/deep"]) for href in hrefs}
    pages |= {f"{href}/deep": f"<p>{number}" for number, href in enumerate(hrefs)}
    lab = Laboratory(tmp_path, pages, limited(crawl={"max_depth": 1})).with_politeness(delay=0.0, per_host=8)
    lab.run(ROOT)
    assert len(lab.records()) == len(hrefs) + 1
    lab.settings = replace(lab.settings, crawl=replace(lab.settings.crawl, max_depth=None))
    for _ in range(stopped_after):
        lab.run(max_time=4 * lab.seconds)
    lab.run()
    seen = Counter((record["url"], record.get("visit", 1)) for record in lab.records())
    assert set(seen.values()) == {1}
    assert set(seen) == {(href, 1) for href in pages} | {(href, 2) for href in hrefs}
    whole(lab)


def test_verify_and_repair_know_the_border(tmp_path: Path) -> None:
    with Site(tree(20, fan=3)) as site:
        (tmp_path / "seeds.txt").write_text(site.url("/"))
        job = tmp_path / "job"
        words = (tmp_path / "seeds.txt", "--job", job, "--allow-private", "--ignore-robots", "--delay", "0", "--quiet")
        assert crawler(*words, "--max-depth", "1").code == 0
        change(job, Family.LEFT_OUT, lambda found: (found[0][0], found[0][1][:-30]))
        assert verify(job).kinds == {"row-damaged", "count-differs"}
        mended = repair(job)
        assert mended.code == 0
        assert mended.find("rows-removed", family="left_out", count=1)
        assert verify(job).code == 0
        change(job, Family.LEFT_OUT, lambda found: (found[0][0], None))
        assert verify(job).kinds == {"count-differs"}
        assert repair(job).code == 0
        assert verify(job).code == 0
        assert crawler(*words).code == 0
        assert verify(job).code == 0
