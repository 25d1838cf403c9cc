"""Summarises a crawl in a few lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crawler.base.figures import count, counted, duration, per_second, probability, share, size
from crawler.job.metrics.attention import attention
from crawler.job.metrics.outlook import paragraph
from crawler.job.metrics.pooled_stats import BESIDE, ELSEWHERE, GONE, UNTOLD
from crawler.job.metrics.sentences import broken_pages, need_browser, pages_text, trust, urls_of, without_page
from crawler.service.progress.text_table import text_table
from crawler.url.scope.bounds import OF_PAGES

_SCOPE = "crawl.scope"
_AT_WORK = ("ready", "leased", "robots", "queued", "waiting")  # states of hosts that get requests in turn
_MOST = 6  # maximum number of lines about problems


def summary(stats: Mapping[str, Any], *, everything: bool = False) -> str:
    """Return the statistics of a crawl as text without a final line break: one screen or, if ``everything``, all of
    them."""
    lines = [state_text(stats), f"URLs      {urls_text(stats)}", ""]
    lines += [f"{name:<18}{value:>16}   {note}".rstrip() for name, value, note, _ in figures(stats)]
    if found := attention(stats):
        lines += ["", *(f"{need.what}: {need.text}" for need in found[:_MOST])]
        lines += [f"{count(len(found) - _MOST)} more need attention"] if len(found) > _MOST else []
    lines += ["", trust(stats)]
    lines += [text] if (text := paragraph(stats)) else []
    lines += ["", *_counts(stats)] if everything else []
    return "\n".join([*lines, *_partitions(stats.get("partitions") or ())])


def figures(stats: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """Return the six figures shown first on the page: name, value, note and column of the history."""
    seen, pace, visits = stats.get("seen") or {}, stats.get("pages_per_second"), stats["pages_fetched"]
    broken, skipped = broken_pages(stats) + urls_of(stats, "soft404"), seen.get("expected_urls_skipped")
    few = "-" if skipped is None else "less than 0.001" if 0 < skipped < 0.001 else f"{skipped:.2g}"
    of_visit = f"{size(stats['bytes_fetched'] / visits)} a visit" if visits else ""
    looks = f"looks known: {probability(seen['fpp_estimated'])}" if seen.get("fpp_estimated") else ""
    states = stats["hosts_by_state"] or {}
    at_work = sum(states.get(state, 0) for state in _AT_WORK) if stats["state"] in ("running", "stopping") else 0
    return [
        ("pages a second", "-" if pace is None else per_second(pace), pages_text(stats), "pages_per_second"),
        ("pending", count(stats["urls_pending"]), f"{count(stats['urls_in_flight'])} in flight", "pending"),
        ("failed", count(urls_of(stats, "failed")), f"and {count(broken)} with 4xx or 5xx", "failed"),
        ("hosts at work", count(at_work), f"of {counted(stats['hosts'], 'host')}", "hosts_pending"),
        ("downloaded", size(stats["bytes_fetched"]), of_visit, "bytes_per_second"),
        ("skipped by mistake", few if skipped is None or skipped < 10 else count(skipped), looks, "skipped"),
    ]


def _counts(stats: Mapping[str, Any]) -> list[str]:
    """Return the lines with all other counts."""
    get = stats.get
    lines = [
        f"found     {counted(stats['urls_admitted'], 'URL')} on {counted(stats['hosts'], 'host')},"
        f" {counted(get('urls_duplicate'), 'link')} seen before",
    ]
    answers = [f"{count(number)} answered {kind}" for kind, number in (get("status") or {}).items() if number]
    if answers:
        lines.append(f"visits    {', '.join(answers)}")
    lines += [*rendered_text(stats), *missed(stats)]
    if get("harvest"):
        lines.append(harvest_text(stats["harvest"]))
    if get("revisits"):
        lines.append(
            f"revisits  {count(stats['revisits'])} queued, {count(stats['revisits_changed'])} found a change,"
            f" {count(stats['revisits_not_modified'])} answered 304,"
            f" {counted(stats['pages_scheduled'], 'page')} scheduled"
        )
    return [*lines, *_outputs(get("outputs") or {}), *_seen(stats)]


def missed(stats: Mapping[str, Any]) -> list[str]:
    """Return one line for each kind of missing page, with instructions for getting such pages."""
    get, lines = stats.get, []
    if silent := without_page(stats):
        lines.append(f"hosts     {silent} (`crawler hosts --sort no_page` lists them)")
    if scripted := need_browser(stats):
        lines.append(f"scripts   {scripted}")
    if get("urls_known"):
        lines.append(f"known     {counted(get('urls_known'), 'link')} to URLs in an older crawl, not admitted")
    held_back = {rule: number for rule, number in (get("urls_held_back") or {}).items() if number}
    excluded = [f"{count(number)} by {rule}" for rule, number in held_back.items()]
    if (others := urls_of(stats, "excluded") - sum(held_back.values())) > 0:
        excluded.append(f"{count(others)} by robots.txt or another rule")
    if excluded:
        ways = "`crawler tail --outcome excluded` lists them, `crawler explain` shows the rule for one"
        if others > 0 and get("robots_unreachable"):
            ways += "; where robots.txt could not be fetched, `crawler retry --excluded robots` visits them again"
        lines.append(f"excluded  {', '.join(excluded)} ({ways})")
    if get("pages_code_failed"):
        lines.append(f"your code failed on {counted(get('pages_code_failed'), 'page')} (`data_error` in their records)")
    failed_calls = [
        f"{setting} {count(number)}" for setting, number in (get("calls_code_failed") or {}).items() if number
    ]
    if failed_calls:
        lines.append(f"your code failed in calls: {', '.join(failed_calls)}")
    if left_out := _left_out(get("links_left_out") or {}):
        pages = counted(stats["pages_at_border"], "page")
        lines.append(
            f"left out  {', '.join(left_out)}; run again with wider limits to get them ({pages} to be read again)"
        )
    return lines


def rendered_text(stats: Mapping[str, Any]) -> list[str]:
    """Return the lines about rendering, if any pages were to be rendered. The recall is the share of the pages needing
    a browser that were rendered, as estimated from audits."""
    pages, requests = stats.get("pages_rendered") or {}, dict(stats.get("render_requests") or {})
    if not any(pages.values()):
        return []
    made, cached = requests.pop("made", 0), requests.pop("cached", 0)
    refused = ", ".join(f"{why} {count(number)}" for why, number in sorted(requests.items()) if number)
    asked = f"{counted(made, 'request')}, {count(cached)} from the cache, {count(sum(requests.values()))} refused"
    asked += f" ({refused})" if refused else ""
    of_them = "".join(f", {count(pages[key])} {words}" for key, words in _RENDERED.items() if pages.get(key))
    cpu = duration(stats["render_cpu_seconds"])
    lines = [f"rendered  {counted(pages['yes'], 'page')}{of_them}; {asked}; {cpu} of CPU in their processes"]
    recall = stats.get("render_recall")
    if recall is not None and recall["value"] is not None:
        low, high = 100 * recall["low"], 100 * recall["high"]
        share, audits = recall["rendered"] / recall["pages"], counted(recall["audits"], "random page")
        lines.append(f"recall    {recall['value']:.1%} ({low:.1f} to {high:.1f}); {share:.1%} rendered, with {audits}")
    return lines


_RENDERED = {"partly": "partly", "no": "could not be rendered"}


def _partitions(told: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a table of the partitions of a crawl; empty for a single job."""
    if not told:
        return []
    from_afar = any("machine" in each for each in told)
    heads = ["partition", "state", "visits of pages", "pending", "in flight", "hosts", "to others"]
    shown = [each for each in told if each["state"] in (GONE, UNTOLD) or any(each[key] for key in _OF_PARTITIONS)]
    rows = [_partition(each, from_afar=from_afar) for each in shown]
    if from_afar:
        heads += ["reported", "machine"]
    if any(_where(each) for each in shown):  # a worker must be started there
        heads.append("directory")
        rows = [(*row, _where(each)) for row, each in zip(rows, shown, strict=True)]
    table = text_table(heads, rows) if rows else []
    elsewhere = sum(each["state"] == ELSEWHERE for each in told)
    beside = sum(each["state"] == BESIDE for each in told)
    empty = len(told) - len(rows) - elsewhere - beside
    lines = [f"{counted(empty, 'partition')} of {len(told)} had no URL yet"] if empty else []
    lines += [f"{counted(beside, 'partition')} of {len(told)} with other workers of this directory"] if beside else []
    lines += [f"{counted(elsewhere, 'partition')} of {len(told)} in other directories"] if elsewhere else []
    return ["", *table, *lines]


