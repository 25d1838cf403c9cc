"""TLS session resumption: further connections to a server skip the costly half of the handshake.

After a full handshake, a server may give the client a session. A connection that offers the session needs no
certificate and no signature: both sides prove that they still have the secret of the first handshake. asyncio has no
parameter for this. But it creates every connection with ``SSLContext.wrap_bio``, which accepts a session, and a context
may be a subclass.

A session relies on the verification at its creation, so sessions are not shared. Each context has its own store, and in
it a session belongs to one place: the server's name and port and the proxy used. A session ends with its ticket, with
the certificate that it was made with, and ``LIFETIME`` after the certificate was last verified, whichever comes first;
tickets from a resumed connection do not extend that.

Taking a session, and offering one, copies it through its encoded form: 0.15 ms each with OpenSSL 3.0, while a full
handshake takes 0.85 ms. So nothing is taken from a server at the first connection, which is often the only one; a
ticket is offered more than once, as long as the server accepts that; and a server that declines three times in a row,
or gives no tickets, gets no offers for a while.
"""

from __future__ import annotations

import os
import ssl
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextvars import ContextVar
from typing import Any

from msgspec import Struct

LIFETIME = 3600.0  # seconds after a full handshake during which its session, and those derived from it, may be offered
DECLINED = 3  # declined offers in a row after which a server is offered no sessions for LIFETIME
MOST = 5_000  # maximum number of servers; only the latest are remembered
MOST_BYTES = 16 * 2**20  # maximum bytes of all sessions; the least recently used are dropped first
_BYTES = 12 * 2**10  # measured size of a session with a small certificate
_BYTES_EACH = 4  # bytes to add for each byte of certificates and tickets from the server


class Session(Struct, frozen=True):
    """A session taken from a connection."""

    handle: Any  # the ``ssl.SSLSession`` that OpenSSL resumes
    begins: float
    ends: float
    size: int  # bytes that the server sent for it


class _Server:
    """The session state of a server."""

    __slots__ = ("begins", "declined", "ends", "session", "size", "verified_until")

    def __init__(self) -> None:
        self.session: Any = None
        self.size = 0
        self.begins = self.ends = 0.0  # the period in which the session may be offered
        self.verified_until = 0.0
        self.declined = 0  # declined offers in a row; after DECLINED of them nothing is offered before ``ends``


