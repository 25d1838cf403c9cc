"""Debian's Prometheus looks at real crawls, with the configuration, alerts and Grafana dashboard that are shipped."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from prometheus_client import ProcessCollector

from crawler.job.metrics.prometheus import METRICS, exposition
from tests.asked import asked, free_port, knows
from tests.documents import page
from tests.job.metrics.samples import statistics
from tests.needs import need
from tests.program import ROOT, running, wait_until
from tests.site import Site, linked

# Alerts wait for the minutes of their rules, shortened.
pytestmark = pytest.mark.timeout(300)

CONFIG = ROOT / "config"
URLS = 400
PACKAGE = "prometheus"
# These may have their cause where the tests run.
OF_THE_MACHINE = {"CrawlerDiskLow", "CrawlerDiskFillsUp", "CrawlerStalls", "CrawlerCheckpointOld"}


def promtool(*words: str | Path, stdin: bytes = b"") -> str:
    done = subprocess.run([need("promtool", PACKAGE), *map(str, words)], input=stdin, capture_output=True, check=False)
    said = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, said
    return said


# -- the files, by themselves ------------------------------------------------------------------------------------


def test_the_alerts_fire_when_they_should_and_are_quiet_otherwise() -> None:
    promtool("check", "rules", CONFIG / "prometheus" / "alerts.yml")
    promtool("test", "rules", CONFIG / "prometheus" / "alerts.test.yml")


def test_every_alert_is_tested_and_documented() -> None:
    names = re.findall(r"- alert: (\w+)", (CONFIG / "prometheus" / "alerts.yml").read_text())
    tests = (CONFIG / "prometheus" / "alerts.test.yml").read_text()
    quiet, wrong = tests.split("everything is wrong")
    document = page("stats.md")
    assert re.findall(r"^\| `(Crawler\w+)` \| [^|]+ \| [^|]+ \|$", document, re.MULTILINE) == names
    for name in names:
        assert f"alertname: {name}" in quiet
        assert f"alertname: {name}\n" in wrong


def test_the_example_is_a_configuration() -> None:
    promtool("check", "config", "--syntax-only", CONFIG / "prometheus" / "prometheus.yml")


def test_the_names_stand_up_to_the_linter() -> None:
    assert promtool("check", "metrics", stdin=exposition(statistics(), "", ProcessCollector(registry=None))[0]) == ""


def panels() -> list[dict[str, Any]]:
    return list(json.loads((CONFIG / "grafana" / "crawler.json").read_text())["panels"])


def expressions() -> list[str]:
    """Those of the Grafana dashboard, with its variables filled in."""
    values = {"$instance": ".*", "$__rate_interval": "10s"}
    found = [target["expr"] for panel in panels() for target in panel["targets"]]
    return [re.sub(r"\$\w+", lambda variable: values[variable[0]], text) for text in found]


def test_the_panels_lie_side_by_side_and_say_what_they_show() -> None:
    covered: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        columns, rows = range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
        cells = set(itertools.product(columns, rows))
        assert not cells & covered, panel["title"]
        assert max(x for x, _ in cells) < 24
        covered |= cells
        assert panel["description"].endswith(".")
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
    assert len(covered) == 24 * (1 + max(y for _, y in covered)), "a hole"
    assert len({panel["id"] for panel in panels()}) == len(panels())


# -- a Prometheus that scrapes -----------------------------------------------------------------------------------


@dataclass
class Watch:
    """A Prometheus and the crawl it watches."""

    url: str
    crawl: str
    process: subprocess.Popen[bytes]

    def query(self, expression: str) -> list[dict[str, Any]]:
        status, answer = asked(f"{self.url}/api/v1/query?{urllib.parse.urlencode({'query': expression})}")
        assert status == 200, answer
        return list(json.loads(answer)["data"]["result"])

    def number(self, expression: str) -> float | None:
        found = self.query(expression)
        return float(found[0]["value"][1]) if found else None

    def firing(self) -> set[str]:
        alerts = json.loads(asked(f"{self.url}/api/v1/alerts")[1])["data"]["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}


@contextmanager
def prometheus(directory: Path, crawl: str, crawling: subprocess.Popen[bytes]) -> Iterator[Watch]:
    """With the example's configuration and the alerts, of which every time is a two-hundredth: a minute is 0.3 s. So
    are those that an alert compares with: a checkpoint is old after 3 s, and a disk that is full in 72 s is soon full.
    """
    example = (CONFIG / "prometheus" / "prometheus.yml").read_text()
    for old, new in (
        ("127.0.0.1:8080", urllib.parse.urlsplit(crawl).netloc),
        ("15s", "200ms"),
    ):
        assert old in example
        example = example.replace(old, new)
    (directory / "prometheus.yml").write_text(example)
    alerts = (CONFIG / "prometheus" / "alerts.yml").read_text()
    shorter = re.sub(r"(\[|for: )(\d+)m\b", lambda found: f"{found[1]}{int(found[2]) * 300}ms", alerts)
    for old, new in (("[1h], 4 * 3600)", "[18s], 72)"), ("age_seconds > 600", "age_seconds > 3")):
        assert old in shorter
        shorter = shorter.replace(old, new)
    (directory / "alerts.yml").write_text(shorter)
    address = f"127.0.0.1:{free_port()}"
    with open(directory / "prometheus.log", "wb") as log:
        process = subprocess.Popen(
            [
                need("prometheus", PACKAGE),
                f"--config.file={directory / 'prometheus.yml'}",
                f"--storage.tsdb.path={directory / 'tsdb'}",
                f"--web.listen-address={address}",
                "--log.level=warn",
            ],
            stdout=log,
            stderr=log,
        )
        try:
            watch = Watch(f"http://{address}", crawl, crawling)
            wait_until(
                lambda: asked(f"{watch.url}/-/ready")[0] == 200 or process.poll() is not None, "Prometheus is up"
            )
            assert process.poll() is None, (directory / "prometheus.log").read_text()
            wait_until(
                lambda: crawling.poll() is not None or watch.number(f'up{{instance="{crawl[7:]}"}}') == 1,
                "the crawl is scraped",
            )
            assert crawling.poll() is None, "the crawl has ended"
            yield watch
        finally:
            process.terminate()
            process.wait()


@contextmanager
def watched(directory: Path, pages: dict[str, Any], *options: str) -> Iterator[Watch]:
    """A crawl of these pages, and a Prometheus that scrapes it."""
    port = free_port()
    with Site(pages) as site:
        (directory / "seeds.txt").write_text(site.url("/"))
        words = (directory / "seeds.txt", "--job", directory / "job", "--quiet", "--allow-private", "--delay", "0")
        board = ("--dashboard", str(port), *options)
        address = knows(f"http://127.0.0.1:{port}", directory / "job")
        with running(*words, *board) as crawling, prometheus(directory, address, crawling) as watch:
            yield watch


def endless() -> dict[str, Any]:
    """A site of ``URLS`` pages, and one whose answer has no end."""

    async def never(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "text/html"})
        await answer.prepare(request)
        while True:
            await asyncio.gather(answer.write(b"x"), asyncio.sleep(1))

    paths = [f"/page/{number}" for number in range(URLS)]
    return dict.fromkeys(paths, linked(["/"])) | {"/": linked(["/never", *paths]), "/never": never}


def test_a_crawl_that_does_well_is_scraped_and_no_alert_fires(tmp_path: Path) -> None:
    need("prometheus", PACKAGE)

    async def slowly(request: web.Request) -> web.Response:
        number = int(request.path.rpartition("/")[2] or 0)
        await asyncio.sleep(0.05)
        return web.Response(text=linked([f"/page/{number + 1}", "/page/1"]), content_type="text/html")

    pages = {f"/page/{n}": slowly for n in range(1, 5_000)} | {"/": linked(["/page/1"])}
    (tmp_path / "often.toml").write_text("[durability]\ncheckpoint_interval = 1\n")
    with watched(tmp_path, pages, "--ledger", "--config", str(tmp_path / "often.toml")) as watch:
        wait_until(lambda: (watch.number("crawler_pages_fetched_total") or 0) > 20, "twenty pages")
        wait_until(lambda: (watch.number("rate(crawler_pages_fetched_total[2s])") or 0) > 1, "a rate")
        (target,) = json.loads(asked(f"{watch.url}/api/v1/targets")[1])["data"]["activeTargets"]
        assert (target["health"], target["lastError"]) == ("up", "")
        # What was scraped is what the crawl says, less what it did since.
        stats = json.loads(asked(f"{watch.crawl}/api/stats")[1])
        assert 20 < (watch.number("crawler_pages_fetched_total") or 0) <= stats["pages_fetched"] + 10
        assert watch.number("crawler_seen_fpp_target_ratio") == stats["seen"]["fpp_target"] == 0.001
        assert watch.number('crawler_state{state="running"}') == 1
        # Some come with the first checkpoint, and with an end in sight; nothing is warned of, nor pauses it.
        warnings = {"crawler_advice_cause", "crawler_pause_cause"}
        # Of code of the user, of partitions, and of a browser.
        others = ("hooks", "harvest", "messages_waiting", "render_recall")
        of_code = {metric.name for metric in METRICS if metric.path.partition(".")[0] in others}
        estimated = {
            metric.name for metric in METRICS if metric.path.partition(".")[0] in ("time_left", "seen_at_end")
        }  # not at once
        all_but_warnings = {metric.name for metric in METRICS} - warnings - of_code - estimated
        wait_until(lambda: watch.number("crawler_checkpoint_bytes") is not None, "a checkpoint")
        assert all_but_warnings <= names(watch)
        for expression in expressions():
            assert watch.query(expression), expression
        assert watch.firing() <= OF_THE_MACHINE


def names(watch: Watch) -> set[str]:
    return {row["metric"]["__name__"] for row in watch.query('{job="crawler"}')}


def test_alerts_fire_when_their_causes_are_made(tmp_path: Path) -> None:
    need("prometheus", PACKAGE)
    (tmp_path / "never.toml").write_text("[fetch]\nbody_timeout = 1e6\n")
    # A filter for 64 URLs is given hundreds; then the last page is awaited for ever.
    options = ("--seen", "bloom", "--capacity", "64", "--fpp", "0.01", "--per-host", "4")
    with watched(tmp_path, endless(), *options, "--config", str(tmp_path / "never.toml")) as watch:
        causes = {"CrawlerFilterWorseThanAsked", "CrawlerFilterNearCapacity", "CrawlerNoProgress"}
        wait_until(lambda: causes <= watch.firing(), f"{causes} fire")
        assert (watch.number("crawler_seen_fpp_estimated_ratio") or 0) > 0.01
        assert watch.firing() - causes <= OF_THE_MACHINE
        assert watch.number('crawler_advice_cause{cause="full"}') == 1
        watch.process.kill()
        wait_until(lambda: watch.firing() == {"CrawlerDown"}, "it is missed, and nothing else")
