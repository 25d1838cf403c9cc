"""The real program where the process may open few files, or has little address space."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.jobs import rows, verify
from tests.program import running
from tests.site import Site, tree

PAGES = 60
MEBI = 2**20
OPTIONS = ("--allow-private", "--delay", "0", "--per-host", "16", "--concurrency", "32", "--quiet")


def ran(directory: Path, site: Site, *options: str, **limits: int) -> tuple[int, str]:
    seeds = directory / "seeds.txt"
    seeds.write_text(site.url("/") + "\n")
    with running(seeds, "--job", directory / "job", *OPTIONS, *options, limits=limits) as process:
        _, err = process.communicate(timeout=100)
    return process.returncode, err.decode()


@pytest.mark.parametrize(("files", "slots"), [(64, 2), (100, 4)])
def test_few_files_make_few_connections(tmp_path: Path, files: int, slots: int) -> None:
    with Site(tree(PAGES), latency=0.01) as site:
        code, err = ran(tmp_path, site, "--max-pages", "20", NOFILE=files)
        assert code == 0, err
        line = f"the limit on open files (ulimit -Hn) is {files}: URLs in flight limited to {slots} instead of 32\n"
        assert err == line, "once, and nothing else"
        code, err = ran(tmp_path, site, "--dashboard", "0", NOFILE=files)  # the queue is in tables by now
        assert code == 0, err
        assert Counter(row["url"] for row in rows(tmp_path / "job")) == Counter(site.url(path) for path in tree(PAGES))
        moments = [(asked.start, 1) for asked in site.asked] + [(asked.end, -1) for asked in site.asked]
        at_once = most = 0
        for _, change in sorted(moments):
            at_once += change
            most = max(most, at_once)
        assert most <= slots
    assert verify(tmp_path / "job").code == 0


def test_too_few_files_are_one_line(tmp_path: Path) -> None:
    with Site(tree(PAGES)) as site:
        code, err = ran(tmp_path, site, NOFILE=40)
        assert (code, site.asked) == (2, [])
    assert err == "crawler: error: the limit on open files (ulimit -Hn) is 40: a crawl needs at least 53\n"
    assert not (tmp_path / "job").exists()


def test_little_address_space_is_one_line(tmp_path: Path) -> None:
    with Site(tree(PAGES)) as site:
        code, err = ran(tmp_path, site, AS=400 * MEBI)  # not even for a filter
        assert (code, site.asked, len(err.splitlines())) == (2, [], 1), err
        code, err = ran(tmp_path, site, AS=850 * MEBI)
        assert (code, site.asked) == (1, []), err
        assert err.startswith(f"crawler: stopped: [Errno 12] cannot open the store {tmp_path / 'job' / 'store'}: ")
        assert len(err.splitlines()) == 1
        code, err = ran(tmp_path, site, AS=1_600 * MEBI)
        assert (code, err) == (0, "")
        assert Counter(row["url"] for row in rows(tmp_path / "job")) == Counter(site.url(path) for path in tree(PAGES))


def test_a_filter_that_the_address_space_does_not_hold_is_refused(tmp_path: Path) -> None:
    with Site(tree(PAGES)) as site:
        code, err = ran(tmp_path, site, "--seen", "bloom", "--capacity", "1000000000", AS=1_600 * MEBI)
        assert (code, len(err.splitlines())) == (2, 1), err
        assert "ulimit -v" in err
        assert "plan" not in err, "no other seen-set is the cure"
