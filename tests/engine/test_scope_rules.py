"""Patterns and limits in a whole crawl: what is fetched, counted and written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.jobs import explain
from tests.program import crawler
from tests.site import Site, linked

PAGES = {
    "/": linked(["/docs/a", "/docs/a.pdf", "/blog/1", "http://elsewhere.test/"]),
    "/docs/a": linked(["/docs/b", "/print/b"]),
    "/docs/b": linked([]),
    "/docs/a.pdf": linked([]),
    "/blog/1": linked(["/blog/2"]),
    "/blog/2": linked(["/blog/3"]),
    "/blog/3": linked([]),
}


def records(job: Path) -> dict[str, dict[str, Any]]:
    rows = [json.loads(line) for line in (job / "pages.jsonl").read_text().splitlines()]
    return {"/" + row["url"].split("/", 3)[3]: row for row in rows}


def crawl(tmp_path: Path, site: Site, *words: str) -> tuple[int, dict[str, Any]]:
    seeds = tmp_path / "seeds"
    seeds.write_text(site.url("/") + "\n")
    common = ("--job", tmp_path / "job", "--allow-private", "--ignore-robots", "--delay", "0")
    ran = crawler("crawl", seeds, *common, *words)
    return ran.code, json.loads(crawler("stats", tmp_path / "job", "--json").out)


def test_patterns_narrow_the_scope_and_each_reason_is_counted(tmp_path: Path) -> None:
    with Site(PAGES) as site:
        code, stats = crawl(tmp_path, site, "--include", "/docs/*", "--include", "/print/*", "--exclude", "*.pdf")
    assert code == 0
    assert set(records(tmp_path / "job")) == {"/", "/docs/a", "/docs/b", "/print/b"}
    counted = {key: stats[f"links_{key}"] for key in ("off_scope", "not_included", "excluded")}
    assert counted == {"off_scope": 1, "not_included": 1, "excluded": 1}


def test_a_pattern_added_later_holds_for_what_is_pending(tmp_path: Path) -> None:
    with Site(PAGES) as site:
        code, _ = crawl(tmp_path, site, "--max-pages", "1")
        assert code == 0
        code, stats = crawl(tmp_path, site, "--exclude", "/blog/*")
        assert site.count("/blog/1") == 0
    assert code == 0
    done = records(tmp_path / "job")
    assert (done["/blog/1"]["outcome"], done["/blog/1"]["error"]) == ("excluded", "scope.exclude: /blog/*")
    assert {path for path, row in done.items() if row["outcome"] == "fetched"} == set(PAGES) - {
        "/blog/1",
        "/blog/2",
        "/blog/3",
    } | {"/print/b"}
    assert (stats["urls_pending"], stats["urls_excluded"]) == (0, 1)
    assert crawler("verify", tmp_path / "job").code == 0


def test_priority_rules_decide_who_goes_first(tmp_path: Path) -> None:
    """Sixty pages, ten of them about news and linked to last: with the rule they are all among the first."""
    pages = {"/": linked([f"/page/{n}" for n in range(50)] + [f"/news/{n}" for n in range(10)])}
    pages |= {path: linked([]) for path in [f"/page/{n}" for n in range(50)] + [f"/news/{n}" for n in range(10)]}
    config = tmp_path / "crawl.toml"
    config.write_text("[[priority]]\nclass = 0\npattern = '/news/*'\n")
    with Site(pages) as site:
        code, _ = crawl(tmp_path, site, "--config", str(config), "--per-host", "1", "--max-pages", "3")
        assert code == 0
        told = {path: explain(tmp_path / "job", site.url(path)) for path in ("/news/9", "/page/0")}
        code, _ = crawl(tmp_path, site, "--config", str(config), "--per-host", "1")
    assert code == 0
    assert told["/news/9"]["place"]["priority_class"] == 0
    assert "/news/" in told["/news/9"]["place"]["priority_rule"]
    assert told["/page/0"]["place"]["priority_class"] == 1
    assert told["/page/0"]["traps"] == ["Counted as URLs like /page/#: 50 so far, traps.max_variants is 100000."]
    rows = [json.loads(line) for line in (tmp_path / "job" / "pages.jsonl").read_text().splitlines()]
    order = ["/" + row["url"].split("/", 3)[3] for row in rows]
    assert order[1:11] == [f"/news/{n}" for n in range(10)]
    assert len(order) == 61
    again = crawler("crawl", tmp_path / "seeds", "--job", tmp_path / "job", "--config", config)
    assert again.code == 0, again.err
