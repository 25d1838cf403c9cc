"""A crawl in a few lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crawler.metrics import count, forecast, probability, trust


def summary(stats: Mapping[str, Any]) -> str:
    """A few lines on how the crawl went, without a line break at the end."""
    elapsed = stats["elapsed_seconds"]
    get = stats.get
    lines = [
        stats["state"] if elapsed is None else f"{stats['state']} after {_duration(elapsed)}",
        f"pages     {count(stats['pages_fetched'])} fetched, {count(stats['pages_failed'])} failed,"
        f" {count(get('pages_redirected'))} redirects, {count(get('urls_excluded'))} excluded",
        f"URLs      {count(stats['urls_admitted'])} admitted, {count(get('urls_duplicate'))} duplicate links,"
        f" {count(stats['urls_pending'])} left, {count(stats['hosts'])} hosts",
    ]
    if get("revisits"):
        lines.append(
            f"revisits  {count(stats['revisits'])} begun, {count(stats['revisits_changed'])} found a change,"
            f" {count(stats['revisits_not_modified'])} answered 304, {count(stats['pages_scheduled'])} pages scheduled"
        )
    seen = stats.get("seen")
    if seen:
        slices = len(seen.get("slices") or ())
        bits = seen.get("bits_per_url")
        shape = [f"{slices} slice{'' if slices == 1 else 's'}"] if slices else []
        shape += [f"{bits:.1f} bits/URL"] if bits is not None else []
        shape += [
            f"estimated fpp {probability(seen.get('fpp_estimated'))} (target {probability(seen.get('fpp_target'))})"
        ]
        lines.append(f"seen-set  {', '.join(shape)}")
        lines.append(f"          {trust(stats)}")
        ahead = forecast(stats)
        lines += [f"          {ahead}"] if ahead else []
    return "\n".join(lines)


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min {rest} s" if hours else f"{minutes} min {rest} s"
