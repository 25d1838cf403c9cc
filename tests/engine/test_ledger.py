"""A seen-set that is wrong more often than right: with a ledger no page is lost by it, whatever happens in between."""

from __future__ import annotations

import json
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from crawler.base.disk import CRASH_AT
from crawler.base.kv import Family
from crawler.base.settings.load import SettingsError, settings_from
from crawler.base.settings.parts import SeenSettings
from crawler.frontier.entry import decode_entry
from crawler.seen.exact.ledger import LEDGER_COUNTS, LedgerCounts
from tests.durability.power import SETTINGS, live
from tests.jobs import change, explain, repair, rows, store_of, verify
from tests.program import Ran, crawler
from tests.site import Site, tree

PAGES = 150
FAST = ("--allow-private", "--delay", "0", "--per-host", "4", "--concurrency", "8", "--quiet", "--ignore-robots")
# One hash, one bit, and sixty bits for 150 pages: most URLs that were never met are called seen in the end.
HOPELESS = ("--seen", "bitmap", "--capacity", "20", "--fpp", "0.3")


def crawl(directory: Path, site: Site, *options: str) -> Ran:
    seeds = directory / "seeds.txt"
    seeds.write_text(site.url("/") + "\n")
    return crawler(seeds, "--job", directory / "job", *FAST, *HOPELESS, *options)


def printed(directory: Path) -> Path:
    """A file with what `crawler config` prints."""
    path = directory / "full.toml"
    path.write_text(crawler("config").out)
    return path


def stats(directory: Path) -> dict[str, dict[str, dict[str, float]]]:
    found: dict[str, dict[str, dict[str, float]]] = json.loads(crawler("stats", directory / "job", "--json").out)
    return found


def holds_all(directory: Path, site: Site) -> None:
    """Every page stands in the output once, and the job is whole."""
    assert Counter(row["url"] for row in rows(directory / "job")) == Counter(site.url(path) for path in tree(PAGES))
    checked = verify(directory / "job")
    assert checked.code == 0, checked


def test_a_hopeless_filter_loses_pages_and_with_a_ledger_none(tmp_path: Path) -> None:
    for name in ("without", "with"):
        (tmp_path / name).mkdir()
    with Site(tree(PAGES)) as site:
        assert crawl(tmp_path / "without", site, "--no-ledger").code == 0
        assert len(rows(tmp_path / "without" / "job")) < PAGES - 10
        assert stats(tmp_path / "without")["seen"]["ledger"] is None
        ran = crawl(tmp_path / "with", site)
        assert ran.code == 0, ran.err
        holds_all(tmp_path / "with", site)
    seen = stats(tmp_path / "with")["seen"]
    assert seen["ledger"]["waiting"] == 0
    assert seen["ledger"]["false_positives"] > 10
    assert seen["expected_urls_skipped"] == 0
    assert seen["count"] == PAGES


@pytest.mark.parametrize("seed", range(2))
def test_losing_power_at_any_moment_loses_no_page(seed: int) -> None:
    hopeless = replace(SETTINGS, seen=SeenSettings(kind="bitmap", capacity=10, fpp=0.5, ledger=True))
    life = live(seed, settings=hopeless)
    assert life.missing == set()
    assert life.twice == []