class Sessions:
    """Sessions by place, bounded in number and bytes. Times are from the wall clock, as in certificates."""

    def __init__(self, most: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._servers: OrderedDict[Hashable, _Server] = OrderedDict()  # least recently used first
        self.size = 0  # estimated bytes of all sessions

    def __len__(self) -> int:
        """Return the number of sessions."""
        return sum(server.session is not None for server in self._servers.values())

    def of(self, place: Hashable, now: float) -> Any:
        """Return the session to offer, or None."""
        server = self._servers.get(place)
        if server is None:
            return None
        self._servers.move_to_end(place)
        if server.session is not None and not server.begins <= now < server.ends:
            self._empty(server)
        return server.session

    def wants(self, place: Hashable, now: float, *, offered: bool, resumed: bool) -> bool:
        """Record the result of a handshake, and return whether its new session is worth taking."""
        server = self._servers.get(place)
        if server is None:
            self._add(place)
            return False
        if resumed:
            server.declined = min(server.declined, 1)
            return server.declined > 0 and server.session is not None  # such a server accepts each ticket only once
        if offered:
            self.declined(place, now)
        if server.declined >= DECLINED:
            if now < server.ends:
                return False
            server.declined = 0
        return True

    def declined(self, place: Hashable, now: float) -> None:
        """Record that a server did not resume an offered session, or gave no session."""
        server = self._servers.get(place) or self._add(place)
        server.declined += 1
        self._empty(server)
        if server.declined == DECLINED:
            server.ends = now + LIFETIME

    def put(self, place: Hashable, session: Session, verified_until: float | None) -> None:
        """Store a session. ``verified_until``: when the verification by its full handshake expires; None if the
        handshake resumed the session that is now replaced."""
        server = self._servers.get(place) or self._add(place)
        self._servers.move_to_end(place)
        self._empty(server)
        if verified_until is not None:
            server.verified_until = verified_until
        server.session = session.handle
        server.begins, server.ends = session.begins, min(session.ends, server.verified_until)
        server.size = _BYTES + _BYTES_EACH * session.size
        self.size += server.size
        while self.size > self._most_bytes:
            self._empty(self._servers.popitem(last=False)[1])

    def refused(self, place: Hashable, now: float) -> None:
        """Record that a handshake with an offered session failed. The server gets no offers for a while."""
        server = self._servers.get(place) or self._add(place)
        self._empty(server)
        server.declined = DECLINED
        server.ends = now + LIFETIME

    def _add(self, place: Hashable) -> _Server:
        self._servers[place] = server = _Server()
        if len(self._servers) > self._most:
            self._empty(self._servers.popitem(last=False)[1])
        return server

    def _empty(self, server: _Server) -> None:
        self.size -= server.size
        server.session, server.size = None, 0


class Opening:
    """A connection that is being opened to a place. ``offered``: True if a session is offered."""

    __slots__ = ("key", "offered", "place")

    def __init__(self, place: Hashable) -> None:
        self.place = place
        self.key: Hashable = None  # the key of its session: the endpoint and the verified host name
        self.offered = False


current_opening: ContextVar[Opening | None] = ContextVar("current_opening", default=None)


class _Connection(ssl.SSLObject):
    """The crawler's end of a connection, which passes its session to the context."""

    opening: Opening | None = None  # set until the session has been checked
    incoming: ssl.MemoryBIO
    heard = 0  # bytes of the handshake: mainly certificates and tickets

    def do_handshake(self) -> None:
        waiting = self.incoming.pending
        try:
            super().do_handshake()
        finally:
            self.heard += waiting - self.incoming.pending

    def read(self, len: int = 1024, buffer: Any = None) -> Any:
        opening = self.opening
        if opening is None:
            return super().read(len, buffer)
        waiting = self.incoming.pending
        try:
            data = super().read(len, buffer)
        finally:
            self.heard += waiting - self.incoming.pending
        # By now the tickets of TLS 1.3, which follow the handshake, have arrived.
        self.opening = None
        context = self.context
        if data and isinstance(context, ResumingContext):
            self.heard -= data if isinstance(data, int) else data.__len__()
            context.take(self, opening)
        return data


class ResumingContext(ssl.SSLContext):
    """A context whose connections resume sessions, if ``current_opening`` names their place."""

    sslobject_class = _Connection

    def __init__(self, _protocol: int, clock: Callable[[], float] = time.time) -> None:
        self.sessions = Sessions()
        self._clock = clock

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        opening = current_opening.get()
        if opening is not None and session is None and not opening.offered:  # true for the first of several addresses
            opening.key = (opening.place, server_hostname)
            session = self.sessions.of(opening.key, self._clock())
            opening.offered = session is not None
        made = super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)
        assert isinstance(made, _Connection)
        made.incoming, made.opening = incoming, opening
        return made

    def refused(self, opening: Opening) -> None:
        """Record that the handshake failed with the offered session."""
        self.sessions.refused(opening.key, self._clock())

    def take(self, connection: _Connection, opening: Opening) -> None:
        """Keep the session of a connection, if it may be used later."""
        now = self._clock()
        resumed = bool(connection.session_reused)
        if not self.sessions.wants(opening.key, now, offered=opening.offered, resumed=resumed):
            return
        session = connection.session
        if session is None or not (session.has_ticket or (session.id and connection.version() != "TLSv1.3")):
            self.sessions.declined(opening.key, now)
            return
        lasts = session.ticket_lifetime_hint
        if not lasts and connection.version() != "TLSv1.3":  # no lifetime; in TLS 1.3 this means: do not keep it
            lasts = session.timeout
        verified_until = None
        if not resumed:
            certificate = connection.getpeercert() or {}
            verified_until = min(now + LIFETIME, ssl.cert_time_to_seconds(str(certificate["notAfter"])))
        taken = Session(session, session.time, session.time + lasts, connection.heard)
        self.sessions.put(opening.key, taken, verified_until)


def verifying_context(authorities: str | None = None) -> ResumingContext:
    """Return a context that verifies with the authorities of the system and of a file. Like browsers, and unlike
    ``ssl.create_default_context()`` since Python 3.13, it accepts authorities that do not state what their keys are
    for. Raises OSError and ``ssl.SSLError`` for the file."""
    context = ResumingContext(ssl.PROTOCOL_TLS_CLIENT)  # requires a certificate with the right name
    context.load_default_certs()
    keys = os.environ.get("SSLKEYLOGFILE")
    if keys and not sys.flags.ignore_environment:
        context.keylog_filename = keys
    context.set_alpn_protocols(("http/1.1",))
    if authorities is not None:
        context.load_verify_locations(cafile=authorities)
    return context
