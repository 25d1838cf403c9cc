"""Logs messages that are true for several runs of a worker, such as a full disk, only once."""

from __future__ import annotations

import logging

log = logging.getLogger("crawler")


class SaidOnce:
    """Messages, and the runs for which each is true."""

    def __init__(self) -> None:
        self._of: dict[str, set[object]] = {}

    def say(self, line: str, who: object) -> None:
        """Record that the message applies to ``who``, and log it unless it already applies to another run."""
        if line not in self._of:
            log.warning("%s", line)
        self._of.setdefault(line, set()).add(who)

    def over(self, line: str, who: object) -> bool:
        """Record that the message no longer holds for ``who``. Returns whether this was the last run for which
        it held."""
        of = self._of.get(line, set())
        if who not in of:
            return False
        of.remove(who)
        if not of:
            del self._of[line]
        return not of

    def leave(self, who: object) -> None:
        """Remove all messages of ``who``: the run is over."""
        for line in list(self._of):
            self.over(line, who)
