"""What the runs of one worker have to say alike, such as that the disk is full, is said once."""

from __future__ import annotations

import logging

log = logging.getLogger("crawler")


class SaidOnce:
    """Lines, and for whom each is true."""

    def __init__(self) -> None:
        self._of: dict[str, set[object]] = {}

    def say(self, line: str, who: object) -> None:
        """The line is true for ``who``. It is said unless it was true for somebody already."""
        if line not in self._of:
            log.warning("%s", line)
        self._of.setdefault(line, set()).add(who)

    def over(self, line: str, who: object) -> bool:
        """The line is not true for ``who`` any more. Returns whether it was, and now is for nobody."""
        of = self._of.get(line, set())
        if who not in of:
            return False
        of.remove(who)
        if not of:
            del self._of[line]
        return not of

    def leave(self, who: object) -> None:
        """Nothing is true for ``who`` any more: a run is over."""
        for line in list(self._of):
            self.over(line, who)
