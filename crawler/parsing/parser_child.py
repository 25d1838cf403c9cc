"""The parser's processes.

The *parent* is a fresh interpreter with one thread, so it may fork: a new parser costs milliseconds, not the tenth of a
second of an interpreter. The crawler sends it a socket; it forks a *parser* that answers requests on that socket, waits
for its end, and reports how it ended. Both end with the crawler: their sockets then do.

A parser limits its own memory before it reads anything, and the CPU time of each page while it parses. What goes
beyond kills it, or makes the parse fail.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import socket
import struct
import time
import traceback
from collections.abc import Callable

from selectolax.lexbor import SelectolaxError

from crawler.links import PageLinks, Sitemap, SitemapForm, extract_links, form_of, scan_links
from crawler.parsing.wire import (
    NO_CHARSET,
    REQUEST,
    Kind,
    SitemapRead,
    Told,
    answer,
    decode_settings,
    encode_links,
    encode_listed,
    encode_sitemap,
)
from crawler.settings import LinkSettings

ENDED = struct.Struct("<i")  # how a parser ended: its exit code, or the negative number of a signal
TAGS_SHARE = 0.6  # of the CPU time of a page, after which no more of its tags are read
LISTED_A_PART = 250  # URLs of a sitemap in one answer
LAST_BYTES = 2 * 2**20  # a parser ends after a page of more: a heap that was large does not shrink for sure

_IGNORED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
)  # sent to the whole group; the crawler decides
_PR_SET_PDEATHSIG = 1
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_KEPT_BYTES = 16 * 2**20


def parent(control_fd: int, memory: int) -> None:
    """Fork a parser for each socket that comes, one after the other, until the crawler is gone."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    own = os.getpid()
    with socket.socket(fileno=control_fd) as control:
        while True:
            try:
                asked, descriptors, _, _ = socket.recv_fds(control, 1, 1)
                if not asked:
                    return
                pid = os.fork()
                if pid == 0:
                    control.close()
                    _run_parser(descriptors[0], memory, own)
                os.close(descriptors[0])
                control.sendall(ENDED.pack(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))
            except ConnectionError:
                return


def _run_parser(descriptor: int, memory: int, parent_pid: int) -> None:
    """Never returns."""
    code = 1
    try:
        with contextlib.suppress(AttributeError):  # Linux and its C library have them
            libc = ctypes.CDLL(None)
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            # What a tree has freed is kept for the next: to get it from the kernel anew costs as much as the tree.
            libc.mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES)
            libc.mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        if os.getppid() == parent_pid:
            _parse_for(descriptor, memory)
        code = 0
    finally:
        os._exit(code)


def _parse_for(descriptor: int, memory: int) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    _offer_to_die()
    with contextlib.suppress(ConnectionError), socket.socket(fileno=descriptor) as channel:
        channel.sendall(answer(Told.READY))
        while True:
            head = channel.recv(REQUEST.size, socket.MSG_WAITALL)
            if len(head) < REQUEST.size:
                return
            kind, seconds, settings, charset, size = REQUEST.unpack(head)
            labelled = 0 if charset == NO_CHARSET else charset
            stated = channel.recv(settings + labelled, socket.MSG_WAITALL)
            label = None if charset == NO_CHARSET else stated[settings:].decode("utf-8", "replace")
            try:
                body = channel.recv(size, socket.MSG_WAITALL) if size else b""
            except MemoryError:
                channel.sendall(answer(Told.MEMORY, ends=True))
                return
            if kind == Kind.SITEMAP:
                told, payload = _parse_sitemap(channel, body, label, stated[:settings], seconds)
            else:
                told, payload = _parse(Kind(kind), body, label, stated[:settings], seconds)
            ends = told is not Told.LINKS or size > LAST_BYTES
            channel.sendall(answer(told, payload, ends=ends))
            if ends:
                return


def _offer_to_die() -> None:
    """If the machine runs out of memory, the kernel takes this process first."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as score:
        score.write("1000")


def _read(kind: Kind, body: bytes, charset: str | None, settings: LinkSettings, until: float) -> PageLinks:
    if kind is Kind.TREE:
        return extract_links(body, charset, settings)
    return scan_links(body, charset, settings, lambda: time.process_time() < until)


def _parse(kind: Kind, body: bytes, charset: str | None, stated: bytes, seconds: float) -> tuple[Told, bytes]:
    def read() -> tuple[Told, bytes]:
        links = _read(kind, body, charset, decode_settings(stated), time.process_time() + TAGS_SHARE * seconds)
        return Told.LINKS, encode_links(links)

    return _limited(read, seconds)


def _parse_sitemap(
    channel: socket.socket, body: bytes, charset: str | None, stated: bytes, seconds: float
) -> tuple[Told, bytes]:
    """Send the URLs of a sitemap in parts, and return what is to be told at its end."""

    def read() -> tuple[Told, bytes]:
        form = form_of(body)
        sitemap = Sitemap(body, decode_settings(stated), charset)
        for listed in sitemap if form is not SitemapForm.NONE else ():
            for start in range(0, len(listed), LISTED_A_PART):
                channel.sendall(answer(Told.PART, encode_listed(listed[start : start + LISTED_A_PART])))
        return Told.SITEMAP, encode_sitemap(SitemapRead(form, sitemap.is_index, sitemap.fault, limit=sitemap.limit))

    return _limited(read, seconds)


def _limited(read: Callable[[], tuple[Told, bytes]], seconds: float) -> tuple[Told, bytes]:
    signal.setitimer(signal.ITIMER_PROF, seconds)  # the signal ends the process
    try:
        return read()
    except (MemoryError, SelectolaxError):  # Lexbor fails only when it gets no memory
        return Told.MEMORY, b""
    except ConnectionError:
        raise
    except Exception as error:  # noqa: BLE001 -- whatever it is, it is told; the page gets it as its outcome
        text = f"{type(error).__name__}: {error}".replace("\n", " ")
        return Told.RAISED, f"{text}\n{traceback.format_exc()}".encode("utf-8", "replace")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