_WAITING = (GONE, "stopped")  # states of partitions that need a worker
_OF_PARTITIONS = ("pages_fetched", "urls_pending", "urls_in_flight", "hosts", "messages_waiting")


def _partition(told: Mapping[str, Any], *, from_afar: bool) -> tuple[str, ...]:
    state = str(told["state"])
    is_unknown = state == UNTOLD or (state == GONE and not from_afar)
    figures = ("" if is_unknown else count(told[key]) for key in _OF_PARTITIONS)
    row = (f"{told['partition']:02}", state, *figures)
    if not from_afar:
        return row
    age = f"{duration(told['age_seconds'])} ago" if "age_seconds" in told else "never"
    return (*row, age, str(told.get("machine", "")))


def _where(told: Mapping[str, Any]) -> str:
    """Return the directory, on its machine, of a partition that needs a worker."""
    return str(told.get("directory", "")) if told["state"] in _WAITING else ""


def state_text(stats: Mapping[str, Any]) -> str:
    elapsed, state = stats["elapsed_seconds"], str(stats["state"])
    reasons = [stats["paused"]] if state == "paused" and stats.get("paused") else []
    reasons += [stats["stopped"]] if state == "stopped" and stats.get("stopped") else []
    reasons += [each["stopped"] for each in (stats.get("hooks") or {}).values() if each.get("stopped")]
    why = f": {reasons[0]}" if reasons else ""
    return f"{state}{why}" if elapsed is None else f"{state} after {duration(elapsed)}{why}"


