"""Fetches URLs with aiohttp."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
import zlib
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from types import TracebackType
from typing import Self

import aiohttp
import yarl
from aiohttp import hdrs
from aiohttp.abc import AbstractResolver
from msgspec import Struct
from msgspec.structs import replace
from multidict import CIMultiDict

from crawler.base.settings.parts import FetchSettings
from crawler.base.settings.sites import Sites
from crawler.url.refusal.forbidden_targets import refusal_of
from crawler.url.urls.host_key import split_origin
from crawler.url.urls.normalising_steps import drop_userinfo
from crawler.web.fetch.body_memory import BUDGET, BodyMemory
from crawler.web.fetch.body_reader import ReadBody, drop_body, keep_body, keep_rest, read_body
from crawler.web.fetch.capture import Capture
from crawler.web.fetch.connector import Connector, Exchange, current_exchange
from crawler.web.fetch.content_coding import Undecodable
from crawler.web.fetch.cookies import Cookies, joined
from crawler.web.fetch.failures import CLOSED_IN_BODY, FAILURES, classify, is_local
from crawler.web.fetch.fence import sending
from crawler.web.fetch.lenient import Malformed
from crawler.web.fetch.outcome import REDIRECTS, Failure, FailureKind, Keeps, RawExchange, Response, browser_text
from crawler.web.fetch.patience import NO_DELAYS, Alarm, OwnDelays, Patience
from crawler.web.fetch.proxies import ProxyTrouble
from crawler.web.fetch.request_profiles import RequestProfiles, trust_of
from crawler.web.fetch.secret import SecretText
from crawler.web.identity.signer import REFUSALS, Signer

log = logging.getLogger("crawler")

HTML_TYPES = frozenset(("text/html", "application/xhtml+xml"))

_ACCEPT = "text/html,application/xhtml+xml;q=0.9,*/*;q=0.5"
ACCEPT_MARKDOWN = "text/markdown,text/html;q=0.9,application/xhtml+xml;q=0.8,*/*;q=0.5"
_IDLE_CONNECTIONS = 4  # idle connections kept for each concurrent fetch
_LOGIN_WANTED = 407  # Proxy Authentication Required
_REQUESTABLE = re.compile("https?://[!-~]+").fullmatch
_TYPES = re.compile(r'(?:[^",]|"(?:[^"\\]|\\.)*+(?:"|\\?$))++')  # one media type of several, with its parameters
_TYPE = re.compile(r"[\t ]*([!#$%&'*+.^_`|~0-9A-Za-z-]+/[!#$%&'*+.^_`|~0-9A-Za-z-]+)[\t ]*(?:;|$)")
_PARAMETER = re.compile(r';[\t ]*([^;=]*)(?:=(?:"((?:[^"\\]|\\.)*+)[^;]*|([^;]*)))?')
_NO_TYPE = frozenset(("unknown/unknown", "application/unknown"))


def is_html(content_type: str | None) -> bool:
    """Return whether the type is HTML or missing: browsers treat a missing type as possible HTML, and most pages
    without a type are HTML."""
    return content_type is None or content_type in HTML_TYPES


class _Want(Struct, frozen=True):
    """The options of a call of ``fetch``: content types, size and headers."""

    accept: Callable[[str | None], bool]
    max_body: int
    truncate: bool
    headers: Mapping[str, str] | None


class Fetcher:
    """Owns the connections. An async context manager; any number of ``fetch`` calls may run at once.

    ``settings`` apply to all hosts, or differ by host. The caller enforces ``concurrency`` and ``per_host``; here they
    only bound the number of idle connections. ``resolver`` replaces the name service, ``environ`` the environment,
    which may name proxies and secrets. ``delays`` do not count towards time limits or durations. Raises SettingsError
    if a proxy, a login or a file named in the settings cannot be used."""

    def __init__(
        self,
        settings: FetchSettings | Sites,
        *,
        concurrency: int,
        per_host: int,
        resolver: AbstractResolver | None = None,
        delays: OwnDelays = NO_DELAYS,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        sites = settings if isinstance(settings, Sites) else None
        settings = settings.settings.fetch if isinstance(settings, Sites) else settings
        self._settings = settings
        self._stalled = delays.stalled
        self._profiles = RequestProfiles(settings, sites, os.environ if environ is None else environ)
        self._signer = None if sites is None else Signer.of(sites.settings.identity)
        self._cookies = Cookies() if settings.cookies else None
        self._plain = not (self._profiles or self._signer) and self._cookies is None
        self._proxy_fails = False
        self._memory = BodyMemory(BUDGET, delays.waits)
        idle_hosts = max(1, _IDLE_CONNECTIONS * concurrency // max(1, per_host))
        trust = trust_of(settings)
        self._connect = partial(Connector, settings, idle_hosts=idle_hosts, resolver=resolver, trust=trust)
        self._connector: Connector | None = None
        self._alarm: Alarm | None = None
        self._headers: CIMultiDict[str] = CIMultiDict()

    def change(self, sites: Sites) -> None:
        """Apply changed time limits, profiles of single hosts and keys. Raises SettingsError, without changing
        anything, if they are invalid."""
        settings, signer = sites.settings.fetch, Signer.of(sites.settings.identity)
        self._profiles = self._profiles.changed(settings, sites)
        self._settings, self._signer = settings, signer
        self._plain = not (self._profiles or signer) and self._cookies is None

    def signs(self, host: str, *, known: bool) -> bool:
        """Return whether a host asks for signed requests. ``known``: it asked for them in an earlier run."""
        if self._signer is None:
            return known
        return self._signer.signs(host.removesuffix(":443").removesuffix(":80"), known=known)

    async def __aenter__(self) -> Self:
        settings = self._settings
        user_agent = settings.user_agent
        if settings.contact:
            user_agent = f"{user_agent} (+{settings.contact})"
        self._headers = CIMultiDict({"User-Agent": user_agent, "Accept": _ACCEPT})
        self._connector = self._connect()
        self._alarm = Alarm(self._stalled)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._alarm is not None:
            self._alarm.close()
        if self._connector is not None:
            await self._connector.close()

    async def fetch(
        self,
        href: str,
        *,
        accept: Callable[[str | None], bool] = is_html,
        max_body: int | None = None,
        truncate: bool = False,
        headers: Mapping[str, str] | None = None,
        keep: Keeps | None = None,
    ) -> Response | Failure:
        """GET one absolute http or https URL, sent unchanged, with ``headers`` added to those of every request.

        ``accept(content_type)`` returns whether the body is wanted. A body of more than ``max_body`` bytes after
        decoding (default: the limit in the settings) is a failure or, with ``truncate``, is cut there. Exchanges
        selected by ``keep`` are captured as sent and received."""
        assert self._alarm is not None, "a Fetcher must be used inside `async with`"
        settings = self._settings
        want = _Want(accept, settings.max_body if max_body is None else max_body, truncate, headers)
        limit = asyncio.timeout(None)
        exchange = Exchange(Patience(limit, self._alarm), self._memory, settings)
        if keep is not None:
            exchange.keep(Capture(href, keep))
        token = current_exchange.set(exchange)
        complete = False
        try:
            result = await self._within(limit, href, want, exchange)
            if exchange.capture is not None and isinstance(result, Failure):
                result = _with_raw(result, exchange.capture, exchange)
            complete = isinstance(result, Response) or result.raw is not None or result.partial is not None
            return result
        finally:
            exchange.keep(None)
            exchange.patience.end()
            current_exchange.reset(token)
            if complete and exchange.share.counts:
                exchange.share.complete()
            else:
                exchange.share.close()

    def cookie_state(self, href: str) -> int | None:
        """See ``Fetches``."""
        if self._cookies is None:
            return None
        url = yarl.URL(href, encoded=True)
        host, path, secure = url.raw_host or "", url.raw_path, url.scheme == "https"
        return _digest(self._cookies.header(host, path, secure=secure, now=time.time()))

    def let_go(self) -> None:
        """Release the memory of the body that the running task fetched last."""
        self._memory.let_go()

    async def _within(self, limit: asyncio.Timeout, href: str, want: _Want, exchange: Exchange) -> Response | Failure:
        """Perform the exchange, and abort it when its time limit expires."""
        try:
            async with limit:
                exchange.enter("headers", self._settings.headers_timeout)
                return await self._exchange(href, want, exchange)
        except FAILURES as error:
            if exchange.refused is not None and not exchange.dialled:
                return Failure.refused(exchange.refused, exchange.patience.seconds)
            kind, message = classify(error, exchange, exchange.limits)
            if kind is FailureKind.PROXY:
                self._tell_of_proxy(message)
            local = kind in (FailureKind.DNS, FailureKind.UNREACHABLE) and is_local(error, exchange)
            kept = kind is FailureKind.CUT_OFF and self._lost(exchange, error)
            seconds = exchange.patience.seconds
            proxy = None if exchange.proxy is None else exchange.proxy.shown
            return Failure(kind, message, seconds, address=exchange.address, local=local, kept=kept, proxy=proxy)

    def _lost(self, exchange: Exchange, error: Exception) -> bool:
        """Return whether a reused connection was closed before the first byte of an answer, or held excess bytes of an
        earlier answer."""
        used = exchange.connection
        if used is None or not used.kept or self._connector is None:
            return False
        if used.protocol.begun and not isinstance(error, Malformed):
            return False
        self._connector.lost(used)
        return True

    @property
    def notes(self) -> list[str]:
        """The notices to show the user when a run starts."""
        return self._profiles.proxies.spoken()

    async def resolve(self, href: str) -> str | None:
        """Return the IP address of the href's host, or the lowest if it has several. None if it has none or no name
        server answered in time."""
        assert self._connector is not None, "a Fetcher must be used inside `async with`"
        assert self._alarm is not None
        if self._profiles and self._profiles.to(href).proxy is not None:
            return None  # only the proxy knows the host's address
        _, host, port, _ = split_origin(href)
        try:
            async with asyncio.timeout(None) as limit:
                patience = Patience(limit, self._alarm)
                patience.allow(self._settings.connect_timeout)
                try:
                    return await self._connector.resolve(host.strip("[]"), int(port or 0))
                finally:
                    patience.end()
        except FAILURES:
            return None

    async def _exchange(self, href: str, want: _Want, exchange: Exchange) -> Response | Failure:
        assert self._connector is not None
        if _REQUESTABLE(href) is None:
            return Failure(FailureKind.BAD_URL, "not an absolute http or https URL in ASCII", 0.0)
        try:
            url = yarl.URL(href, encoded=True)
            url.raw_host  # noqa: B018, yarl validates host and port only now
            if url.raw_user is not None or url.raw_password is not None:
                # Credentials come from the configuration only.
                url = yarl.URL(drop_userinfo(href), encoded=True)
        except ValueError as error:
            return Failure(FailureKind.BAD_URL, str(error), exchange.patience.seconds)
        # Check the fence before connecting to anything, for example a proxy or a name server.
        refused = refusal_of(url.raw_host or "", url.port or 0, self._settings)
        if refused is not None:
            return Failure.refused(refused)
        if exchange.capture is not None and want.headers:
            exchange.capture.hide(name for name, value in want.headers.items() if isinstance(value, SecretText))
        if self._plain and not sending.get().cookies:
            headers = _with(self._headers, want.headers) if want.headers else self._headers
            answer = await self._connector.get(url, headers)
        else:
            answer = await self._ask(self._connector, url, href, want, exchange)
        try:
            result = await self._response(answer, want, exchange)
        finally:
            # A connection whose response was read to its end is already back in the pool. Any other connection cannot
            # be reused.
            answer.close()
        return result if self._signer is None else _noted(self._signer, answer, result)

    async def _ask(
        self, connector: Connector, url: yarl.URL, href: str, want: _Want, exchange: Exchange
    ) -> aiohttp.ClientResponse:
        """Send the request with its profile's settings, and return the answer when its headers are complete."""
        profile = self._profiles.to(href)
        asked = want.headers or {}
        own = {name: value for name, value in asked.items() if isinstance(value, SecretText)}
        headers = CIMultiDict(asked)
        headers.update(profile.headers or {})
        headers.update(own)
        if exchange.capture is not None and profile.headers:
            exchange.capture.hide(profile.headers)
        exchange.proxy = profile.proxy
        if profile.limits is not None:
            exchange.limits = profile.limits
            exchange.enter("headers", profile.limits.headers_timeout)
        through = None if profile.proxy is None or profile.proxy.socks else profile.proxy.url
        host, path, secure = url.raw_host or "", url.raw_path, url.scheme == "https"
        if "Cookie" not in headers:
            cookie = None
            if self._cookies is not None:
                cookie = self._cookies.header(host, path, secure=secure, now=time.time())
                exchange.cookies = _digest(cookie)
            if cookie := joined(sending.get().cookies, cookie):
                headers["Cookie"] = cookie
        of_proxy = None if through is None else self._headers.copy()
        sign = dict if self._signer is None else partial(self._signer.headers, _authority(url))
        answer = await connector.get(url, _with(self._headers, headers), through, of_proxy, sign)
        if through is not None and answer.status == _LOGIN_WANTED and not secure:
            answer.close()
            raise ProxyTrouble("it requires another login (407)")
        if self._cookies is not None:
            lines = answer.headers.getall("Set-Cookie", ())
            self._cookies.note(host, path, lines, secure=secure, now=time.time())
        if profile.proxy is not None and self._proxy_fails:
            self._proxy_fails = False
            log.warning("the proxy answers again")
        return answer

    def _tell_of_proxy(self, message: str) -> None:
        if not self._proxy_fails:
            self._proxy_fails = True
            log.warning("the proxy fails; its requests will be retried: %s", message)

    async def _response(self, answer: aiohttp.ClientResponse, want: _Want, exchange: Exchange) -> Response | Failure:
        content_type, _ = _content_type(", ".join(answer.headers.getall(hdrs.CONTENT_TYPE, ())))
        capture = exchange.capture
        if capture is not None and not capture.begin(answer, content_type):
            exchange.keep(None)
            capture = None
        body = ReadBody(None, None)
        if _location(answer) is None and want.accept(content_type):
            if not answer.content.is_eof():
                exchange.enter("body", exchange.limits.body_timeout)
            try:
                body = await read_body(answer, want.max_body, want.truncate, exchange)
                if body.fault is not None:
                    raise body.fault
            except Undecodable as error:
                if capture is not None:
                    capture.undecodable = None if exchange.cut else error
                    await keep_rest(answer, capture, exchange)
                if not body.data and exchange.cut is None:
                    raise
            if body.data is None:
                message = f"body larger than {want.max_body} bytes"
                return Failure(FailureKind.TOO_LARGE, message, exchange.patience.seconds)
            received = len(body.data)
        elif capture is not None:
            capture.response = _answered(answer, exchange, body, 0)
            exchange.enter("body", exchange.limits.body_timeout)
            received = await keep_body(answer, capture, exchange)
        else:
            received = await drop_body(answer, exchange)
        raw = None if capture is None else capture.raw(exchange.peer, FailureKind.CUT_OFF if exchange.cut else None)
        response = _answered(answer, exchange, body, received, raw)
        if body.data is None or not (exchange.cut or body.fault):
            return response
        kind, message = FailureKind.CUT_OFF, CLOSED_IN_BODY
        if exchange.cut is None and body.fault is not None:
            kind, message = classify(body.fault, exchange, exchange.limits)
        address, proxy = exchange.address, response.proxy
        partial = replace(response, note=message) if body.data else None  # an empty part is not used
        return Failure(kind, message, response.seconds, address=address, proxy=proxy, partial=partial)


