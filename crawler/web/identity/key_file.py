"""Reads and writes the file of private keys: a set of JSON Web Keys, and the address whose directory lists them."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from crawler.base.disk import RealDisk, open_regular, replace_file
from crawler.base.settings.load import SettingsError
from crawler.web.identity.keys import Key, check_library, read_keys

_MOST = 2**20  # bytes
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def read_key_file(path: Path) -> tuple[list[Key], str | None]:
    """The keys in a file, and whose they are, if it says so. Raises SettingsError, without a word of what is in it."""
    try:
        with open_regular(path) as stream:
            mode, text = os.fstat(stream.fileno()).st_mode, stream.read(_MOST)
    except OSError as error:
        raise SettingsError(f"identity.key: cannot read {path}: {error.strerror}") from error
    if mode & _OTHERS:
        raise SettingsError(f"identity.key: others may read or change {path}: chmod 600 {path}")
    check_library()
    try:
        keys, agent = read_keys(text)
    except (ValueError, TypeError, AttributeError, LookupError, OverflowError, RecursionError):
        keys, agent = [], None
    if not keys or not isinstance(agent, str | None):
        wanted = "it holds no private Ed25519 keys as JSON Web Keys: make it with `crawler identity new`"
        raise SettingsError(f"identity.key: {path}: {wanted}")
    return keys, agent


def write_key_file(path: Path, keys: Sequence[Key], agent: str) -> None:
    """Write keys for the eyes of their owner alone. Raises OSError."""
    text = json.dumps({"agent": agent, "keys": [key.private for key in keys]}, indent=1)
    replace_file(RealDisk(), path, f"{text}\n".encode())
