"""Compares a server's log of a crawl with the rules that the job had to obey.

Only certain violations are reported. Logs give times in whole seconds, so a gap may be a second longer than its logged
times suggest, and the clocks of server and crawler may differ by another second. Requests are checked against the
robots.txt that the job fetched last; requests made before that fetch are not checked against it.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from crawler.base.faults import UserFault
from crawler.base.kv import Family
from crawler.base.settings.parts import PolitenessSettings
from crawler.base.settings.sites import Sites
from crawler.frontier.politeness import gap
from crawler.inspect.job_reader import OpenJob, open_job
from crawler.inspect.record_stream import final_records
from crawler.url.robots.parse import product_token, target_of
from crawler.url.urls.host_key import host_key
from crawler.web.fetch.robots_answers import Robots, RobotsCache

_CLOCK = 1.0  # seconds by which the times in a log may be off
# The common and the combined log format; the virtual host may come first.
_LINE = re.compile(
    r'(?:(\S+) )?\S+ \S+ \S+ \[(\S+ [+-]\d{4})\] "[A-Z]+ (\S+)[^"]*" \d+ \S+(?: "(?:\\.|[^"\\])*" "(.*)")?'
)


class Request(NamedTuple):
    """A request in a log. ``place`` is its log file and line number."""

    at: float
    target: str
    place: str


Logged = dict[str, list[Request]]  # by the host named in the log; empty if the log names none


def read_logs(paths: Iterable[Path], agent: str, host: str) -> tuple[Logged, int]:
    """Return the crawler's requests, and the number of lines in no known format. A line that names no host counts as a
    request to ``host``. A line without a user agent, as in the common format, counts as the crawler's. Raises OSError,
    EOFError, ValueError, zlib.error."""
    token, found, unread = product_token(agent).lower(), Logged(), 0
    for path in paths:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                read = _LINE.match(line.decode("utf-8", "replace"))
                if read is None:
                    unread += 1
                elif read[4] is None or product_token(read[4]).lower() == token:
                    at = datetime.strptime(read[2], "%d/%b/%Y:%H:%M:%S %z").timestamp()
                    found.setdefault(read[1] or host, []).append(Request(at, read[3], f"{path}:{number}"))
    return found, unread


class _Host(NamedTuple):
    """A host in the log. ``robots`` is None if the job ignored robots.txt or never
    requested it."""

    requests: list[Request]
    politeness: PolitenessSettings
    robots: Robots | None

    def refuses(self, request: Request) -> bool | None:
        """Return True if robots.txt disallowed the request; None if the robots.txt of that time is unknown."""
        if self.robots is None or request.at < self.robots.asked_at - _CLOCK:
            return None
        return self.robots.refusal(f"http://h{request.target}") is not None

    def broken(self, begun: float) -> Iterator[tuple[Request, str, str]]:
        """Yield each request that broke a rule, with the name of the rule and the reason. The requests are in order of
        time. ``begun``: the time of the host's first record."""
        files = [each.at for each in self.requests if each.target.partition("?")[0] == "/robots.txt"]
        known = 0.0 if self.robots is None else min([*files, self.robots.asked_at])
        late, planned = float("-inf"), 0.0  # largest delay so far behind a plan with one request per gap
        for each in self.requests:
            is_known = self.robots is not None and each.at > self.robots.asked_at + _CLOCK
            seconds, rule = gap(self.robots.crawl_delay if is_known and self.robots else None, self.politeness)
            planned += seconds
            if each.at - planned <= late - _CLOCK - (self.politeness.per_host - 1) * seconds + 1e-6:
                late = each.at - planned
                yield each, rule.name.lower(), f"less than {seconds:g} s after another request"
            late = max(late, each.at - planned)
            # If the crawl started before the log, the log may lack the first fetch of robots.txt.
            if each.at + _CLOCK < known and each.at - _CLOCK <= begun:
                yield each, "before_robots", "robots.txt was not known yet"
            if self.refuses(each):
                yield each, "disallowed", "disallowed by robots.txt"


def audit(jobs: Iterable[Path], logged: Logged) -> Iterator[dict[str, Any]]:
    """Yield a summary of each host in the log, with its ``violations``. Raises UserFault and the exceptions of
    ``open_job``."""
    left = dict(logged)
    for directory in jobs:
        hosts = dict[str, _Host]()
        with open_job(directory) as job:
            sites, cache = Sites(job.settings), RobotsCache(job.store, job.settings.fetch.user_agent)
            for label in list(left):
                if (name := _name(job, label.lower())) is not None:
                    own = sites.of_host(name)
                    robots = None if own.robots.ignore else cache.get(name)
                    hosts.setdefault(name, _Host([], own.politeness, robots)).requests.extend(left.pop(label))
        yield from _compared(directory, hosts)
    if left:
        raise UserFault(f"the job does not know the host of the log: {', '.join(left) or 'name it with --host'}")


def _name(job: OpenJob, label: str) -> str | None:
    """Return the job's host for a name in the log; None if the job has no such host."""
    names = [label, host_key(f"https://{label}/"), host_key(f"http://{label}/")]
    return next((name for name in names if job.store.get(Family.HOSTS, name.encode("utf-8")) is not None), None)


def _compared(directory: Path, hosts: dict[str, _Host]) -> Iterator[dict[str, Any]]:
    known = {(name, each.target): list[dict[str, Any]]() for name in hosts for each in hosts[name].requests}
    begun: dict[str, float] = {}
    for number, (record, _) in enumerate(final_records(directory), 1):
        href, at = str(record["url"]), datetime.fromisoformat(str(record["fetched_at"])).timestamp()
        name = host_key(href)
        begun[name] = min(at, begun.get(name, at))
        if (place := (name, target_of(href))) in known:
            known[place].append({"line": number, "time": at, "outcome": record["outcome"]})
    for name, host in hosts.items():
        host.requests.sort(key=lambda each: each.at)
        violations = list[dict[str, Any]]()
        for (at, target, where), rule, why in host.broken(begun.get(name, float("inf"))):
            own = min(known[name, target], key=lambda record, at=at: abs(record["time"] - at), default=None)  # type: ignore[misc]
            violations.append({"rule": rule, "time": at, "target": target, "log": where, "why": why, "record": own})
        yield {
            "host": name,
            "requests": len(host.requests),
            "smallest_gap": min((after.at - before.at for before, after in pairwise(host.requests)), default=None),
            "robots": host.robots and {"asked_at": host.robots.asked_at, "answer": host.robots.answer_words},
            "not_judged": sum(host.refuses(each) is None for each in host.requests),
            "violations": violations,
        }
