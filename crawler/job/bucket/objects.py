"""The contract of an object store: whole objects under keys, each put once and never changed.

Everything else relies on one promise: if several writers put an object with the same key, exactly one succeeds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Protocol

from msgspec import Struct

from crawler.base import entropy
from crawler.base.faults import Failure, UserFault

# No part of a key starts with a dot, so no key can name ``..`` or the temporary files of a directory.
_PART = r"[A-Za-z0-9_-][A-Za-z0-9._-]*"
_KEY = re.compile(rf"(?:{_PART}/)*{_PART}")
_PREFIX = re.compile(rf"(?:{_PART}/)*(?:{_PART})?")


class BucketError(UserFault):
    """The address or its content cannot be used as requested: retrying does not help until the user changes something.
    The text is one line for the user, without credentials."""


class BucketDown(Failure):
    """The store does not respond, or reports that it is unavailable: the same call may succeed later."""


class Listed(Struct, frozen=True):
    """An object in a listing."""

    key: str
    size: int  # bytes
    modified: float  # seconds since 1970, by the store's clock


class Objects(Protocol):
    """An object store. Its methods block, may be called from several threads, and raise BucketError and BucketDown.

    Keys are relative to the address, and consist of ASCII letters, digits and ``._/-``. A key with an empty part, or a
    part that starts with a dot, raises ValueError.
    """

    address: str  # normalised, without credentials

    def put(self, key: str, data: bytes) -> bool:
        """Put the object unless one with that key exists. Returns True if it was put.

        After BucketDown, the object may still have been stored. False may also mean that an earlier attempt by this
        call succeeded but its response was lost; ``put_own`` distinguishes the two cases.
        """

    def get(self, key: str) -> bytes | None:
        """Return the content of the object; None if there is none."""

    def list(self, prefix: str) -> Iterator[Listed]:
        """Yield all objects whose keys start with ``prefix``, in no particular order."""

    def delete(self, keys: Sequence[str]) -> None:
        """Delete the objects; ignore those that do not exist."""


def check_key(key: str) -> None:
    """Raise ValueError if the text is not a valid key."""
    if not _KEY.fullmatch(key):
        raise ValueError(f"not a valid object key: {key!r}")


def is_key(text: str) -> bool:
    return _KEY.fullmatch(text) is not None


def check_prefix(prefix: str) -> None:
    """Raise ValueError if no valid key starts with the text."""
    if not _PREFIX.fullmatch(prefix):
        raise ValueError(f"no key can start with {prefix!r}")


def put_own(objects: Objects, key: str, data: bytes) -> bool:
    """Put the object unless another one has that key. Returns True if the object with that key now has this content,
    even if it existed before: an earlier put may have stored it although its response was lost. Raises BucketError and
    BucketDown."""
    return objects.put(key, data) or objects.get(key) == data


def check_objects(objects: Objects) -> None:
    """Check that the store supports conditional puts, and that objects can be read and deleted. Raises BucketError if a
    check fails, and BucketDown if the store is unavailable."""
    name = entropy.random_bytes(16).hex()
    key, first = f"probe/{name}", f"first {name}".encode()
    put = put_own(objects, key, first)
    again = objects.put(key, b"second")
    found = objects.get(key)
    objects.delete([key])
    if not put or again or found != first:
        raise BucketError(
            f"{objects.address} lets a second put replace an object, so two processes could overwrite each other: "
            "use a store that honours the condition If-None-Match"
        )
