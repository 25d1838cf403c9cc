"""The parts of the crawler that are written in C (``native/``). Not there where no compiler was when it was built."""

from collections.abc import Callable, Sequence
from typing import Protocol, Self

INTERFACE: int  # see crawler/base/native.py

def scan_page(
    html: bytes | bytearray,
    links: tuple[dict[str, None], dict[str, str] | None],
    limits: tuple[int, int],
    choices: tuple[bool, bool],
    told: tuple[
        Callable[[str, str | None, str | None, str | None], str | None],
        Callable[[str, str | None, str | None, str | None], None] | None,
        Callable[[str, str, str | None, bool], dict[str, str] | None],
    ],
    /,
) -> str | tuple[list[tuple[str, str]], list[tuple[str, str]], str | None, str | None, int]:
    """Read a page in UTF-8, or in ASCII: add its links to the first of ``links``, in document order and without white
    space around them. Time is linear in the page, whatever it holds.

    The second of ``links``, unless it is None, gets what the page says of them: each link without its fragment, with
    the text of the anchor that was the first to lead there.
    ``limits``: the characters of the longest link that is added, and the number of links beyond which none is.
    ``choices``: whether links that lead to the page itself are added too (empty, or only a fragment), and whether
    anchors may be left out for their ``rel``.

    The first of ``told`` is asked what elements lead to, with the element's name, its target, its ``rel`` and its
    ``type``: those of ``link``, ``base``, ``frame`` and ``iframe`` that may matter. It returns a link to add, or None.
    It is also given each link that a limit keeps out ("long"), and the ``rel`` of an anchor that may be left out for it
    ("a"): None leaves it out.

    The second, unless it is None, is told in document order of each element that may embed something: its name, its
    ``src``, ``href`` (of a ``link``) or ``data`` (of an ``object``), its ``srcset``, ``poster``, ``rel`` or ``type``,
    whichever may matter, and its ``rel``.

    The third is asked to describe a link where its element is no ``a``, has a ``rel``, or is left out: with the
    element's name, the link (as a whole if it is left out), its ``rel`` and whether it is left out. It returns where
    the text of the anchor belongs, or None if that is not wanted.

    Returns name and content of the ``meta`` elements, those with a name and those with an ``http-equiv`` that matters,
    the title, the language, and how many links to the page itself were left out. Or one word: why only a tree can tell
    which links the page has, in which order, and what it says of them. Then what ``links`` hold is of no use.
    """

def stated_encoding(
    head: bytes, anywhere: int, meaning: Callable[[str | None, str | None, str | None], str | None], /
) -> str | None:
    """What the first ``meta`` element states as the encoding of the page that begins with ``head``. Only in the first
    bytes, whose number is ``anywhere``, it counts outside of the head, too. ``meaning`` is given its ``charset``,
    ``http-equiv`` and ``content`` as they are written, each byte as a character; it returns the encoding, or None if
    the next element is to be asked."""

def content_digest(body: bytes | bytearray, /) -> bytes:
    """BLAKE2b, 16 bytes, of the body without its white space: space, tab, line feed, form feed, carriage return."""

class _Watched(Protocol):
    @property
    def known(self) -> dict[int, int]: ...
    @property
    def mask(self) -> int: ...
    def watch_unknown(self, h1: int, h2: int, new: bool) -> None: ...

class _Filter(Protocol):
    def added(self, put: int, rest: bytes) -> None: ...

class KeyHasher:
    def __new__(cls, algorithm: str, secret: bytes) -> Self: ...
    def digest_keys(self, keys: Sequence[str | bytes], /) -> bytes: ...

class SeenKernel:
    def __new__(cls, algorithm: str, secret: bytes, multiplier: int, watched: _Watched) -> Self: ...
    def take(self, slices: tuple[tuple[object, str, int, int], ...], room: int, /) -> None: ...
    def add_keys(self, filter: _Filter, keys: object, /) -> list[int] | None: ...
    def add_digests(self, filter: _Filter, digests: object, start: int, /) -> list[int]: ...
    def holds_digests(self, digests: object, start: int, /) -> list[bool]: ...
    def put_digests(self, digests: object, /) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *raised: object) -> None: ...

class RecentDigests:
    def __new__(cls, most: int) -> Self: ...
    def meet(self, digests: bytes, /) -> list[int]: ...
