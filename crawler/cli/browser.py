"""Opens the dashboard in the user's browser, for ``--open``.

A link with a token is not given to the browser itself, because every user of the machine sees the command lines of all
processes. The browser gets the address of a file that only its owner can read, and that leads to the link.
"""

from __future__ import annotations

import atexit
import html
import logging
import os
import threading
import webbrowser
from pathlib import Path

from crawler.base.disk import private_opener

WAY_IN = "open-dashboard.html"  # beside the token, which it contains
READ_WITHIN = 60.0  # seconds for a browser to start and read the file
_PAGE = """<!DOCTYPE html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={link}">
<title>Dashboard</title>
<a href="{link}">Open the dashboard</a>
"""

log = logging.getLogger("crawler")


def open_in_browser(link: str, directory: Path) -> threading.Thread:
    """Open the link beside what goes on, in the thread that is returned; if there is no browser, log it.
    ``directory``: where the file is kept that leads to a link with a token.

    A browser that runs in the terminal would take it from the crawl, so it is not used, unless BROWSER names it."""
    opening = threading.Thread(target=_open, args=(link, directory), daemon=True)
    opening.start()
    return opening


def _open(link: str, directory: Path) -> None:
    if "token=" not in link:
        _show(link)
        return
    way_in = directory.absolute() / WAY_IN

    def remove() -> None:
        try:
            way_in.unlink(missing_ok=True)
        except OSError as error:
            log.warning("%s, which leads to the dashboard, could not be removed: %s", way_in, error.strerror)

    atexit.register(remove)
    try:
        way_in.unlink(missing_ok=True)  # of a process that was killed
        with open(way_in, "x", encoding="utf-8", opener=private_opener) as stream:
            stream.write(_PAGE.format(link=html.escape(link)))
    except OSError as error:
        log.warning("%s: %s: open the address of the dashboard yourself", way_in, error.strerror)
    else:
        if _show(way_in.as_uri()):
            threading.Event().wait(READ_WITHIN)
    remove()
    atexit.unregister(remove)


def _show(address: str) -> bool:
    """Return whether a browser was started for the address; log it if not."""
    try:
        browser = webbrowser.get()
        opened = (_has_a_window(browser) or "BROWSER" in os.environ) and browser.open(address)
    except (webbrowser.Error, OSError, ValueError):  # a ValueError: BROWSER has a quotation mark without another
        opened = False
    if not opened:
        log.warning("no browser could be opened: open the address of the dashboard yourself")
    return opened


def _has_a_window(browser: webbrowser.BaseBrowser) -> bool:
    return not isinstance(browser, webbrowser.GenericBrowser) or isinstance(browser, webbrowser.BackgroundBrowser)
