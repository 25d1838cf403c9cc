"""The page of a report: HTML with embedded styles, which works when opened from a disk, in dark mode, on paper and on a
phone.

It loads no other resources. Its content security policy forbids all scripts except the one that draws its charts, so
text in the page cannot run as a script. It uses the same terms as the dashboard.

Text is escaped by construction: only values returned by ``element`` and ``joined`` are markup. Titles, URLs and
messages come from the web, so characters that are not printable, or that change the direction of text, are escaped.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct

from crawler.base.figures import count, counted, duration, size
from crawler.base.printable import printable
from crawler.job.metrics.sentences import need_browser, trust
from crawler.job.records import Outcome
from crawler.job.survey.survey import BROKEN_KINDS, COLUMNS, Row, Survey
from crawler.job.survey.top_rows import TopRows
from crawler.url.scope.bounds import OF_PAGES

MARK = "<!-- a report by crawler -->"  # identifies earlier reports
_LEAST = 0.7  # minimum width of a bar, in percent
_LISTED = 40  # maximum number of broken URLs listed for each kind
_SHOWN = 20  # maximum number of rows for statuses, types and reasons
_PARTS = ("good", "broken", "not-fetched")  # CSS classes of the parts of a bar
_OWN = Path(__file__).parent
_CHARTS = resources.files("crawler.job.metrics").joinpath("charts")
_STYLES = (_OWN / "report.css", _CHARTS / "chart.css", _CHARTS / "uplot/uPlot.min.css")
_SCRIPTS = (_CHARTS / "uplot/uPlot.iife.min.js", _CHARTS / "format.js", _CHARTS / "chart.js", _OWN / "report.js")
_CHART_NAMES = {
    "pages": "Pages a second",
    "pending": "Pending URLs",
    "failures": "Failures by kind",
    "memory": "Memory",
}

_VOID = frozenset({"meta"})


class Markup(str):
    """Text that is already HTML."""

    __slots__ = ()


Child = str | int | None


def _text_of(value: Child) -> Markup:
    """Return the HTML of a value: markup is unchanged, text is escaped, None becomes empty, and numbers get commas."""
    if value is None:
        return Markup()
    if isinstance(value, Markup):
        return value
    return Markup(html.escape(f"{value:,}" if isinstance(value, int) else printable(value)))


def element(tag: str, /, *children: Child, **attributes: str | int | float | None) -> Markup:
    """Return an element. In an attribute's name, a trailing ``_`` is dropped, and any other becomes a hyphen. An
    attribute with the value None is left out."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(printable(str(value)))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if tag in _VOID:
        return Markup(f"<{tag}{given}>")
    return Markup(f"<{tag}{given}>{joined(*children)}</{tag}>")


def joined(*children: Child) -> Markup:
    """Return the concatenated HTML of the children."""
    return Markup("".join(map(_text_of, children)))


class Report(Struct, frozen=True):
    """The data of a job's report at ``made_at`` (seconds since 1970). ``stats`` are the statistics of ``stats --json``,
    ``hosts`` are rows of the table of hosts, and ``series`` and ``events`` come from the job's history."""

    name: str
    made_at: float
    stats: Mapping[str, Any]
    survey: Survey
    hosts: Sequence[Mapping[str, Any]]
    series: Mapping[str, Sequence[float | None]] = {}
    events: Sequence[Mapping[str, Any]] = ()


def report_page(report: Report) -> str:
    """Return the whole page."""
    style = "".join(each.read_text("utf-8") for each in _STYLES)
    # All scripts are joined into one module, in which each part follows the parts that it imports.
    script = re.sub("^import .*\n", "", "\n".join(each.read_text("utf-8") for each in _SCRIPTS), flags=re.MULTILINE)
    policy = f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}; base-uri 'none'"
    policy += "; form-action 'none'"
    title = f"Crawl of {report.name}"
    sections = list(_sections(report))
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", title),
        element("style", Markup(style)),
    )
    body = element(
        "body",
        element(
            "header",
            element("h1", title),
            element("p", str(report.stats["state"]), class_="state"),
            element("p", f"Report of {_moment(report.made_at)}", class_="quiet"),
        ),
        element(
            "nav",
            element("ul", *(element("li", element("a", each.title, href=f"#{each.anchor}")) for each in sections)),
            aria_label="Sections",
        ),
        element("main", _main_figures(report), *(each.html() for each in sections)),
        element("script", Markup(script), type="module") if report.series else None,
    )
    return f"<!doctype html>\n{MARK}\n{element('html', head, body, lang='en')}\n"


