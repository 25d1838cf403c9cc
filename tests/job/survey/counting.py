"""What a survey of records must say, counted without bounds in the plainest way."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

Record = dict[str, Any]
_PORTS = {"http": 80, "https": 443}


def host_of(url: str) -> str:
    parts = urlsplit(url)
    return parts.netloc if parts.port else f"{parts.netloc}:{_PORTS[parts.scheme]}"


def cut(text: str, most: int) -> str:
    """A text as it is shown where it may have at most so many characters."""
    return text if len(text) <= most else text[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"


def as_shown(records: Sequence[Record]) -> list[Record]:
    """The records with their long texts cut."""
    most = {"url": 2_000, "via": 2_000, "location": 2_000, "error": 200}
    return [
        {key: cut(value, most.get(key, 10**9)) if isinstance(value, str) else value for key, value in each.items()}
        for each in records
    ]


def broken(record: Record) -> bool:
    return record["outcome"] == "soft404" or (record["outcome"] == "fetched" and (record["status"] or 0) >= 400)


def agree(answer: Record, records: Sequence[Record]) -> None:
    """Hold that an answer is that of these records, of which there are few enough to be exact."""
    counted = [(number, each) for number, each in enumerate(as_shown(records), 1) if not each.get("probe")]
    shown = [each for _, each in counted]
    assert (answer["complete"], answer["read"], answer["fault"]) == (True, 1.0, None)
    assert answer["records"] == len(records)
    assert answer["probes"] == len(records) - len(shown)
    firsts = first_visits(shown)
    assert answer["urls"] == len(firsts)
    assert answer["statuses"] == Counter(str(each["status"]) for each in firsts if each["status"] is not None)
    agree_on_lists(answer, counted)
    agree_on_hosts(answer, shown)
    agree_on_the_map(answer, [each for each in records if not each.get("probe")])


def first_visits(records: Sequence[Record]) -> list[Record]:
    return [each for each in records if "visit" not in each]


def agree_on_lists(answer: Record, counted: Sequence[tuple[int, Record]]) -> None:
    newest = [recent(number, each) for number, each in reversed(counted)]
    assert answer["recent"] == sorted(newest, key=lambda row: row["at"] or 0.0, reverse=True)[:60]
    latest = {each["url"]: number for number, each in counted}
    last = [row for row in newest if latest[row["url"]] == row["number"]]
    assert answer["failures"] == [row for row in last if broken(row) or row["outcome"] == "failed"]
    types: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for each in first_visits([each for _, each in counted]):
        if each["content_type"]:
            types[each["content_type"].lower()][0] += 1
            types[each["content_type"].lower()][1] += each["bytes"] or 0
    assert {each["type"]: [each["records"], each["bytes"]] for each in answer["types"]} == types


def recent(number: int, record: Record) -> Record:
    soft = "soft 404" if record["outcome"] == "soft404" else ""
    words = record["location"] if record["outcome"] == "redirect" else record["error"] or soft
    return {
        "number": number,
        "host": host_of(record["url"]),
        "at": datetime.fromisoformat(record["fetched_at"]).timestamp(),
        "seconds": record.get("seconds"),
        "words": words,
    } | {key: record[key] for key in ("url", "status", "outcome", "bytes", "via")}


def agree_on_hosts(answer: Record, shown: Sequence[Record]) -> None:
    columns = {"redirect": "redirects", "soft404": "soft404", "blocked": "blocked"}
    columns |= {"failed": "failed", "excluded": "excluded"}
    hosts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for each in shown:
        status = each["status"] or 0
        kind = "ok" if status < 400 else "client_errors" if status < 500 else "server_errors"
        copies = int(each.get("duplicate_of") is not None)
        told = {columns.get(each["outcome"], kind): 1, "bytes": each["bytes"] or 0, "copies": copies}
        hosts[host_of(each["url"])].update(told)
    assert answer["hosts_missed"] == 0
    assert {row["host"]: {k: n for k, n in row.items() if n and k != "host"} for row in answer["hosts"]} == {
        name: {key: count for key, count in host.items() if count} for name, host in hosts.items()
    }
    errors = [row["client_errors"] + row["server_errors"] + row["soft404"] + row["failed"] for row in answer["hosts"]]
    assert errors == sorted(errors, reverse=True)


def agree_on_the_map(answer: Record, shown: Sequence[Record]) -> None:
    leaves: defaultdict[tuple[str, ...], list[int]] = defaultdict(lambda: [0, 0, 0])
    for each in first_visits(shown):
        host, folders = host_of(each["url"]), urlsplit(each["url"]).path.split("/")[1:-1]
        first = f"/{folders[0]}/" if folders else "/"
        second = f"/{folders[0]}/{folders[1]}/" if len(folders) > 1 else first
        leaf = leaves[host, cut(first, 100), cut(second, 100)]
        for column, value in enumerate((1, each["bytes"] or 0, int(broken(each) or each["outcome"] == "failed"))):
            leaf[column] += value
    found = {}
    for site in answer["map"]:
        adds_up(site)
        for part in site["parts"]:
            for leaf in part["parts"] or [part]:
                found[site["name"], part["name"], leaf["name"]] = [leaf["records"], leaf["bytes"], leaf["broken"]]
    assert found == leaves
    assert answer["map_missed"] == 0


def adds_up(node: Record) -> None:
    """The parts of a site or directory make all of it."""
    for key in ("records", "bytes", "broken", "depth", "at"):
        if node["parts"]:
            assert node[key] == sum(part[key] for part in node["parts"])
    for part in node["parts"]:
        adds_up(part)
