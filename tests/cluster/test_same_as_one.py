"""A web with what pages, headers, robots.txt, sitemaps and feeds can say across hosts: a crawl in partitions has the
same records and outputs of it as a crawl of one process, field by field."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from aiohttp import web
from msgspec.structs import asdict
from warcio.archiveiterator import ArchiveIterator

from crawler.inspect.job_reader import open_job
from crawler.job.crawl_file import holds_crawl, partition_directories
from tests.program import crawler
from tests.site import Handler, Site

HOSTS, PAGES, DEEP = 6, 24, 9
# Of these each crawl has its own: when, how long, and where in a file.
OF_A_RUN = {"fetched_at", "seconds", "kept"}
# The number of journal entries, of which a partition has some for what it receives; what one process never counts; and
# how many hosts were first met by a link: another one may be met by a redirect of a robots.txt, whichever is faster.
OF_ITS_OWN = {"sequence", "links_sent_elsewhere", "trap_counts"}


def _answer(text: str = "", status: int = 200, kind: str = "text/html", **headers: str) -> Handler:
    async def answer(_: web.Request) -> web.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(status=status, text=text, content_type=kind, headers=named)

    return answer


class Web:
    """Each page is found from one other page only, mostly of another host, so that nothing depends on who is faster."""

    def __init__(self, stack: ExitStack) -> None:
        self._pages: list[dict[str, str | Handler]] = [{} for _ in range(HOSTS)]
        self.sites = [stack.enter_context(Site(self._pages[0], address=("127.0.9.1", 0)))]
        port = int(self.sites[0].hosts[0].rpartition(":")[2])
        for number in range(1, HOSTS):
            site = Site(self._pages[number], address=(f"127.0.9.{number + 1}", port))
            self.sites.append(stack.enter_context(site))
        self._make()

    def url(self, host: int, path: str) -> str:
        return self.sites[host % HOSTS].url(path)

    def _put(self, host: int, path: str, page: str | Handler) -> str:
        self._pages[host % HOSTS][path] = page
        return self.url(host, path)

    def _leaf(self, host: int, path: str) -> str:
        return self._put(host, path, f"<title>{path}</title>all that {path} says")

    def _redirect(self, host: int, path: str, to: str) -> str:
        return self._put(host, path, _answer(status=302, Location=to))

    def _make(self) -> None:
        more = [self._deep(), *self._heads(), *self._robots(), *self._redirects(), *self._listed()]
        for number in range(PAGES):
            links = [self.url(child, f"/{child}") for child in (2 * number + 1, 2 * number + 2) if child < PAGES]
            links += more[number::PAGES]
            text = "".join(f'<a href="{link}">about {at}</a>' for at, link in enumerate(links))
            self._put(number, f"/{number}", f"<html lang=en><title>{number}</title>words of {number} {text}</html>")
        self.seed = self.url(0, "/0")

    def _heads(self) -> list[str]:
        """Pages whose head, links or headers say where others are."""
        rel, leaf = '<link rel="{}" href="{}">'.format, self._leaf
        embeds = f"<img src='{leaf(2, '/image.png')}'><script src='{leaf(3, '/script.js')}'></script>"
        header = _answer("here", Link=f'<{leaf(1, "/from-header")}>; rel="next"')
        leaf(4, "/below/relative")
        return [
            self._put(0, "/base", f"<base href='{self.url(4, '/below/')}'><a href='relative'>r</a>"),
            self._put(1, "/copy?x=1", rel("canonical", leaf(3, "/original"))),
            self._put(2, "/spoken", rel("alternate' hreflang='de", leaf(5, "/deutsch")).replace("'", '"')),
            self._put(3, "/pages", rel("next", leaf(0, "/next")) + f"<iframe src='{leaf(1, '/frame')}'></iframe>"),
            self._put(4, "/soon", f"<meta http-equiv=refresh content='0; url={leaf(2, '/refreshed')}'>"),
            self._put(5, "/embeds", embeds),
            self._put(1, "/header", header),
        ]

    def _robots(self) -> list[str]:
        """Pages that say what not to do, and hosts: one says it through another host."""
        never = self._leaf(2, "/never")
        for number, site in enumerate(self.sites):
            site.robots = f"User-agent: *\nDisallow: /private{number}\n"
        for number in (4, 5):
            rules = self._put(number + 4, "/rules", f"User-agent: *\nDisallow: /no\nDisallow: /private{number}\n")
            self.sites[number].robots = _answer(status=302, Location=rules)
        self.sites[0].robots = f"User-agent: *\nSitemap: {self._sitemaps()}\n"
        meta = "<meta name=robots content='nofollow, noindex'>"
        return [
            self._put(3, "/meta", f"{meta}<a href='{never}'>x</a>"),
            self._put(4, "/tag", _answer(f"<a href='{never}'>x</a>", X_Robots_Tag="nofollow")),
            self._leaf(4, "/private4"),
            self._leaf(5, "/no"),
        ]

    def _redirects(self) -> list[str]:
        end = self._put(3, "/end", f"<a href='{self._leaf(4, '/behind')}'>x</a>")
        second = self._redirect(2, "/second", self._redirect(1, "/third", end))
        self._redirect(2, "/pong", self.url(5, "/ping"))
        for step in range(13):
            self._redirect(step, f"/far{step}", self.url(step + 1, f"/far{step + 1}"))
        back = self._redirect(3, "/back", self.url(0, "/0"))
        ping = self._redirect(5, "/ping", self.url(2, "/pong"))
        return [self._redirect(0, "/first", second), ping, self.url(0, "/far0"), back]

    def _sitemaps(self) -> str:
        def listed(kind: str, item: str, *urls: str) -> Handler:
            texts = "".join(f"<{item}><loc>{url}</loc><lastmod>2023-11-14</lastmod></{item}>" for url in urls)
            space = "http://www.sitemaps.org/schemas/sitemap/0.9"
            return _answer(f"<?xml version='1.0'?><{kind} xmlns='{space}'>{texts}</{kind}>", kind="application/xml")

        maps = [
            self._put(
                host, "/map.xml", listed("urlset", "url", self._leaf(host, "/m"), self._leaf(host + 1, f"/m{host}"))
            )
            for host in (0, 3)
        ]
        return self._put(0, "/index.xml", listed("sitemapindex", "sitemap", *maps))

    def _listed(self) -> list[str]:
        """A feed, other types of pages, and none."""
        item = f"<item><link>{self._leaf(3, '/item')}</link></item>"
        feed = _answer(f"<rss version='2.0'><channel>{item}</channel></rss>", kind="application/rss+xml")
        self._put(2, "/feed", feed)
        rel = f"<link rel='alternate' type='application/rss+xml' href='{self.url(2, '/feed')}'>"
        gone, paper = _answer("gone", 410), _answer("%PDF", kind="application/pdf")
        return [
            self._put(1, "/fed", rel),
            self.url(4, "/nothing"),
            self._put(5, "/gone", gone),
            self._put(0, "/p", paper),
        ]

    def _deep(self) -> str:
        for step in range(DEEP):
            self._put(
                5 * step, f"/deep{step}", f"<a href='{self.url(5 * step + 5, f'/deep{step + 1}')}'>deeper</a>{step}"
            )
        return self.url(0, "/deep0")


@contextmanager
def made() -> Iterator[Web]:
    with ExitStack() as stack:
        yield Web(stack)


def lines(directory: Path, files: str) -> list[dict[str, Any]]:
    """What files of a job, or of all partitions of a crawl, hold."""
    found = [path for each in (files, f"partitions/*/{files}") for path in directory.glob(each)]
    return [json.loads(line) for path in found for line in path.read_text().splitlines()]


def records(directory: Path) -> dict[str, dict[str, Any]]:
    found = lines(directory, "pages.jsonl")
    by_url = {record["url"]: {key: record[key] for key in record.keys() - OF_A_RUN} for record in found}
    assert len(by_url) == len(found), "a URL has one record"
    return by_url


def captured(directory: Path) -> set[tuple[str, str]]:
    """The URLs and payloads in the archives of a job or a crawl. Where a payload came before is a matter of each
    archive."""
    found = [path for each in ("warc/*", "partitions/*/warc/*") for path in directory.glob(each)]
    captures = set[tuple[str, str]]()
    for path in found:
        with path.open("rb") as file:
            for each in ArchiveIterator(file):
                if each.rec_type in ("response", "revisit"):
                    digest = each.rec_headers.get_header("WARC-Payload-Digest") or ""
                    captures.add((each.rec_headers.get_header("WARC-Target-URI"), digest))
    return captures


def counted(directory: Path) -> Counter[str]:
    """The counters of a job, or the sum of each over all partitions of a crawl."""
    found = Counter[str]()
    for each in partition_directories(directory) if holds_crawl(directory) else [directory]:
        with open_job(each) as job:
            counters = asdict(job.counters)
            found.update({f"urls {kind}": number for kind, number in enumerate(counters.pop("urls"))})
            found.update({f"audited {place}": number for place, number in enumerate(counters.pop("audited"))})
            for name in [name for name, value in counters.items() if isinstance(value, dict)]:
                found.update({f"{name} {limit}": number for limit, number in counters.pop(name).items()})
            found.update(counters)
    return Counter({name: count for name, count in found.items() if name not in OF_ITS_OWN})


def test_records_and_outputs_are_those_of_one_process(tmp_path: Path) -> None:
    words = ("--scope", "any", "--allow-private", "--delay", "0", "--max-depth", "8", "--quiet")
    words += ("--embedded", "any", "--output", "links,text,bodies,warc", "--contact", "me@example.org")
    one, several = tmp_path / "one", tmp_path / "several"
    with made() as site:
        for directory, more in ((one, ()), (several, ("--partitions", "2", "--partition-count", "4"))):
            ran = crawler(site.seed, "--job", directory, *words, *more)
            assert ran.code == 0, ran.err
        assert site.url(5 * 7, "/deep7") in records(one)
        assert site.url(5 * 8, "/deep8") not in records(one)
        assert site.url(2, "/never") not in records(one)
        assert {site.url(2, "/rules"), site.url(3, "/rules")} <= {url for url, _ in captured(one)}, (
            "robots.txt of another host, by a redirect"
        )
    assert records(several) == records(one)
    for files in ("links/*.jsonl", "text/*.jsonl"):
        found = [
            sorted(
                json.dumps({key: line[key] for key in sorted(line.keys() - OF_A_RUN)}) for line in lines(each, files)
            )
            for each in (one, several)
        ]
        assert found[0] == found[1]
        assert found[0]
    assert captured(several) == captured(one)
    assert {path.name for path in one.glob("bodies/*/*/*")} == {
        path.name for path in several.glob("partitions/*/bodies/*/*/*")
    }
    assert counted(several) == counted(one)
    met = {"urls_excluded", "links_too_deep", "pages_redirected", "status 4xx", "urls_duplicate"}
    assert met <= (+counted(one)).keys()


def test_each_counter_is_the_sum_of_those_of_the_partitions(tmp_path: Path) -> None:
    """With what the other crawl has none of: links that lead outside."""
    words = ("--scope", "host", "--exclude", "*/7", "--max-depth", "5", "--allow-private", "--delay", "0", "--quiet")
    one, several = tmp_path / "one", tmp_path / "several"
    results = []
    with made() as site:
        seeds = [site.url(host, f"/{host}") for host in range(4)]
        for directory, more in ((one, ()), (several, ("--partitions", "2", "--partition-count", "4"))):
            ran = crawler(*seeds, "--job", directory, *words, "--contact", "me@example.org", "--json", *more)
            assert ran.code == 0, ran.err
            results.append(json.loads(ran.out))
    assert counted(several) == counted(one)
    first, second = ([each[key] for key in ("exit", "error", "state", "pages_fetched")] for each in results)
    assert first == second
    assert {"links_off_scope", "links_excluded", "sitemaps_read", "seeds"} <= (+counted(one)).keys()
