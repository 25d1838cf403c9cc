"""What a benchmark of crawls prints: a table, bars of text, an SVG file, or JSON. Medians over the rounds."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any
from xml.sax.saxutils import escape

from msgspec import Struct, to_builtins

from benchmarks.crawl.contenders import FLOOR, OURS
from benchmarks.crawl.stage_samples import PARSERS, STAGES, Taken
from crawler.service.progress.text_table import text_table
from crawler.tools.bench.synthetic_crawl import Latency, Measured

_HEADS = ("", "pages", "missing", "twice", "seconds", "pages/s", "CPU us/page", "of the floor", "ms", "ms, 95%", "MiB")
_HTTPS_HEADS = (*_HEADS, "new", "resumed")
_BAR = 40  # characters
_PARTS = " ▏▎▍▌▋▊▉█"  # eighths of a character
_COLOURS = dict(zip(STAGES, ("#8c8c8c", "#3b6fb6", "#e0b050", "#d98324", "#5a9a3c", "#8e5ab5", "#c4b89a"), strict=True))
_OTHER = "#b9c4d0"  # of a bar whose stages are not known
_ROW, _LEFT, _WIDTH, _TOP = 30, 90, 560, 84


class Sampled(Struct, frozen=True):
    """One crawl of a synthetic web, and samples of where its time went."""

    measured: Measured
    taken: Taken | None = None

    @property
    def stages(self) -> dict[str, float]:
        """CPU time of a page by stage, in microseconds."""
        if self.taken is None:
            return {}
        page = 1e6 / max(1, self.measured.verdict.pages)
        samples = self.taken.samples
        one = page * (self.measured.cost.cpu - self.taken.others) / max(1, sum(samples.values()))
        own = {stage: one * samples.get(stage, 0) for stage in STAGES}
        return {**own, PARSERS: page * self.taken.others}


class Summary(Struct, frozen=True):
    """All rounds of one crawler. Times are in microseconds of CPU a page, but for ``seconds``."""

    name: str
    pages: int
    missing: int  # in the worst round, as all mistakes
    twice: int
    unexpected: int
    wrong: int
    seconds: float
    pages_a_second: float
    cpu: float
    cpu_rounds: list[float]
    latency: Latency
    rss: float  # MiB
    refused: int  # requests answered 429 or 503
    private: int  # requests for what robots.txt disallows
    connections: float  # a request
    resumed: float  # of them, with a TLS session
    samples: int
    stages: dict[str, float]


def summarise(sampled: Sequence[Sampled]) -> Summary:
    """Summarise the rounds of one crawler, at least one."""
    rounds = [each.measured for each in sampled]
    samples = sum(sum(each.taken.samples.values()) for each in sampled if each.taken is not None)
    cpu = median(each.microseconds for each in rounds)
    verdicts = [each.verdict for each in rounds]
    return Summary(
        name=rounds[0].name,
        pages=min(verdict.pages for verdict in verdicts),
        missing=max(verdict.missing for verdict in verdicts),
        twice=max(verdict.twice for verdict in verdicts),
        unexpected=max(verdict.unexpected for verdict in verdicts),
        wrong=max(verdict.wrong for verdict in verdicts),
        seconds=median(each.cost.wall for each in rounds),
        pages_a_second=median(each.pages_a_second for each in rounds),
        cpu=cpu,
        cpu_rounds=[each.microseconds for each in rounds],
        latency=Latency(median(each.latency.median for each in rounds), median(each.latency.most for each in rounds)),
        rss=median(each.cost.rss for each in rounds),
        refused=max(each.requested.refused for each in rounds),
        private=max(each.requested.private for each in rounds),
        connections=median(each.requested.connections / max(1, each.requested.requests) for each in rounds),
        resumed=median(each.requested.resumed / max(1, each.requested.connections) for each in rounds),
        samples=samples,
        stages={stage: median(each.stages[stage] for each in sampled) for stage in sampled[0].stages},
    )


def table(summaries: Sequence[Summary], *, https: bool) -> list[str]:
    """Return the lines of the table, one row a crawler. With ``https`` it tells of connections too."""
    least = next((each.cpu for each in summaries if each.name == FLOOR), None)
    rows = [
        [
            each.name,
            f"{each.pages:,}",
            f"{each.missing:,}",
            f"{each.twice:,}",
            f"{each.seconds:.1f}",
            f"{each.pages_a_second:,.0f}",
            f"{each.cpu:,.0f}",
            "" if least is None else f"{each.cpu / least:.2f}",
            _milliseconds(each.latency.median),
            _milliseconds(each.latency.most),
            f"{each.rss:,.0f}",
            *([f"{each.connections:.0%}", f"{each.resumed:.0%}"] if https else []),
        ]
        for each in summaries
    ]
    if not https:
        return text_table(_HEADS, rows)
    return [*text_table(_HTTPS_HEADS, rows), "", "The floor resumes no TLS sessions."]


def _milliseconds(value: float) -> str:
    return "" if value < 0 else f"{value:,.0f}"


def bars(summaries: Sequence[Summary]) -> list[str]:
    """Return the lines of two plots of CPU time a page: of the crawlers, and of our stages."""
    lines = ["CPU a page"]
    lines += _bars([(each.name, each.cpu) for each in summaries])
    for each in summaries:
        if each.stages:
            lines += ["", f"CPU a page of {each.name}, by stage ({each.samples:,} samples)"]
            lines += _bars([*each.stages.items()], whole=each.cpu)
    return lines


def _bars(rows: Sequence[tuple[str, float]], whole: float | None = None) -> list[str]:
    most = max(value for _, value in rows) or 1.0
    lines = []
    for name, value in rows:
        full, part = divmod(round(8 * _BAR * value / most), 8)
        bar = "█" * full + _PARTS[part].strip()
        share = "" if whole is None else f"{100 * value / (whole or 1.0):5.0f}%"
        lines.append(f"{name:<8} {bar:<{_BAR}} {value:>8,.0f} us{share}")
    return lines


def svg(summaries: Sequence[Summary], title: str) -> str:
    """Return the text of an SVG file: a bar a crawler, ours with its stages."""
    most = max(each.cpu for each in summaries) or 1.0
    width, height = _LEFT + _WIDTH + 110, _TOP + _ROW * len(summaries) + 16
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="12" fill="#222">',
        f'<title>{escape(title)}</title><rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text x="12" y="24" font-size="16" font-weight="600">CPU a page, us</text>'
        f'<text x="12" y="42" fill="#666">{escape(title)}</text>',
    ]
    for place, (stage, colour) in enumerate(_COLOURS.items()):
        x = _LEFT + 80 * place
        parts.append(
            f'<rect x="{x}" y="54" width="12" height="12" fill="{colour}"/><text x="{x + 17}" y="64">{stage}</text>'
        )
    for row, each in enumerate(summaries):
        y, right = _TOP + _ROW * row, float(_LEFT)
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 14}" text-anchor="end">{escape(each.name)}</text>')
        for stage, value in (each.stages or {"": each.cpu}).items():
            wide = _WIDTH * value / most
            colour = _COLOURS.get(stage, _OTHER)
            parts.append(f'<rect x="{right:.1f}" y="{y}" width="{wide:.1f}" height="20" fill="{colour}"/>')
            right += wide
        parts.append(f'<text x="{right + 6:.1f}" y="{y + 14}">{each.cpu:,.0f}</text>')
    return "\n".join([*parts, "</svg>", ""])


def figures(summaries: Sequence[Summary]) -> dict[str, Any]:
    """Return the figures as JSON has them."""
    by_name = {each.name: each for each in summaries}
    ratio = by_name[OURS].cpu / by_name[FLOOR].cpu if {OURS, FLOOR} <= {*by_name} else None
    return {"crawlers": to_builtins(list(summaries)), "of_the_floor": ratio}
