"""The documented addresses and names are those that exist."""

from __future__ import annotations

import re
from pathlib import Path

from aiohttp import web

from crawler.base.settings.parts import DashboardSettings, Settings
from crawler.cli.launches import Launches
from crawler.job.checkpoint.envelope import decode_envelope
from crawler.job.history_file import MAGIC, VERSION
from crawler.job.metrics.crawl_history import CrawlHistory
from crawler.job.metrics.events import Events, Kind
from crawler.job.metrics.history import History
from crawler.job.survey.survey import Survey
from crawler.service.api import Api
from crawler.service.commands import HOST_WORDS, WORDS, performing
from crawler.service.dashboard.access import Access
from crawler.service.dashboard.feed import Feed
from crawler.service.dashboard.job_list import JobList, Routes
from crawler.service.dashboard.live_server import Dashboard
from crawler.service.job_survey import JobSurvey
from crawler.service.run_view import RunView
from crawler.service.survey_api import SurveyApi
from crawler.service.watched_jobs import BoardJob, WatchedJobs
from tests.documents import page
from tests.job.metrics.samples import statistics
from tests.jobs import stopped_job

TEXT, _, JOBS = page("dashboard.md").partition("\n## Several jobs\n")


async def test_every_address_is_documented_and_no_other() -> None:
    view = RunView(lambda: None, performing(lambda: None, Events(), float), Settings(), float)
    feed, survey = Feed(statistics, float), JobSurvey(Path(), lambda: None)
    about = SurveyApi(view, survey, feed)
    board = Dashboard(DashboardSettings(listen="0"), feed, [*Api(view).routes(), *about.routes()], Access(""))
    await view.close()
    await about.close()
    served = {each.resource.canonical for each in board.server.app.router.routes() if each.resource is not None}
    documented = set(re.findall(r"^- `(/[^`]*)`:", TEXT, re.MULTILINE))
    assert documented | {"/page/{name}"} == served


def test_every_address_of_the_list_of_jobs_is_documented_and_no_other(tmp_path: Path) -> None:
    jobs, like = WatchedJobs([tmp_path], float), Routes([web.get("/of-a-job", lambda _: None)])
    served = {
        re.sub(r":[^}]*", "", each.path)
        for each in (*JobList(jobs, like).routes(), *Launches(jobs, None, None).routes())
    }
    documented = set(re.findall(r"^- `(/[^`]*)`:", JOBS, re.MULTILINE))
    assert documented | {"/page/{name}", "/jobs/{job}/of-a-job"} == served


def test_what_the_list_says_of_a_job_is_documented(tmp_path: Path) -> None:
    with stopped_job(tmp_path, 5) as made:
        row = BoardJob("x", made.job, float).row()
    for name in (*row, *WatchedJobs([], float).rows()):
        assert f"`{name}`" in JOBS


def test_every_series_is_documented() -> None:
    history = History()
    history.observe(1.0, statistics())
    for name in history.point():
        assert f"`{name}`" in TEXT


def test_every_kind_of_event_and_every_control_is_documented() -> None:
    kinds = re.findall(r"^- `(\w+)`:", TEXT.partition("and a `kind`:")[2], re.MULTILINE)
    assert sorted(kinds) == sorted(Kind)
    for word in WORDS + HOST_WORDS:
        assert f"`{word}`" in TEXT


def test_the_example_of_a_course_is_one() -> None:
    text = page("format-history.md")
    (example,) = re.findall(r'^```json title="history"\n(.*?)^```$', text, re.MULTILINE | re.DOTALL)
    content = decode_envelope(example.encode(), MAGIC, VERSION, "history.json")
    history = CrawlHistory()
    history.restore(content, 1_700_000_100.0)
    assert history.figures.series()["recent"]["pages_per_second"] == [None, 4.0]
    assert [event["text"] for event in history.events.after(0)] == ["started"]
    history.observe(1_700_000_101.0, statistics())
    dumped = history.dump()
    for name in dumped["history"]["recent"]:
        assert f"`{name}`" in text
    for name in (*dumped["history"], *dumped["events"][0], *dumped):
        assert f"`{name}`" in text


def test_the_survey_is_documented() -> None:
    survey = Survey()
    survey.add({"url": "http://h.test/a/b/c", "status": 404, "outcome": "fetched"})
    answer = survey.answer()
    (site,), (host,) = answer["map"], answer["hosts"]
    for name in (*answer, *answer["recent"][0], *answer["failures"][0], *site, *host, "complete", "read", "fault"):
        assert f"`{name}`" in TEXT
