"""The scheduler as the engine opens and closes it: what it refuses, in which words, and what it leaves behind."""

from __future__ import annotations

from collections import defaultdict, deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.dupefilters import BaseDupeFilter
from scrapy.extensions.feedexport import FeedExporter
from scrapy.settings import Settings
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.request import RequestFingerprinter

from crawler.base.settings.load import SettingsError
from crawler.job.directory import JobError
from crawler.job.durable_frontier import DurableFrontier
from crawler.tools.scrapy import DupeFilter, Scheduler
from crawler.tools.scrapy.in_progress import ItemFeeds

OURS = {"SCHEDULER": "crawler.scrapy.Scheduler", "DUPEFILTER_CLASS": "crawler.scrapy.DupeFilter"}


class Keeping(BaseDupeFilter):
    """A dupefilter with a file of its own, which it makes at once."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("a")
        self.seen: set[str] = set()

    @classmethod
    def from_crawler(cls, crawler: Any) -> Keeping:
        return cls(Path(crawler.settings["JOBDIR"]) / "kept.txt")

    def request_seen(self, request: Request) -> bool:
        known = request.url in self.seen
        self.seen.add(request.url)
        return known

    def close(self, reason: str) -> None:
        self.file.close()

    def log(self, request: Request, spider: Spider) -> None:
        pass


def scheduler_for(directory: Path | None, name: str = "own", **settings: Any) -> Scheduler:
    """A scheduler as an engine makes it."""
    chosen = Settings({**OURS, "JOBDIR": None if directory is None else str(directory), **settings})
    methods: defaultdict[str, deque[Any]] = defaultdict(deque)
    crawler = SimpleNamespace(settings=chosen, stats=None, request_fingerprinter=RequestFingerprinter())
    crawler.stats = MemoryStatsCollector(SimpleNamespace(settings=chosen))  # type: ignore[arg-type]
    crawler.engine = SimpleNamespace(
        scraper=SimpleNamespace(spidermw=SimpleNamespace(methods=methods)),
        downloader=SimpleNamespace(fetch=None),
        _slot=SimpleNamespace(inprogress=set()),
    )
    crawler.spider = Spider(name)
    crawler.spider.crawler = crawler
    return Scheduler.from_crawler(crawler)


def run(directory: Path, *urls: str, **settings: Any) -> tuple[list[str], list[str]]:
    """The URLs that wait when the spider starts, and those that it then can add."""
    scheduler = scheduler_for(directory, **settings)
    scheduler.open(scheduler.spider)
    waiting = []
    while (request := scheduler.next_request()) is not None:
        waiting.append(request.url)
    added = [url for url in urls if scheduler.enqueue_request(Request(url))]
    scheduler.close("finished")
    return waiting, added


@pytest.mark.parametrize("filter_class", ["scrapy.dupefilters.RFPDupeFilter", Keeping, BaseDupeFilter])
def test_another_dupefilter_may_have_files_in_the_job(filter_class: Any, tmp_path: Path) -> None:
    job, url = tmp_path / "job", "http://h.test/a"
    assert run(job, url, DUPEFILTER_CLASS=filter_class) == ([], [url])
    assert run(job, DUPEFILTER_CLASS=filter_class) == ([url], [])


class Stubborn:
    """Raises another error than pickle's when it is taken apart."""

    def __reduce__(self) -> str:
        raise RuntimeError("not me")


def test_what_cannot_be_pickled_for_any_reason_is_kept_in_memory(tmp_path: Path) -> None:
    scheduler = scheduler_for(tmp_path / "job")
    scheduler.open(scheduler.spider)
    request = Request("http://h.test/a", meta={"it": Stubborn()})
    assert scheduler.enqueue_request(request)
    assert scheduler.next_request() is request
    scheduler.close("finished")


