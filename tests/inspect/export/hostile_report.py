"""A report of a crawl whose every text is hostile."""

from __future__ import annotations

from typing import Any

from crawler.inspect.export.report_page import Report, report_page
from crawler.job.metrics.history import History
from crawler.job.survey.survey import Survey
from tests.job.metrics.samples import statistics

HOSTILE = (
    "</style><script>window.owned = 1</script>",
    "\"><img src=x onerror='window.owned = 1'>",
    "' onload='window.owned = 1",
    "<svg/onload=window.owned=1>",
    "javascript:window.owned=1",
    "&lt;b&gt;<!-- ]]> -->",
    "\N{RIGHT-TO-LEFT OVERRIDE}lmth.\x00\x1b[2J\ud800",
)


def hostile_records() -> list[dict[str, Any]]:
    """Records that others may have edited: no crawl of ours writes such URLs."""
    found = []
    for number, text in enumerate(HOSTILE * 2):
        url = f"http://h.test/{text}" if number % 2 else f"http://{text}/"
        record: dict[str, Any] = {
            "url": url,
            "status": (404, 200, None)[number % 3],
            "error": text if number % 3 == 2 else None,
            "outcome": ("fetched", "soft404", "failed")[number % 3],
            "depth": number,
            "via": (None, text, f"https://h.test/?{text}")[number % 3],
            "fetched_at": f"2026-11-22T02:11:{number:02}.238Z",
            "content_type": text,
            "bytes": 512,
            "links": 3,
            "duplicate_of": text,
        }
        found.append(record)
    safe = {"url": "https://h.test/%3Cb%3E?a=1&b=2", "status": 404, "outcome": "fetched", "via": "http://h.test/"}
    return [*found, safe]


def hostile_report() -> str:
    survey = Survey()
    for record in hostile_records():
        survey.add(record, last=True)
    rows = [{"host": text, "pending": 1, "latency_seconds": 0.5, "state": text} for text in HOSTILE]
    stats = statistics(state=HOSTILE[0], links_left_out={HOSTILE[1]: 3})
    history = History()
    history.observe(1_794_999_999.0, stats)
    history.observe(1_795_000_000.0, stats)
    events = [{"time": 1_795_000_000.0, "kind": "error", "host": text, "text": text} for text in HOSTILE]
    return report_page(
        Report(HOSTILE[0] + "-job", 1_795_000_000.0, stats, survey, rows, history.series()["all"], events)
    )
