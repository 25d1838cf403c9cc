"""The page of a report: HTML with its style inside, which works from a file, in the dark, on paper and on a phone.

It names nothing that would have to be loaded, and its policy forbids scripts, whatever the text on it says. Words are
those of the dashboard.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct, field

from crawler.base.figures import count, counted, duration, size
from crawler.inspect.export.markup import Child, Markup, element, joined, text
from crawler.inspect.export.time_line import KINDS, Columns, TimeLine
from crawler.job.metrics.sentences import trust
from crawler.job.survey.record_kinds import clipped
from crawler.job.survey.survey import BROKEN_KINDS, COLUMNS, DEEPEST, LONGEST, Row, Survey
from crawler.job.survey.top_rows import TopRows
from crawler.url.scope.bounds import OF_PAGES

MARK = "<!-- a report by crawler -->"  # tells an earlier report from other files
_FIRST = 5  # pages that are named of those that link to a broken URL
_LEAST = 0.7  # how wide a bar is at least, in hundredths
_SHOWN = 20  # types, reasons, pages with copies
_LONG = 180  # characters of a URL that are shown

_CANONICAL = re.compile(r"https?://[A-Za-z0-9._:\[\]-]+/[!#-;=?-~]*")
_CSS = Path(__file__).with_name("report.css")


class LinkedFrom(Struct):
    """How many pages link to a URL, and the first of them."""

    pages: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, page: str) -> None:
        self.pages += 1
        if len(self.first) < _FIRST:
            self.first.append(clipped(page, LONGEST))


class Report(Struct, frozen=True):
    """What a report tells of a job at ``made_at`` (seconds since 1970). ``stats`` are those of ``stats --json``.
    ``hosts`` are rows of the table of hosts. ``linked`` has the pages that link to broken URLs, None if unknown;
    ``unlinked`` counts the pages whose links are not in the job any more."""

    name: str
    made_at: float
    stats: Mapping[str, Any]
    survey: Survey
    line: TimeLine
    hosts: Sequence[Mapping[str, Any]]
    linked: Mapping[str, LinkedFrom] | None = None
    unlinked: int = 0


def report_page(report: Report) -> str:
    """The whole page."""
    style = _CSS.read_text("utf-8")
    digest = b64encode(hashlib.sha256(style.encode("utf-8")).digest()).decode("ascii")
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    title = f"Crawl of {report.name}"
    sections = [each for each in _sections(report) if each is not None]
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
    )
    return f"<!doctype html>\n{MARK}\n{element('html', head, body, lang='en')}\n"


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


def _sections(report: Report) -> Iterable[Section | None]:
    survey = report.survey
    yield _time_line(report.line.columns())
    yield Section("outcome", "Outcome", _bars("outcome", _outcomes(survey)))
    statuses = _statuses(survey)
    yield Section("status", "Status", _bars("status", statuses) if statuses else _none("answer"))
    yield _failures(survey)
    yield _broken(report)
    yield _hosts(report)
    yield Section("depth", "Depth", _bars("links from a seed", _depths(survey)))
    yield Section("types", "Types", _top("type", survey.top["types"]))
    yield Section("reasons", "Why URLs were not fetched", _top("reason", survey.top["reasons"]))
    yield _left_out(report.stats)
    yield _links(report.stats)
    yield Section("seen", "Can the seen-set be trusted?", element("p", trust(report.stats)))
    yield _copies(survey)
    yield _about(report)


def broken(survey: Survey) -> list[Row]:
    """The broken URLs that are listed: server errors, then the others, both by host."""
    server_errors, *others = (survey.wrong[kind].values() for kind in BROKEN_KINDS)
    kept = [server_errors, [row for rows in others for row in rows]]
    return [row for rows in kept for row in sorted(rows, key=lambda row: row.host)]


# -- sections --------------------------------------------------------------------------------------------------


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
    if stats.get("revisits"):
        shown["revisits"] = stats["revisits"]
    return _pairs(shown, "figures wide")


def _time_line(columns: Columns | None) -> Section | None:
    if columns is None:
        return None
    most = max(counts.total() for counts in columns.counts)
    bars = []
    for place, counts in enumerate(columns.counts):
        if not counts:
            continue
        y, parts = 100.0, []
        for kind in KINDS:
            height = 100 * counts[kind] / most
            y -= height
            if height:
                x, css = place + 0.06, _class(kind)
                parts.append(element("rect", x=x, y=round(y, 2), width=0.88, height=round(height, 2), class_=css))
        said = ", ".join(f"{count(counts[kind])} {kind}" for kind in KINDS if counts[kind])
        moment = _moment(columns.start + place * columns.width, seconds_too=True)
        bars.append(element("g", element("title", f"{moment}: {said}"), *parts))
    wide = len(columns.counts)
    end = columns.start + wide * columns.width
    total = sum(counts.total() for counts in columns.counts)
    said = f"{counted(total, 'visit')} from {_moment(columns.start)} to {_moment(end)}"
    form = {"viewBox": f"0 0 {wide} 100", "preserveAspectRatio": "none", "class_": "line", "role": "img"}
    chart = element("svg", *bars, **form, aria_label=said)
    key = [
        element("li", _swatch(kind), f"{kind} {count(sum(counts[kind] for counts in columns.counts))}")
        for kind in KINDS
    ]
    fine = columns.width < 60
    first, last = _moment(columns.start, seconds_too=fine), _moment(end, seconds_too=fine)
    ends = element("div", element("span", first), element("span", last), class_="ends")
    width = duration(columns.width) if columns.width >= 10 else f"{columns.width} s"
    caption = element("figcaption", f"Visits that ended, in columns of {width}; the highest is {count(most)}")
    return Section(
        "time", "Time line", element("figure", caption, element("ul", *key, class_="legend"), chart, ends), True
    )


def _broken(report: Report) -> Section:
    listed, linked, total = broken(report.survey), report.linked, report.survey.total(*BROKEN_KINDS)
    if not total:
        return Section("broken", "Broken links", element("p", "No link is broken."), True)
    said = f"{counted(total, 'URL')} with a status of 400 or higher, or a soft 404."
    if left := total - len(listed):
        said += (
            f" {count(len(listed))} are listed, server errors first, then by host. Not listed: "
            f"{counted(left, 'broken link')}, whose records are in pages.jsonl."
        )
    if linked is None:
        said += " The page is the one on which the link was found first; others may have it too."
    if report.unlinked:
        said += (
            f" The links of {counted(report.unlinked, 'page')} are missing: their files are not in the job, or they "
            "were finished without --output links."
        )
    rows = [(each.words or str(each.status or ""), _address(each.url), _linked_from(each, linked)) for each in listed]
    table = _table("Broken links", ("status", "URL", "linked from"), rows, "list")
    return Section("broken", "Broken links", joined(element("p", said), table), True)


def _linked_from(each: Row, linked: Mapping[str, LinkedFrom] | None) -> Markup:
    if linked is None or each.url not in linked or not linked[each.url].pages:
        return text("a seed") if each.via is None else _address(each.via)
    found = linked[each.url]
    items = [element("li", _address(page)) for page in found.first]
    more = found.pages - len(found.first)
    if more:
        items.append(element("li", f"and {counted(more, 'other page')}"))
    return element("ul", *items)


def _failures(survey: Survey) -> Section | None:
    total, listed = survey.total("failed"), survey.wrong["failed"].values()
    if not total:
        return None
    said = f"{counted(total, 'URL')} without a complete response after all tries."
    if total > len(listed):
        said += f" The newest {count(len(listed))} are listed; the other records are in pages.jsonl."
    table = _table("Failed", ("URL", "error"), [(_address(each.url), each.words) for each in listed], "list")
    return Section("failed", "Failed", joined(element("p", said), table), True)


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


def _depths(survey: Survey) -> list[Bar]:
    depths = sorted((int(depth), number) for depth, (number,) in survey.top["depths"].items())
    return [Bar(f"{depth} or more" if depth == DEEPEST else str(depth), number) for depth, number in depths]


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
    """URLs that are pages, broken, failed, excluded, copies; bytes."""
    of = dict(zip(COLUMNS, sums, strict=True))
    wrong = sum(of[column] for column in BROKEN_KINDS)
    return [of["ok"] + wrong - of["soft404"], wrong, of["failed"], of["excluded"], of["copies"], size(of["bytes"])]


def _copies(survey: Survey) -> Section | None:
    most = survey.top["originals"].most(_SHOWN)
    if not most:
        return None
    said = f"{counted(survey.total('copies'), 'page')} with the same content as another page of their host. "
    said += "Pages with most copies:"
    table = _table("Copies", ("page", "copies"), [(_address(url), number) for url, (number,) in most])
    return Section("copies", "Copies", joined(element("p", said), table, _short(survey.top["originals"])), True)


_LIMITS = {
    "crawl.max_depth": "links that lead deeper",
    "crawl.scope": "links out of scope",
    "scope.include": "links that match none of its patterns",
    "scope.exclude": "links that match one of its patterns",
    "links.max_url_length": "links that are longer",
    "links.max_links": "pages with more links",
    "fetch.max_body": "pages that are larger",
    "links.max_sitemap_bytes": "sitemaps that are larger",
}


def _left_out(stats: Mapping[str, Any]) -> Section:
    rows: list[Sequence[Child]] = [
        (element("code", limit), _LIMITS.get(limit, "pages" if limit in OF_PAGES else "links"), number)
        for limit, number in stats["links_left_out"].items()
        if number
    ]
    rows += [
        (element("code", rule), "URLs not asked, by this rule", number)
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
        "admitted": stats["urls_admitted"],
        "invalid": stats["links_rejected"],
    }
    return Section("links", "What happened to links", _pairs(shown, "pairs"))


def _about(report: Report) -> Section:
    said = [
        "The figures at the top and the time line count each visit. All other figures count each URL once, as its last "
        "visit found it, without the paths that the crawler made up to recognise soft 404s"
        f" ({count(report.survey.probes)}). Times are UTC.",
        "Only records that no crash can undo are counted. All counts are exact unless a section says otherwise. The "
        "hosts listed are those with most pages and those with most failures.",
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
        "p", f"There are very many kinds: a count may be up to {count(kinds.missed)} too low.", class_="quiet"
    )


def _none(name: str) -> Markup:
    return element("p", f"There is no {name}.", class_="quiet")


class Bar(NamedTuple):
    """A number of URLs with a name, in the parts that differ in colour."""

    label: str
    good: int = 0
    broken: int = 0
    not_fetched: int = 0


def _bars(name: str, shown: Sequence[Bar]) -> Markup:
    most = max((sum(bar[1:]) for bar in shown), default=1)
    rows = []
    for bar in shown:
        parts, x = [], 0.0
        for number, kind in zip(bar[1:], KINDS, strict=True):
            if number:
                width = max(_LEAST, round(100 * number / most, 2))
                parts.append(element("rect", x=x, width=width, height=8, class_=_class(kind)))
                x += width
        drawn = element(
            "svg", *parts, viewBox="0 0 100 8", preserveAspectRatio="none", class_="bar", aria_hidden="true"
        )
        rows.append((bar.label, sum(bar[1:]), drawn))
    return _table(name, (name, "URLs", ""), rows)


_NUMBERS = frozenset(
    ("URLs", "pages", "broken", "failed", "excluded", "copies", "bodies", "pending", "latency", "how many")
)


_CLASSES = {"status": "status", "linked from": "long", "error": "long", "": "bar-cell"} | dict.fromkeys(
    _NUMBERS, "number"
)


def _table(name: str, heads: Sequence[str], rows: Iterable[Sequence[Child]], css: str = "") -> Markup:
    """A table that scrolls sideways where it finds no room. The head of a row is its URL, or its first cell."""
    head = [
        element("th", each, scope="col", class_="number" if each in _NUMBERS else None) if each else element("td")
        for each in heads
    ]
    row_head = heads.index("URL") if "URL" in heads else 0
    body = [
        element("tr", *(_cell(heads[at], value, is_head=at == row_head) for at, value in enumerate(row)))
        for row in rows
    ]
    table = element("table", element("thead", element("tr", *head)), element("tbody", *body))
    return element(
        "div", table, class_=f"scroll {css}".rstrip(), tabindex=0, role="region", aria_label=f"Table: {name}"
    )


def _cell(head: str, value: Child, *, is_head: bool) -> Markup:
    if is_head:
        return element("th", value, scope="row", class_="long")
    css = _CLASSES.get(head)
    return element("td", value, class_=css, data_head=head if css == "long" else None)


def _address(url: str) -> Markup:
    """A URL, to be followed unless it was cut."""
    if len(url) >= LONGEST or not _CANONICAL.fullmatch(url):
        return text(_shortened(url))
    return element("a", _shortened(url), href=url, rel="noopener noreferrer nofollow")


def _shortened(url: str) -> str:
    """A URL without its middle, if it would fill the page."""
    return url if len(url) <= _LONG else f"{url[: _LONG - 40]}\N{HORIZONTAL ELLIPSIS}{url[-30:]}"


def _swatch(kind: str) -> Markup:
    return element(
        "svg", element("rect", width=8, height=8, class_=_class(kind)), viewBox="0 0 8 8", aria_hidden="true"
    )


def _class(kind: str) -> str:
    return kind.replace(" ", "-")


def _latency(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else duration(seconds)


def _moment(seconds: float, *, seconds_too: bool = False) -> str:
    form = "%Y-%m-%d %H:%M:%S" if seconds_too else "%Y-%m-%d %H:%M"
    return f"{datetime.fromtimestamp(seconds, UTC).strftime(form)} UTC"
