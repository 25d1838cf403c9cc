"""What records tell, and how much room it may take."""

from __future__ import annotations

import json
import random
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from crawler.job.survey.path_map import PARTS, SHOWN_PARTS, SITES
from crawler.job.survey.survey import BROKEN_KINDS, COLUMNS, HOSTS, KINDS, LISTED, LONGEST, RECENT, Survey
from tests.job.survey.counting import adds_up, agree

OUTCOMES = ("fetched", "redirect", "failed", "excluded", "soft404", "blocked")
COMPLETE = {"complete": True, "read": 1.0, "fault": None}


def record(url: str = "http://h.test/", **more: Any) -> dict[str, Any]:
    found = {"url": url, "status": 200, "error": None, "outcome": "fetched", "depth": 1, "via": "http://h.test/"}
    found |= {"fetched_at": "2026-11-22T02:11:55.238Z", "content_type": "text/html", "bytes": 100, "links": 1}
    found |= {"location": "http://h.test/moved"} if more.get("outcome") == "redirect" else {}
    return found | more


def test_the_newest_are_those_with_the_latest_times_whichever_partition_is_read_last() -> None:
    survey = Survey()
    for partition in range(3):  # each has 50 records, at the same times
        for second in range(50):
            at = f"2026-11-22T02:11:{second:02}.{partition}00Z"
            survey.add(record(f"http://h{partition}.test/{second}", fetched_at=at))
    expected = [f"http://h{partition}.test/{second}" for second in range(49, 29, -1) for partition in (2, 1, 0)]
    assert [row["url"] for row in survey.answer()["recent"]] == expected


PATHS = st.lists(st.sampled_from(["a", "b", "long-name", "c.html", ""]), max_size=4).map("/".join)
RECORDS = st.lists(
    st.builds(
        lambda site, path, query, outcome, status, depth, size, moment, kind: record(
            f"{site}/{path}{query}",
            outcome=outcome,
            status=None if outcome in ("failed", "excluded") else status,
            depth=depth,
            bytes=size,
            content_type=kind,
            error="timeout: no answer" if outcome == "failed" else None,
            fetched_at=datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        ),
        st.sampled_from(["http://a.test", "https://a.test", "http://b.test:8080", "http://[::1]:81"]),
        PATHS,
        st.sampled_from(["", "?q=/x/y/", "?"]),
        st.sampled_from(OUTCOMES),
        st.sampled_from([200, 204, 304, 301, 404, 410, 500, 503]),
        st.integers(0, 19),
        st.none() | st.integers(0, 10**7),
        st.integers(0, 2**32),
        st.sampled_from([None, "text/html", "TEXT/HTML", "image/png"]),
    ),
    max_size=40,
)


