"""Decides which requests of a page are refused without further checks, and which headers are forwarded. Pure.

    type          images, fonts, media, beacons, prefetches, manifests, reports and event streams: they yield neither
                  links nor text, and an event stream never ends
    tracker       hosts that only serve analytics or ads, unless the page is theirs
    third party   requests to other sites, unless ``browser.third_parties`` allows them. Hosts with the same registrable
                  domain are one site, and URLs in the crawl's scope do not count as another site
    method        all methods but GET and HEAD; ``browser.post`` can allow POST to the page's own site

A preflight asks whether a request may be made (CORS). If the request is allowed, the preflight is answered here; it is
never sent.

Most headers are forwarded, because headers that a script sets belong to the request, and servers require them. These
are not forwarded: the browser's headers about itself (the crawler sends its own name), cookies (the crawler sends its
own), and headers for caching and ranges (the crawler caches whole responses).
"""

from __future__ import annotations

from collections.abc import Mapping

from crawler.url.urls.domain import registrable_domain
from crawler.url.urls.host_key import split_origin
from crawler.web.browser.rendered import Answer, Kind, Refusal, SubRequest

# Hosts that only count, measure, record or advertise. Requests to them would report a visitor who does not exist, and
# each host costs a robots.txt request and a delay. Only the most common ones are listed here; other lists name 50,000
# hosts.
_TRACKERS = """
google-analytics.com googletagmanager.com googletagservices.com googlesyndication.com googleadservices.com
doubleclick.net adservice.google.com connect.facebook.net bat.bing.com clarity.ms hotjar.com mixpanel.com segment.com
segment.io amplitude.com fullstory.com mouseflow.com luckyorange.com nr-data.net sentry.io bugsnag.com
datadoghq-browser-agent.com scorecardresearch.com quantserve.com chartbeat.com chartbeat.net criteo.com criteo.net
taboola.com outbrain.com amazon-adsystem.com adnxs.com rubiconproject.com pubmatic.com mc.yandex.ru matomo.cloud
plausible.io cloudflareinsights.com snap.licdn.com analytics.tiktok.com ads-twitter.com
"""
TRACKERS = frozenset(_TRACKERS.split())
_OF_OTHER_SITES = {"none": (), "scripts": (Kind.SCRIPT, Kind.STYLESHEET), "any": tuple(Kind)}
_OF_BROWSER = """
accept-encoding accept-language cache-control connection content-length cookie device-memory dnt downlink dpr ect host
if-match if-modified-since if-none-match if-range if-unmodified-since keep-alive pragma priority purpose range rtt
save-data te trailer transfer-encoding upgrade upgrade-insecure-requests user-agent via viewport-width width
"""
_NOT_PASSED_ON = frozenset(_OF_BROWSER.split())


def refusal_of(request: SubRequest, page: str, in_scope: bool, third_parties: str, post: str) -> Refusal | None:
    """Return why a page must not make a request, or None if it may; ``third_parties`` and ``post`` are the settings of
    these names. ``in_scope`` is True if the crawl has a limited scope that contains the URL."""
    headers = lowered(request.headers)
    kind, method = request.kind, request.method
    if kind is Kind.PREFLIGHT:
        kind, method = Kind.DATA, headers.get("access-control-request-method", "GET")
    if kind is Kind.OTHER or _prefetched(headers) or headers.get("accept") == "text/event-stream":
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
    """Return True if a request without a type is for a worker's script, or for JSON that a script imports. Other
    requests without a type are for prefetches, icons and service workers."""
    found = lowered(headers)
    known = found.get("accept") in ("*/*", "application/json,*/*;q=0.5")
    return known and "service-worker" not in found and not _prefetched(found)


def _prefetched(headers: Mapping[str, str]) -> bool:
    return "prefetch" in headers.get("sec-purpose", headers.get("purpose", ""))


def preflight(request: SubRequest) -> Answer:
    """Return our answer to the preflight of an allowed request. Whether the page may read the response is left to the
    server."""
    headers = lowered(request.headers)
    allowed = [
        ("Access-Control-Allow-Origin", headers.get("origin", "*")),
        ("Access-Control-Allow-Credentials", "true"),
        ("Access-Control-Allow-Methods", headers.get("access-control-request-method", "GET")),
        ("Access-Control-Allow-Headers", headers.get("access-control-request-headers", "")),
    ]
    return Answer(204, tuple((name, value) for name, value in allowed if value), b"")


def passed_on(request: SubRequest) -> dict[str, str]:
    """Return the browser's headers to forward, with lower-case names. Frames are requested like pages."""
    return {
        name: value
        for name, value in lowered(request.headers).items()
        if not (name in _NOT_PASSED_ON or name.startswith((":", "sec-", "proxy-", "access-control-request-")))
        and not (name == "accept" and request.kind is Kind.DOCUMENT)
    }


def lowered(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers with lower-case names."""
    return {name.lower(): value for name, value in headers.items()}