@pytest.fixture(scope="module")
def half_way(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Site]]:
    """A job that died in the step of a page whose links are mostly doubted."""
    slow = ("--ledger", "--concurrency", "1", "--per-host", "1")
    with Site(tree(PAGES, fan=PAGES // 2)) as site, pytest.MonkeyPatch.context() as patch:
        # Doubted URLs are looked up beside the steps, by the clock: it takes another step, if they were before the end.
        for step in range(5, 15):
            directory = tmp_path_factory.mktemp("half-way")
            assert crawl(directory, site, *slow, "--max-pages", "1").code == 0
            patch.setenv(CRASH_AT, f"step.written:{step}")
            assert crawl(directory, site, *slow).code == -signal.SIGKILL
            patch.undo()
            with store_of(directory / "job") as store:
                doubted = len(store.scan(Family.LEDGER, b""))
            if doubted > 10:
                break
        yield directory, site


def one_of(family: Family, value: bytes | None) -> Callable[[Path], None]:
    """Give a row of the family in the middle that value, or none."""
    return lambda job: change(job, family, lambda found: (found[len(found) // 2][0], value))


def moved(job: Path) -> None:
    """A doubted URL in a row of another's."""
    with store_of(job) as store:
        (row, value), *_ = store.scan(Family.LEDGER, b"")
        batch = store.batch()
        batch.delete(Family.LEDGER, row)
        batch.put(Family.LEDGER, bytes(24), value)
        store.write(batch)


def counted(value: bytes) -> Callable[[Path], None]:
    return lambda job: change(job, Family.META, lambda _: (LEDGER_COUNTS, value))


DAMAGES: dict[str, tuple[Callable[[Path], None], str, int]] = {
    "a doubted URL gone": (one_of(Family.LEDGER, None), "count-differs", 1),
    "a doubted URL unreadable": (one_of(Family.LEDGER, b"?"), "row-damaged", 1),
    "a doubted URL in another's row": (moved, "row-damaged", 1),
    "a digest gone": (one_of(Family.SEEN, None), "digests-differ", 0),
    "the counts wrong": (counted(LedgerCounts(3, 0, 0).encode()), "count-differs", 0),
    "the counts unreadable": (counted(b"?"), "row-damaged", 0),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_named_and_repaired(half_way: tuple[Path, Site], tmp_path: Path, damage: str) -> None:
    directory, site = half_way
    shutil.copytree(directory / "job", tmp_path / "job")
    with store_of(tmp_path / "job") as store:
        assert len(store.scan(Family.LEDGER, b"")) > 10
    hurt, named, most_lost = DAMAGES[damage]
    hurt(tmp_path / "job")
    found = verify(tmp_path / "job")
    assert found.code == 1
    assert named in found.kinds, found
    mended = repair(tmp_path / "job")
    assert mended.code == 0, mended
    assert crawl(tmp_path, site, "--ledger").code == 0
    assert verify(tmp_path / "job").code == 0
    urls = Counter(row["url"] for row in rows(tmp_path / "job"))
    assert set(urls.values()) == {1}
    # What only a lost page links to is lost with it: below one that is not the start there are 57 at most.
    lost = {site.url(path) for path in tree(PAGES)} - urls.keys()
    assert len(lost) <= most_lost * 60


def test_explain_says_what_the_ledger_knows(half_way: tuple[Path, Site]) -> None:
    directory, site = half_way
    with store_of(directory / "job") as store:
        waits = decode_entry(store.scan(Family.LEDGER, b"", None, 1)[0][1]).href
    for url, answer in ((waits, "doubted"), (site.url("/"), "admitted"), (site.url("/never"), "new")):
        assert explain(directory / "job", url)["ledger"] == answer


def test_a_job_keeps_its_ledger_or_the_want_of_one(half_way: tuple[Path, Site]) -> None:
    directory, site = half_way
    other = directory / "other.toml"
    other.write_text("[seen]\nledger = false\n")
    refused = crawl(directory, site, "--config", str(other))
    assert refused.code == 2
    assert str(other) in refused.err
    refused = crawl(directory, site, "--seen", "exact")
    assert refused.code == 2
    assert "seen.kind" in refused.err
    refused = crawl(directory, site, "--no-ledger")
    assert refused.code == 2
    assert "--ledger" in refused.err


def test_a_job_that_was_begun_without_a_ledger_resumes_without(tmp_path: Path) -> None:
    with Site(tree(PAGES)) as site:
        assert crawl(tmp_path, site, "--no-ledger", "--max-pages", "9").code == 0
        refused = crawl(tmp_path, site, "--ledger")
        assert refused.code == 2
        assert "--ledger" in refused.err
        assert crawl(tmp_path, site, "--max-pages", "12").code == 0
        assert crawl(tmp_path, site, "--config", str(printed(tmp_path))).code == 0
    assert stats(tmp_path)["seen"]["ledger"] is None


@pytest.mark.parametrize("kind", ["scalable", "bloom", "bitmap", "counting", "cuckoo", "exact", "digest"])
def test_new_jobs_have_one_if_their_kind_errs_and_cannot_forget(kind: str) -> None:
    has_one = kind in ("scalable", "bloom", "bitmap")
    assert settings_from({"seen": {"kind": kind}}).seen.ledger is has_one
    assert SeenSettings(kind=kind).ledger is has_one
    assert not settings_from({"seen": {"kind": kind, "ledger": False}}).seen.ledger


@pytest.mark.parametrize("kind", ["counting", "cuckoo", "exact", "digest"])
def test_kinds_that_need_no_ledger_refuse_it(kind: str) -> None:
    with pytest.raises(SettingsError, match=kind):
        settings_from({"seen": {"kind": kind, "ledger": True}})
