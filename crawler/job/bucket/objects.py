"""The contract of an object store: whole objects under keys, each put once and never changed.

Everything else rests on one promise: of all those who put an object with the same key, exactly one succeeds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Protocol

from msgspec import Struct

from crawler.base import entropy
from crawler.base.faults import Failure, UserFault

# No part of a key begins with a dot: neither ``..`` nor the temporary files of a directory can be meant.
_PART = r"[A-Za-z0-9_-][A-Za-z0-9._-]*"
_KEY = re.compile(rf"(?:{_PART}/)*{_PART}")
_PREFIX = re.compile(rf"(?:{_PART}/)*(?:{_PART})?")


class BucketError(UserFault):
    """The address, or what is there, cannot be used as asked: repeating the call does not help until the user changes
    something. The text is one line for the user, without credentials."""


class BucketDown(Failure):
    """The store does not answer now, or answers that it cannot: the same call may succeed later."""


class Listed(Struct, frozen=True):
    """An object in a listing."""

    key: str
    size: int  # bytes
    modified: float  # seconds since 1970, by the store's clock


class Objects(Protocol):
    """An object store. Its methods block, may be called from several threads, and raise BucketError and BucketDown.

    Keys are relative to the address, and made of ASCII letters, digits and ``._/-``. A key that has an empty part, or
    one that begins with a dot, is a ValueError.
    """

    address: str  # normalised, without credentials

    def put(self, key: str, data: bytes) -> bool:
        """Put the object unless one with that key exists, which is never changed. Returns whether it was put.

        After BucketDown it may be there all the same. False may also mean that an earlier attempt of this very call
        was stored and its answer lost: ``put_own`` tells the two apart."""

    def get(self, key: str) -> bytes | None:
        """The content of the object; None if there is none."""

    def list(self, prefix: str) -> Iterator[Listed]:
        """All objects whose keys begin with the text ``prefix``, in no promised order."""

    def delete(self, keys: Sequence[str]) -> None:
        """Delete the objects, as far as they exist."""


def check_key(key: str) -> None:
    """Raise ValueError for a key that no store has to accept."""
    if not _KEY.fullmatch(key):
        raise ValueError(f"not the key of an object: {key!r}")


def is_key(text: str) -> bool:
    return _KEY.fullmatch(text) is not None


def check_prefix(prefix: str) -> None:
    """Raise ValueError for a text that no key begins with."""
    if not _PREFIX.fullmatch(prefix):
        raise ValueError(f"no key begins with {prefix!r}")


def put_own(objects: Objects, key: str, data: bytes) -> bool:
    """Put the object unless another one has that key. Returns whether the object with that key now has this content:
    True also if it was there before, as after a put whose answer was lost. Raises BucketError and BucketDown."""
    return objects.put(key, data) or objects.get(key) == data


def check_objects(objects: Objects) -> None:
    """Check that the store puts an object only if it is absent, and that objects can be read and deleted. Raises
    BucketError if not, and BucketDown."""
    name = entropy.random_bytes(16).hex()
    key, first = f"probe/{name}", f"first {name}".encode()
    put = put_own(objects, key, first)
    again = objects.put(key, b"second")
    found = objects.get(key)
    objects.delete([key])
    if not put or again or found != first:
        raise BucketError(
            f"{objects.address} lets a second put replace an object, so that two processes could overwrite each other: "
            "use a store that honours the condition If-None-Match"
        )
