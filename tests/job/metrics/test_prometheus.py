"""The metrics as text, read back with the reference parsers."""

from __future__ import annotations

import re
from typing import Any

import pytest
from msgspec.structs import fields
from prometheus_client import ProcessCollector
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from crawler.engine.lifecycle import PausedBy, State
from crawler.engine.loop_lag import LoopLag
from crawler.inspect.statistics import HostFigures, JobFigures, RunFigures, SlotFigures, assemble
from crawler.job.checkpoint.generations import Manifest
from crawler.job.metrics.outlook import SeenAhead, SeenAtEnd, SeenWarning
from crawler.job.metrics.prometheus import METRICS, PAUSES, STATES, exposition
from crawler.job.output.rotated_files import Size
from crawler.job.records import Counters
from crawler.seen.exact.ledger import LedgerCounts
from crawler.seen.filters import MeasuredFpp, SeenStatistics, SliceStatistics
from tests.documents import ROOT, page
from tests.job.metrics.samples import statistics

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]
DOCUMENT = page("metrics.md")


def read(stats: dict[str, Any]) -> Samples:
    return {
        (sample.name, tuple(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(exposition(stats)[0].decode())
        for sample in family.samples
    }


def test_values_are_those_of_the_statistics() -> None:
    samples = read(statistics())
    assert samples["crawler_pages_fetched_total", ()] == 10_000
    assert samples["crawler_urls_pending", ()] == 2_000
    assert samples["crawler_responses_total", (("class", "4xx"),)] == 190
    assert samples["crawler_seen_fpp_estimated_ratio", ()] == 0.00019
    assert samples["crawler_seen_fpp_measured_high_ratio", ()] == 0.0003
    assert samples["crawler_seen_slice_fill_ratio", (("slice", "1"),)] == 0.17
    assert samples["crawler_checkpoint_age_seconds", ()] == 3.5
    assert samples["crawler_state", (("state", "running"),)] == 1
    assert samples["crawler_state", (("state", "ended"),)] == 0
    assert samples["crawler_advice_cause", (("cause", "full"),)] == 1
    assert samples["crawler_advice_cause", (("cause", "memory"),)] == 0
    assert samples["crawler_seen_slice_bytes", (("slice", "0"),)] == 131_072 / 8


OPENMETRICS = "application/openmetrics-text"


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", "text/plain; version=0.0.4; charset=utf-8"),
        ("*/*", "text/plain; version=0.0.4; charset=utf-8"),
        ("text/plain;version=0.0.4;q=0.5,*/*;q=0.1", "text/plain; version=0.0.4; charset=utf-8"),
        ("text/plain;version=nonsense", "text/plain; version=0.0.4; charset=utf-8"),
        (f"{OPENMETRICS};version=1.0.0,text/plain;q=0.5", f"{OPENMETRICS}; version=1.0.0; charset=utf-8"),
        (f"{OPENMETRICS};version=99;escaping=x", f"{OPENMETRICS}; version=1.0.0; charset=utf-8"),
        (f"{OPENMETRICS};version=nonsense", f"{OPENMETRICS}; version=1.0.0; charset=utf-8"),
    ],
)
def test_who_asks_for_openmetrics_gets_the_same_values_in_it(accept: str, kind: str) -> None:
    text, content_type = exposition(statistics(), accept)
    assert content_type == kind
    if kind.startswith(OPENMETRICS):
        assert text.endswith(b"# EOF\n")
        families = list(read_openmetrics(text.decode()))
        assert {(s.name, tuple(s.labels.items())): s.value for f in families for s in f.samples} == read(statistics())


def test_full_statistics_yield_every_metric() -> None:
    assert {
        name for name, _ in read(statistics() | {"time_left": {"seconds": 103.2, "at_least": False, "host": None}})
    } == {metric.name for metric in METRICS}


def test_what_does_not_exist_is_absent_and_not_zero() -> None:
    samples = read(statistics(seen=None, seen_at_end=None, checkpoint=None, links_found=None))
    names = {name for name, _ in samples}
    assert "crawler_pages_fetched_total" in names
    assert "crawler_links_found_total" not in names
    assert not [name for name in names if "seen" in name or "checkpoint" in name]


def test_an_exact_seen_set_has_no_measured_fpp() -> None:
    stats = statistics()
    stats["seen"]["fpp_measured"] = None
    stats["seen"]["slices"][0]["fpp_design"] = None
    samples = read(stats)
    assert ("crawler_seen_fpp_measured_ratio", ()) not in samples
    assert ("crawler_seen_slice_fpp_design_ratio", (("slice", "0"),)) not in samples
    assert ("crawler_seen_slice_fpp_design_ratio", (("slice", "1"),)) in samples


