"""Opens the dashboard in the user's browser, for ``--open``.

A link with a token is not passed to the browser itself, because every user of the machine can see all command lines.
The browser gets the address of a file that only its owner can read, and that redirects to the link.
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

WAY_IN = "open-dashboard.html"  # next to the token file; contains the token too
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
    """Open the link in a background thread, and return the thread. Logs a warning if there is no browser.
    ``directory``: where to keep the file that redirects to a link with a token.

    A browser that runs in the terminal would take the terminal from the crawl, so it is used only if BROWSER names it.
    """
    opening = threading.Thread(target=_open, args=(link, directory), daemon=True)
    opening.start()
    return opening


def _open(link: str, directory: Path) -> None:
    if "token=" not in link:
        _show(link)
        return
    way_in = directory.absolute() / WAY_IN
    try:
        way_in.unlink(missing_ok=True)  # a killed process may have left this file
        with open(way_in, "x", encoding="utf-8", opener=private_opener) as stream:
            stream.write(_PAGE.format(link=html.escape(link)))
    except OSError as error:
        log.warning("%s: %s: open the dashboard's URL yourself", way_in, error.strerror)
        return
    remove = atexit.register(way_in.unlink, missing_ok=True)
    if _show(way_in.as_uri()):
        threading.Event().wait(READ_WITHIN)
    remove(missing_ok=True)


def _show(address: str) -> bool:
    """Start a browser for the URL. If that fails, log a warning and return False."""
    try:
        browser = webbrowser.get()
        opened = (_has_a_window(browser) or "BROWSER" in os.environ) and browser.open(address)
    except (webbrowser.Error, OSError, ValueError):  # ValueError: BROWSER has an unmatched quotation mark
        opened = False
    if not opened:
        log.warning("no browser could be opened: open the dashboard's URL yourself")
    return opened


def _has_a_window(browser: webbrowser.BaseBrowser) -> bool:
    return not isinstance(browser, webbrowser.GenericBrowser) or isinstance(browser, webbrowser.BackgroundBrowser)
