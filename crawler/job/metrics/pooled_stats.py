"""Combines the statistics of partitions into those of a crawl.

The result has the keys of ``stats --json``, so that all code that shows a job can show a crawl. Each key has one rule:
counts are added; figures of a whole process are counted once for each process; for ages, delays and times to the end,
the maximum is taken, for free space the minimum. If values would have to be added and one is unknown, the result is
unknown.

A random new URL meets the seen-set of one partition, the one that owns it. So the fpp of the crawl is the mean of the
partitions' fpps, weighted by the share of new URLs of each: its share of the URLs admitted so far. A mean over slices,
a mean over keys looked up, and an unweighted mean would each answer a different question.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from crawler.frontier.host_status import ScriptedHosts
from crawler.frontier.rendering.recall import pooled_figures
from crawler.job.metrics.catalogue import NAMED, PAUSES, STATES, STATISTICS, first, most, present, total
from crawler.seen.filters.watched_keys import wilson

Stats = Mapping[str, Any]

ABSENT = "absent"  # the state of a partition that has received no URLs yet
ELSEWHERE = "elsewhere"  # the state of a partition in another directory
BESIDE = "beside"  # the state of a partition that another worker of the same directory runs
UNTOLD = "untold"  # the state of a partition for which no report has arrived
GONE = "gone"  # the state of a partition whose process or directory has vanished
_AT_WORK = frozenset({"running", "stopping", "paused"})
_PARENTS = frozenset(path[:at] for path in STATISTICS for at in range(len(path)) if path[at] == ".")


class Whereabouts(Struct, frozen=True):
    """The machine and directory of a partition, and the age of its last report."""

    machine: str
    directory: str
    age_seconds: float


class Part(Struct, frozen=True):
    """The statistics of a partition. ``process`` runs it, None if none does; ``waiting`` is the number of its messages
    that are waiting for other partitions, None if unknown. ``where`` is None if the partition is in this directory."""

    number: int
    stats: Stats
    process: int | None = None
    waiting: int | None = None
    where: Whereabouts | None = None

    @property
    def run_by(self) -> tuple[Any, ...]:
        """A key that all partitions of one process share. A partition without a known process gets its own key."""
        machine = "" if self.where is None else self.where.machine
        return ("partition", self.number) if self.process is None else (machine, self.process)


def pool(
    parts: Sequence[Part],
    partitions: int,
    *,
    at_work: bool = False,
    missing: str = ABSENT,
    elsewhere: Collection[int] = (),
    beside: Collection[int] = (),
) -> dict[str, Any]:
    """Return the statistics of a crawl with ``partitions`` partitions. ``parts`` are those that exist: at least one, in
    any order.

    ``at_work``: the process that starts their runs exists, even if none is running now. ``missing``: the state of the
    other partitions, except those in other directories (``elsewhere``), and those that other workers of this directory
    run (``beside``)."""
    parts = sorted(parts, key=lambda part: part.number)
    several = [part.stats for part in parts]
    state = _state(parts)
    state = "running" if at_work and state not in _AT_WORK else state
    pauses = [each for each in several if each.get("paused")] if state == "paused" else []
    paused = min(pauses, key=lambda each: _rank(PAUSES, each.get("paused_by")), default={})
    stopped = next((each for each in several if each.get("stopped_by")), {}) if state not in _AT_WORK else {}
    states = dict.fromkeys(beside, BESIDE) | dict.fromkeys(elsewhere, ELSEWHERE)
    made = {
        "state": state,
        "paused": paused.get("paused"),
        "paused_by": paused.get("paused_by"),
        "stopped": stopped.get("stopped"),
        "stopped_by": stopped.get("stopped_by"),
        "time_left": _time_left(several),
        **{key: _of_processes(parts, key) for key in ("slots", "outage", "loop_stall_seconds", "memory_bytes")},
        "loop_stalls": _stalls(parts),
        "checkpoint": _checkpoint(parts),
        "seen": _seen(parts),
        "seen_at_end": _seen_at_end(several),
        "seen_warning": _seen_warning(parts),
        "partitions": _listed(parts, partitions, states, missing),
    }
    return {key: _pooled(key, [each.get(key) for each in several]) for key in several[0] if key not in made} | made


def _listed(parts: Sequence[Part], partitions: int, states: Mapping[int, str], missing: str) -> list[dict[str, Any]]:
    there = {part.number: part for part in parts}
    numbers = range(max(partitions, *(part.number + 1 for part in parts)))
    return [_line(number, there.get(number), states.get(number, missing)) for number in numbers]


def _line(number: int, part: Part | None, missing: str) -> dict[str, Any]:
    stats = {} if part is None else part.stats
    where = None if part is None else part.where
    return {
        "partition": number,
        "state": stats.get("state", missing),
        **{key: stats.get(key, 0) for key in ("pages_fetched", "urls_pending", "urls_in_flight", "hosts")},
        "messages_waiting": 0 if part is None else _waiting_of(part),
        "process": None if part is None else part.process,
        **({} if where is None else asdict(where)),
    }


def _state(parts: Sequence[Part]) -> str:
    """Return the state: running while any partition runs, ended if all have ended and no message is waiting."""
    found = {"stopped" if part.stats["state"] == GONE else str(part.stats["state"]) for part in parts}
    state = min(found, key=lambda each: _rank(STATES, each))
    return "stopped" if state == "ended" and any(_waiting_of(part) for part in parts) else state


def _waiting_of(part: Part) -> int | None:
    """Return the number of waiting messages of a partition, taken from its report while it runs, otherwise from its
    store."""
    said = part.stats.get("messages_waiting")
    return part.waiting if part.waiting is not None or said is None else int(said["count"])


def _rank(order: Sequence[str], word: Any) -> int:
    return order.index(word) if word in order else len(order)


# -- combining the values of a key -----------------------------------------------------------------------------------


def _pooled(path: str, values: Sequence[Any], *, of_process: bool = False) -> Any:
    """Combine the values by the rules of the catalogue. ``of_process``: the values come from runs that share one
    process."""
    there = present(values)
    if path in STATISTICS and path not in _OWN_RULES:
        rule = STATISTICS[path].pool or first
        return (most if of_process and rule is total else rule)(values)
    if not there:
        return None
    if path in _OWN_RULES:
        return _OWN_RULES[path](there)
    if f"{path}.*" in _PARENTS:
        names = dict.fromkeys(name for each in there for name in each)
        return {name: _inside(f"{path}.*", [each[name] for each in there if name in each]) for name in names}
    return _inside(path, there, of_process=of_process) if path in _PARENTS else there[0]


def _inside(path: str, there: Sequence[Mapping[str, Any]], *, of_process: bool = False) -> dict[str, Any]:
    return {
        name: _pooled(f"{path}.{name}", [each.get(name) for each in there], of_process=of_process) for name in there[0]
    }


def _need_browser(known: Sequence[Any]) -> dict[str, Any]:
    found = ScriptedHosts()
    for each in known:
        found.merge(**each)
    return asdict(found)


def _harvest(known: Sequence[Any]) -> dict[str, Any]:
    made, lately = _inside("harvest", known), [each for each in known if each["recent_pages"]]
    recent = _mean([(each["recent_rate"], each["recent_pages"]) for each in lately])
    return made | {"rate": made["relevant"] / made["rated"], "recent_rate": recent}


def _proxies(known: Sequence[Any]) -> dict[str, Any]:
    """Combine the proxies: a proxy that fails for several partitions counts once."""
    named: dict[str, dict[str, Any]] = {}
    for each in sorted((each for one in known for each in one["named"]), key=lambda each: each["since"]):
        named.setdefault(each["proxy"], each)
    failing = max(len(named), *(each["failing"] for each in known), 0)
    return _inside("proxies", known) | {"failing": failing, "named": list(named.values())[:NAMED]}


# -- figures of processes --------------------------------------------------------------------------------------------


def _of_processes(parts: Sequence[Part], key: str) -> Any:
    """Combine a figure that all runs of a process share, counting each process once."""
    of: dict[Any, list[Any]] = {}
    for part in parts:
        if part.stats.get(key) is not None:
            of.setdefault(part.run_by, []).append(part.stats[key])
    return _pooled(key, [_pooled(key, values, of_process=True) for values in of.values()])


def _stalls(parts: Sequence[Part]) -> dict[str, Any] | None:
    """Combine the stalls, with the description of the longest."""
    stalled = [part.stats for part in parts if part.stats.get("loop_stalls") is not None]
    if not stalled:
        return None
    longest = max(stalled, key=lambda stats: (stats.get("loop_stall_seconds") or {}).get("longest") or 0.0)
    made: dict[str, Any] = _of_processes(parts, "loop_stalls")
    return {**longest["loop_stalls"], "count": made["count"]}


# -- times -----------------------------------------------------------------------------------------------------------


def _time_left(several: Sequence[Stats]) -> dict[str, Any] | None:
    """Return the time until the last partition ends. It is a lower bound while a partition does not know its time."""
    known = present([stats.get("time_left") for stats in several])
    if not known:
        return None
    last = max(known, key=lambda left: (left["seconds"], left["host"] or ""))
    unknown = any(stats.get("time_left") is None and _is_at_it(stats) for stats in several)
    named = next((left for left in known if left["like"]), last)
    whys = ["a partition does not know yet"] if unknown else [left["why"] for left in known if left["at_least"]]
    return {**named, "seconds": last["seconds"], "at_least": bool(whys), "why": whys[0] if whys else ""}


def _is_at_it(stats: Stats) -> bool:
    return stats["state"] in _AT_WORK and bool(stats.get("urls_pending") or stats.get("urls_in_flight"))


def _checkpoint(parts: Sequence[Part]) -> dict[str, Any] | None:
    """Return the oldest checkpoint and its partition, which would take longest to recover from a crash."""
    known = [part for part in parts if part.stats.get("checkpoint") is not None]
    if not known:
        return None
    oldest = max(known, key=lambda part: part.stats["checkpoint"]["age_seconds"])
    return {**oldest.stats["checkpoint"], "partition": oldest.number}


# -- the seen-set ----------------------------------------------------------------------------------------------------


def _mean(weighed: Sequence[tuple[float | None, float]]) -> float | None:
    """Return the mean of (value, weight); unweighted if all weights are 0, None if a value is missing or there are
    none."""
    if not weighed or any(value is None for value, _ in weighed):
        return None
    whole = sum(weight for _, weight in weighed)
    shares = [weight / whole if whole else 1 / len(weighed) for _, weight in weighed]
    return sum(share * value for share, (value, _) in zip(shares, weighed, strict=True) if value is not None)


def _seen(parts: Sequence[Part]) -> dict[str, Any]:
    """Combine the seen-sets into one. Properties that all seen-sets share, for example the kind, are taken from the
    first one."""
    seen = [part.stats["seen"] for part in parts]
    weights = [part.stats["urls_admitted"] for part in parts]
    found = _inside("seen", seen)
    count, ledger = found["count"], None
    bits = seen[0]["bits_per_url"] if len(seen) == 1 else found["bytes"] * 8 / count if count else None
    slices = [each | {"partition": part.number} for part in parts for each in part.stats["seen"]["slices"]]
    if all(each["ledger"] for each in seen):
        ledger = found["ledger"] | {"fpp": found["ledger"]["false_positives"] / count if count else 0.0}
    return found | {
        "slices": slices,
        "fpp_estimated": _mean([(each["fpp_estimated"], weight) for each, weight in zip(seen, weights, strict=True)]),
        "fpp_measured": _measured([each["fpp_measured"] for each in seen], weights),
        "bits_per_url": bits,
        "ledger": ledger,
    }


def _measured(values: Sequence[Any], weights: Sequence[float]) -> dict[str, Any] | None:
    """Return the measured fpp of all partitions: their mean, weighted like the estimated fpp.

    A large partition measures a smaller share of its URLs, so the samples cannot simply be merged. The interval is
    Wilson's for the effective sample size (Kish, 1965), which is the sum of the samples if all partitions measure the
    same share of their URLs."""
    known = [(each, weight) for each, weight in zip(values, weights, strict=True) if each is not None]
    if not known:
        return None
    if len(known) == 1:
        return dict(known[0][0])
    whole = sum(weight for _, weight in known)
    shares = [weight / whole if whole else 1 / len(known) for _, weight in known]
    wrong = [round(each["value"] * each["sample"]) for each, _ in known]
    value = sum(share * few / each["sample"] for share, few, (each, _) in zip(shares, wrong, known, strict=True))
    effective = 1 / sum(share**2 / each["sample"] for share, (each, _) in zip(shares, known, strict=True))
    low, high = wilson(value * effective, effective)
    return {"value": value, "low": low, "high": high, "sample": sum(each["sample"] for each, _ in known)}


def _seen_at_end(several: Sequence[Stats]) -> dict[str, Any] | None:
    ends = present([stats.get("seen_at_end") for stats in several])
    if len(ends) < len(several):
        return None
    if len(ends) == 1:
        return dict(ends[0])  # a single value stays unchanged to the last bit
    made, capacity = _inside("seen_at_end", ends), sum(each["urls"] / (each["fill"] or 1.0) for each in ends)
    fpp = _mean([(each["fpp"], each["urls"]) for each in ends])
    return made | {"fill": made["urls"] / capacity if capacity else 0.0, "fpp": fpp}


def _seen_warning(parts: Sequence[Part]) -> dict[str, Any] | None:
    """Return the warning of the first partition that has one."""
    for part in parts:
        if warning := part.stats.get("seen_warning"):
            where = f"partition {part.number:02}: " if len(parts) > 1 else ""
            return {**warning, "text": f"{where}{warning['text']}"}
    return None


_OWN_RULES: Mapping[str, Callable[[Sequence[Any]], Any]] = {
    "slowest_host": lambda known: max(known, key=lambda host: (host["seconds"], host["name"])),
    "hosts_need_browser": _need_browser,
    "harvest": _harvest,
    "render_recall": pooled_figures,
    "proxies": _proxies,
}
