"""Keys to study with: the same ones each time, all different, ASCII."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

_DIGITS = np.frombuffer(b"0123456789", np.uint8)
_LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", np.uint8)
# fmt: off
_SYLLABLES = [
    "an", "be", "chi", "da", "el", "fo", "gar", "hu", "in", "jo", "ka", "li", "mar",
    "ne", "os", "pe", "qui", "ra", "son", "ta", "ul", "vi", "wen", "xi", "yo", "zer",
]
_SECTIONS = [
    "archive", "blog", "docs", "en", "item", "library", "news", "papers", "products", "questions", "tag", "user",
    "wiki",
]
# fmt: on


def random_strings(count: int) -> list[bytes]:
    """Letters and digits, 8 to 32 of them."""
    return _drawn(count, _LETTERS, 8, 32)


def random_digits(count: int) -> list[bytes]:
    """Digits, 9 to 20 of them."""
    return _drawn(count, _DIGITS, 9, 20)


def _drawn(count: int, alphabet: npt.NDArray[np.uint8], shortest: int, longest: int) -> list[bytes]:
    """Lengths and characters each equally likely."""
    pick = np.random.default_rng(1)
    lengths = pick.integers(shortest, longest, count, endpoint=True)
    keys: list[bytes] = []
    for length in range(shortest, longest + 1):
        wanted = int((lengths == length).sum())
        # Some more than wanted: where two are alike, there are others.
        drawn = alphabet[pick.integers(0, len(alphabet), (wanted + wanted // 100 + 8, length))]
        strings: list[bytes] = drawn.view(f"S{length}").ravel().tolist()
        keys += list(dict.fromkeys(strings))[:wanted]
    return keys


def short_integers(count: int) -> list[bytes]:
    """The decimal numbers from 0 on."""
    return [b"%d" % number for number in range(count)]


def account_names(count: int) -> list[bytes]:
    """Names as people choose them for an account, 2 to 28 characters: syllables, separators, years."""
    return _distinct(count, random.Random(2), _account_name)


def _account_name(pick: random.Random) -> bytes:
    parts = ["".join(pick.choices(_SYLLABLES, k=pick.randrange(1, 4))) for _ in range(pick.choice([1, 1, 2, 2, 3]))]
    end = pick.choice(["", "", str(pick.randrange(100)), str(pick.randrange(1950, 2012))])
    return (pick.choice([".", "_", "-", ""]).join(parts) + end)[:28].encode()


def urls(count: int, *, absent: bool = False) -> list[str]:
    """URLs of some 80 characters on a few thousand hosts; those with ``absent`` are others, of the same hosts."""
    pick = random.Random(3)
    # Evens are in, odds are not: the two sets can never meet, and no key tells by its looks which it is in.
    return [_url(pick, 2 * number + absent) for number in range(count)]


def _url(pick: random.Random, number: int) -> str:
    host = f"www.{pick.choice(_SYLLABLES)}{pick.choice(_SYLLABLES)}{pick.randrange(6)}.example"
    words = "-".join(pick.choices(_SYLLABLES, k=7))
    return f"https://{host}/{pick.choice(_SECTIONS)}/{pick.randrange(2000, 2026)}/{words}/{number:08x}.html"


def _distinct(count: int, pick: random.Random, make: Callable[[random.Random], bytes]) -> list[bytes]:
    found: dict[bytes, None] = {}
    while len(found) < count:
        found[make(pick)] = None
    return list(found)
