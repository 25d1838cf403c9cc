"""What the terminal shows, and what a log gets."""

from __future__ import annotations

import io

from crawler.service.progress.live_line import Progress
from tests.job.metrics.samples import statistics


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_figures_and_is_left_clean(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    terminal = Terminal()
    with Progress(terminal) as progress:
        progress.update(statistics())
        shown = terminal.getvalue()
        before = len(shown)
    for text in (
        "10,000",
        "2,000 pending",
        "64 in flight",
        "7 hosts",
        "10,281 of 12,345 known URLs",
        "1 in 5,300",
    ):
        assert text in shown
    # The cursor comes back.
    assert "\x1b[?25h" in terminal.getvalue()[before:]