def _authority(url: yarl.URL) -> str:
    """Return host and port as in the Host header of a request."""
    return (url.host_port_subcomponent or "").lower()


def _noted(signer: Signer, answer: aiohttp.ClientResponse, result: Response | Failure) -> Response | Failure:
    """Pass an answer to the signer, and mark a refusal that a signature may avoid."""
    authority, body = _authority(answer.url), result.body if isinstance(result, Response) else None
    signer.note(authority, answer.status, answer.headers, body)
    if isinstance(result, Failure) or answer.status not in REFUSALS or "Signature" in answer.request_info.headers:
        return result
    return replace(result, unsigned=signer.key_for(authority) is not None)


def _answered(
    answer: aiohttp.ClientResponse, exchange: Exchange, body: ReadBody, received: int, raw: RawExchange | None = None
) -> Response:
    headers, location = answer.headers, _location(answer)
    content_type, charset = _content_type(", ".join(headers.getall(hdrs.CONTENT_TYPE, ())))
    return Response(
        answer.status,
        headers,
        content_type,
        charset,
        body.data,
        location,
        browser_text(headers.get(hdrs.RETRY_AFTER, "")) or None,
        exchange.patience.seconds,
        received,
        body.note,
        None if exchange.proxy is None else exchange.proxy.shown,
        exchange.peer,
        raw,
        None if body.data is None else exchange.cut or body.short,
        exchange.cookies,
    )


