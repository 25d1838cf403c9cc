"""A power loss that needs no file system of its own: ``synced.c`` writes down how long each file was when it was last
synced, and a loss cuts each file somewhere behind that. Names of files are not lost, nor what was written over."""

from __future__ import annotations

import os
import random
import re
from pathlib import Path

from benchmarks.durability.injector import build

SOURCE = Path(__file__).with_suffix(".c")
_UNSAFE = re.compile(r"LOG(\.old.*)?|lock|LOCK|carrier\.sock")  # never synced: RocksDB's notes, and what is no data


class Synced:
    """What is durable of the files of programs that run with ``environment``."""

    def __init__(self, home: Path, name: str = "synced") -> None:
        """``home``: a directory for the library and the log, which gets this ``name``. Raises FileNotFoundError where
        there is no compiler."""
        library = home / SOURCE.with_suffix(".so").name
        self._library = library if library.exists() else build(home, SOURCE)
        self._log = home / name

    @property
    def environment(self) -> dict[str, str]:
        """What a program needs, besides its own."""
        return {"LD_PRELOAD": str(self._library), "SYNCED_LOG": str(self._log)}

    def lose_power(self, directory: Path, chance: random.Random, *, all_of_it: bool = False) -> int:
        """Cut what was not synced from each file below the directory: at a random place, or ``all_of_it``. No program
        may have them open. Returns the bytes that are lost."""
        durable, lost = self._durable(), 0
        with self._log.open("a", encoding="ascii") as log:
            for path in sorted(directory.rglob("*")):
                if path.is_symlink() or not path.is_file() or _UNSAFE.fullmatch(path.name):
                    continue
                found = path.stat()
                least = min(durable.get(found.st_ino, 0), found.st_size)
                kept = least if all_of_it else chance.randint(least, found.st_size)
                os.truncate(path, kept)
                log.write(f"{found.st_ino} {kept} synced\n")  # what is there after a loss is on the disk
                lost += found.st_size - kept
        return lost

    def _durable(self) -> dict[int, int]:
        """Bytes, by number of the file."""
        durable: dict[int, int] = {}
        for line in self._log.read_text().splitlines():
            word, length, what = line.split()
            number, size = int(word), int(length)
            durable[number] = size if what == "synced" else min(durable.get(number, 0), size)
        return durable