def harvest_text(harvest: Mapping[str, Any]) -> str:
    """Return the number of relevant pages, in words."""
    pages = counted(harvest["rated"], "page")
    words = f"harvest   {count(harvest['relevant'])} of {pages} relevant ({harvest['rate']:.1%})"
    if harvest["recent_rate"] is None or harvest["recent_pages"] == harvest["rated"]:
        return words
    return f"{words}, {harvest['recent_rate']:.1%} of the last {count(harvest['recent_pages'])}"


def _left_out(links: Mapping[str, int]) -> list[str]:
    """Return, for each limit, how many links it left out or how many pages it truncated."""
    words = []
    for limit, number in links.items():
        what = "the rest of " + counted(number, "page") if limit in OF_PAGES else counted(number, "link")
        words += [f"{what} out of scope ({limit})" if limit == _SCOPE else f"{what} by {limit}"] if number else []
    return words


def _outputs(outputs: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return the sizes of the outputs, if there are any besides ``pages.jsonl``."""
    if len(outputs) < 2:
        return []
    sizes = [f"{name} {size(each['bytes'])} in {counted(each['files'], 'file')}" for name, each in outputs.items()]
    return [f"kept      {', '.join(sizes)}"]


def _seen(stats: Mapping[str, Any]) -> list[str]:
    """Return a line on the size and settings of the seen-set."""
    seen = stats.get("seen")
    if not seen:
        return []
    slices = len(seen.get("slices") or ())
    shape = [counted(slices, "slice")] if slices else []
    shape += _bits(seen)
    shape += [_hash(seen["hash"])] if seen.get("hash") else []
    shape += [f"estimated fpp {probability(seen.get('fpp_estimated'))} (target {probability(seen.get('fpp_target'))})"]
    return [f"seen-set  {', '.join(shape)}"]


def _bits(seen: Mapping[str, Any]) -> list[str]:
    """Return the size of the seen-set and its fill, with bits per URL only once the set is half full."""
    bits, slices = seen.get("bits_per_url"), seen.get("slices") or ()
    room = sum(each["capacity"] for each in slices)
    full = seen["count"] / room if room else None
    words = [size(seen["bytes"])] if seen.get("bytes") else []
    words += [] if full is None else [f"{share(full)} full"]
    return words + ([f"{bits:.1f} bits/URL"] if bits is not None and (full is None or full >= _HALF) else [])


def _hash(found: Mapping[str, Any]) -> str:
    return f"{found['algorithm']} {'with' if found['keyed'] else 'without'} a secret"


_HALF = 0.5  # share of the capacity
_RARE = {"excluded": "excluded", "soft404": "soft 404", "blocked": "blocked"}  # shown only if there are any


def urls_text(stats: Mapping[str, Any]) -> str:
    """Return the numbers of pages, of URLs with other outcomes, and of pending URLs."""
    rest = {words: urls_of(stats, outcome) for outcome, words in _RARE.items()} | {"pending": stats["urls_pending"]}
    more = [f"{count(number)} {words}" for words, number in rest.items() if number]
    redirects = counted(urls_of(stats, "redirect"), "redirect")
    return ", ".join([pages_text(stats), f"{count(urls_of(stats, 'failed'))} failed", redirects, *more])
