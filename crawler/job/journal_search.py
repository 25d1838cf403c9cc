"""Looks up digests in the journal, which has every URL that a job ever admitted. Exact, but reads the whole journal."""

from __future__ import annotations

from collections import Counter

import numpy as np

from crawler.base.kv import Family, Reader
from crawler.job.records import DIGEST_SIZE, decode_seen
from crawler.seen.slices.digests import digest_words

_ROWS = 256  # events read at a time: each has at most a few thousand digests


class JournalSearch:
    """A search, one page of events at a time. ``found``: for each digest found, how often the journal admits its key,
    minus how often it removes it."""

    def __init__(self, journal: Reader, digests: bytes) -> None:
        self.found: Counter[bytes] = Counter()
        self._journal = journal
        self._digests = digests
        self._firsts = digest_words(digests)[:, 0]
        self._at = b""  # key of the first unread event

    def step(self) -> bool:
        """Read some events. Returns True if there are more. Raises OSError, JournalError."""
        rows = self._journal.scan(Family.ADMITTED, self._at, None, _ROWS)
        if not rows:
            return False
        self._at = rows[-1][0] + b"\0"
        events: dict[bool, list[bytes]] = {False: [], True: []}
        for _, value in rows:
            forgotten, named = decode_seen(value)
            events[forgotten].append(named)
        for forgotten, parts in events.items():
            named = b"".join(parts)
            for position in np.flatnonzero(np.isin(digest_words(named)[:, 0], self._firsts)).tolist():
                self.found[named[DIGEST_SIZE * position : DIGEST_SIZE * (position + 1)]] += -1 if forgotten else 1
        return len(rows) == _ROWS

    def missing(self) -> list[int]:
        """Read the rest, and return the positions of the digests whose keys are not admitted now, each digest once."""
        while self.step():
            pass
        size, met, missing = DIGEST_SIZE, set[bytes](), []
        for position in range(len(self._digests) // size):
            digest = self._digests[size * position : size * (position + 1)]
            if digest not in met and self.found[digest] <= 0:
                missing.append(position)
            met.add(digest)
        return missing
