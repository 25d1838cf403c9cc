"""What the terminal shows, and what a log gets."""

from __future__ import annotations

import io

import pytest

from crawler.service.progress.live_line import Progress
from crawler.service.progress.summary import summary
from tests.job.metrics.samples import statistics


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_log_gets_a_line_now_and_then() -> None:
    log = io.StringIO()
    with Progress(log, every=10.0) as progress:
        for quarter in range(101):
            progress.update(statistics(elapsed_seconds=quarter / 4, pages_fetched=5 * quarter, pages_per_second=20.0))
    assert log.getvalue().splitlines() == [
        "0 s: 0 pages (20.0/s), 81 failed, 2,000 pending, 64 in flight, 7 hosts, fpp 1 in 5,300 (target 1 in 1,000)",
        "10 s: 200 pages (20.0/s), 81 failed, 2,000 pending, 64 in flight, 7 hosts, fpp 1 in 5,300 (target 1 in 1,000)",
        "20 s: 400 pages (20.0/s), 81 failed, 2,000 pending, 64 in flight, 7 hosts, fpp 1 in 5,300 (target 1 in 1,000)",
    ]


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


def test_statistics_without_a_seen_set_can_be_shown() -> None:
    log = io.StringIO()
    with Progress(log) as progress:
        progress.update(statistics(seen=None))
        progress.update(statistics(paused="paused by user", elapsed_seconds=10_000.0))
    assert "fpp - (target -)" in log.getvalue()
    assert log.getvalue().endswith("; paused by user\n")
    assert "seen-set" not in summary(statistics(seen=None, seen_at_end=None))


def test_one_is_singular() -> None:
    log = io.StringIO()
    with Progress(log) as progress:
        progress.update(statistics(elapsed_seconds=0.0, pages_fetched=1, hosts=1))
    assert log.getvalue().startswith("0 s: 1 page (30.0/s), ")
    assert ", 1 host, " in log.getvalue()
    assert " 1 link seen before, " in summary(statistics(urls_duplicate=1))


def test_the_summary_says_how_it_went() -> None:
    assert summary(statistics(state="ended")).splitlines() == [
        "ended after 12.5 s",
        "pages     10,000 fetched, 81 failed, 150 redirects, 50 excluded, 8 soft 404, 9 blocked"
        " (4 of them queued again)",
        "URLs      12,345 admitted, 357,643 links seen before, 2,000 pending, 7 hosts",
        "known     41 links to URLs that an older crawl knows, not admitted",
        "answers   9,800 2xx, 150 3xx, 190 4xx, 10 5xx",
        "held back 9 private-address, 1 link-local, 2 metadata-address, 1 blocked-port, 284 too-many-ports"
        " (rules of this crawl; `crawler explain` says what permits a URL)",
        "your code failed on 7 pages (`data_error` in their records)",
        "your code failed in calls: filter_link 1, score_links 2, score_page 3, request_headers 4, is_changed 5",
        "harvest   1,800 of 9,000 pages relevant (20.0%), 31.0% of the last 1,000",
        "left out  244 links by crawl.max_depth, 31 links out of scope (crawl.scope), 12 links by scope.exclude,"
        " 1 link by links.max_url_length, the rest of 2 pages by links.max_links; a later run with wider limits visits"
        " 40 pages again to follow them",
        "replicas  1 of 2 in step, up to 1.5 s behind",
        "kept      pages 49.6 MiB in 1 file, links 1.4 GiB in 2 files",
        "seen-set  2 slices, 50.0 KiB, 51% full, 33.2 bits/URL, blake2b with a secret,"
        " estimated fpp 1 in 5,300 (target 1 in 1,000)",
        "          No URL is skipped by mistake: the ledger caught 2 false positives (1 in 6,200)"
        " among 12,347 new URLs; 12 URLs wait for it.",
    ]


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ([1], "slice, 4.0 KiB, less than 1% full, estimated"),
        ([2_000], "slice, 4.0 KiB, 2% full, estimated"),
        ([49_999], "slice, 4.0 KiB, 50% full, estimated"),
        ([50_000], "slice, 4.0 KiB, 50% full, 33.2 bits/URL, estimated"),
        ([100_000, 1], "slices, 4.0 KiB, 50% full, 33.2 bits/URL, estimated"),
        ([], "seen-set  4.0 KiB, 33.2 bits/URL, estimated"),
    ],
)
def test_bits_of_a_nearly_empty_seen_set_say_nothing(counts: list[int], words: str) -> None:
    seen = {"bits_per_url": 33.2, "bytes": 4096, "slices": [{"count": count, "capacity": 100_000} for count in counts]}
    (told,) = (line for line in summary(statistics(seen=seen)).splitlines() if line.startswith("seen-set"))
    assert words in told


def test_long_crawls_are_told_in_hours() -> None:
    assert summary(statistics(elapsed_seconds=7_385.0)).startswith("running after 2 h 3 min 5 s\n")


def test_a_job_that_is_not_running_has_no_time() -> None:
    assert summary(statistics(state="stopped", elapsed_seconds=None)).startswith("stopped\n")
    paused = summary(statistics(state="paused", paused="paused by user", elapsed_seconds=60.0))
    assert paused.startswith("paused after 1 min 0 s: paused by user\n")
