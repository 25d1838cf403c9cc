"""What one process of a build does: ``python -m crawler.dedup.worker``, started by ``build``.

Its one argument is a ``Share`` as JSON. On standard output it gives segments (docs/reference/format-slice.md):

    unite    when all its pieces are read: the stored seen-set made of them
    not      for each piece, in order: a segment whose payload are the digests of the piece's keys

and then one without payload, whose header tells how many lines had a key, and how many had none, by reason.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import BinaryIO

from crawler.dedup.key_spec import KeySpec
from crawler.dedup.lines import LineTooLongError, part_of_file
from crawler.dedup.make import make_filter
from crawler.dedup.store import StoredFilter, write_stored
from crawler.filters import JSON, FilterError, write_segment
from crawler.settings import SeenSettings

NOTHING = memoryview(b"")


@dataclass(frozen=True, slots=True)
class Share:
    """Every ``step``-th piece of ``piece`` bytes of a list, from piece ``first`` on."""

    path: str
    size: int  # bytes of the list
    piece: int
    first: int
    step: int
    keys: KeySpec
    seen: SeenSettings
    layout: str | None
    unite: bool

    def pieces(self) -> Iterator[tuple[int, int]]:
        """Where each begins and ends."""
        for start in range(self.first * self.piece, self.size, self.step * self.piece):
            yield start, min(start + self.piece, self.size)

    def to_json(self) -> str:
        return json.dumps({**asdict(self), "keys": self.keys.as_json()})

    @classmethod
    def from_json(cls, text: str) -> Share:
        made = json.loads(text)
        return cls(**{**made, "keys": KeySpec.from_json(made["keys"]), "seen": SeenSettings(**made["seen"])})


def work(share: Share, out: BinaryIO) -> None:
    """Do a share. Raises LineTooLongError, OSError, FilterError."""
    keys = share.keys.reader()
    seen = make_filter(share.seen, share.layout) if share.unite else None
    parent, lines = os.getppid(), 0
    fd = os.open(share.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for start, end in share.pieces():
            if os.getppid() != parent:
                return  # nobody waits for this any more
            digests: list[bytes] = []
            for block in part_of_file(fd, start, end):
                kept, made = keys.read(block)
                lines += len(kept)
                if seen is None:
                    digests.append(made)
                else:
                    seen.add_digests(made)
            if seen is None:
                write_segment(out, {"holds": "digests"}, memoryview(b"".join(digests)))
                out.flush()
    finally:
        os.close(fd)
    if seen is not None:
        write_stored(out, StoredFilter(seen, share.keys))
    skipped: dict[str, JSON] = dict(keys.skipped)
    write_segment(out, {"holds": "tally", "lines": lines, "skipped": skipped}, NOTHING)
    out.flush()


def tally_of(header: dict[str, object]) -> tuple[int, Counter[str]]:
    """The lines with a key, and those without by reason, of the last segment's header."""
    lines, skipped = header.get("lines"), header.get("skipped")
    if not isinstance(lines, int) or not isinstance(skipped, dict):
        raise ValueError(f"no tally of a share: {header}")
    return lines, Counter(skipped)


if __name__ == "__main__":
    # Ctrl-C reaches the whole group; the one that started this ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        work(Share.from_json(sys.argv[1]), sys.stdout.buffer)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (LineTooLongError, FilterError, OSError) as problem:
        sys.exit(str(problem))
