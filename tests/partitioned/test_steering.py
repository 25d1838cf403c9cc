"""``add``, ``retry``, ``priority``, ``reload`` of a crawl directory: each partition gets what belongs to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from crawler.base.disk import RealDisk
from crawler.job.inbox import Inbox
from tests.partitioned.crawls import PARTITIONS, Crawled, address_of, crawled, told
from tests.program import crawler, running, wait_until
from tests.site import Site, tree


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Crawled]:
    with crawled(tmp_path / "crawl", limits={1: 9}) as crawl:
        yield crawl


def inbox(job: Path) -> list[str]:
    """The URLs that wait in the inbox of a partition."""
    inbox = Inbox(job, RealDisk())
    link_batches = [inbox.read(name) for name in inbox.waiting()]
    return [url for link_batch in link_batches for url in (link_batch.urls or [past.href for past in link_batch.again])]


def test_urls_go_to_the_partitions_that_they_belong_to(made: Crawled) -> None:
    new = {number: site.url("/new") for number, site in made.sites.items()}
    ran = crawler("add", made.directory, *new.values())
    assert ran.code == 0, ran.err
    assert {number: inbox(job) for number, job in made.parts.items()} == {number: [url] for number, url in new.items()}
    assert len(ran.err.splitlines()) == len(new)  # no process runs them: the next run admits what is in scope and new
    assert ran.out.splitlines() == [f"partition {number:02}: 1 left in the inbox" for number in sorted(new)]
    lines = "".join(f"{site.url('/more')}\n" for site in made.sites.values()) + "no url\n"
    ran = crawler("add", made.directory, "-", "--no-wait", stdin=lines)
    assert ran.code == 0, ran.err
    assert sorted(url for job in made.parts.values() for url in inbox(job)) == sorted(
        [*new.values(), *(site.url("/more") for site in made.sites.values()), "no url"]
    )


def test_a_url_of_a_partition_that_has_not_begun_is_refused(made: Crawled) -> None:
    ran = crawler("add", made.directory, made.sites[0].url("/new"), f"http://{address_of(2)}/")
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1)
    assert not any(inbox(job) for job in made.parts.values())
    ran = crawler("add", made.directory, "--seed", made.sites[0].url("/new"))
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1)


def test_finished_urls_are_put_back_where_they_are(made: Crawled) -> None:
    urls = {number: site.url("/page/1") for number, site in made.sites.items()}
    ran = crawler("retry", made.directory, *urls.values(), "--no-wait")
    assert ran.code == 0, ran.err
    assert {number: inbox(job) for number, job in made.parts.items()} == {number: [url] for number, url in urls.items()}
    ran = crawler("retry", made.directory, made.sites[0].url("/page/11"), made.sites[1].url("/page/29"), "--no-wait")
    assert ran.code == 1
    not_here = f"{made.sites[1].url('/page/29')} is not finished here, or has another outcome or host"
    assert ran.err.splitlines()[-1] == not_here
    ran = crawler("retry", made.directory, "--host", "nobody.test", "--no-wait")


def test_a_partition_that_runs_answers(made: Crawled) -> None:
    with Site(tree(60), latency=0.3, address=(address_of(2), 0)) as site:
        options = ("--allow-private", "--delay", "0", "--per-host", "1", "--quiet")
        with running(site.url("/"), "--job", made.beside(2), *options):
            wait_until(lambda: told("stats", made.directory)["state"] == "running", "the crawl to run")
            ran = crawler("add", made.directory, site.url("/new"))
            assert ran.out == "partition 02: 1 admitted, 0 known, 0 out of scope, 0 invalid\n", ran.err
            ran = crawler("priority", made.directory, f"{site.url('/page/')}*", "0")
            assert ran.code == 0, ran.err
            assert len(ran.out.splitlines()) == PARTITIONS
            ran = crawler("reload", made.directory)
            assert ran.code in (0, 1), ran
            assert "Traceback" not in ran.err