def test_items_are_in_their_file_before_their_request_is_done(tmp_path: Path) -> None:
    exporter = FeedExporter.__new__(FeedExporter)
    with (tmp_path / "items.jsonl").open("wb") as file, (tmp_path / "closed").open("wb") as closed:
        closed.close()
        exporter.slots = [SimpleNamespace(file=each) for each in (None, closed, file)]  # type: ignore[misc]
        feeds = ItemFeeds(SimpleNamespace(extensions=SimpleNamespace(middlewares=(object(), exporter))))
        file.write(b"{}")
        feeds.flush()
        assert (tmp_path / "items.jsonl").read_bytes() == b"", "no request is done"
        feeds.ended()
        feeds.flush()
        assert (tmp_path / "items.jsonl").read_bytes() == b"{}"


def test_one_that_never_got_a_job_is_no_crawl_of_scrapys_own(tmp_path: Path) -> None:
    (tmp_path / "requests.seen").touch()
    (tmp_path / "spider.state").write_bytes(b"kept")
    assert run(tmp_path, "http://h.test/a") == ([], ["http://h.test/a"])


@pytest.mark.parametrize(
    "settings", [{}, {"DUPEFILTER_CLASS": "scrapy.dupefilters.RFPDupeFilter"}], ids=["ours", "rfp"]
)
@pytest.mark.parametrize("left", ["requests.queue/active.json", "requests.seen"])
def test_a_crawl_of_scrapys_own_scheduler_is_named_and_left_alone(
    left: str, settings: dict[str, str], tmp_path: Path
) -> None:
    job = tmp_path / "job"
    (job / left).parent.mkdir(parents=True)
    (job / left).write_bytes(b"[]")
    with pytest.raises(JobError) as refused:
        scheduler_for(job, **settings)
    name = left.partition("/")[0]
    assert str(refused.value) == (
        f"{job} holds a crawl of Scrapy's own scheduler ({name}), which cannot be resumed: finish it with that "
        "scheduler, or set JOBDIR to a new directory"
    )
    assert [str(path.relative_to(job)) for path in job.rglob("*") if path.is_file()] == [left]


def refused(caplog: pytest.LogCaptureFixture, directory: Path, name: str = "own", **settings: Any) -> str:
    """The one line for the user when the scheduler is not even made, so that Scrapy closes nothing."""
    caplog.clear()
    with pytest.raises((JobError, SettingsError)) as error:
        scheduler_for(directory, name, **settings)
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "CRITICAL"]
    assert line == f"The spider does not start: {error.value}"
    return line


def test_what_cannot_be_used_is_refused_in_one_line_and_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job, photographs, crawl = tmp_path / "job", tmp_path / "photographs", tmp_path / "crawl"
    photographs.mkdir()
    (photographs / "sea.jpg").touch()
    with DurableFrontier(crawl) as frontier:
        frontier.add("http://h.test/")
    assert [path.name for path in photographs.iterdir()] == ["sea.jpg"], "nor has the dupefilter left a file"
    assert run(job, "http://h.test/a") == ([], ["http://h.test/a"])
    assert "CRAWLER_FPP cannot change" in refused(caplog, job, CRAWLER_FPP="0.01")
    assert run(job) == (["http://h.test/a"], []), "it is locked by none that was refused"


def test_the_dupefilter_refuses_a_scheduler_that_has_no_seen_set(caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings({"DUPEFILTER_CLASS": OURS["DUPEFILTER_CLASS"]})
    crawler = SimpleNamespace(settings=settings, request_fingerprinter=RequestFingerprinter())
    with pytest.raises(SettingsError, match=r'SCHEDULER = "crawler\.scrapy\.Scheduler"'):
        DupeFilter.from_crawler(crawler)


def test_a_scheduler_made_of_this_one_is_as_good() -> None:
    class Own(Scheduler):
        pass

    settings = Settings({"SCHEDULER": Own})
    assert DupeFilter.from_crawler(SimpleNamespace(settings=settings, request_fingerprinter=RequestFingerprinter()))
