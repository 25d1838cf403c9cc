"""The plot of the membership study."""

from __future__ import annotations

from collections.abc import Sequence

from crawler.bench.membership_study import MembershipResult
from crawler.bench.plot import Panel, bar_chart


def membership_plot(results: Sequence[MembershipResult]) -> str:
    """SVG text: bytes and time a URL, error rate and restart, a row a way."""
    keys = results[0].keys
    return bar_chart(
        f"Which of {keys:,} URLs were seen?",
        "Logarithmic scales; shorter is better. Bytes in memory, on disk for the databases; CPU time of an addition.",
        [result.name for result in results],
        [
            _panel("bytes a URL", [result.kept for result in results], "{:,.1f}", "#4e79a7"),
            _panel("nanoseconds to ask and add", [result.add for result in results], "{:,.0f}", "#59a14f"),
            _panel("new URLs taken for known", [result.error_rate for result in results], "{:.3%}", "#e15759"),
            _panel("milliseconds to restart", [result.restart * 1000 for result in results], "{:,.1f}", "#b07aa1"),
        ],
    )


def _panel(title: str, values: Sequence[float], form: str, colour: str) -> Panel:
    return Panel(title, values, [form.format(value) if value else "0" for value in values], colour)