def visited_again(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records as those of a crawl that visits pages again: further ones of a URL say so."""
    visits: Counter[str] = Counter()
    found = []
    for each in records:
        visits[each["url"]] += 1
        found.append(each if visits[each["url"]] == 1 else each | {"visit": visits[each["url"]], "changed": None})
    return found


@given(RECORDS.map(visited_again))
def test_every_number_is_that_of_the_records(records: list[dict[str, Any]]) -> None:
    survey = Survey()
    for each in records:
        survey.add(each)
    agree(COMPLETE | survey.answer(), records)


def test_a_url_counts_once_and_is_listed_as_its_last_visit_found_it() -> None:
    survey, records = Survey(), list[dict[str, Any]]()
    for visit in range(1, 6):
        again = {"visit": visit, "changed": None} if visit > 1 else {}
        records += [record(f"http://h.test/{n}", status=404, **again) for n in range(3)]
        records.append(record("http://h.test/dead", status=None, outcome="failed", error="timeout: no answer", **again))
        records.append(record("http://h.test/good", **again))
    records.append(record("http://h.test/0", visit=6, changed=True))
    records.append(record("http://h.test/good", status=503, visit=6, changed=True))
    for each in records:
        survey.add(each)
    answer = survey.answer()
    agree(COMPLETE | answer, records)
    assert (answer["records"], answer["urls"]) == (27, 5)
    assert [row["url"][14:] for row in answer["failures"]] == ["good", "dead", "2", "1"]
    (host,), (site,) = answer["hosts"], answer["map"]
    assert (host["ok"], host["client_errors"], host["server_errors"], host["failed"]) == (6, 15, 1, 5)
    assert (site["records"], site["broken"]) == (5, 4)


def test_what_a_report_counts_is_the_last_record_of_each_url() -> None:
    survey = Survey()
    for each in (
        record(),
        record("http://h.test/b", duplicate_of="http://h.test/"),
        record("http://h.test/gone", status=410, visit=3),
        record("http://h.test/soft", outcome="soft404"),
        record("http://h.test/dead", status=None, outcome="failed", error="timeout: no answer", bytes=None),
        record("http://h.test/no", status=None, outcome="excluded", error="disallowed by robots.txt", bytes=None),
        record("http://h.test/made-up", status=404, probe=True),
        record("http://h.test/to", status=301, outcome="redirect", depth=99),
    ):
        survey.add(each, last=True)
    assert (survey.urls, survey.probes, survey.total(*BROKEN_KINDS), survey.total("failed", "excluded")) == (7, 1, 2, 2)
    assert (survey.total("copies"), survey.total("bytes")) == (1, 500)
    assert survey.top["reasons"].most(9) == [("timeout", [1]), ("disallowed by robots.txt", [1])]
    assert [(kind, row.words) for kind, rows in survey.wrong.items() for row in rows.values()] == [
        ("client_errors", ""),
        ("soft404", "soft 404"),
        ("failed", "timeout: no answer"),
    ]
    assert survey.hosts.get("h.test:80") == [survey.total(column) for column in COLUMNS]


def test_memory_and_answers_are_bounded_whatever_the_pages_are() -> None:
    survey, rng = Survey(), random.Random(3)
    for number in range(30_000):
        long = "x" * rng.choice([1, 60_000 if number % 50 == 0 else 200])
        url = f"http://h{number}.test/{number}{long}/{rng.random()}{long}/{long}?{long}"
        survey.add(
            record(
                url,
                via=url,
                status=rng.choice([200, 404, number]),
                outcome=rng.choice(["fetched", "failed"]),
                error=f"broke: {long}",
                content_type=f"text/{number}{long}",
                duplicate_of=url,
                depth=number * 2**40,
            )
        )
    answer, dump = survey.answer(), msgspec.to_builtins(survey)
    assert len(answer["recent"]) == RECENT
    assert len(answer["failures"]) == 3 * LISTED
    assert max(len(row[key]) for row in answer["failures"] for key in ("url", "via", "words")) == LONGEST
    assert len(dump["hosts"]["rows"]) <= HOSTS
    for kind in ("types", "reasons", "statuses"):
        assert len(dump["top"][kind]["rows"]) <= KINDS
    assert len(dump["map"]["sites"]["rows"]) <= SITES
    assert len(dump["map"]["parts"]["rows"]) <= PARTS
    assert len(json.dumps(dump)) < 5_000_000
    assert len(json.dumps(answer)) < 1_500_000
    assert answer["hosts_missed"] > 0
    # What found no place is told.
    assert sum(site["records"] for site in answer["map"]) + answer["map_missed"] == 30_000
    for site in answer["map"]:
        adds_up(site)


def test_a_host_with_errors_keeps_its_place_among_many_that_have_none() -> None:
    survey, rng = Survey(), random.Random(4)
    for number in range(60_000):
        survey.add(record(f"http://good{number % 20_000}.test/{number}"))
        if rng.random() < 0.01:
            survey.add(record(f"http://bad.test/{number}", status=503))
    bad = survey.answer()["hosts"][0]
    assert bad["host"] == "bad.test:80"
    assert bad["server_errors"] > 500


def test_the_map_shows_the_largest_and_the_rest_adds_up() -> None:
    survey = Survey()
    for number in range(2 * SHOWN_PARTS):
        for _ in range(1 + number % 7):
            survey.add(record(f"http://one.test/a{number % 40}/b{number}/page", bytes=number))
    (site,) = survey.answer()["map"]
    adds_up(site)
    assert site["records"] == survey.records
    shown = [leaf for part in site["parts"] for leaf in part["parts"] or [part]]
    assert len(shown) == SHOWN_PARTS + 1
    (rest,) = [leaf for leaf in shown if leaf["name"] == ""]
    assert site["parts"][-1] is rest
    assert min(leaf["records"] for leaf in shown if leaf is not rest) >= 4
