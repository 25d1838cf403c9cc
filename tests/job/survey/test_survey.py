"""What records tell, and how much room it may take."""

from __future__ import annotations

import json
import random
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.job.survey import Survey, SurveyError
from crawler.job.survey.path_map import PARTS, SHOWN_PARTS, SITES
from crawler.job.survey.survey import FAILURES, HOSTS, LONGEST, RECENT, SEEDS, TYPES
from crawler.job.survey.wrong_now import PLACES, Wrong, WrongNow
from tests.job.survey.counting import adds_up, agree

OUTCOMES = ("fetched", "redirect", "failed", "excluded", "soft404", "blocked")
COMPLETE = {"complete": True, "read": 1.0, "fault": None}


def record(url: str = "http://h.test/", **more: Any) -> dict[str, Any]:
    found = {"url": url, "status": 200, "error": None, "outcome": "fetched", "depth": 1, "via": "http://h.test/"}
    found |= {"fetched_at": "2026-11-22T02:11:55.238Z", "content_type": "text/html", "bytes": 100, "links": 1}
    found |= {"location": "http://h.test/moved"} if more.get("outcome") == "redirect" else {}
    return found | more


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


@given(RECORDS.map(visited_again), st.integers(0, 40))
def test_a_stored_one_goes_on_as_if_it_had_not_been_stored(records: list[dict[str, Any]], at: int) -> None:
    before, after = records[:at], records[at:]
    survey = Survey()
    for each in before:
        survey.add(each)
    survey = Survey.restored(json.loads(json.dumps(survey.dump())))
    for each in after:
        survey.add(each)
    agree(COMPLETE | survey.answer(), records)


def test_a_url_that_fails_again_counts_once_and_one_that_answers_again_leaves_the_list() -> None:
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
    assert (answer["failed_total"], answer["failed_visits"]) == (1, 5)
    assert (answer["broken_total"], answer["broken_visits"]) == (3, 16)
    assert [row["url"][14:] for row in answer["failures"]] == ["good", "dead", "2", "1"]
    (host,), (site,) = answer["hosts"], answer["map"]
    assert (host["ok"], host["client_errors"], host["server_errors"], host["failed"]) == (1, 2, 1, 1)
    assert (site["records"], site["broken"]) == (5, 3)


def test_more_urls_that_went_wrong_than_are_remembered_are_said_to_count_by_visits() -> None:
    survey = Survey()
    for number in range(PLACES + 10):
        survey.add(record(f"http://h.test/{number}", status=404))
    survey.add(record("http://h.test/1", status=404, visit=2, changed=False))
    answer = survey.answer()
    assert (answer["exact"], answer["broken_total"]) == (True, PLACES + 10)
    survey.add(record(f"http://h.test/{PLACES + 5}", status=404, visit=2, changed=False))
    answer = survey.answer()
    assert (answer["exact"], answer["broken_total"]) == (False, PLACES + 11)
    dump = json.dumps(survey.dump())
    assert len(dump) < 1_000_000
    assert Survey.restored(json.loads(dump)).answer() == answer


def test_probes_are_counted_apart_and_seeds_are_known() -> None:
    survey = Survey()
    for number in range(SEEDS + 5):
        survey.add(record(f"http://s{number}.test/", depth=0, via=None))
    survey.add(record("http://s0.test/made-up", status=404, probe=True))
    survey.add(record("http://s0.test/", depth=0, via=None, visit=2))
    answer = survey.answer()
    assert (answer["records"], answer["probes"]) == (SEEDS + 7, 1)
    assert answer["broken_total"] == 0
    assert answer["failures"] == []
    assert survey.seeds == ([f"http://s{number}.test/" for number in range(SEEDS)], SEEDS + 5)


def test_memory_and_answers_are_bounded_whatever_the_pages_are() -> None:
    survey, rng = Survey(), random.Random(3)
    for number in range(30_000):
        long = "x" * rng.choice([1, 60_000 if number % 500 == 0 else 200])
        url = f"http://h{number}.test/{number}{long}/{rng.random()}{long}/{long}?{long}"
        survey.add(
            record(
                url,
                via=url,
                status=rng.choice([200, 404, number]),
                outcome=rng.choice(["fetched", "failed"]),
                error=f"broke: {long}",
                content_type=f"text/{number}{long}",
                depth=number * 2**40,
            )
        )
    answer, dump = survey.answer(), survey.dump()
    assert len(answer["recent"]) == RECENT
    assert len(answer["failures"]) == FAILURES
    assert max(len(row[key]) for row in answer["failures"] for key in ("url", "via", "words")) == LONGEST
    assert len(dump["hosts"]) <= HOSTS + 1
    assert len(dump["types"]) <= TYPES + 1
    assert len(dump["map"]["sites"]) <= SITES + 1
    assert len(dump["map"]["parts"]) <= PARTS + 1
    assert len(json.dumps(dump)) < 3_000_000
    assert len(json.dumps(answer)) < 1_000_000
    assert answer["hosts_missed"] > 0
    # What found no place is told.
    assert sum(site["records"] for site in answer["map"]) + answer["map_missed"] == 30_000
    for site in answer["map"]:
        adds_up(site)
    assert len(answer["depths"]) == 21
    assert sum(answer["depths"]) == 30_000


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


@pytest.mark.parametrize(
    "change",
    [
        {"records": -1},
        {"records": "many"},
        {"depths": "1 2 3"},
        {"hosts": {"h.test:80": "1"}},
        {"recent": [1]},
        {"urls": -1},
        {"wrong": {}},
        {"wrong": WrongNow(1).dump() | {"known": dict.fromkeys(Wrong, "zz")}},
        {"wrong": WrongNow(1).dump() | {"known": dict.fromkeys(Wrong, "00")}},
        {"wrong": WrongNow(1).dump() | {"failures": [1]}},
        {"wrong": WrongNow(1).dump() | {"homeless": -1}},
        {"map": {"totals": [1], "sites": {"": "0"}, "parts": {"": "0"}}},
        {"map": {"totals": [1, 1, 1], "sites": {"": "0"}, "parts": {"": "0", "h.test:80": "1 1 1 1"}}},
        {"statuses": {"x": 1}},
        {"outcomes": None},
        {"seeds": []},
    ],
)
def test_what_is_no_survey_is_refused(change: dict[str, Any]) -> None:
    survey = Survey()
    survey.add(record())
    Survey.restored(survey.dump())
    with pytest.raises(SurveyError):
        Survey.restored(survey.dump() | change)
    with pytest.raises(SurveyError):
        Survey.restored({key: value for key, value in survey.dump().items() if key not in change})
