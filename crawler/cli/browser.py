"""Opens the dashboard in the user's browser, for ``--open``."""

from __future__ import annotations

import logging
import os
import threading
import webbrowser

log = logging.getLogger("crawler")


def open_in_browser(link: str) -> threading.Thread:
    """Open the link beside what goes on, in the thread that is returned; if there is no browser, log it.

    A browser that runs in the terminal would take it from the crawl, so it is not used, unless BROWSER names it."""
    opening = threading.Thread(target=_open, args=(link,), daemon=True)
    opening.start()
    return opening


def _open(link: str) -> None:
    try:
        browser = webbrowser.get()
        opened = (_has_a_window(browser) or "BROWSER" in os.environ) and browser.open(link)
    except (webbrowser.Error, OSError, ValueError):  # a ValueError: BROWSER has a quotation mark without another
        opened = False
    if not opened:
        log.warning("no browser could be opened: open the address of the dashboard yourself")


def _has_a_window(browser: webbrowser.BaseBrowser) -> bool:
    return not isinstance(browser, webbrowser.GenericBrowser) or isinstance(browser, webbrowser.BackgroundBrowser)