def _digest(text: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"


class Section(Struct, frozen=True):
    """A titled part of the page."""

    anchor: str
    title: str
    content: Markup
    wide: bool = False

    def html(self) -> Markup:
        label = f"{self.anchor}-title"
        heading = element("h2", self.title, id=label)
        wide = "wide" if self.wide else None
        return element("section", heading, self.content, id=self.anchor, aria_labelledby=label, class_=wide)


def _sections(report: Report) -> Iterable[Section]:
    survey = report.survey
    if report.series:
        yield _over_time(report)
    yield Section("outcome", "Outcome", _bars("outcome", _outcomes(survey)))
    statuses = _statuses(survey)
    yield Section("status", "Status", _bars("status", statuses) if statuses else _none("answer"))
    yield _broken(survey)
    yield _hosts(report)
    if scripted := need_browser(report.stats):
        yield Section("scripts", "Links made by scripts", element("p", f"{scripted}."))
    yield Section("types", "Types", _top("type", survey.top["types"]))
    yield Section("reasons", "Why URLs were not fetched", _top("reason", survey.top["reasons"]))
    yield _left_out(report.stats)
    yield _links(report.stats)
    yield Section("seen", "Can the seen-set be trusted?", element("p", trust(report.stats)))
    yield _about(report)


# -- sections --------------------------------------------------------------------------------------------------


def _over_time(report: Report) -> Section:
    figures = (
        element("figure", element("figcaption", name), id=f"chart-{key}", class_="chart")
        for key, name in _CHART_NAMES.items()
    )
    # An event's text may come from the web, and must not be able to close the element.
    history = json.dumps({"series": report.series, "events": report.events}).replace("<", "\\u003c")
    data = element("script", Markup(history), type="application/json", id="history")
    charts = element("div", *figures, class_="charts")
    return Section("time", "Over time", joined(charts, element("p", id="event", class_="quiet"), data), True)


def _main_figures(report: Report) -> Markup:
    stats, total = report.stats, report.survey.total
    shown: dict[str, Child] = {
        "pages": total("ok", "client_errors", "server_errors"),
        "broken": total(*BROKEN_KINDS),
        "failed": total("failed"),
        "redirects": total("redirects"),
        "excluded": total("excluded"),
        "copies": total("copies"),
        "hosts": stats["hosts"],
        "bodies": size(stats["bytes_fetched"]),
        "pending": stats["urls_pending"],
    }
    if stats["urls_in_flight"]:
        shown["in flight"] = stats["urls_in_flight"]
    if any((pages := stats.get("pages_rendered") or {}).values()):
        asked = stats.get("render_requests") or {"made": 0, "cached": 0}
        shown["rendered"] = pages["yes"] + pages["partly"]
        shown["could not be rendered"] = pages["no"]
        shown["refused to rendered pages"] = sum(asked.values()) - asked["made"] - asked["cached"]
        shown["CPU of rendering"] = duration(stats["render_cpu_seconds"])
    if stats.get("revisits"):
        shown["revisits"] = stats["revisits"]
    return _pairs(shown, "figures wide")


def _broken(survey: Survey) -> Section:
    total, failed = survey.total(*BROKEN_KINDS), survey.total("failed")
    if not total + failed:
        return Section("broken", "Broken links", element("p", "No link is broken."), True)
    said = (
        f"{counted(total, 'URL')} answered with a status of 400 or higher, or with a soft 404; {count(failed)} gave no "
        "complete response."
    )
    wrong = [row for rows in survey.wrong.values() for row in list(rows.values())[-_LISTED:]]
    listed = _table("Broken links", ("URL", "answer"), [_wrong(row) for row in sorted(wrong, key=_by_answer)])
    some = f"The newest {_LISTED} of each kind are listed. " if len(wrong) < total + failed else ""
    ways = element("p", some, "To list all broken links, run ", element("code", "crawler check"), ".", class_="quiet")
    return Section("broken", "Broken links", joined(element("p", said), listed, ways), True)


def _by_answer(row: Row) -> tuple[Any, ...]:
    return (row.outcome == Outcome.FAILED, row.status or 0, row.words, row.via or "", row.url)


def _wrong(row: Row) -> Sequence[Child]:
    answer = " ".join(filter(None, (str(row.status or ""), row.words.partition(":")[0])))
    return (joined(row.url, element("div", f"on {row.via}" if row.via else "a seed", class_="quiet")), answer)


def _outcomes(survey: Survey) -> list[Bar]:
    shown = [
        Bar("pages", survey.total("ok"), survey.total("client_errors", "server_errors")),
        Bar("redirect", survey.total("redirects")),
        Bar("soft404", broken=survey.total("soft404")),
        *(Bar(name, not_fetched=survey.total(name)) for name in ("blocked", "failed", "excluded")),
    ]
    return [bar for bar in shown if sum(bar[1:])]


def _statuses(survey: Survey) -> list[Bar]:
    most = sorted(survey.top["statuses"].most(_SHOWN), key=lambda each: int(each[0]))
    return [Bar(status, *((0, number) if int(status) >= 400 else (number,))) for status, (number,) in most]


def _hosts(report: Report) -> Section:
    survey, rows = report.survey, list[Sequence[Child]]()
    left = [survey.total(column) for column in COLUMNS]
    for row in report.hosts:
        sums, latency = survey.hosts.get(row["host"]), row["latency_seconds"]
        left = [max(0, each - own) for each, own in zip(left, sums, strict=True)]
        told = None if latency is None else _latency(latency)
        rows.append((row["host"], *_of_host(sums), row["pending"], told, str(row["state"])))
    rows.sort(key=lambda row: (-int(row[1] or 0), row[0]))
    others = report.stats["hosts"] - len(report.hosts)
    if others > 0:
        rows.append((counted(others, "other host"), *_of_host(left), None, None, None))
    heads = ("host", "pages", "broken", "failed", "excluded", "copies", "bodies", "pending", "latency", "state")
    return Section("hosts", "Hosts", joined(_table("Hosts", heads, rows, "rows"), _short(survey.hosts)), True)


def _of_host(sums: Sequence[int]) -> list[Child]:
    """Return how many pages, broken URLs, failed URLs, excluded URLs and copies a host has, and the size of its
    bodies."""
    of = dict(zip(COLUMNS, sums, strict=True))
    wrong = sum(of[column] for column in BROKEN_KINDS)
    return [of["ok"] + wrong - of["soft404"], wrong, of["failed"], of["excluded"], of["copies"], size(of["bytes"])]


_LIMITS = {
    "crawl.max_depth": "deeper links",
    "crawl.scope": "links out of scope",
    "scope.include": "links that match none of its patterns",
    "scope.exclude": "links that match one of its patterns",
    "links.max_url_length": "longer links",
    "links.max_links": "pages with more links",
    "fetch.max_body": "larger pages",
    "links.max_sitemap_bytes": "larger sitemaps",
}


def _left_out(stats: Mapping[str, Any]) -> Section:
    rows: list[Sequence[Child]] = [
        (element("code", limit), _LIMITS.get(limit, "pages" if limit in OF_PAGES else "links"), number)
        for limit, number in stats["links_left_out"].items()
        if number
    ]
    rows += [
        (element("code", rule), "URLs not requested", number)
        for rule, number in stats["urls_held_back"].items()
        if number
    ]
    title = "What limits left out"
    if not rows:
        return Section("limits", title, element("p", "No limit left anything out."))
    said = "A run with wider limits visits these pages again."
    return Section(
        "limits", title, joined(element("p", said), _table(title, ("limit or rule", "what", "how many"), rows))
    )


def _links(stats: Mapping[str, Any]) -> Section:
    shown: dict[str, Child] = {
        "found on pages": stats["links_found"],
        "out of scope": stats["links_off_scope"],
        "excluded by patterns": stats["links_not_included"] + stats["links_excluded"],
        "into traps": stats["links_trapped"],
        "of copies, soft 404s": stats["links_of_copies"] + stats["links_of_soft404"],
        "too deep or long": stats["links_too_deep"] + stats["links_too_long"],
        "seen before": stats["urls_duplicate"],
        "admitted": max(0, stats["urls_admitted"] - stats["seeds"]),
        "invalid": stats["links_rejected"],
    }
    return Section("links", "What happened to links", _pairs(shown, "pairs"))


def _about(report: Report) -> Section:
    said = [
        "Bodies and revisits count each visit. All other figures count each URL once, by its last visit, "
        f"without the paths that the crawler invented to detect soft 404s ({count(report.survey.probes)}). Times are "
        "UTC; the charts show your local time.",
        "Only records that no crash can undo are counted. All counts are exact unless a section says otherwise. The "
        "hosts listed are those with the most pages and the most failures.",
    ]
    return Section("about", "About this report", joined(*(element("p", each) for each in said)), True)


# -- parts -----------------------------------------------------------------------------------------------------


def _pairs(shown: Mapping[str, Child], css: str) -> Markup:
    return element(
        "dl", *(element("div", element("dt", name), element("dd", value)) for name, value in shown.items()), class_=css
    )


def _top(name: str, kinds: TopRows) -> Markup:
    most = kinds.most(_SHOWN)
    if not most:
        return _none(name)
    more = len(kinds.rows) - len(most)
    others = element("p", f"{counted(more, f'more {name}')} with fewer URLs", class_="quiet") if more > 0 else None
    return joined(_bars(name, [Bar(key, number) for key, (number, *_) in most]), others, _short(kinds))


def _short(kinds: TopRows) -> Markup | None:
    if not kinds.missed:
        return None
    return element(
        "p", f"Too many kinds to count exactly: a count may be up to {count(kinds.missed)} too low.", class_="quiet"
    )


def _none(name: str) -> Markup:
    return element("p", f"There is no {name}.", class_="quiet")


class Bar(NamedTuple):
    """A labelled number of URLs, divided into parts of different colours."""

    label: str
    good: int = 0
    broken: int = 0
    not_fetched: int = 0


def _bars(name: str, shown: Sequence[Bar]) -> Markup:
    most = max((sum(bar[1:]) for bar in shown), default=1)
    rows = []
    for bar in shown:
        parts, x = [], 0.0
        for number, kind in zip(bar[1:], _PARTS, strict=True):
            if number:
                width = max(_LEAST, round(100 * number / most, 2))
                parts.append(element("rect", x=x, width=width, height=8, class_=kind))
                x += width
        drawn = element(
            "svg", *parts, viewBox="0 0 100 8", preserveAspectRatio="none", class_="bar", aria_hidden="true"
        )
        rows.append((bar.label, sum(bar[1:]), drawn))
    return _table(name, (name, "URLs", ""), rows)


_NUMBERS = frozenset(
    ("URLs", "pages", "broken", "failed", "excluded", "copies", "bodies", "pending", "latency", "how many")
)
_CLASSES = {"": "bar-cell"} | dict.fromkeys(_NUMBERS, "number")


def _table(name: str, heads: Sequence[str], rows: Iterable[Sequence[Child]], css: str = "") -> Markup:
    """Return a table that scrolls sideways if it is too wide. The first cell of each row is its header."""
    head = [
        element("th", each, scope="col", class_="number" if each in _NUMBERS else None) if each else element("td")
        for each in heads
    ]
    body = [
        element(
            "tr",
            element("th", row[0], scope="row", class_="long"),
            *(element("td", value, class_=_CLASSES.get(name)) for name, value in zip(heads[1:], row[1:], strict=True)),
        )
        for row in rows
    ]
    table = element("table", element("thead", element("tr", *head)), element("tbody", *body))
    return element(
        "div", table, class_=f"scroll {css}".rstrip(), tabindex=0, role="region", aria_label=f"Table: {name}"
    )


def _latency(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else duration(seconds)


def _moment(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
