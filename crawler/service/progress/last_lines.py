"""The last lines printed by a run."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from crawler.base.figures import count, duration, size
from crawler.engine.lifecycle import Stop
from crawler.job.crawl_file import holds_crawl
from crawler.job.directory import PAGES
from crawler.job.metrics.pooled_stats import ABSENT, BESIDE, ELSEWHERE
from crawler.job.metrics.sentences import broken_pages, is_news, trust, urls_of
from crawler.service.facade import Result
from crawler.service.progress.summary import harvest_text, missed, rendered_text, state_text, urls_text

_VISITS = {"pages_fetched": "fetched", "pages_failed": "failed", "pages_redirected": "redirected"}
_AWAY = (ABSENT, BESIDE, ELSEWHERE)


def ending(result: Result, directory: Path, *, goes_on: bool = True) -> str:
    """Return the lines about a run, without a final line break: its results, the URLs left out and how to get them, the
    output files, and (if the crawl ``goes_on`` in the directory) the next steps. ``result.before`` has the statistics
    without this run's work: those of the job when it was resumed or, for a worker, those of other workers' work in its
    partitions."""
    stats, before = result.stats, result.before
    this_run = [] if before is None else [_this_run({key: stats[key] - before[key] for key in _VISITS})]
    states = [each["state"] for each in stats.get("partitions", ())]
    away = sum(state in _AWAY for state in states)
    all_runs = "" if before is None else "; by all runs"
    whose = f"; in {len(states) - away} of {len(states)} partitions" if away else all_runs
    broken = broken_pages(stats)
    steps = _steps(result.reason, urls_of(stats, "failed"), broken, directory, is_whole=not away) if goes_on else []
    harvest = [harvest_text(stats["harvest"])] if stats.get("harvest") else []
    news = [f"seen-set  {trust(stats)}"] if is_news(stats.get("seen") or {}) else []
    return "\n".join(
        [
            state_text(stats),
            *this_run,
            f"URLs      {urls_text(stats)}{whose}",
            *harvest,
            *rendered_text(stats),
            *missed(stats),
            *news,
            *_under("results", _places(stats.get("outputs") or {}, directory)),
            *_under("next", steps),
        ]
    )


def left_over(done: Mapping[str, int], had: int, seconds: float) -> str:
    """Return the lines about a worker that owns no partition when it ends. ``done`` is the work that it did in the
    partitions it ``had``."""
    if not had:
        return "no partition was left for this worker: other workers have all of them"
    several = "its partition has" if had == 1 else f"its {count(had)} partitions have"
    return f"over after {duration(seconds)}: {several} moved to other workers\n{_this_run(done)}"


def _this_run(done: Mapping[str, int]) -> str:
    return f"this run  visits: {', '.join(f'{count(done[key])} {words}' for key, words in _VISITS.items())}"


def _under(title: str, lines: Iterable[str]) -> list[str]:
    """Return the lines, with the title in front of the first one."""
    return [f"{'' if number else title:<10}{line}" for number, line in enumerate(lines)]


def _places(outputs: Mapping[str, Mapping[str, int]], directory: Path) -> list[str]:
    """Return the location of each output."""
    is_crawl = holds_crawl(directory)
    inside = directory / "partitions" / "*" if is_crawl else directory
    lines = []
    for name, each in outputs.items():
        if name != "pages":
            place = f"{inside / name}/"
        else:
            place = str(inside / (PAGES if is_crawl or each["files"] == 1 else "pages*.jsonl*"))
        files = "" if each["files"] == 1 else f" in {count(each['files'])} files"
        lines.append(f"{place} ({size(each['bytes'])}{files})")
    return lines


def _steps(reason: Stop, failed: int, broken: int, directory: Path, *, is_whole: bool) -> list[str]:
    """Return the next steps. They do not mention a limit that was reached, because it has already been reported."""
    job = shlex.quote(str(directory))
    steps = []
    if reason is Stop.INTERRUPTED:
        steps.append("run the same command to resume")
    elif reason is Stop.FINISHED and failed:
        steps.append(f"`crawler retry {job} --failed`, then the same command: retries the failed URLs")
    if not is_whole:
        steps.append(f"`crawler stats {job}`: the whole crawl")
    elif failed or broken:
        steps.append(f"`crawler dashboard {job}`: the failures, and the page that links to each")
    else:
        steps.append(f"`crawler dashboard {job}`: the results on a page; `crawler stats {job}`: all figures")
    return steps
