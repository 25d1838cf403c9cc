"""The live page, and the same numbers for programs.

`listen` and `access` are pure (where to bind, who may look), `events` feeds the listeners, `server` is the HTTP side,
``page/`` is what the browser loads. Everything shown comes from one mapping, the one that ``stats --json`` prints.
"""

from crawler.dashboard.listen import is_loopback, parse_listen
from crawler.dashboard.server import Dashboard

__all__ = ["Dashboard", "is_loopback", "parse_listen"]
