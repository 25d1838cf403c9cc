"""``crawler bench crawl`` measures, and notices what a crawl of the synthetic web gets wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from crawler.tools.bench.crawl_truth import STATUS, Found, Verdict, judge_crawl
from crawler.tools.bench.synthetic_web import Mode, Shape, SyntheticWeb
from tests import program

SHAPE = Shape(300, 5, 2, Mode.WEB, 8080)


@pytest.mark.parametrize("mode", Mode)
def test_a_crawl_finds_what_there_is(mode: Mode, tmp_path: Path) -> None:
    """With redirects, copies, robots.txt, and at least one storm."""
    words = ("--pages", "300", "--hosts", "6", "--seed", "2", "--mode", mode.value, "--json")
    ran = program.crawler("bench", "crawl", *words, directory=tmp_path)
    assert (ran.code, ran.err) == (0, "")
    figures = json.loads(ran.out)
    assert figures["web"] == {"pages": 300, "hosts": 6, "seed": 2, "mode": mode.value, "page_size": 0}
    assert figures["pages"] == 300
    assert not any(figures[name] for name in ("missing", "twice", "unexpected", "wrong", "private"))
    assert figures["refused"] > 0, "the storm came"
    assert 0 < figures["latency"]["median"] <= figures["latency"]["most"]
    assert min(figures["cpu"], figures["rss"], figures["seconds"]) > 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ["nothing"],
        ["crawl", "--pages", "many"],
        ["crawl", "--pages", "1"],
        ["crawl", "--pages", "100000001"],
        ["crawl", "--hosts", "0"],
        ["crawl", "--mode", "ring"],
        ["web", "--seeds", "no/such/directory/seeds.txt"],
    ],
)
def test_bad_words_are_answered_in_one_line(words: list[str]) -> None:
    ran = program.crawler("bench", *words)
    assert (ran.code, ran.out) == (2, "")
    assert len(ran.err.splitlines()) == 1


def test_mistakes_are_counted() -> None:
    web = SyntheticWeb(SHAPE)
    right = [Found(url, STATUS[kind]) for url, kind in web.urls()]
    assert judge_crawl(web, right) == Verdict(300)
    first = Found(web.url(0), 200)
    assert judge_crawl(web, [each for each in right if each != first]) == Verdict(299, missing=1)
    assert judge_crawl(web, [*right, first]) == Verdict(300, twice=1)
    assert judge_crawl(web, [*right, Found(f"{first.url}nowhere", 404)]) == Verdict(300, unexpected=1)
    failed = [each._replace(status=503) if each == first else each for each in right]
    assert judge_crawl(web, failed) == Verdict(299, wrong=1)
    requested = [each._replace(status=200) if each.status is None else each for each in right]
    private = sum(each.status is None for each in right)
    assert private
    assert judge_crawl(web, requested) == Verdict(300, wrong=private)
