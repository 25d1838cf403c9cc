"""Which requests of a page are refused before anything else is looked at, and what of a request is passed on. Pure.

    type          pictures, fonts, media, beacons, prefetches, manifests, reports and event streams: neither links nor
                  text come of them, and a stream of events never ends
    tracker       hosts that only count or advertise, unless the page is theirs
    third party   ``browser.third_parties``: what may be asked of other sites. Hosts of one registrable domain are one
                  site, and what is in the crawl's scope is none of another one
    method        GET and HEAD; POST to the page's own site with ``browser.post``

A preflight asks whether a request may be made (CORS). It is answered here for one that would pass, and never sent.

Most headers are passed on: those that a script has set belong to the request, and servers ask for them. Not passed on
are those by which the browser speaks of itself (we do, by our own name), those of cookies (ours are sent), and those of
its cache and of parts of an answer (ours keeps whole answers).
"""

from __future__ import annotations

from collections.abc import Mapping

from crawler.url.urls.domain import registrable_domain
from crawler.url.urls.host_key import split_origin
from crawler.web.browser.rendered import Answer, Kind, Refusal, SubRequest

# Names whose answers only count, measure, record or advertise. What they are asked tells others of a visitor who is
# none, and each request costs a host, a robots.txt and a gap. The widespread ones; other lists have 50,000.
_TRACKERS = """
google-analytics.com googletagmanager.com googletagservices.com googlesyndication.com googleadservices.com
doubleclick.net adservice.google.com connect.facebook.net bat.bing.com clarity.ms hotjar.com mixpanel.com segment.com
segment.io amplitude.com fullstory.com mouseflow.com luckyorange.com nr-data.net sentry.io bugsnag.com
datadoghq-browser-agent.com scorecardresearch.com quantserve.com chartbeat.com chartbeat.net criteo.com criteo.net
taboola.com outbrain.com amazon-adsystem.com adnxs.com rubiconproject.com pubmatic.com mc.yandex.ru matomo.cloud
plausible.io cloudflareinsights.com snap.licdn.com analytics.tiktok.com ads-twitter.com
"""
TRACKERS = frozenset(_TRACKERS.split())
_NO_TEXT = frozenset((Kind.IMAGE, Kind.FONT, Kind.MEDIA, Kind.OTHER))
_OF_OTHER_SITES = {"none": (), "scripts": (Kind.SCRIPT, Kind.STYLESHEET), "any": tuple(Kind)}
_OF_BROWSER = """
accept-encoding accept-language cache-control connection content-length cookie device-memory dnt downlink dpr ect host
if-match if-modified-since if-none-match if-range if-unmodified-since keep-alive pragma priority purpose range rtt
save-data te trailer transfer-encoding upgrade upgrade-insecure-requests user-agent via viewport-width width
"""
_NOT_PASSED_ON = frozenset(_OF_BROWSER.split())


def refusal_of(request: SubRequest, page: str, in_scope: bool, third_parties: str, post: str) -> Refusal | None:
    """Why a request of a page must not be made; None if the settings of the same names permit it. ``in_scope``: the
    crawl's scope, unless it is any, has the URL."""
    headers = lowered(request.headers)
    kind, method = request.kind, request.method
    if kind is Kind.PREFLIGHT:
        kind, method = Kind.DATA, headers.get("access-control-request-method", "GET")
    if kind in _NO_TEXT or _prefetched(headers) or headers.get("accept") == "text/event-stream":
        return Refusal.TYPE
    host = split_origin(request.url)[1]
    same_site = registrable_domain(host) == registrable_domain(split_origin(page)[1])
    if not (same_site or in_scope):
        labels = host.rstrip(".").split(".")
        if any(".".join(labels[at:]) in TRACKERS for at in range(len(labels))):
            return Refusal.TRACKER
        if kind not in _OF_OTHER_SITES[third_parties]:
            return Refusal.THIRD_PARTY
    if method in ("GET", "HEAD") or (method == "POST" and post == "same-site" and same_site):
        return None
    return Refusal.METHOD


def of_script(headers: Mapping[str, str]) -> bool:
    """Whether a request that the browser gives no type is for the script of a worker, or for JSON that a script
    imports. Others of that kind are for prefetches, icons and service workers."""
    found = lowered(headers)
    known = found.get("accept") in ("*/*", "application/json,*/*;q=0.5")
    return known and "service-worker" not in found and not _prefetched(found)


def _prefetched(headers: Mapping[str, str]) -> bool:
    return "prefetch" in headers.get("sec-purpose", headers.get("purpose", ""))


def preflight(request: SubRequest) -> Answer:
    """The answer to a preflight whose request may be made. Whether the page may read the answer says the server."""
    headers = lowered(request.headers)
    allowed = [
        ("Access-Control-Allow-Origin", headers.get("origin", "*")),
        ("Access-Control-Allow-Credentials", "true"),
        ("Access-Control-Allow-Methods", headers.get("access-control-request-method", "GET")),
        ("Access-Control-Allow-Headers", headers.get("access-control-request-headers", "")),
    ]
    return Answer(204, tuple((name, value) for name, value in allowed if value), b"")


def passed_on(request: SubRequest) -> dict[str, str]:
    """The headers of the browser that are sent, with names in lower case. Frames are asked for like pages."""
    return {
        name: value
        for name, value in lowered(request.headers).items()
        if not (name in _NOT_PASSED_ON or name.startswith((":", "sec-", "proxy-", "access-control-request-")))
        and not (name == "accept" and request.kind is Kind.DOCUMENT)
    }


def lowered(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers with their names in lower case."""
    return {name.lower(): value for name, value in headers.items()}
