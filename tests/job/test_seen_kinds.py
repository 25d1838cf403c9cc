"""Every kind of seen-set in the main job: killed, carried on, verified, and forgetting where it can."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path

import pytest

from crawler.base.kv import Family
from crawler.base.settings.parts import SEEN_KINDS
from tests.jobs import change
from tests.program import crawler, running, wait_until
from tests.site import Site, tree

FAST = ("--allow-private", "--delay", "0", "--per-host", "4", "--concurrency", "8", "--quiet", "--ignore-robots")
FORGETS = ("counting", "cuckoo", "exact")
# Keys and fpp of the kinds for which a first slice of 40 at 1e-9 is not right: a false positive skips a page, as it
# should, and on a site whose port changes it would come and go.
SHAPE = {"bloom": ("200", "1e-9"), "bitmap": ("200", "1e-4"), "cuckoo": ("40", "1e-6")}


def urls(job: Path) -> Counter[str]:
    return Counter(json.loads(line)["url"] for line in (job / "pages.jsonl").read_text().splitlines())


@pytest.mark.parametrize("kind", SEEN_KINDS)
def test_killed_and_carried_on_nothing_is_lost(tmp_path: Path, kind: str) -> None:
    with Site(tree(120), latency=0.01) as site:
        (tmp_path / "seeds.txt").write_text(site.url("/") + "\n")
        job = tmp_path / "job"
        # A small first slice: kinds that grow do so; those that do not have room for the whole site.
        capacity, fpp = SHAPE.get(kind, ("40", "1e-9"))
        words = (tmp_path / "seeds.txt", "--job", job, *FAST, "--seen", kind, "--capacity", capacity, "--fpp", fpp)
        with running(*words) as process:
            wait_until(lambda: len(site.asked) > 60 or process.poll() is not None, "the crawl is under way")
            process.send_signal(signal.SIGKILL)
        ran = crawler(*words)
        assert ran.code == 0, ran.err
        found = urls(job)
        assert set(found.values()) == {1}
        wanted = {site.url(path) for path in tree(120)}
        if kind == "bitmap":
            # One hash, one bit: at an fpp that it can afford it may skip a page, which is what it is there to show.
            assert found.keys() <= wanted
        else:
            assert found.keys() == wanted
        assert crawler("verify", job).code == 0
        stats = json.loads(crawler("stats", job, "--json").out)
        assert stats["seen"]["kind"] == kind
        assert stats["urls_admitted"] == len(found)


@pytest.mark.parametrize("kind", FORGETS)
def test_what_is_forgotten_is_fetched_again(tmp_path: Path, kind: str) -> None:
    with Site(tree(20)) as site:
        start, job = tmp_path / "seeds.txt", tmp_path / "job"
        start.write_text(site.url("/") + "\n")
        assert crawler(start, "--job", job, *FAST, "--seen", kind).code == 0
        gone = crawler("forget", job, site.url("/page/3"))
        assert gone.out == f"forgotten: {site.url('/page/3')}\n", gone.err
        never = crawler("forget", job, site.url("/never"))
        assert (never.code, never.out) == (1, f"was not seen: {site.url('/never')}\n")
        assert crawler("verify", job).code == 0
        start.write_text(f"{site.url('/')}\n{site.url('/page/3')}\n{site.url('/page/4')}\n")
        assert crawler(start, "--job", job, *FAST).code == 0
        assert site.count("/page/3") == 2
        assert site.count("/page/4") == 1
        assert crawler("verify", job).code == 0


@pytest.mark.parametrize("kind", FORGETS)
def test_what_was_never_admitted_is_not_taken_out_however_much_it_looks_like_it(tmp_path: Path, kind: str) -> None:
    """A filter that calls many URLs seen: taking those out would deny pages that were fetched."""
    with Site(tree(60)) as site:
        start, job = tmp_path / "seeds.txt", tmp_path / "job"
        start.write_text(site.url("/") + "\n")
        assert crawler(start, "--job", job, *FAST, "--seen", kind, "--capacity", "80", "--fpp", "0.5").code == 0
        fetched = list(urls(job))
        never = [site.url(f"/never/{number}") for number in range(2_000)]  # some look like others
        asked = crawler("forget", job, *never, fetched[3], fetched[3])
        assert asked.code == 1
        *others, once, twice = [line.split(": ")[0] for line in asked.out.splitlines()]
        assert len(set(others)) == (1 if kind == "exact" else 2)
        assert once == "forgotten"
        assert twice in others
        assert crawler("verify", job).code == 0
        start.write_text("".join(f"{url}\n" for url in fetched))
        assert crawler(start, "--job", job, *FAST).code == 0
        assert [url for url, times in urls(job).items() if times > 1] in ([fetched[3]], [])  # it may look known still


@pytest.mark.parametrize("family", [Family.ADMITTED, Family.HOSTS, Family.META])
def test_forgetting_in_a_damaged_job_says_what_is_damaged(tmp_path: Path, family: Family) -> None:
    with Site(tree(5)) as site:
        start, job = tmp_path / "seeds.txt", tmp_path / "job"
        start.write_text(site.url("/") + "\n")
        assert crawler(start, "--job", job, *FAST, "--seen", "counting").code == 0
        change(job, family, lambda found: (b"counters" if family is Family.META else found[0][0], b"xx"))
        refused = crawler("forget", job, site.url("/page/3"))
        assert refused.code == 1
        assert f"{job} is damaged" in refused.err
        assert len(refused.err.splitlines()) == 1


def test_a_kind_that_cannot_forget_refuses(tmp_path: Path) -> None:
    with Site(tree(3)) as site:
        (tmp_path / "seeds.txt").write_text(site.url("/") + "\n")
        assert crawler(tmp_path / "seeds.txt", "--job", tmp_path / "job", *FAST, "--seen", "bloom").code == 0
        refused = crawler("forget", tmp_path / "job", site.url("/"))
        assert (refused.code, len(refused.err.splitlines())) == (2, 1)
        assert crawler("verify", tmp_path / "job").code == 0
