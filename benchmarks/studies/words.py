"""The command line of a study, and what it prints."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

PACKAGES = ("numpy", "mmh3", "bitarray", "rocksdict")
_LEAST = 100
_MOST = 100_000_000


def count(word: str) -> int:
    """The value of an option that counts keys."""
    try:
        number = int(word)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{word!r} is not a whole number") from None
    if not _LEAST <= number <= _MOST:
        raise argparse.ArgumentTypeError(f"must be between {_LEAST} and {_MOST:,}, not {number}")
    return number


def show(lines: Iterable[str]) -> None:
    """Print them at once, also into a pipe."""
    for line in lines:
        print(line, flush=True)