@pytest.mark.parametrize("name", ["prometheus/alerts.yml", "prometheus/alerts.test.yml", "grafana/crawler.json"])
def test_what_is_shipped_for_prometheus_speaks_of_metrics_that_exist(name: str) -> None:
    text = (ROOT / "config" / name).read_text()
    known = {metric.name for metric in METRICS}
    known |= {family.name for family in ProcessCollector(registry=None).collect()} | {"process_cpu_seconds_total"}
    used = set(re.findall(r"\b(?:crawler|process)_\w+", text))
    assert len(used) > 10
    assert used <= known


def test_every_metric_is_documented_as_it_is() -> None:
    rows = re.findall(r"^\| `(\w+)(?:\{(\w+)\})?` \| (\w+) \| (.*) \|$", DOCUMENT, re.MULTILINE)
    documented = {(name, label or None, kind) for name, label, kind, _ in rows}
    process = {
        (sample.name, None, family.type)
        for family in ProcessCollector(registry=None).collect()
        for sample in family.samples
    }
    assert documented == {(metric.name, metric.label, metric.kind) for metric in METRICS} | process
    assert all(meaning.strip() for *_, meaning in rows)


def test_the_words_of_labels_are_those_of_the_crawl() -> None:
    assert set(STATES) == set(State)
    assert set(PAUSES) == set(PausedBy)


def test_no_number_of_a_crawl_is_left_out() -> None:
    class Seen:
        def statistics(self) -> dict[str, None]:
            return dict.fromkeys(SeenStatistics.__annotations__)

    manifest = Manifest(1, 0, 0, 0.0, 0.0, 0, {}, ())
    seen: Any = Seen()
    stats = assemble(
        JobFigures(
            Counters(),
            seen,
            manifest,
            LedgerCounts(),
            generations=0,
            disk_free=0,
            outputs={"pages": Size(1, 7)},
        ),
        HostFigures(0, {"ready": 0}, None, []),
        RunFigures(
            1.0,
            in_flight=0,
            seeds_rejected=0,
            paused=None,
            paused_by=None,
            lag=LoopLag().figures(),
            stalls=LoopLag().stall_figures(),
            commits=0,
            outage={"now": False, "count": 0, "seconds": 0.0, "hosts": 0, "probes": 0},
            proxies={"failing": 0, "failures": 0, "named": []},
            text_failed=0,
            hooks={},
            parsed={"tokens": 7},
            pages_per_second=None,
            pace=None,
            slots=SlotFigures(8, 8, 0, 0, 0, None, None, [], 10.0, None, 0),
        ),
        state="ended",
        now=1.0,
        ahead=SeenAhead(SeenAtEnd(0, 0.0, 0.0, 0.0), SeenWarning("full", "")),
    )
    nested = {(part, key) for part in ("seen", "seen_at_end", "checkpoint", "outage") for key in stats[part]}
    nested |= {("seen", "fpp_measured", key) for key in MeasuredFpp.__annotations__}
    nested |= {("seen", "ledger", field.name) for field in fields(LedgerCounts)}
    nested |= {("loop_stall_seconds", key) for key in stats["loop_stall_seconds"]}
    nested |= {("seen", "hash", "forgeable")}
    nested |= {("messages_waiting", key) for key in ("count", "seconds")}  # None: it is no partition
    nested |= {("replicas", key) for key in ("wanted", "in_step", "steps", "seconds")}  # the same
    nested |= {("harvest", key) for key in ("rated", "relevant", "rate", "recent_rate")}
    nested |= {("render_recall", key) for key in ("value", "low", "high", "audits", "missed")}
    nested -= {("seen", "ledger"), ("seen", "hash"), ("seen", "kind"), ("seen", "fpp_measured")}
    nested |= {("seen_warning", "cause")}
    # A sentence has no place in a metric: the state says that the crawl is paused.
    nested |= {("proxies", "failing"), ("proxies", "failures")}
    nested |= {("slots", key) for key in ("total", "free", "quick", "new", "slow", "rate_waiting")}
    nested |= {
        ("time_left", "seconds"),
        ("hosts_overlooked", "count"),
        ("loop_stalls", "count"),
    }  # the names are for people
    nested_parts = ("seen", "seen_at_end", "seen_warning", "checkpoint", "outage", "paused", "stopped", "stopped_by")
    nested_parts += (
        "harvest",
        "render_recall",
        "loop_stall_seconds",
        "loop_stalls",
        "hosts_overlooked",
        "hosts_need_browser",
        "slowest_host",
        "time_left",
        "slots",
        "proxies",
        "endless",  # a setting
        "messages_waiting",
        "replicas",
    )
    numbers = {(key,) for key in stats if key not in nested_parts} | nested
    assert numbers == {metric.path for metric in METRICS}
    assert {metric.field for metric in METRICS if metric.label == "slice"} == SliceStatistics.__annotations__.keys()
