"""The metrics as text, read back with the reference parsers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client import ProcessCollector
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from crawler.engine.lifecycle import PausedBy, State
from crawler.job.metrics.catalogue import KEYS, PAUSES, STATES, STATISTICS
from crawler.job.metrics.prometheus import METRICS, exposition
from crawler.seen.filters import SliceStatistics
from tests.documents import ROOT, page
from tests.job.metrics.samples import statistics

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]
DOCUMENT = page("stats.md")


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


def test_every_metric_is_documented_at_the_statistic_it_exports() -> None:
    rows = re.findall(r"^\| `([\w.]+)` \|.*\| ([^|]*) \|$", DOCUMENT, re.MULTILINE)
    documented = {metric: key for key, metrics in rows for metric in re.findall(r"`(crawler_[\w{}]+)`", metrics)}
    declared = {f"{each.name}{{{each.label}}}" if each.label else each.name: each.path for each in METRICS}
    assert documented.keys() == declared.keys()
    for metric, key in documented.items():
        assert key in declared[metric].split("."), metric


def test_the_words_of_labels_are_those_of_the_crawl() -> None:
    assert set(STATES) == set(State)
    assert set(PAUSES) == set(PausedBy)


# What people read, or what is made of others.
NOT_EXPORTED = (
    r"slowest_host|time_left|hosts_need_browser|endless|seen\.(hash|ledger\.fpp)|slots\.(rate|slow_from)|outputs.*files"
)
NOT_EXPORTED += r"|harvest\.recent_pages|render_recall\.(pages|rendered|audits|hits|missed|counts)|proxies\.named"


def numbers(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict | list):
        for key, inside in value.items() if isinstance(value, dict) else enumerate(value):
            yield from numbers(inside, f"{path}.{key}" if path else key)
    elif isinstance(value, int | float):
        yield path


def test_no_number_of_a_crawl_is_left_out() -> None:
    paths = [metric.path.replace("*", "[^.]+") + ".+" * (metric.of.label is not None) for metric in METRICS]
    exported = re.compile("|".join(paths))
    assert not [
        path for path in numbers(statistics()) if not exported.fullmatch(path) and not re.match(NOT_EXPORTED, path)
    ]
    assert statistics().keys() <= set(KEYS)
    assert {path for path in STATISTICS if path.startswith("seen.slices.*")} == {
        f"seen.slices.*.{key}" for key in SliceStatistics.__annotations__
    }
