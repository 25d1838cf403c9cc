"""One process of a build: ``python -m crawler.tools.dedup.build_process``, started by ``build``.

It reads a ``Share`` as JSON from standard input instead of its arguments, because every user of the machine can see
those, and a share contains the secret of the filter. It writes segments (docs/internals/format-slice.md) to standard
output:

    unite       at the end, the stored seen-set of all its pieces
    otherwise   for each piece, in order, a segment whose payload is the digests of the piece's keys

The last segment has no payload. Its header has the number of lines with a key, and the number without one by reason.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from typing import BinaryIO

from msgspec import Struct
from msgspec.structs import asdict

from crawler.base.settings.parts import SeenSettings
from crawler.seen.filters import JSON, FilterError, KeyHash, write_segment
from crawler.tools.dedup.filter_setup import make_filter
from crawler.tools.dedup.key_spec import KeySpec
from crawler.tools.dedup.lines import LineTooLongError, part_of_file
from crawler.tools.dedup.store import StoredFilter, write_stored

NOTHING = memoryview(b"")


class Recipe(Struct, frozen=True):
    """How to build a filter from the lines of a list."""

    keys: KeySpec
    seen: SeenSettings
    hash: KeyHash
    layout: str | None = None


class Pieces(Struct, frozen=True):
    """Every ``step``-th piece of ``piece`` bytes of a list of ``size`` bytes, starting with piece ``first``."""

    size: int
    piece: int
    first: int
    step: int

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yield the start and end of each piece."""
        for start in range(self.first * self.piece, self.size, self.step * self.piece):
            yield start, min(start + self.piece, self.size)


class Share(Struct, frozen=True):
    """The work of one process: apply the recipe to pieces of the list. ``unite``: return them as one filter."""

    path: str
    pieces: Pieces
    recipe: Recipe
    unite: bool

    def to_json(self) -> str:
        recipe = self.recipe
        stated = {
            "keys": recipe.keys.as_json(),
            "seen": asdict(recipe.seen),
            "hash": recipe.hash.as_json(),
            "layout": recipe.layout,
        }
        return json.dumps({"path": self.path, "pieces": asdict(self.pieces), "recipe": stated, "unite": self.unite})

    @classmethod
    def from_json(cls, text: str) -> Share:
        made = json.loads(text)
        stated = made["recipe"]
        recipe = Recipe(
            KeySpec.from_json(stated["keys"]),
            SeenSettings(**stated["seen"]),
            KeyHash.from_json(stated["hash"]),
            stated["layout"],
        )
        return cls(made["path"], Pieces(**made["pieces"]), recipe, made["unite"])


def work(share: Share, out: BinaryIO) -> None:
    """Process a share. Raises LineTooLongError, OSError, FilterError."""
    recipe = share.recipe
    keys = recipe.keys.reader(recipe.hash)
    seen = make_filter(recipe.seen, recipe.layout, hash=recipe.hash) if share.unite else None
    parent, lines = os.getppid(), 0
    fd = os.open(share.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for start, end in share.pieces:
            if os.getppid() != parent:
                return  # the build has ended, so the result is not needed
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
        write_stored(out, StoredFilter(seen, recipe.keys))
    skipped: dict[str, JSON] = dict(keys.skipped)
    write_segment(out, {"holds": "tally", "lines": lines, "skipped": skipped}, NOTHING)
    out.flush()


def tally_of(header: dict[str, object]) -> tuple[int, Counter[str]]:
    """Return the number of lines with a key and the number without one by reason, from the last segment's header."""
    lines, skipped = header.get("lines"), header.get("skipped")
    if not isinstance(lines, int) or not isinstance(skipped, dict):
        raise ValueError(f"invalid tally of a share: {header}")
    return lines, Counter(skipped)


if __name__ == "__main__":
    # Ctrl-C reaches the whole process group; the parent process stops this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        work(Share.from_json(sys.stdin.read()), sys.stdout.buffer)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (LineTooLongError, FilterError, OSError) as problem:
        sys.exit(str(problem))
