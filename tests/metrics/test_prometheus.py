"""The Prometheus text, read back with the reference parser."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from crawler.checkpoint import Manifest
from crawler.crawl.stall import LoopStall
from crawler.crawl.stats import assemble
from crawler.exact import LedgerCounts
from crawler.filters import Advice, MeasuredFpp, SeenStatistics, SliceStatistics
from crawler.metrics import METRICS, prometheus_text
from crawler.records import Counters
from tests.metrics.samples import statistics

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]
DOCUMENT = Path(__file__).parents[2] / "docs" / "metrics.md"


def read(stats: dict[str, Any]) -> Samples:
    return {
        (sample.name, tuple(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(prometheus_text(stats).decode())
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


def test_full_statistics_yield_every_metric() -> None:
    assert {name for name, _ in read(statistics())} == {metric.name for metric in METRICS}


def test_what_does_not_exist_is_absent_and_not_zero() -> None:
    samples = read(statistics(seen=None, checkpoint=None, links_found=None))
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


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_names_follow_the_conventions(metric: Any) -> None:
    assert re.fullmatch(r"crawler_[a-z]+(_[a-z]+)*", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert not re.search(r"_(milliseconds|percent|kilobytes|count|gauge|counter)(_|$)", metric.name)
    assert metric.help.endswith(".")


def test_every_metric_is_documented_as_it_is() -> None:
    rows = re.findall(r"^\| `(\w+)(?:\{(\w+)\})?` \| (\w+) \| (.*) \|$", DOCUMENT.read_text(), re.MULTILINE)
    documented = {(name, label or None, kind) for name, label, kind, _ in rows}
    assert documented == {(metric.name, metric.label, metric.kind) for metric in METRICS}
    assert all(meaning.strip() for *_, meaning in rows)


def test_no_number_of_a_crawl_is_left_out() -> None:
    class Seen:
        def statistics(self) -> dict[str, None]:
            return dict.fromkeys(SeenStatistics.__annotations__)

    manifest = Manifest(1, 0, 0.0, 0.0, 0, {}, ())
    seen: Any = Seen()
    stats = assemble(
        Counters(),
        seen,
        manifest,
        LedgerCounts(),
        now=1.0,
        state="ended",
        in_flight=0,
        hosts_pending=0,
        elapsed=1.0,
        seeds_rejected=0,
        paused=None,
        disk_free=0,
        stall=LoopStall(),
        advice={field.name: None for field in fields(Advice)} | {"new_urls_per_second": None},
    )
    nested = {(part, key) for part in ("seen", "advice", "checkpoint") for key in stats[part]}
    nested |= {("seen", "fpp_measured", key) for key in MeasuredFpp.__annotations__}
    nested |= {("seen", "ledger", field.name) for field in fields(LedgerCounts)}
    nested -= {
        ("seen", "ledger"),
        ("seen", "kind"),
        ("seen", "fpp_measured"),
        ("advice", "warning"),
        ("advice", "cause"),
    }
    # A sentence has no place in a metric: the state says that the crawl is paused.
    nested_parts = ("seen", "advice", "checkpoint", "paused")
    numbers = {(key,) for key in stats if key not in nested_parts} | nested
    assert numbers == {metric.path for metric in METRICS}
    assert {metric.field for metric in METRICS if metric.field} == SliceStatistics.__annotations__.keys()
