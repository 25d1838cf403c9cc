"""Exposes the statistics as metrics for Prometheus and other programs that read OpenMetrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from crawler.job.metrics.catalogue import STATISTICS, Statistic, value_at

OPENMETRICS = "application/openmetrics-text"
_UNITS = ("bytes", "ratio", "seconds")


class Metric(NamedTuple):
    """The metric of a statistic, with the path of its value in the statistics."""

    name: str
    label: str | None
    path: str
    of: Statistic


def _metric(path: str, of: Statistic) -> Metric:
    name = of.name or path.replace("s.*.", "_").replace(".value", "").replace(".", "_")
    ends = f"_{of.unit}" * bool(of.unit) + "_total" * (of.kind == "counter")
    label = path.partition("s.*.")[0].rpartition(".")[2] if ".*." in path else None
    return Metric(f"crawler_{name}{ends}", of.label.name if of.label else label, path, of)


METRICS = tuple(_metric(path, statistic) for path, statistic in STATISTICS.items() if statistic.kind)


def exposition(stats: Mapping[str, Any], accept: str = "", *others: Collector) -> tuple[bytes, str]:
    """Return the statistics and the metrics that ``others`` collect, as text, and its Content-Type.

    The text is OpenMetrics 1.0.0 if ``accept``, a request's header, names it; otherwise it is the Prometheus text
    format, version 0.0.4. A metric whose value is null is absent.
    """
    registry = CollectorRegistry(auto_describe=False)
    for collector in (_Statistics(stats), *others):
        registry.register(collector)
    # Negotiate only the format, not the version: the library raises TypeError if the client's version is not a number,
    # and accepts versions higher than it supports.
    encode, content_type = choose_encoder(OPENMETRICS if OPENMETRICS in accept else "")
    return encode(registry), content_type


class _Statistics(Collector):
    def __init__(self, stats: Mapping[str, Any]) -> None:
        self._stats = stats

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        for metric in METRICS:
            labels = [metric.label] if metric.label else []
            family_of = CounterMetricFamily if metric.of.kind == "counter" else GaugeMetricFamily
            unit = next((unit for unit in _UNITS if metric.name.removesuffix("_total").endswith(f"_{unit}")), "")
            family = family_of(metric.name, metric.of.help, labels=labels, unit=unit)
            for values, number in _samples(metric, self._stats):
                family.add_metric(values, number * metric.of.scale)
            if family.samples:
                yield family


def _samples(metric: Metric, stats: Mapping[str, Any]) -> Iterator[tuple[list[str], float]]:
    path, _, inside = metric.path.partition(".*.")
    value = value_at(stats, path)
    if value is None:
        return
    if inside:
        for label, element in value.items() if isinstance(value, Mapping) else _numbered(value):
            if element[inside] is not None:
                yield [label], element[inside]
    elif isinstance(value, Mapping):
        yield from (([key], number) for key, number in value.items())
    elif metric.of.label is not None:
        yield from (([word], float(word == value)) for word in metric.of.label.words)
    else:
        yield [], value


def _numbered(elements: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each element with its index as label.

    In a crawl of partitions the label is the partition's number and the index within the partition, so it does not
    change when another partition gets an element."""
    seen: Counter[int | None] = Counter()
    for element in elements:
        partition = element.get("partition")
        index = seen[partition]
        seen[partition] += 1
        yield str(index) if partition is None else f"{partition:02}-{index}", element