def _location(answer: aiohttp.ClientResponse) -> str | None:
    """Return the first non-empty Location of a redirect. Bytes that are not UTF-8 are sent back to the server
    unchanged, because browsers escape them instead of decoding them."""
    if answer.status not in REDIRECTS:
        return None
    stated = next(filter(None, answer.headers.getall(hdrs.LOCATION, ())), None)
    if stated is None or stated.isascii():
        return stated
    raw = stated.encode("utf-8", "surrogateescape")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return "".join(chr(byte) if byte < 0x80 else f"%{byte:02X}" for byte in raw)


def _digest(cookies: str | None) -> int:
    return zlib.crc32((cookies or "").encode())


def _with_raw(result: Failure, capture: Capture, exchange: Exchange) -> Response | Failure:
    """Add the captured part of the exchange to its outcome. An error in a body that is only captured is not a
    failure."""
    raw = capture.raw(exchange.peer, result.kind)
    if capture.undecodable is not None:
        kind, message = classify(capture.undecodable, exchange, exchange.limits)
        return replace(result, kind=kind, message=message, raw=raw)
    if capture.response is None:
        return replace(result, raw=raw)
    return replace(capture.response, seconds=result.seconds, received=capture.size, raw=raw)


def _with(usual: CIMultiDict[str], own: Mapping[str, str]) -> CIMultiDict[str]:
    """Merge headers; those in ``own`` replace the usual ones of the same name."""
    headers = usual.copy()
    headers.update(own)
    return headers


@lru_cache(maxsize=512)
def _content_type(header: str) -> tuple[str | None, str | None]:
    """Return ``type/subtype`` in lower case, and the charset as stated (Fetch Standard, "extract a MIME type"): of
    several types the last valid one counts, with the charset of an earlier one of the same type."""
    found: str | None = None
    charset: str | None = None
    for each in _TYPES.findall(header):
        kind = _TYPE.match(each)
        if kind is None or (kind[1] == "*/*" and found is not None):
            continue
        if kind[1].lower() != (found or "*/*"):
            found, charset = kind[1].lower(), None
        charset = _charset(each) or charset
    return None if found in _NO_TYPE else found, charset


def _charset(content_type: str) -> str | None:
    for name, quoted, plain in _PARAMETER.findall(content_type):
        value = re.sub(r"\\(.)", r"\1", quoted) or plain.rstrip("\t ")
        # As in browsers, a name with white space around the equals sign is not a parameter.
        if name.lower() == "charset" and value and value[0] not in "\t ":
            return browser_text(value)
    return None
