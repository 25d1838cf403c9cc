"""``crawler top DIR``: shows the dashboard of a job in the terminal, running or not."""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import sys
import termios
import tty
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.live import Live

from crawler.base.printable import terminal
from crawler.cli.damaged_job import guarded
from crawler.cli.exit_codes import Exit
from crawler.cli.subject import add_subject_or_engine, subject_source
from crawler.inspect.host_table import HostsAsked, Table
from crawler.service.progress.top_view import screen
from crawler.service.source import INTERVAL, Source
from crawler.service.view_errors import Unavailable

_HOSTS_EVERY = 5  # screen refreshes per refresh of the hosts: reading the hosts opens the store
_HOSTS = HostsAsked("work", limit=100)
_PLAIN_WIDTH = 160  # characters per line if there is no terminal
_PLAIN_HEIGHT = 50


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Show the state of a job on one screen, refreshed every second until q or Ctrl-C. If standard output is not a "
        "terminal, print it once."
    )
    add_subject_or_engine(parser, in_store=False)
    parser.set_defaults(run=guarded(run))


def run(arguments: argparse.Namespace) -> int:
    with subject_source(arguments) as view:
        return _show(view)


def _show(view: Source) -> int:
    if not sys.stdout.isatty():
        console = Console(file=terminal(sys.stdout), width=_PLAIN_WIDTH, highlight=False)
        console.print(screen(view.stats(), view.history, _hosts(view), _PLAIN_HEIGHT, _PLAIN_WIDTH))
        return Exit.OK
    console = Console(file=terminal(sys.stdout))
    looks = 0
    with _keys() as asked_to_end, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            if looks % _HOSTS_EVERY == 0:
                hosts = _hosts(view)
            looks += 1
            live.update(screen(view.stats(), view.history, hosts, console.height, console.width), refresh=True)
            if asked_to_end(INTERVAL):
                return Exit.OK
            view.take(view.read())


def _hosts(view: Source) -> Table:
    """Return the first rows of the table of hosts; none if the source has only statistics."""
    try:
        return view.hosts(_HOSTS)
    except Unavailable:
        return Table(view.stats()["hosts"], [])


@contextlib.contextmanager
def _keys() -> Iterator[Callable[[float], bool]]:
    """Yield a function that waits for the key q, for at most the given number of seconds. The function returns True if
    q has been pressed or if no more keys can arrive. The terminal is restored at the end."""
    if not sys.stdin.isatty():
        yield lambda seconds: bool(select.select([], [], [], seconds)[0])
        return
    stream = sys.stdin.fileno()

    def asked_to_end(seconds: float) -> bool:
        ready, _, _ = select.select([stream], [], [], seconds)
        pressed = os.read(stream, 64) if ready else b" "
        return not pressed or b"q" in pressed

    before = termios.tcgetattr(stream)
    tty.setcbreak(stream)
    try:
        yield asked_to_end
    finally:
        termios.tcsetattr(stream, termios.TCSADRAIN, before)
