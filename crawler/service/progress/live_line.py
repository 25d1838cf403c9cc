"""Shows a running crawl: a live view on a terminal, or plain lines in a log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.text import Text

from crawler.base.figures import count, counted, per_second, probability
from crawler.base.printable import printable, terminal
from crawler.base.say import say
from crawler.job.metrics.sentences import came, is_above_target, is_held_up, is_in_doubt, standing, urls_of, waiting

_BAR = 30  # maximum width of the bar in characters
_SLOW = 0.1  # pages per second below which the crawl reports what it is waiting for


class Progress:
    """Shows a crawl on ``stream`` while it runs. A context manager that restores the terminal on exit. What happens if
    the stream's reader stalls or disconnects depends on the stream: see ``QueuedStream``.

    On a terminal each `update` redraws the view; four per second are enough. On any other stream, one line is written
    every ``every`` seconds of elapsed time.
    """

    def __init__(self, stream: TextIO, every: float = 10.0, *, force: bool = False) -> None:
        """``force`` draws the live view even if the stream is not a terminal."""
        self._stream = stream
        self._every = every
        self._next_line = 0.0
        self._live: Live | None = None
        # Ask the stream itself: rich also trusts environment variables, and would fill a log with escape sequences.
        console = Console(file=terminal(stream), force_terminal=force or stream.isatty())
        if console.is_terminal and (force or not console.is_dumb_terminal):
            self._live = Live(console=console, auto_refresh=False, transient=True)

    def __enter__(self) -> Progress:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self, stats: Mapping[str, Any]) -> None:
        """Show the statistics."""
        elapsed = stats["elapsed_seconds"]
        if self._live is not None:
            if not getattr(self._stream, "behind", False):  # a slow reader misses this update and gets the next one
                self._live.update(_view(stats, self._live.console.width), refresh=True)
        elif elapsed >= self._next_line:
            self._next_line = elapsed + self._every
            say(self._stream, _line(stats))

    def end(self, stats: Mapping[str, Any]) -> None:
        """Write a last line, which stays on a terminal too."""
        self.say(_line(stats))

    def say(self, text: str) -> None:
        """Write a separate line, above the live view if there is one."""
        if self._live is not None:
            self._live.console.print(printable(text), markup=False, highlight=False, soft_wrap=True)
        else:
            say(self._stream, text)


def _line(stats: Mapping[str, Any]) -> str:
    fpp, rate = _fpp(stats.get("seen") or {}), stats.get("pages_per_second")
    pace = "" if rate is None else f" ({per_second(rate)}/s)"
    why = f"; {text}" if (text := _why_nothing(stats)) else ""
    excluded = f" {count(number)} excluded," if (number := urls_of(stats, "excluded")) else ""
    return (
        f"{stats['elapsed_seconds']:.0f} s: {came(stats)}{pace},{excluded} {count(stats['urls_pending'])} pending,"
        f" {count(stats['urls_in_flight'])} in flight, {counted(stats['hosts'], 'host')}"
        f"{fpp and f', {fpp}'}{why}"
    )


def _fpp(seen: Mapping[str, Any]) -> str:
    """Return the false-positive probability in words if it may cost pages, otherwise an empty string."""
    if not is_in_doubt(seen):
        return ""
    return f"fpp {probability(seen.get('fpp_estimated'))} (target {probability(seen.get('fpp_target'))})"


def _why_nothing(stats: Mapping[str, Any]) -> str:
    """Return why few or no pages are fetched; empty if pages are fetched or the reason is unknown."""
    if stats.get("paused"):
        return str(stats["paused"])
    pages = stats.get("pages_per_second")
    return waiting(stats) if pages is not None and (pages < _SLOW or is_held_up(stats)) else ""


def _view(stats: Mapping[str, Any], width: int) -> Group:
    """Return the log line, with a bar of finished URLs below it."""
    admitted = (stats["urls_admitted"] or 0) - (stats.get("soft404_probes") or 0)
    finished = admitted - (stats["urls_pending"] or 0) - (stats["urls_in_flight"] or 0)
    if stats.get("endless"):
        finished += stats["revisits_pending"]  # pages that wait for a revisit count as finished
    bar = ProgressBar(
        total=max(admitted, 1),
        completed=finished,
        width=min(_BAR, width),
        complete_style="blue",
        finished_style="green",
    )
    doubtful = is_above_target(stats.get("seen") or {})
    known = f"{count(finished)} of {counted(admitted, 'known URL')}, {standing(stats)}"
    return Group(Text(printable(_line(stats)), "bold red" if doubtful else ""), bar, Text(known))
